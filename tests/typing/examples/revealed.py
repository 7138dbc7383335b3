"""Pairs: the first line reveals a callable, the second one the same callable guarded. Both must be the same."""

from collections.abc import AsyncGenerator, Generator
from functools import partial
from typing import TypeVar

from gatescore import Guard, Policy, guarded_tool

guard = Guard(Policy(allowed_tools=["*"]))
T = TypeVar("T")


def function(order_id: str, /, amount: float = 1.0, *rest: int, notify: bool = True, **more: str) -> int:
    return 0


def generic(item: T, items: list[T]) -> dict[str, T]:
    return {}


async def coroutine(order_id: str, *, full: bool = False) -> bytes:
    return b""


def generator(first: int) -> Generator[str, int, bool]:
    yield ""
    return True


async def async_generator(first: int) -> AsyncGenerator[str, int]:
    yield ""


class Shop:
    def method(self, order_id: str, amount: float = 1.0) -> int:
        return 0

    @classmethod
    def of_class(cls, order_id: str) -> int:
        return 0

    @staticmethod
    def static(order_id: str) -> int:
        return 0

    def __call__(self, order_id: str) -> int:
        return 0


reveal_type(function)
reveal_type(guarded_tool(function))
reveal_type(function)
reveal_type(guarded_tool(guard=guard)(function))
reveal_type(function)
reveal_type(guard.wrap(function))
reveal_type(generic)
reveal_type(guarded_tool(generic))
reveal_type(coroutine)
reveal_type(guarded_tool(guard=guard)(coroutine))
reveal_type(generator)
reveal_type(guarded_tool(guard=guard)(generator))
reveal_type(async_generator)
reveal_type(guarded_tool(guard=guard)(async_generator))
reveal_type(Shop.method)
reveal_type(guard.wrap(Shop.method))
reveal_type(Shop().method)
reveal_type(guard.wrap(Shop().method))
reveal_type(Shop.of_class)
reveal_type(guard.wrap(Shop.of_class))
reveal_type(Shop.static)
reveal_type(guard.wrap(Shop.static))
reveal_type(Shop())
reveal_type(guard.wrap(Shop()))
reveal_type(partial(function, "814"))
reveal_type(guard.wrap(partial(function, "814")))
