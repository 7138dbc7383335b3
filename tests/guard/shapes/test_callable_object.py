"""Objects that can be called, and classes: judged by what calling them runs."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock, create_autospec

import pytest

from gatescore import ToolDenied, guarded_tool
from tests.guard.shape_helpers import (
    ENTERED,
    Contract,
    Decorate,
    allowing,
    assert_executed_once,
    body,
    denying,
)


class Tool:
    """Cancels orders."""

    def __call__(self, order_id: str, notify: bool = True) -> str:
        """Cancel an order."""
        assert isinstance(self, Tool)
        return body(order_id, notify)


class ToolWithAll:
    def __call__(self, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
        return first, second, rest, flag, more


class CoroutineTool:
    async def __call__(self, order_id: str, notify: bool = True) -> str:
        await asyncio.sleep(0)
        return body(order_id, notify)


class GeneratorTool:
    def __call__(self, order_id: str, notify: bool = True) -> Iterator[object]:
        body(order_id, notify)
        yield order_id
        yield notify


class AsyncGeneratorTool:
    async def __call__(self, order_id: str, notify: bool = True) -> AsyncIterator[object]:
        body(order_id, notify)
        yield order_id
        yield notify


class StaticTool:
    @staticmethod
    def __call__(order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)


class ClassTool:
    @classmethod
    def __call__(cls, order_id: str, notify: bool = True) -> str:
        assert issubclass(cls, ClassTool)
        return body(order_id, notify)


class TestCallableObject(Contract):
    kind: Callable[..., Any] = Tool

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(type(self).kind())

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(ToolWithAll())

    def portable(self) -> Any:
        return guarded_tool(type(self).kind(), name="portable")


class TestObjectWithACoroutineFunction(TestCallableObject):
    late = True
    kind = CoroutineTool


class TestObjectWithAGeneratorFunction(TestCallableObject):
    several = True
    kind = GeneratorTool


class TestObjectWithAnAsyncGeneratorFunction(TestCallableObject):
    several = True
    kind = AsyncGeneratorTool


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


def test_an_object_takes_the_name_of_its_type():
    guard = allowing("Tool")
    assert "814 True" == guarded_tool(Tool(), guard=guard)("814")
    assert [{"order_id": "814", "notify": True}] == guard.entries("Tool")


def test_an_object_with_a_name_of_its_own_takes_that():
    class Named(Tool):
        __name__ = "cancel_order"

    guard = allowing("cancel_order")
    assert "814 True" == guarded_tool(Named(), guard=guard)("814")
    assert [{"order_id": "814", "notify": True}] == guard.entries("cancel_order")


def test_what_the_object_holds_is_read_and_set_through_the_guard():
    class Counting:
        count = 0

        def __call__(self) -> int:
            self.count += 1
            return self.count

    guard = allowing()
    inner = Counting()
    tool = guard.wrap(inner, name="tool")
    assert (1, 2) == (tool(), tool())
    assert 2 == tool.count == inner.count
    tool.count = 7
    assert 7 == inner.count
    assert isinstance(tool, Counting)


def test_a_call_method_that_is_guarded_guards_all_objects():
    for guard, entered in ((allowing(), ["814"]), (denying(), [])):
        ENTERED.clear()

        class Shop:
            @guarded_tool(guard=guard, name="tool")
            def __call__(self, order_id: str, notify: bool = True) -> str:
                return body(order_id, notify)

        if entered:
            assert "814 True" == Shop()("814")
            assert_executed_once(guard, order_id="814", notify=True)
        else:
            with pytest.raises(ToolDenied):
                Shop()("814")
        assert entered == ENTERED


class Order:
    """An order that is made by calling its class."""

    def __init__(self, order_id: str, notify: bool = True) -> None:
        body(order_id, notify)
        self.order_id = order_id


def test_a_class_is_guarded_as_what_makes_its_objects():
    guard = allowing()
    made = guard.wrap(Order, name="tool")("814")
    assert (Order, "814") == (type(made), made.order_id)
    assert_executed_once(guard, order_id="814", notify=True)


def test_a_denied_class_makes_no_object():
    guard = denying()
    with pytest.raises(ToolDenied):
        guard.wrap(Order, name="tool")("814")
    assert ([], []) == (ENTERED, guard.executions)


def test_a_guarded_class_is_still_a_class():
    tool = allowing().wrap(Order, name="tool")
    assert inspect.isclass(tool)
    assert isinstance(Order("814"), tool)
    assert (Order.__name__, Order.__doc__) == (tool.__name__, tool.__doc__)


def test_an_object_without_a_call_method_cannot_be_guarded_into_running():
    guard = allowing()
    tool: Any = guard.wrap(object(), name="tool")  # type: ignore[type-var]
    with pytest.raises(TypeError):
        tool()
    assert not callable(object())


@pytest.mark.parametrize("kind", [StaticTool, ClassTool])
def test_a_call_method_that_needs_no_instance_is_judged_by_the_names_of_its_parameters(kind: Any):
    guard = allowing()
    assert "814 True" == guard.wrap(kind(), name="tool")("814")
    assert_executed_once(guard, order_id="814", notify=True)


def test_an_object_that_is_an_attribute_of_a_class_is_called_without_an_instance():
    """As without a guard: only functions and methods are bound."""
    guard = allowing()

    class Shop:
        tool = guard.wrap(Tool(), name="tool")

    assert "814 True" == Shop().tool("814")
    assert_executed_once(guard, order_id="814", notify=True)


def test_a_deep_copy_of_an_object_has_a_state_of_its_own():
    class Counting:
        count = 0

        def __call__(self) -> int:
            self.count += 1
            return self.count

    tool = allowing().wrap(Counting(), name="tool")
    copied = copy.deepcopy(tool)
    assert (1, 2, 1) == (tool(), tool(), copied())


def test_mocks_are_tools_as_any():
    """What tests put in the place of a tool."""
    guard = allowing("sync", "asynchronous", "of a function")
    sync, asynchronous = Mock(return_value=1), AsyncMock(return_value=2)
    of_a_function = create_autospec(body, return_value="3")
    assert 1 == guard.wrap(sync, name="sync")("814")
    assert 2 == asyncio.run(guard.wrap(asynchronous, name="asynchronous")(order_id="814"))
    assert "3" == guard.wrap(of_a_function, name="of a function")("814")
    assert [{"args": ["814"]}, {"args": [], "order_id": "814"}, {"order_id": "814", "notify": True}] == [
        execution.call.arguments for execution in guard.executions
    ]
    assert ["succeeded"] * 3 == [execution.outcome for execution in guard.executions]


def test_a_mock_whose_guard_denies_is_not_called():
    tool = Mock()
    with pytest.raises(ToolDenied):
        denying().wrap(tool, name="tool")("814")
    tool.assert_not_called()
