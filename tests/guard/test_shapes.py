"""Every kind of callable: denied, its body is never entered; allowed, it is what it was."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from gatescore import Guard, Policy, ToolDenied, guarded_tool
from tests.guard.seen import executed

ENTERED: list[str] = []


def plain(order_id: str, notify: bool = True) -> str:
    """Cancel an order."""
    ENTERED.append(order_id)
    return f"{order_id} {notify}"


async def coroutine(order_id: str, notify: bool = True) -> str:
    ENTERED.append(order_id)
    await asyncio.sleep(0)
    return f"{order_id} {notify}"


def generator(order_id: str, notify: bool = True) -> Any:
    ENTERED.append(order_id)
    yield order_id
    yield notify


async def async_generator(order_id: str, notify: bool = True) -> Any:
    ENTERED.append(order_id)
    yield order_id
    yield notify


class Shop:
    def method(self, order_id: str, notify: bool = True) -> str:
        ENTERED.append(order_id)
        return f"{order_id} {notify}"

    @classmethod
    def of_class(cls, order_id: str, notify: bool = True) -> str:
        ENTERED.append(order_id)
        return f"{order_id} {notify}"

    def __call__(self, order_id: str, notify: bool = True) -> str:
        ENTERED.append(order_id)
        return f"{order_id} {notify}"


def guards() -> tuple[Guard, Guard]:
    return Guard(Policy(allowed_tools=["tool"])), Guard(Policy(allowed_tools=["another"]))


def method_above(guard: Guard) -> Callable[..., Any]:
    class Guarded:
        @guarded_tool(guard=guard, name="tool")
        def method(self, order_id: str, notify: bool = True) -> str:
            return Shop().method(order_id, notify)

    return Guarded().method


def unbound_method(guard: Guard) -> Callable[..., Any]:
    class Guarded:
        @guarded_tool(guard=guard, name="tool")
        def method(self, order_id: str, notify: bool = True) -> str:
            return Shop().method(order_id, notify)

    return functools.partial(Guarded.method, Guarded())


def classmethod_above(guard: Guard) -> Callable[..., Any]:
    class Guarded:
        @guarded_tool(guard=guard, name="tool")
        @classmethod
        def method(cls, order_id: str, notify: bool = True) -> str:
            return Shop().method(order_id, notify)

    return Guarded.method


def classmethod_below(guard: Guard) -> Callable[..., Any]:
    class Guarded:
        @classmethod
        @guarded_tool(guard=guard, name="tool")
        def method(cls, order_id: str, notify: bool = True) -> str:
            return Shop().method(order_id, notify)

    return Guarded().method


def staticmethod_above(guard: Guard) -> Callable[..., Any]:
    class Guarded:
        @guarded_tool(guard=guard, name="tool")
        @staticmethod
        def method(order_id: str, notify: bool = True) -> str:
            return Shop().method(order_id, notify)

    return Guarded().method


def staticmethod_below(guard: Guard) -> Callable[..., Any]:
    class Guarded:
        @staticmethod
        @guarded_tool(guard=guard, name="tool")
        def method(order_id: str, notify: bool = True) -> str:
            return Shop().method(order_id, notify)

    return Guarded.method


def wrapping(function: Callable[..., Any]) -> Callable[[Guard], Callable[..., Any]]:
    return lambda guard: guard.wrap(function, name="tool")


SHAPES: dict[str, Callable[[Guard], Callable[..., Any]]] = {
    "function": wrapping(plain),
    "lambda": wrapping(lambda order_id, notify=True: plain(order_id, notify)),
    "partial": wrapping(functools.partial(plain, notify=True)),
    "bound method": wrapping(Shop().method),
    "class method": wrapping(Shop.of_class),
    "callable object": wrapping(Shop()),
    "method": method_above,
    "unbound method": unbound_method,
    "class method above": classmethod_above,
    "class method below": classmethod_below,
    "static method above": staticmethod_above,
    "static method below": staticmethod_below,
    "coroutine function": wrapping(coroutine),
    "partial of a coroutine function": wrapping(functools.partial(coroutine)),
    "function that returns a coroutine": wrapping(lambda order_id, notify=True: coroutine(order_id, notify)),
    "generator function": wrapping(generator),
    "function that returns a generator": wrapping(lambda order_id, notify=True: generator(order_id, notify)),
    "async generator function": wrapping(async_generator),
}


def result_of(made: Any) -> Any:
    """The result, whatever has to be done for it: awaited, or gone through."""
    if inspect.isawaitable(made):

        async def awaited() -> Any:
            return await made

        return asyncio.run(awaited())
    if inspect.isasyncgen(made):

        async def collected() -> str:
            return " ".join([str(item) async for item in made])

        return asyncio.run(collected())
    return " ".join(map(str, made)) if inspect.isgenerator(made) else made


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_denied_body_is_never_entered(shape: str):
    _, closed = guards()
    tool = SHAPES[shape](closed)
    with closed.session() as run:
        for call in (lambda: tool("814"), lambda: tool("814", notify=False), lambda: tool(order_id="814")):
            with pytest.raises(ToolDenied):
                result_of(call())
    assert [] == ENTERED
    card = run.score()
    assert (0, 3, 0) == (card.planner.authorized, card.planner.total, card.execution.total)
    assert card.execution.passed
    assert not card.planner.passed


@pytest.mark.parametrize("shape", SHAPES)
def test_an_allowed_call_returns_what_it_did_and_is_on_record(shape: str):
    open_, _ = guards()
    tool = SHAPES[shape](open_)
    with open_.session() as run:
        assert "814 True" == result_of(tool("814"))
        assert "815 True" == result_of(tool(order_id="815"))
    assert ["814", "815"] == ENTERED
    card = run.score()
    assert card.passed
    assert (2, 2) == (card.planner.total, card.execution.total)
    executions = executed(run)
    assert ["814", "815"] == [execution.call.arguments["order_id"] for execution in executions]
    assert [True, True] == [execution.call.arguments["notify"] for execution in executions]
    assert ["succeeded", "succeeded"] == [execution.outcome for execution in executions]


def test_the_signature_and_documentation_stay():
    open_, _ = guards()
    tool = open_.wrap(plain, name="tool")
    assert inspect.signature(plain) == inspect.signature(tool)
    assert (plain.__doc__, "plain", plain.__annotations__) == (
        tool.__doc__,
        tool.__name__,
        tool.__annotations__,
    )
    assert inspect.iscoroutinefunction(open_.wrap(coroutine, name="tool2"))
    assert inspect.isgeneratorfunction(open_.wrap(generator, name="tool3"))
    assert inspect.isasyncgenfunction(open_.wrap(async_generator, name="tool4"))


def pickled(tool: Any) -> Any:
    return pickle.loads(pickle.dumps(tool))  # noqa: S301 - made one line above


@guarded_tool
def at_module_level(order_id: str) -> str:
    ENTERED.append(order_id)
    return order_id


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_is_as_guarded(copied: Callable[[Any], Any]):
    tool = copied(at_module_level)
    with pytest.raises(ToolDenied, match="no guard is in charge"):
        tool("814")
    assert [] == ENTERED
    with Guard(Policy(allowed_tools=["at_module_level"])).session():
        assert "814" == tool("814")
