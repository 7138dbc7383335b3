"""
What holds of a guarded callable whatever its shape: the contract that each file in `shapes` takes up.

A file says how its callable is made, with the decorator where it belongs; what is called is always
``(order_id, notify=True)``, and notes that its body was entered.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import pickle
from collections.abc import Callable, Generator
from typing import Any, get_type_hints

import pytest

import gatescore
from gatescore import Guard, Policy, Refusal, ToolDenied, guarded_tool
from gatescore.testing import RecordingGuard

ENTERED: list[object] = []
"""What bodies were entered with, oldest first; emptied before each test of a contract."""

Decorate = Callable[[Any], Any]

PREDICATES = (
    callable,
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    inspect.isfunction,
    inspect.ismethod,
    inspect.isbuiltin,
    inspect.isclass,
)
"""What programs ask of a callable. How it binds is not among them: a guarded one always is a descriptor."""


class Broke(Exception):  # noqa: N818 - what a tool raises, not a fault of a test
    """A tool's own exception."""


BROKE = Broke("secret")


def body(order_id: str, notify: bool = True) -> str:
    """What every body does: it notes that it was entered, and raises where it is asked to."""
    ENTERED.append(order_id)
    if order_id == "break":
        raise BROKE
    return f"{order_id} {notify}"


def allowing(*names: str, **options: Any) -> RecordingGuard:
    return RecordingGuard(Policy(allowed_tools=list(names or ("tool",))), **options)


def denying(**options: Any) -> RecordingGuard:
    return RecordingGuard(Policy(allowed_tools=["another"]), **options)


def plain(function: Any) -> Any:
    """The decorator that does nothing: with it, a callable is what it is without a guard."""
    return function


def named(guard: Guard) -> Decorate:
    return guarded_tool(guard=guard, name="tool")


def wrapped(guard: Guard) -> Decorate:
    return lambda function: guard.wrap(function, name="tool")


def unnamed(guard: Guard) -> Decorate:
    return guarded_tool(name="tool")


WAYS: dict[str, tuple[Callable[[Guard], Decorate], Callable[[Guard], Any]]] = {
    "named by the decorator": (named, lambda guard: contextlib.nullcontext()),
    "wrapped by the guard": (wrapped, lambda guard: contextlib.nullcontext()),
    "the guard of the session": (unnamed, lambda guard: guard.session()),
    "the guard in use": (unnamed, gatescore.use),
}
"""How a guard comes to be in charge of a tool: how it is decorated, and what is open round the calls."""

every_way = pytest.mark.parametrize("way", WAYS)


def items_of(made: Any) -> list[Any]:
    """All that a call gives, whatever has to be done for it: its result, or its items one by one."""
    if inspect.isasyncgen(made):

        async def collected() -> list[Any]:
            return [item async for item in made]

        return asyncio.run(asyncio.wait_for(collected(), 30))
    if inspect.isawaitable(made):

        async def awaited() -> Any:
            return await made

        return [asyncio.run(asyncio.wait_for(awaited(), 30))]
    return list(made) if inspect.isgenerator(made) else [made]


def assert_executed_once(guard: RecordingGuard, **arguments: object) -> None:
    """Exactly one proposal and one execution of it, with *arguments* by name."""
    [proposal], [execution] = guard.proposals, guard.executions
    assert ("tool", arguments, "caller", "executed") == (
        proposal.call.name,
        proposal.call.arguments,
        proposal.origin,
        proposal.end,
    )
    assert (proposal.call.call_id, arguments, 1, "succeeded", None) == (
        execution.call.call_id,
        execution.call.arguments,
        execution.attempt,
        execution.outcome,
        execution.error_type,
    )


def hints_of(function: Any) -> object:
    """The types that a framework reads of a callable, or that it has none."""
    try:
        return get_type_hints(function)
    except TypeError as error:
        return type(error)


class Contract:
    """
    What a guarded callable of one shape keeps; a subclass is one shape.

    Attributes:
        late: The call is judged when what it returns is awaited, and not when it is made.
        several: It gives items, not one result.
    """

    late = False
    several = False

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        """Make the callable of ``(order_id, notify=True)`` with its decorator."""
        raise NotImplementedError

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        """Make one of ``(first, /, second=2, *rest, flag=False, **more)``, which gives what it was called with."""
        raise NotImplementedError

    def portable(self) -> Any:
        """One that can be found by pickle, and that names no guard: its tool is `portable`."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _nothing_entered(self) -> Generator[None, None, None]:
        ENTERED.clear()
        yield
        ENTERED.clear()

    # Allowed

    @every_way
    def test_an_allowed_call_gives_what_it_gave_and_is_on_record_once(self, way: str):
        decorate, in_charge = WAYS[way]
        guard = allowing()
        tool = self.made(decorate(guard))
        with in_charge(guard):
            given = items_of(tool("814", notify=False))
        assert ["814"] == ENTERED
        assert items_of(self.made(plain)("814", notify=False)) == given
        assert (["814", False] if self.several else ["814 False"]) == given
        assert_executed_once(guard, order_id="814", notify=False)
        card = guard.score()
        assert card.passed
        assert (1, 1) == (card.planner.total, card.execution.total)

    @pytest.mark.parametrize("how", ["by position", "by name", "by position and name"])
    def test_arguments_are_judged_by_name_with_defaults(self, how: str):
        guard = allowing()
        tool = self.made(named(guard))
        if how == "by position":
            items_of(tool("814"))
        elif how == "by name":
            items_of(tool(order_id="814"))
        else:
            items_of(tool("814", notify=True))
        assert_executed_once(guard, order_id="814", notify=True)

    def test_every_kind_of_parameter_reaches_the_body_and_the_record(self):
        guard = allowing()
        tool = self.made_with_all(named(guard))
        [given] = items_of(tool(1, 2, 3, 4, flag=True, extra=5))
        assert (1, 2, (3, 4), True, {"extra": 5}) == given
        assert_executed_once(guard, first=1, second=2, rest=[3, 4], flag=True, extra=5)

    def test_the_defaults_of_every_kind_of_parameter_reach_the_record(self):
        guard = allowing()
        [given] = items_of(self.made_with_all(named(guard))(1))
        assert (1, 2, (), False, {}) == given
        assert_executed_once(guard, first=1, second=2, rest=[], flag=False)

    @every_way
    def test_its_own_exception_passes_through_and_is_on_record(self, way: str):
        decorate, in_charge = WAYS[way]
        guard = allowing()
        tool = self.made(decorate(guard))
        with in_charge(guard), pytest.raises(Broke) as caught:
            items_of(tool("break"))
        assert BROKE is caught.value
        assert ["break"] == ENTERED
        [execution] = guard.executions
        assert ("failed", "Broke") == (execution.outcome, execution.error_type)

    # Denied

    @every_way
    def test_a_denied_body_is_never_entered(self, way: str):
        decorate, in_charge = WAYS[way]
        guard = denying()
        tool = self.made(decorate(guard))
        with in_charge(guard):
            for call in (lambda: tool("814", False), lambda: tool(order_id="814")):
                with pytest.raises(ToolDenied):
                    items_of(call())
            with pytest.raises(ToolDenied) as caught:
                items_of(tool("814"))
        assert [] == ENTERED
        assert ("proposal", "tool", {"order_id": "814", "notify": True}) == (
            caught.value.moment,
            caught.value.call.name,
            caught.value.call.arguments,
        )
        assert (["denied"] * 3, []) == ([proposal.end for proposal in guard.proposals], guard.executions)
        card = guard.score()
        assert (0, 3, 0) == (card.planner.authorized, card.planner.total, card.execution.total)
        assert (False, True) == (card.planner.passed, card.execution.passed)

    def test_a_denial_comes_at_its_moment(self):
        guard = denying()
        tool = self.made(named(guard))
        if not self.late:
            with pytest.raises(ToolDenied):
                tool("814")
            return
        made = tool("814")
        assert [] == guard.proposals
        with pytest.raises(ToolDenied):
            items_of(made)

    @every_way
    def test_a_refusal_can_be_given_in_place_of_the_result(self, way: str):
        decorate, in_charge = WAYS[way]
        guard = denying(on_deny="return")
        tool = self.made(decorate(guard))
        with in_charge(guard):
            [refusal] = items_of(tool("814"))
        assert isinstance(refusal, Refusal)
        assert refusal.startswith("`tool` was refused: ")
        assert ("tool", "deny") == (refusal.call.name, refusal.decision.effect)
        assert [] == ENTERED
        assert (["denied"], []) == ([proposal.end for proposal in guard.proposals], guard.executions)

    def test_with_no_guard_at_all_it_is_denied(self):
        tool = self.made(guarded_tool)
        with pytest.raises(ToolDenied, match="no guard is in charge"):
            items_of(tool("814"))
        assert [] == ENTERED

    def test_a_call_that_does_not_fit_is_denied_and_is_a_type_error(self):
        guard = allowing()
        tool = self.made(named(guard))
        for call in (
            tool,
            lambda: tool("814", order_id="815"),
            lambda: tool("814", unknown=1),
            lambda: tool("814", True, "more"),
        ):
            with pytest.raises(ToolDenied) as caught:
                items_of(call())
            assert isinstance(caught.value, TypeError)
        assert [] == ENTERED
        assert (["invalid"] * 4, []) == ([proposal.end for proposal in guard.proposals], guard.executions)

    # What it looks like

    @every_way
    def test_it_looks_like_what_it_was(self, way: str):
        for make in (self.made, self.made_with_all):
            bare, guarded = make(plain), make(WAYS[way][0](allowing()))
            assert inspect.signature(bare) == inspect.signature(guarded)
            assert inspect.getdoc(bare) == inspect.getdoc(guarded)
            assert hints_of(bare) == hints_of(guarded)
            nothing = object()
            for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
                assert getattr(bare, attribute, nothing) == getattr(guarded, attribute, nothing), attribute
            for predicate in PREDICATES:
                assert predicate(bare) == predicate(guarded), predicate

    # Copies

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_a_copy_is_guarded_as_the_original_is(self, copied: Callable[[Any], Any]):
        closed, guard = denying(), allowing()
        denied, allowed = copied(self.made(named(closed))), copied(self.made(named(guard)))
        with pytest.raises(ToolDenied):
            items_of(denied("814"))
        assert [] == ENTERED
        items_of(allowed("814"))
        assert ["814"] == ENTERED
        assert_executed_once(guard, order_id="814", notify=True)

    @pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
    def test_what_comes_back_from_pickle_is_guarded(self, protocol: int):
        tool = pickle.loads(pickle.dumps(self.portable(), protocol))  # noqa: S301 - made in this line
        with pytest.raises(ToolDenied, match="no guard is in charge"):
            items_of(tool("814"))
        assert [] == ENTERED
        guard = allowing("portable")
        with guard.session():
            given = items_of(tool("814"))
        assert ["814"] == ENTERED
        assert (["814", True] if self.several else ["814 True"]) == given
        assert [{"order_id": "814", "notify": True}] == guard.entries("portable")
