"""Functions of every kind, decorated: what they take and give is what it was."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import TypeVar, assert_type

from gatescore import Guard, Policy, guarded_tool

guard = Guard(Policy(allowed_tools=["*"]))
T = TypeVar("T")


@guarded_tool(guard=guard)
def refund(order_id: str, /, amount: float = 1.0, *, notify: bool = True) -> int:
    return round(amount)


assert_type(refund("814"), int)
assert_type(refund("814", 2.5, notify=False), int)
assert_type(refund("814", amount=2.5), int)
assert_type(refund("814"), str)  # error: assert-type
refund(814)  # error: arg-type
refund()  # error: call-arg
refund(order_id="814")  # error: call-arg
refund("814", 1.0, False)  # error: call-arg
refund("814", unknown=1)  # error: call-arg
refund("814").upper()  # error: attr-defined
as_callable: Callable[[str], int] = refund
as_other: Callable[[int], int] = refund  # error: assignment


@guarded_tool
def bare(*numbers: int, **options: str) -> list[int]:
    return list(numbers)


assert_type(bare(1, 2, mode="fast"), list[int])
bare("1")  # error: arg-type
bare(1, mode=2)  # error: arg-type


@guarded_tool(guard=guard, name="orders.get", server="shop")
def named(order_id: str) -> dict[str, str]:
    return {"id": order_id}


assert_type(named("814"), dict[str, str])
named(814)  # error: arg-type


@guarded_tool(guard=guard)
def generic(item: T) -> list[T]:
    return [item]


assert_type(generic(1), list[int])
assert_type(generic("1"), list[str])
generic(1, 2)  # error: call-arg


@guarded_tool(guard=guard)
async def fetch(order_id: str) -> bytes:
    return order_id.encode()


@guarded_tool
async def fetch_bare(order_id: str) -> bytes:
    return await fetch(order_id)


async def fetches() -> None:
    assert_type(await fetch("814"), bytes)
    assert_type(await fetch_bare(order_id="814"), bytes)
    await fetch(814)  # error: arg-type
    fetched: bytes = fetch("814")  # error: assignment
    later: Callable[[str], Awaitable[bytes]] = fetch
    await later(fetched.decode())


@guarded_tool(guard=guard)
def pages(first: int) -> Generator[str, int, bool]:
    skipped = yield str(first)
    return skipped > 0


def reads_pages() -> Generator[str, int, None]:
    assert_type(pages(1), Generator[str, int, bool])
    assert_type(next(pages(1)), str)
    assert_type(pages(1).send(2), str)
    assert_type((yield from pages(1)), bool)
    pages("1")  # error: arg-type
    pages(1).send("2")  # error: arg-type


@guarded_tool
def lines() -> Iterator[str]:
    yield "line"


for line in lines():
    assert_type(line, str)


@guarded_tool(guard=guard)
async def events(kind: str) -> AsyncIterator[int]:
    yield len(kind)


async def reads_events() -> None:
    async for event in events("new"):
        assert_type(event, int)
    async for event in events(1):  # error: arg-type
        pass
    for event in events("new"):  # error: attr-defined
        pass


@guarded_tool(guards=guard)  # error: call-overload
def mistyped(order_id: str) -> str:
    return order_id


guarded_tool("not callable")  # error: call-overload
guarded_tool(guard=Policy(allowed_tools=["*"]))  # error: call-overload
