"""`guard.wrap` on callables of every kind: what comes out is what went in."""

from collections.abc import Callable
from functools import partial
from typing import assert_type

from gatescore import Guard, Policy, guarded_tool

guard = Guard(Policy(allowed_tools=["*"]))


def refund(order_id: str, amount: float = 1.0) -> int:
    return round(amount)


async def fetch(order_id: str) -> bytes:
    return order_id.encode()


class Shop:
    def get(self, order_id: str) -> int:
        return len(order_id)

    async def fetch(self, order_id: str) -> bytes:
        return order_id.encode()

    @classmethod
    def of_class(cls, order_id: str) -> int:
        return len(order_id)

    @staticmethod
    def static(order_id: str) -> int:
        return len(order_id)


class Tool:
    """An object that can be called, with something of its own."""

    limit = 3

    def __call__(self, order_id: str) -> int:
        return self.limit


function = guard.wrap(refund)
assert_type(function("814", amount=2.0), int)
function(814)  # error: arg-type

coroutine = guard.wrap(fetch, name="fetch_order", server="shop")
method = guard.wrap(Shop().get)
assert_type(method("814"), int)
method(814)  # error: arg-type

async_method = guard.wrap(Shop().fetch, name="fetch_method")
class_method = guard.wrap(Shop.of_class)
static_method = guard.wrap(Shop.static)
assert_type(class_method("814"), int)
assert_type(static_method("814"), int)
class_method(814)  # error: arg-type
static_method(814)  # error: arg-type


async def fetches() -> None:
    assert_type(await coroutine("814"), bytes)
    assert_type(await async_method("814"), bytes)
    await coroutine(814)  # error: arg-type
    await async_method(814)  # error: arg-type


small = guard.wrap(partial(refund, amount=1.0), name="small")
assert_type(small, partial[int])
assert_type(small("814"), int)
assert_type(small.func("814"), int)
small(814)  # error: arg-type

small_by_decorator = guarded_tool(partial(refund, amount=1.0), name="small_too")
assert_type(small_by_decorator("814"), int)

tool = guard.wrap(Tool())
assert_type(tool, Tool)
assert_type(tool("814"), int)
assert_type(tool.limit, int)
tool(814)  # error: arg-type
tool.unknown()  # error: attr-defined

short: Callable[[str], int] = guard.wrap(lambda order_id: len(order_id), name="short")
assert_type(guard.wrap(len, name="len")("814"), int)
guard.wrap(len, name="len")(814)  # error: arg-type
guard.wrap("not callable")  # error: type-var
guard.wrap(refund, 1)  # error: call-arg
guard.wrap(refund, name=1)  # error: arg-type
