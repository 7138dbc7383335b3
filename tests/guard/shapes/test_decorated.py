"""Functions that other decorators have wrapped, decorators above the guard, and guards on top of guards."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gatescore import Policy, ToolDenied, guarded_tool
from gatescore.testing import RecordingGuard
from tests.guard.shape_helpers import (
    ENTERED,
    Contract,
    Decorate,
    allowing,
    assert_executed_once,
    body,
    denying,
)


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as most are written."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@guarded_tool
@passing_on
def portable(order_id: str, notify: bool = True) -> str:
    return body(order_id, notify)


@passing_on
@guarded_tool(name="portable")
def portable_below(order_id: str, notify: bool = True) -> str:
    return body(order_id, notify)


class TestGuardAboveAWrapper(Contract):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        @passing_on
        def tool(order_id: str, notify: bool = True) -> str:
            """Cancel an order."""
            return body(order_id, notify)

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        @passing_on
        def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
            return first, second, rest, flag, more

        return tool

    def portable(self) -> Any:
        return portable


class TestGuardBelowAWrapper(Contract):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @passing_on
        @decorate
        def tool(order_id: str, notify: bool = True) -> str:
            """Cancel an order."""
            return body(order_id, notify)

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @passing_on
        @decorate
        def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
            return first, second, rest, flag, more

        return tool

    def portable(self) -> Any:
        return portable_below


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


def test_a_wrapper_that_changes_what_it_is_given_is_judged_by_what_it_is_given():
    """The tool is what stands below the guard: the wrapper is part of it."""

    def doubling(function: Callable[[int], int]) -> Callable[[int], int]:
        @functools.wraps(function)
        def wrapper(n: int) -> int:
            return function(2 * n)

        return wrapper

    above, below = allowing(), allowing()
    assert 4 == above.wrap(doubling(lambda n: n), name="tool")(2)
    assert 4 == doubling(below.wrap(lambda n: n, name="tool"))(2)
    assert ([{"n": 2}], [{"n": 4}]) == (above.entries("tool"), below.entries("tool"))


def test_a_wrapper_that_calls_twice_is_one_call_above_and_two_below_the_guard():
    def twice(function: Callable[[], int]) -> Callable[[], int]:
        @functools.wraps(function)
        def wrapper() -> int:
            return function() + function()

        return wrapper

    above, below = allowing(), allowing()
    assert 2 == above.wrap(twice(lambda: 1), name="tool")()
    assert 2 == twice(below.wrap(lambda: 1, name="tool"))()
    assert (1, 2) == (len(above.executions), len(below.executions))


def test_a_wrapper_above_the_guard_that_swallows_exceptions_does_not_get_the_body_entered():
    guard = denying()
    tool = guard.wrap(lambda: ENTERED.append("entered"), name="tool")

    @functools.wraps(tool)
    def never_fails() -> Any:
        with contextlib.suppress(Exception):
            return tool()
        return "nothing"

    assert "nothing" == never_fails()
    assert ([], ["denied"]) == (ENTERED, [proposal.end for proposal in guard.proposals])


def test_a_context_manager_function_can_be_guarded_below_and_above():
    def tool() -> Iterator[str]:
        ENTERED.append("entered")
        yield "inside"
        ENTERED.append("left")

    for make in (
        lambda guard: contextlib.contextmanager(guard.wrap(tool)),
        lambda guard: guard.wrap(contextlib.contextmanager(tool), name="tool"),
    ):
        ENTERED.clear()
        guard = allowing()
        with make(guard)() as inside:
            assert ("inside", ["entered"]) == (inside, ENTERED)
        assert ["entered", "left"] == ENTERED
        assert ["succeeded"] == [execution.outcome for execution in guard.executions]
        ENTERED.clear()
        with pytest.raises(ToolDenied), make(denying())():
            raise AssertionError
        assert [] == ENTERED


def test_two_guards_are_two_judgments_and_both_must_allow():
    for inner, outer, entered in (
        (allowing(), allowing(), True),
        (denying(), allowing(), False),
        (allowing(), denying(), False),
    ):
        ENTERED.clear()
        tool = outer.wrap(inner.wrap(body, name="tool"), name="tool")
        if entered:
            assert "814 True" == tool("814")
            assert_executed_once(inner, order_id="814", notify=True)
            assert_executed_once(outer, order_id="814", notify=True)
        else:
            with pytest.raises(ToolDenied):
                tool("814")
        assert (["814"] if entered else []) == ENTERED


def test_a_denial_of_the_inner_guard_is_a_failure_of_the_outer_ones_tool():
    inner, outer = denying(), allowing()
    tool = outer.wrap(inner.wrap(lambda: ENTERED.append("entered"), name="tool"), name="tool")
    with pytest.raises(ToolDenied) as caught:
        tool()
    assert inner.policy.digest == caught.value.decision.policy_digest
    assert [("failed", "ToolDenied")] == [(done.outcome, done.error_type) for done in outer.executions]
    assert ([], ["denied"]) == (inner.executions, [proposal.end for proposal in inner.proposals])


def test_guarded_twice_by_one_guard_the_inner_call_is_nested():
    guard = allowing("inner", "outer")
    tool = guard.wrap(guard.wrap(body, name="inner"), name="outer")
    with guard.session():
        assert "814 True" == tool("814")
    assert [("outer", "caller"), ("inner", "nested")] == [
        (proposal.call.name, proposal.origin) for proposal in guard.proposals
    ]


@pytest.mark.parametrize("shape", ["coroutine", "generator", "async generator"])
def test_two_guards_keep_the_shape(shape: str):
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield

    async def async_generator() -> Any:
        yield

    shapes: dict[str, tuple[Any, Callable[[Any], bool]]] = {
        "coroutine": (coroutine, inspect.iscoroutinefunction),
        "generator": (generator, inspect.isgeneratorfunction),
        "async generator": (async_generator, inspect.isasyncgenfunction),
    }
    function, predicate = shapes[shape]
    once = allowing().wrap(function, name="tool")
    twice = allowing().wrap(once, name="tool")
    assert predicate(function)
    assert predicate(once)
    assert predicate(twice)
    assert inspect.unwrap(twice) is function


def test_a_wrapper_whose_own_signature_is_narrower_is_judged_by_its_own():
    def tool(order_id: str, amount: int = 1) -> str:
        return f"{order_id} {amount}"

    @functools.wraps(tool)
    def small(order_id: str, *, amount: int = 5) -> str:
        return tool(order_id, amount)

    policy = Policy(rules=[{"id": "small", "allow": "tool", "args": {"amount": {"maximum": 4}, "*": {}}}])
    guard = RecordingGuard(policy)
    guarded = guard.wrap(small)
    with pytest.raises(ToolDenied):
        guarded("814")
    assert "814 4" == guarded("814", amount=4)
    assert [{"order_id": "814", "amount": 4}] == guard.entries("tool")


def test_a_wrapper_that_keeps_no_signature_is_judged_by_the_names_it_has():
    def bare(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    guard = allowing()
    assert "814 False" == guard.wrap(bare(body), name="tool")("814", notify=False)
    assert_executed_once(guard, args=["814"], notify=False)
