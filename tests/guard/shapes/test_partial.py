"""`functools.partial` and `functools.partialmethod`: judged with what they have filled in."""

from __future__ import annotations

import asyncio
import functools
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
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
    items_of,
)


def function(order_id: str, notify: bool = True) -> str:
    """Cancel an order."""
    return body(order_id, notify)


async def coroutine(order_id: str, notify: bool = True) -> str:
    await asyncio.sleep(0)
    return body(order_id, notify)


def generator(order_id: str, notify: bool = True) -> Iterator[object]:
    body(order_id, notify)
    yield order_id
    yield notify


async def async_generator(order_id: str, notify: bool = True) -> AsyncIterator[object]:
    body(order_id, notify)
    yield order_id
    yield notify


def with_all(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
    return first, second, rest, flag, more


async def coroutine_with_all(
    first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
) -> Any:
    return first, second, rest, flag, more


def generator_with_all(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
    yield first, second, rest, flag, more


class TestPartial(Contract):
    called: tuple[Callable[..., Any], Callable[..., Any]] = function, with_all

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(functools.partial(type(self).called[0]))

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(functools.partial(type(self).called[1]))

    def portable(self) -> Any:
        return guarded_tool(functools.partial(type(self).called[0]), name="portable")


class TestPartialOfACoroutineFunction(TestPartial):
    late = True
    called = coroutine, coroutine_with_all


class TestPartialOfAGeneratorFunction(TestPartial):
    several = True
    called = generator, generator_with_all


class TestPartialOfAnAsyncGeneratorFunction(TestPartial):
    several = True
    called = async_generator, generator_with_all


class TestPartialOfAPartial(TestPartial):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(functools.partial(functools.partial(function)))


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


@pytest.mark.parametrize("filled", ["by position", "by name"])
def test_what_is_filled_in_is_judged_and_on_record(filled: str):
    guard = allowing()
    part = (
        functools.partial(function, "814")
        if filled == "by position"
        else functools.partial(function, order_id="814")
    )
    assert "814 False" == guard.wrap(part, name="tool")(notify=False)
    assert_executed_once(guard, order_id="814", notify=False)


@pytest.mark.parametrize("filled", ["by position", "by name"])
def test_a_value_that_is_filled_in_and_that_the_policy_forbids_is_denied(filled: str):
    policy = Policy(
        rules=[
            {"id": "own", "allow": "tool", "args": {"order_id?": {"const": "814"}, "*": {}}},
        ]
    )
    guard = RecordingGuard(policy)
    part = (
        functools.partial(function, "815")
        if filled == "by position"
        else functools.partial(function, order_id="815")
    )
    with pytest.raises(ToolDenied):
        guard.wrap(part, name="tool")()
    assert ([], []) == (ENTERED, guard.executions)


def test_a_value_that_is_filled_in_by_name_may_be_replaced_and_is_judged_as_replaced():
    guard = allowing()
    tool = guard.wrap(functools.partial(function, notify=False), name="tool")
    assert "814 True" == tool("814", notify=True)
    assert_executed_once(guard, order_id="814", notify=True)


def test_a_partial_takes_the_name_of_what_it_calls():
    guard = allowing("function")
    tool = guarded_tool(functools.partial(functools.partial(function), notify=False), guard=guard)
    assert "814 False" == tool("814")
    assert [{"order_id": "814", "notify": False}] == guard.entries("function")


def test_a_partial_of_a_guarded_function_is_judged_with_all_that_the_function_is_called_with():
    guard = allowing()
    tool = guard.wrap(function, name="tool")
    assert "814 False" == functools.partial(tool, "814", notify=False)()
    assert_executed_once(guard, order_id="814", notify=False)


def test_a_partial_called_by_name_is_judged_with_all_that_is_filled_in():
    guard = allowing()
    guard.wrap(functools.partial(function, notify=False), name="tool")
    assert ["814 False"] == items_of(guard.call("tool", {"order_id": "814"}))
    assert_executed_once(guard, order_id="814", notify=False)


def test_a_partial_that_names_its_guard_cannot_be_pickled_and_says_so():
    tool = guarded_tool(functools.partial(function), guard=allowing(), name="tool")
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(tool)


def test_the_parts_of_a_partial_can_be_read():
    tool = allowing().wrap(functools.partial(function, "814", notify=False), name="tool")
    assert (function, ("814",), {"notify": False}) == (tool.func, tool.args, tool.keywords)


class Shop:
    def cancel(self, order_id: str, notify: bool = True) -> str:
        assert isinstance(self, Shop)
        return body(order_id, notify)


def shop_of(guard: RecordingGuard, how: str) -> Any:
    class Guarded(Shop):
        if how == "above":
            tool: Any = guard.wrap(functools.partialmethod(Shop.cancel, notify=False), name="tool")  # type: ignore[type-var]
        else:
            tool = functools.partialmethod(guard.wrap(Shop.cancel, name="tool"), notify=False)

    return Guarded()


@pytest.mark.parametrize("how", ["above", "below"])
def test_a_partial_method_is_judged_with_what_is_filled_in(how: str):
    guard = allowing()
    assert "814 False" == shop_of(guard, how).tool("814")
    assert_executed_once(guard, order_id="814", notify=False)


@pytest.mark.parametrize("how", ["above", "below"])
def test_a_denied_partial_method_is_not_entered(how: str):
    guard = denying()
    with pytest.raises(ToolDenied):
        shop_of(guard, how).tool("814")
    assert ([], []) == (ENTERED, guard.executions)


def test_a_partial_that_is_an_attribute_of_a_class_is_called_without_an_instance():
    """As without a guard: only functions and methods are bound."""
    guard = allowing()

    class Guarded:
        tool = guard.wrap(functools.partial(function), name="tool")

    assert "814 True" == Guarded().tool("814")
    assert_executed_once(guard, order_id="814", notify=True)
