"""Static methods, with the decorator above and below `@staticmethod`, called on the class and on instances."""

from __future__ import annotations

from collections.abc import Callable
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


class Portable:
    @guarded_tool(name="portable")
    @staticmethod
    def above(order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)

    @staticmethod
    @guarded_tool(name="portable")
    def below(order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)

    @guarded_tool(name="portable")
    @staticmethod
    async def coroutine_above(order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)


class TestAbove(Contract):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @staticmethod
            def tool(order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                return body(order_id, notify)

        return self.taken(Shop).tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @staticmethod
            def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
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
            @staticmethod
            @decorate
            def tool(order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                return body(order_id, notify)

        return self.taken(Shop).tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @staticmethod
            @decorate
            def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
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
            @staticmethod
            async def tool(order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                return body(order_id, notify)

        return Shop.tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            @staticmethod
            async def tool(
                first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
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
        @staticmethod
        def tool(order_id: str, notify: bool = True) -> str:
            return body(order_id, notify)

    return Shop


def below(guard: RecordingGuard) -> Any:
    class Shop:
        @staticmethod
        @guarded_tool(guard=guard, name="tool")
        def tool(order_id: str, notify: bool = True) -> str:
            return body(order_id, notify)

    return Shop


both = pytest.mark.parametrize("owner", [above, below])


@both
def test_a_sub_class_has_it_too(owner: Callable[..., Any]):
    guard = allowing()

    class BookShop(owner(guard)):  # type: ignore[misc]
        @classmethod
        def by_super(cls) -> Any:
            return super().tool("815")

    assert ["814 True", "814 True", "815 True"] == [
        BookShop.tool("814"),
        BookShop().tool("814"),
        BookShop.by_super(),
    ]
    assert ["814", "814", "815"] == [given["order_id"] for given in guard.entries("tool")]


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
def test_called_by_name_it_is_judged_with_defaults(owner: Callable[..., Any]):
    guard = allowing()
    owner(guard)
    assert "814 True" == guard.call("tool", {"order_id": "814"})
    assert_executed_once(guard, order_id="814", notify=True)


@both
def test_called_by_name_a_default_that_the_policy_forbids_is_denied(owner: Callable[..., Any]):
    """FIELD 8, by name: the default is what the body would run with."""
    policy = Policy(
        rules=[
            {"id": "quiet", "allow": "tool", "args": {"notify?": {"const": False}, "*": {}}},
        ]
    )
    guard = RecordingGuard(policy)
    owner(guard)
    with pytest.raises(ToolDenied):
        guard.call("tool", {"order_id": "814"})
    assert ([], []) == (ENTERED, guard.executions)


@both
@pytest.mark.parametrize("how", ["called by name", "proposed"])
def test_after_it_was_asked_for_by_name_a_call_by_position_still_fits(owner: Callable[..., Any], how: str):
    guard = allowing()
    shop = owner(guard)
    with guard.session() as run:
        if how == "proposed":
            run.propose([{"name": "tool", "arguments": {"order_id": "813"}}])
        else:
            guard.call("tool", {"order_id": "813"})
        assert "814 True" == shop.tool("814")


@both
def test_a_proposal_of_it_is_judged_with_defaults(owner: Callable[..., Any]):
    guard = allowing()
    owner(guard)
    with guard.session() as run:
        [call] = run.propose([{"name": "tool", "arguments": {"order_id": "814"}}])
        assert {"order_id": "814", "notify": True} == call.call.arguments
        assert "814 True" == call.run()
