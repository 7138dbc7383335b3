"""Methods: bound and unbound, of instances and sub-classes, with `super()`; and bound ones that are wrapped."""

from __future__ import annotations

import abc
import asyncio
import copy
import functools
import inspect
import operator
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from gatescore import GuardError, ToolDenied, guarded_tool
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


class Portable:
    @guarded_tool(name="portable")
    def tool(self, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)

    def unguarded(self, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)


class PortableCoroutine:
    @guarded_tool(name="portable")
    async def tool(self, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)


class PortableItems:
    @guarded_tool(name="portable")
    def tool(self, order_id: str, notify: bool = True) -> Iterator[object]:
        body(order_id, notify)
        yield order_id
        yield notify


class PortableAsyncItems:
    @guarded_tool(name="portable")
    async def tool(self, order_id: str, notify: bool = True) -> AsyncIterator[object]:
        body(order_id, notify)
        yield order_id
        yield notify


class TestMethod(Contract):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            def tool(self, order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                assert isinstance(self, Shop)
                return body(order_id, notify)

        return Shop().tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            def tool(
                self, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
            ) -> Any:
                assert isinstance(self, Shop)
                return first, second, rest, flag, more

        return Shop().tool

    def portable(self) -> Any:
        return Portable().tool


class TestWrappedBoundMethod(Contract):
    """What is wrapped is a method that is bound already."""

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(TestMethod().made(lambda function: function))

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        return decorate(TestMethod().made_with_all(lambda function: function))

    def portable(self) -> Any:
        return guarded_tool(Portable().unguarded, name="portable")


class TestCoroutineMethod(Contract):
    late = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            async def tool(self, order_id: str, notify: bool = True) -> str:
                """Cancel an order."""
                await asyncio.sleep(0)
                return body(order_id, notify)

        return Shop().tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            async def tool(
                self, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
            ) -> Any:
                return first, second, rest, flag, more

        return Shop().tool

    def portable(self) -> Any:
        return PortableCoroutine().tool


class TestGeneratorMethod(Contract):
    several = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            def tool(self, order_id: str, notify: bool = True) -> Iterator[object]:
                """Cancel an order."""
                body(order_id, notify)
                yield order_id
                yield notify

        return Shop().tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            def tool(
                self, first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
            ) -> Iterator[object]:
                yield first, second, rest, flag, more

        return Shop().tool

    def portable(self) -> Any:
        return PortableItems().tool


class TestAsyncGeneratorMethod(TestGeneratorMethod):
    def made(self, decorate: Decorate) -> Callable[..., Any]:
        class Shop:
            @decorate
            async def tool(self, order_id: str, notify: bool = True) -> AsyncIterator[object]:
                """Cancel an order."""
                body(order_id, notify)
                yield order_id
                yield notify

        return Shop().tool

    def portable(self) -> Any:
        return PortableAsyncItems().tool


def shops(guard: Any) -> Any:
    """A class, one below it that has another body, and one below that which calls it by `super()`."""

    class Shop:
        def __init__(self, name: str = "shop") -> None:
            self.name = name

        @guarded_tool(guard=guard, name="tool")
        def tool(self, order_id: str, notify: bool = True) -> str:
            ENTERED.append(self.name)
            return f"{self.name} {order_id}"

    class Inheriting(Shop): ...

    class Extending(Shop):
        def tool(self, order_id: str, notify: bool = True) -> str:
            return "extended " + super().tool(order_id, notify)

    return Shop, Inheriting, Extending


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


def test_an_unbound_method_is_judged_without_its_instance():
    guard = allowing()
    shop, _, _ = shops(guard)
    assert "shop 814" == shop.tool(shop(), "814")
    assert_executed_once(guard, order_id="814", notify=True)


def test_an_unbound_method_that_is_denied_is_not_entered():
    guard = denying()
    shop, _, _ = shops(guard)
    with pytest.raises(ToolDenied):
        shop.tool(shop(), "814")
    assert ([], [], 1) == (ENTERED, guard.executions, len(guard.proposals))


def test_an_unbound_method_without_an_instance_is_denied_and_is_a_type_error():
    guard = allowing()
    shop, _, _ = shops(guard)
    with pytest.raises(ToolDenied) as caught:
        shop.tool()
    assert isinstance(caught.value, TypeError)
    assert ([], []) == (ENTERED, guard.executions)


@pytest.mark.parametrize(("number", "given"), [(1, "shop 814"), (2, "extended shop 814")])
def test_a_method_of_a_sub_class_is_the_tool_of_its_base(number: int, given: str):
    guard = allowing()
    assert given == shops(guard)[number]().tool("814")
    assert_executed_once(guard, order_id="814", notify=True)


@pytest.mark.parametrize("number", [1, 2])
def test_a_denied_method_is_denied_to_its_sub_classes(number: int):
    guard = denying()
    with pytest.raises(ToolDenied):
        shops(guard)[number]().tool("814")
    assert ([], []) == (ENTERED, guard.executions)


def test_an_override_that_is_a_tool_of_its_own_calls_the_one_it_extends_as_a_nested_call():
    guard = allowing("tool", "tool_of_books")
    shop, _, _ = shops(guard)

    class BookShop(shop):  # type: ignore[misc,valid-type]
        @guarded_tool(guard=guard, name="tool_of_books")
        def tool(self, order_id: str, notify: bool = True) -> str:
            return "books " + super().tool(order_id, notify)

    with guard.session():
        assert "books shop 814" == BookShop().tool("814")
    assert [("tool_of_books", "caller"), ("tool", "nested")] == [
        (proposal.call.name, proposal.origin) for proposal in guard.proposals
    ]


def test_an_override_under_the_same_name_is_another_tool_and_says_so():
    guard = allowing()
    shop, _, _ = shops(guard)
    with pytest.raises(GuardError, match="two tools have the name `tool`"):

        class BookShop(shop):  # type: ignore[misc,valid-type]
            @guarded_tool(guard=guard, name="tool")
            def tool(self, order_id: str) -> str:
                return order_id


def test_instances_are_told_apart():
    guard = allowing()
    shop, _, _ = shops(guard)
    one, two = shop("one").tool, shop("two").tool
    assert ["one 1", "two 2", "one 3"] == [one("1"), two("2"), one("3")]
    assert ["one", "two", "one"] == ENTERED


def test_a_bound_method_knows_its_instance_and_its_function():
    shop, _, _ = shops(allowing())
    made = shop()
    assert made is made.tool.__self__
    assert made.tool.__func__ is vars(shop)["tool"]


def test_a_deep_copy_of_a_bound_method_is_bound_to_a_copy_of_its_instance():
    shop, _, _ = shops(allowing())
    made = shop("one")
    copied = copy.deepcopy(made.tool)
    made.name = "two"
    assert ("one 814", "two 814") == (copied("814"), made.tool("814"))
    assert copied.__self__ is not made


def test_a_deep_copy_of_an_object_that_holds_a_bound_method_keeps_it_guarded():
    """As of an agent's settings, with its list of tools."""
    guard = denying()
    shop, _, _ = shops(guard)
    settings = copy.deepcopy({"tools": [shop().tool]})
    with pytest.raises(ToolDenied):
        settings["tools"][0]("814")
    assert [] == ENTERED


def test_a_method_called_by_name_without_its_instance_is_refused_and_never_entered():
    guard = allowing()
    shops(guard)
    with pytest.raises(ToolDenied, match="it needs `self`"):
        guard.call("tool", {"order_id": "814"})
    assert ([], []) == (ENTERED, guard.executions)


def test_a_bound_method_called_by_name_is_judged_with_its_defaults():
    guard = allowing()
    bare = TestMethod().made(lambda function: function)
    guard.wrap(bare, name="tool")
    assert ["814 True"] == items_of(guard.call("tool", {"order_id": "814"}))
    assert_executed_once(guard, order_id="814", notify=True)


def test_a_property_may_be_a_tool():
    guard = allowing()

    class Shop:
        @property
        @guarded_tool(guard=guard, name="tool")
        def open(self) -> bool:
            return True

    assert Shop().open
    assert ["succeeded"] == [execution.outcome for execution in guard.executions]


def test_an_instance_of_a_guarded_class_of_slots_needs_no_dictionary():
    guard = allowing()

    class Shop:
        __slots__ = ()

        @guarded_tool(guard=guard, name="tool")
        def tool(self, order_id: str, notify: bool = True) -> str:
            return order_id

    assert "814" == Shop().tool("814")
    assert_executed_once(guard, order_id="814", notify=True)


ROUNDABOUT: dict[str, Callable[[Any, Any], Any]] = {
    "by `__call__`": lambda kind, shop: shop.tool.__call__("814"),
    "by what the class holds": lambda kind, shop: kind.__dict__["tool"](shop, "814"),
    "bound by hand": lambda kind, shop: kind.__dict__["tool"].__get__(shop, kind)("814"),
    "bound again": lambda kind, shop: shop.tool.__get__(kind(), kind)("814"),
    "as a method made by hand": lambda kind, shop: types.MethodType(kind.tool, shop)("814"),
    "by `getattr_static`": lambda kind, shop: inspect.getattr_static(shop, "tool")(shop, "814"),
    "by `map`": lambda kind, shop: list(map(shop.tool, ["814"])),
    "by a partial": lambda kind, shop: functools.partial(kind.tool, shop)("814"),
    "by a method caller": lambda kind, shop: operator.methodcaller("tool", "814")(shop),
    "through a descriptor of another class": lambda kind, shop: type("Other", (), {"tool": kind.tool})().tool(
        "814"
    ),
}


@pytest.mark.parametrize("way", ROUNDABOUT)
def test_no_way_of_calling_a_method_leads_round_its_guard(way: str):
    guard = denying()
    shop, _, _ = shops(guard)
    with pytest.raises(ToolDenied):
        ROUNDABOUT[way](shop, shop())
    assert ([], [], 1) == (ENTERED, guard.executions, len(guard.proposals))


@pytest.mark.parametrize("order", ["above", "below"])
def test_an_abstract_method_stays_abstract(order: str):
    guarded = guarded_tool(guard=allowing(), name="tool")

    def tool(self: Any) -> None: ...

    method = guarded(abc.abstractmethod(tool)) if order == "above" else abc.abstractmethod(guarded(tool))
    with pytest.raises(TypeError, match="abstract method"):
        abc.ABCMeta("Shop", (), {"tool": method})()
