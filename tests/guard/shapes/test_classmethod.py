"""Class methods, with the decorator above and below `@classmethod`, called on the class and on instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gatescore import ToolDenied, guarded_tool
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


class Portable:
    @guarded_tool(name="portable")
    @classmethod
    def above(cls, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)

    @classmethod
    @guarded_tool(name="portable")
    def below(cls, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)

    @guarded_tool(name="portable")
    @classmethod
    async def coroutine_above(cls, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)


class TestAbove(Contract):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @classmethod
            def tool(cls, order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                assert issubclass(cls, Shop)
                return body(order_id, notify)

        return self.taken(Shop).tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @classmethod
            def tool(cls, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
                return first, second, rest, flag, more

        return self.taken(Shop).tool

    def taken(self, shop: Any) -> Any:
        """What the method is taken from: the class."""
        return shop

    def portable(self) -> Any:
        return self.taken(Portable).above


class TestBelow(TestAbove):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @classmethod
            @decorate
            def tool(cls, order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                assert issubclass(cls, Shop)
                return body(order_id, notify)

        return self.taken(Shop).tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @classmethod
            @decorate
            def tool(cls, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
                return first, second, rest, flag, more

        return self.taken(Shop).tool

    def portable(self) -> Any:
        return self.taken(Portable).below


class TestAboveOfAnInstance(TestAbove):
    def taken(self, shop: Any) -> Any:
        return shop()


class TestBelowOfAnInstance(TestBelow):
    def taken(self, shop: Any) -> Any:
        return shop()


class TestAboveOfACoroutineFunction(Contract):
    late = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @classmethod
            async def tool(cls, order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                return body(order_id, notify)

        return Shop.tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @classmethod
            async def tool(
                cls, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
            ) -> Any:
                return first, second, rest, flag, more

        return Shop.tool

    def portable(self) -> Any:
        return Portable.coroutine_above


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


def above(guard: RecordingGuard) -> Any:
    class Shop:
        @guarded_tool(guard=guard, name="tool")
        @classmethod
        def tool(cls, order_id: str, notify: bool = True) -> str:
            ENTERED.append(order_id)
            return f"{cls.__name__} {order_id} {notify}"

    return Shop


def below(guard: RecordingGuard) -> Any:
    class Shop:
        @classmethod
        @guarded_tool(guard=guard, name="tool")
        def tool(cls, order_id: str, notify: bool = True) -> str:
            ENTERED.append(order_id)
            return f"{cls.__name__} {order_id} {notify}"

    return Shop


both = pytest.mark.parametrize("owner", [above, below])


@both
@pytest.mark.parametrize("of_instance", [False, True])
def test_a_sub_class_is_the_class_that_the_method_sees(owner: Callable[..., Any], of_instance: bool):
    guard = allowing()

    class BookShop(owner(guard)):  # type: ignore[misc]
        pass

    taken = BookShop() if of_instance else BookShop
    assert "BookShop 814 True" == taken.tool("814")
    assert_executed_once(guard, order_id="814", notify=True)


@both
def test_an_override_reaches_it_by_super(owner: Callable[..., Any]):
    guard = allowing()

    class BookShop(owner(guard)):  # type: ignore[misc]
        @classmethod
        def tool(cls, order_id: str) -> str:
            return "books " + super().tool(order_id)

    assert "books BookShop 814 True" == BookShop.tool("814")
    assert_executed_once(guard, order_id="814", notify=True)


@both
def test_a_denied_one_is_denied_to_sub_classes(owner: Callable[..., Any]):
    guard = denying()

    class BookShop(owner(guard)):  # type: ignore[misc]
        pass

    for call in (BookShop.tool, BookShop().tool):
        with pytest.raises(ToolDenied):
            call("814")
    assert ([], []) == (ENTERED, guard.executions)


@both
def test_called_by_name_without_its_class_it_is_refused_and_never_entered(owner: Callable[..., Any]):
    guard = allowing()
    shop = owner(guard)
    with pytest.raises(ToolDenied):
        guard.call("tool", {"order_id": "814"})
    assert (["invalid"], []) == ([proposal.end for proposal in guard.proposals], guard.executions)
    assert "Shop 815 True" == shop.tool("815")


@both
def test_proposed_by_name_and_wrapped_of_its_class_it_is_judged_with_defaults(owner: Callable[..., Any]):
    """The method of a class is a callable like any other."""
    guard = allowing()
    outer = allowing("by_name")
    outer.wrap(owner(guard).tool, name="by_name")
    with outer.session() as run:
        [call] = run.propose([{"name": "by_name", "arguments": {"order_id": "814"}}])
        assert {"order_id": "814", "notify": True} == call.call.arguments
        assert "Shop 814 True" == call.run()
    assert [{"order_id": "814", "notify": True}] == outer.entries("by_name")
