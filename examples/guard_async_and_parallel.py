"""Async tools in parallel: one is refused, its siblings finish, and the session follows every task."""

import asyncio

from gatescore import Guard, Policy, Refusal, guarded_tool

guard = Guard(Policy(allowed_tools=["search"]), on_deny="return")


@guarded_tool(guard=guard)
async def search(query: str) -> str:
    await asyncio.sleep(0.01)
    return f"found {query}"


@guarded_tool(guard=guard)
async def send_mail(to: str) -> str:
    raise AssertionError("never entered")


async def main() -> None:
    with guard.session() as run:
        results = await asyncio.gather(search("a"), send_mail("eve"), search(query="b"))
    assert [results[0], results[2]] == ["found a", "found b"]
    assert isinstance(results[1], Refusal)
    print(results[1])

    card = run.score()
    assert (card.planner.total, card.execution.total) == (3, 2)
    assert card.execution.passed


asyncio.run(main())
