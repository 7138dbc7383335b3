"""Plain functions, lambdas, nested functions: judged when they are called."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gatescore import ToolDenied, guarded_tool
from tests.guard.shape_helpers import ENTERED, Contract, Decorate, allowing, body, denying


@guarded_tool
def portable(order_id: str, notify: bool = True) -> str:
    return body(order_id, notify)


class TestFunction(Contract):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(order_id: str, notify: bool = True) -> str:
            """Cancel an order."""
            return body(order_id, notify)

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
            return first, second, rest, flag, more

        return tool

    def portable(self) -> Any:
        return portable


class TestLambda(TestFunction):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(lambda order_id, notify=True: body(order_id, notify))

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(
            lambda first, /, second=2, *rest, flag=False, **more: (first, second, rest, flag, more)
        )


def test_a_bare_decorator_takes_the_name_of_the_function():
    guard = allowing("cancel_order")

    @guarded_tool
    def cancel_order(order_id: str) -> str:
        return order_id

    with guard.session():
        assert "814" == cancel_order("814")
    assert [{"order_id": "814"}] == guard.entries("cancel_order")


def test_attributes_of_the_function_are_read_and_set_through_the_guard():
    def tool() -> None: ...

    guarded: Any = allowing().wrap(tool)
    guarded.owner = "shop"
    assert ("shop", tool) == (tool.owner, inspect.unwrap(guarded))  # type: ignore[attr-defined]
    assert guarded == tool
    assert hash(guarded) == hash(tool)


def test_a_function_that_calls_itself_by_its_guarded_name_is_guarded_each_time():
    guard = allowing("count_down")

    @guarded_tool(guard=guard)
    def count_down(n: int) -> int:
        return 0 if n == 0 else 1 + count_down(n - 1)

    with guard.session():
        assert 2 == count_down(2)
    assert ["caller", "nested", "nested"] == [proposal.origin for proposal in guard.proposals]
    assert [{"n": 2}, {"n": 1}, {"n": 0}] == guard.entries("count_down")
    assert ["succeeded"] * 3 == [execution.outcome for execution in guard.executions]


def test_a_default_that_can_change_is_judged_as_it_is_at_the_call():
    guard = allowing()
    seen: list[list[int]] = []

    def tool(items: list[int] = []) -> None:  # noqa: B006 - the trap itself
        seen.append(list(items))
        items.append(len(items))

    guarded = guard.wrap(tool)
    guarded()
    guarded()
    assert [[], [0]] == seen
    assert [{"items": []}, {"items": [0]}] == guard.entries("tool")


def test_a_denied_call_evaluates_nothing_of_the_function():
    touched: list[str] = []

    class Argument:
        def __getattr__(self, name: str) -> Any:
            touched.append(name)
            raise AttributeError(name)

        def __str__(self) -> str:
            touched.append("str")
            return "argument"

    with pytest.raises(ToolDenied):
        denying().wrap(ENTERED.append, name="tool")(Argument())
    assert [] == ENTERED
    assert "str" not in touched


@pytest.mark.parametrize("raises", [False, True])
def test_a_future_of_an_executor_that_a_function_returns_is_recorded_when_it_ends(raises: bool):
    """Until then nobody knows whether the work succeeds, as with a task of a loop."""
    guard = allowing()
    gate = threading.Event()

    def work() -> str:
        assert gate.wait(30)
        return body("break" if raises else "814")

    with guard.session(), ThreadPoolExecutor(1) as pool:
        future = guard.wrap(lambda: pool.submit(work), name="tool")()
        during = [execution.outcome for execution in guard.executions]
        gate.set()
        assert raises == (future.exception(timeout=30) is not None)
    assert ["unfinished"] == during
    assert ["failed" if raises else "succeeded"] == [execution.outcome for execution in guard.executions]
