"""
A denied body is never entered, and no limit is overshot: random calls over every shape, threads and tasks.
"""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from gatescore import Guard, Policy, Refusal, ToolDenied
from tests.large.size import size

LIMIT = 2
DENIED = "x"
"""An argument that no call may have: its body counts itself among those that must not be entered."""

POLICY = {
    "default": "deny",
    "rules": [
        {"id": "fine", "allow": "*"},
        {"id": "never", "deny": "*", "args": {"value": {"const": DENIED}}},
    ],
}


class Bodies:
    """Tools of every shape, and how often each was entered with what."""

    def __init__(self) -> None:
        self.entered: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def enter(self, shape: str, value: str) -> None:
        with self._lock:
            self.entered[shape, value] += 1

    def method(self, value: str) -> str:
        self.enter("method", value)
        return value

    def all(self, guard: Guard) -> dict[str, Callable[[str], Any]]:
        enter = self.enter

        def function(value: str) -> str:
            enter("function", value)
            return value

        async def coroutine(value: str) -> str:
            enter("coroutine", value)
            return value

        def generator(value: str) -> Iterator[str]:
            enter("generator", value)
            yield value

        async def async_generator(value: str) -> Any:
            enter("async_generator", value)
            yield value

        def of_coroutine(value: str) -> Any:
            enter("of_coroutine", value)
            return asyncio.sleep(0, value)

        def two(shape: str, value: str) -> str:
            enter(shape, value)
            return value

        class Callables:
            def __call__(self, value: str) -> str:
                enter("object", value)
                return value

            @classmethod
            @guard.wrap
            def of_class(cls, value: str) -> str:
                enter("of_class", value)
                return value

            @guard.wrap
            @staticmethod
            def static(value: str) -> str:
                enter("static", value)
                return value

        tools: dict[str, Callable[[str], Any]] = {
            "function": guard.wrap(function),
            "coroutine": guard.wrap(coroutine),
            "generator": guard.wrap(generator),
            "async_generator": guard.wrap(async_generator),
            "of_coroutine": guard.wrap(of_coroutine),
            "partial": guard.wrap(functools.partial(two, "partial"), name="partial"),
            "method": guard.wrap(self.method),
            "object": guard.wrap(Callables(), name="object"),
            "of_class": Callables.of_class,
            "static": Callables.static,
            "by name": functools.partial(by_name, guard),
        }
        return tools


def by_name(guard: Guard, value: str) -> Any:
    return guard.call("function", {"value": value})


def told(outcome: object) -> bool:
    """Whether a result says that the call was refused."""
    return isinstance(outcome, Refusal)


def use(tool: Callable[[str], Any], value: str) -> bool:
    """Call a tool of any shape to its end; whether it was refused."""
    try:
        result = tool(value)
        if hasattr(result, "__next__"):
            items = list(result)
            return told(items[0])
        if hasattr(result, "__await__") or hasattr(result, "__anext__"):
            return asyncio.run(use_async(result))
    except ToolDenied:
        return True
    return told(result)


async def use_async(result: Any) -> bool:
    try:
        if hasattr(result, "__anext__"):
            items = [item async for item in result]
            return told(items[0])
        return told(await result)
    except ToolDenied:
        return True


class Tally:
    """What was called with what, and how many of these calls were refused, by their argument."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, made: Counter[tuple[str, str]], refused: Counter[str]) -> None:
        with self._lock:
            self.made.update(made)
            self.refused.update(refused)

    def thread(self, tools: dict[str, Callable[[str], Any]], seed: int, number: int) -> None:
        """Call *number* times what can be called without an event loop."""
        made, refused = Counter[tuple[str, str]](), Counter[str]()
        for name, value in random_calls(seed, [name for name in tools if name not in ASYNC], number):
            made["function" if name == "by name" else name, value] += 1
            if use(tools[name], value):
                refused[value] += 1
        self.add(made, refused)

    async def task(self, tools: dict[str, Callable[[str], Any]], seed: int, number: int) -> None:
        """Call *number* times what is awaited, giving way to other tasks now and then."""
        made, refused = Counter[tuple[str, str]](), Counter[str]()
        for turn, (name, value) in enumerate(random_calls(seed, ASYNC, number)):
            made[name, value] += 1
            try:
                result = tools[name](value)
            except ToolDenied:
                refused[value] += 1
                continue
            if told(result) or await use_async(result):
                refused[value] += 1
            if turn % 50 == 0:
                await asyncio.sleep(0)
        self.add(made, refused)

    async def tasks(self, tools: dict[str, Callable[[str], Any]], seed: int, number: int) -> None:
        await asyncio.gather(*(self.task(tools, seed + n, number) for n in range(4)))


ASYNC = ("coroutine", "async_generator", "of_coroutine")


def random_calls(seed: int, names: Sequence[str], number: int) -> Iterator[tuple[str, str]]:
    chance = random.Random(seed)
    for _ in range(number):
        yield chance.choice(names), chance.choice(("a", "b", DENIED))


@pytest.mark.parametrize("on_deny", ["raise", "return"])
def test_no_denied_body_is_entered_in_many_calls(on_deny: str) -> None:
    """Every refused call was to be refused, every other one was entered once, in threads and in tasks."""
    rounds = size(50, 5)
    share = size(500_000, 6_000) // (rounds * 8)
    guard = Guard(Policy.from_dict(POLICY), on_deny=on_deny)  # type: ignore[arg-type]
    bodies, tally = Bodies(), Tally()
    tools = bodies.all(guard)
    for turn in range(rounds):  # a session keeps its record in memory: many of them, one after the other
        with guard.session() as run:
            threads = [
                threading.Thread(target=run.bind(tally.thread), args=(tools, turn * 10 + n, share))
                for n in range(4)
            ]
            for each in threads:
                each.start()
            asyncio.run(tally.tasks(tools, turn * 10 + 5, share))
            for each in threads:
                each.join(timeout=600)
                assert not each.is_alive()
    made, denied = tally.made, {key for key in tally.made if key[1] == DENIED}
    assert rounds * 8 * share == made.total()
    assert not bodies.entered.keys() & denied
    assert {DENIED: sum(made[key] for key in denied)} == tally.refused
    assert bodies.entered == {key: count for key, count in made.items() if key not in denied}
    print(f"\n{on_deny}: {made.total():,} calls, {tally.refused[DENIED]:,} refused, 0 of them entered")


@pytest.mark.parametrize("per", ["session", "principal", "tool"])
@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_five_at_once_against_a_limit_of_two_are_two(how: str, per: str) -> None:
    """Exactly two of five are entered, every time."""
    policy = Policy(
        rules=[{"id": "two", "allow": "tool", "limit": {"executions": LIMIT, "per": per}}], default="deny"
    )
    times = size(1_000, 30)
    for turn in range(times):
        entered: list[int] = []
        refused: list[int] = []
        guard = Guard(policy)
        start = threading.Barrier(5)

        def tool(number: int) -> None:
            entered.append(number)  # noqa: B023 - called within the same turn

        async def async_tool(number: int) -> None:
            await asyncio.sleep(0)
            entered.append(number)  # noqa: B023 - as above

        def one(number: int, guarded: Callable[[int], None]) -> None:
            start.wait(timeout=60)  # noqa: B023 - as above
            try:
                guarded(number)
            except ToolDenied:
                refused.append(number)  # noqa: B023 - as above

        async def each(number: int, guarded: Callable[[int], Any]) -> None:
            try:
                await guarded(number)
            except ToolDenied:
                refused.append(number)  # noqa: B023 - as above

        async def every(guarded: Callable[[int], Any]) -> None:
            await asyncio.gather(*(each(number, guarded) for number in range(5)))

        with guard.session(principal="user:1") as run:
            if how == "tasks":
                asyncio.run(every(guard.wrap(async_tool, name="tool")))
            else:
                guarded = guard.wrap(tool, name="tool")
                workers = [threading.Thread(target=run.bind(one), args=(n, guarded)) for n in range(5)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join(timeout=60)
        assert (LIMIT, 5 - LIMIT) == (len(entered), len(refused)), turn
        card = run.score()
        assert (LIMIT, LIMIT) == (card.execution.authorized, card.execution.total), turn
    print(f"\n{how}, per {per}: {times:,} times 2 of 5")
