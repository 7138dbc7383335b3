"""Methods of every kind, decorated above and below: what they take and give is what it was."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self, assert_type

from gatescore import Guard, Policy, guarded_tool

guard = Guard(Policy(allowed_tools=["*"]))


class Shop:
    @guarded_tool(guard=guard)
    def get(self, order_id: str) -> int:
        return len(order_id)

    @guarded_tool
    def me(self) -> Self:
        return self

    @guarded_tool(guard=guard)
    async def fetch(self, order_id: str, *, full: bool = False) -> bytes:
        return order_id.encode()

    @guarded_tool(guard=guard)
    def pages(self, first: int) -> Iterator[str]:
        yield str(first)

    @guarded_tool(guard=guard)
    async def events(self) -> AsyncIterator[int]:
        yield 1

    @classmethod
    @guarded_tool(guard=guard)
    def below_class(cls, order_id: str) -> int:
        return len(order_id)

    @staticmethod
    @guarded_tool(guard=guard)
    def below_static(order_id: str) -> int:
        return len(order_id)

    @guarded_tool(guard=guard)
    @classmethod
    def above_class(cls, order_id: str) -> int:
        return len(order_id)

    @guarded_tool(guard=guard)
    @staticmethod
    def above_static(order_id: str) -> int:
        return len(order_id)

    @guarded_tool
    @classmethod
    def bare_above_class(cls, order_id: str) -> int:
        return len(order_id)

    @guarded_tool
    @staticmethod
    def bare_above_static(order_id: str) -> int:
        return len(order_id)

    @property
    @guarded_tool(guard=guard)
    def open(self) -> bool:
        return True


class BookShop(Shop):
    @guarded_tool(guard=guard, name="book_get")
    def get(self, order_id: str) -> int:
        return super().get(order_id)


class WrongShop(Shop):
    @guarded_tool(guard=guard, name="wrong_get")
    def get(self, order_id: int) -> int:  # error: override
        return order_id


shop = Shop()
assert_type(shop.get("814"), int)
assert_type(Shop.get(shop, "814"), int)
assert_type(BookShop().get("814"), int)
assert_type(BookShop().me(), BookShop)
assert_type(list(shop.pages(1)), list[str])
assert_type(shop.open, bool)
shop.get(814)  # error: arg-type
shop.get()  # error: call-arg
Shop.get("814")  # error: call-arg
Shop.get("shop", "814")  # error: arg-type
shop.pages("1")  # error: arg-type
as_callable: Callable[[str], int] = shop.get
as_other: Callable[[int], int] = shop.get  # error: assignment


async def reads() -> None:
    assert_type(await shop.fetch("814", full=True), bytes)
    await shop.fetch("814", True)  # error: call-arg
    await shop.fetch(814)  # error: arg-type
    async for event in shop.events():
        assert_type(event, int)


assert_type(Shop.below_class("814"), int)
assert_type(shop.below_class("814"), int)
assert_type(Shop.below_static("814"), int)
assert_type(shop.below_static("814"), int)
assert_type(Shop.above_class("814"), int)
assert_type(shop.above_class("814"), int)
assert_type(Shop.above_static("814"), int)
assert_type(shop.above_static("814"), int)
assert_type(Shop.bare_above_class("814"), int)
assert_type(Shop.bare_above_static("814"), int)
Shop.below_class(814)  # error: arg-type
Shop.below_static(814)  # error: arg-type
Shop.above_class(814)  # error: arg-type
Shop.above_static(814)  # error: arg-type
Shop.bare_above_class(814)  # error: arg-type
Shop.bare_above_static(814)  # error: arg-type
shop.above_class(814)  # error: arg-type
shop.above_static(814)  # error: arg-type
