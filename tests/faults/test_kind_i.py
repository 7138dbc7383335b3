"""
Public faults of kind I: budgets, loops and retries.

Each test has the id of a fault in its name, and goes through the whole kind of it. A slot is taken
as the verdict is given, by nobody twice, and given back by what never starts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gatescore import Policy, ToolDenied, guarded_tool
from gatescore.guard import ProposedCall, Refusal, Run
from gatescore.record import ledger
from gatescore.testing import RecordingGuard
from tests.faults.watched import BOUND, Watched, called, ends, entries, failing, guarding, limited, shares

HOUR = 3_600_000_000_000


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = HOUR

    def time_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ledger, "time", made)
    return made


# I01: a batch is cut at the limit before any of it starts


@pytest.mark.parametrize("unit", ["executions", "calls", "proposals"])
@pytest.mark.parametrize("how", ["a batch", "threads"])
def test_i01_a_limit_of_six_lets_six_of_eight_parallel_calls_in(how: str, unit: str):
    """Those that are let in wait until all six are in their bodies: none of them ends before another starts."""
    policy = limited({unit: 6}, "search")
    guard = Watched(policy, on_deny="return")
    inside = threading.Barrier(6)

    @guarded_tool(guard=guard)
    def search(q: int) -> int:
        inside.wait(BOUND)
        return q

    results: list[Any] = []
    with guard.session() as run, ThreadPoolExecutor(8) as pool:
        if how == "a batch":
            calls = run.propose([{"id": f"c{q}", "name": "search", "arguments": {"q": q}} for q in range(8)])
            assert [True] * 6 + [False] * 2 == [call.allowed for call in calls]
            # In any order: the slots belong to the first six.
            results = list(pool.map(run.bind(ProposedCall.run), reversed(calls)))
            assert [0, 1, 2, 3, 4, 5] == sorted(result for result in results if isinstance(result, int))
        else:
            results = list(pool.map(run.bind(search), range(8)))
    refused = [result for result in results if isinstance(result, Refusal)]
    assert 2 == len(refused)
    assert all(f"its limit of 6 {unit} is spent" in refusal for refusal in refused)
    assert {"denied": 2, "executed": 6} == {end: ends(run).count(end) for end in set(ends(run))}
    card = guard.card(run)
    assert (6, 8, 6, 6) == shares(card)
    assert (0.75, 1.0) == (card.planner.score, card.execution.score)
    assert [] == failing(card)


def test_i01_a_batch_of_async_calls_is_cut_at_the_limit():
    guard = Watched(limited({"executions": 6}, "search"))
    six = asyncio.Event()
    inside: list[int] = []

    async def search(q: int) -> int:
        inside.append(q)
        if len(inside) == 6:
            six.set()
        await six.wait()
        return q

    guard.wrap(search)

    async def main() -> Run:
        with guard.session() as run:
            calls = (guard.call("search", {"q": q}) for q in range(8))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert 2 == sum(isinstance(result, ToolDenied) for result in results)
        return run

    run = asyncio.run(asyncio.wait_for(main(), BOUND))
    assert [0, 1, 2, 3, 4, 5] == inside
    assert (6, 8, 6, 6) == shares(guard.card(run))


# I02: check and reservation are one step


@pytest.mark.parametrize("per", ["session", "principal"])
def test_i02_of_fifty_threads_and_fifty_tasks_exactly_one_gets_the_last_slot(per: str):
    """The one that is let in stays in its body until the other 99 were refused. A hundred times."""
    policy = limited({"executions": 1, "per": per, "window": "1h"}, "fetch", "fetch_async")
    with ThreadPoolExecutor(50) as pool:
        for _ in range(100):
            race(policy, pool)


def race(policy: Policy, pool: ThreadPoolExecutor) -> None:
    guard = RecordingGuard(policy)
    gate = threading.Barrier(51)
    all_refused = threading.Event()
    lock = threading.Lock()
    refused: list[int] = []
    entered: list[int] = []

    def fetch() -> None:
        entered.append(1)
        assert all_refused.wait(BOUND)

    async def fetch_async() -> None:
        entered.append(1)
        await asyncio.to_thread(all_refused.wait, BOUND)

    guard.wrap(fetch)
    guard.wrap(fetch_async)

    def refuse() -> None:
        with lock:
            refused.append(1)
            if len(refused) == 99:
                all_refused.set()

    def in_thread(_: int) -> None:
        gate.wait(BOUND)
        try:
            guard.call("fetch")
        except ToolDenied:
            refuse()

    async def in_task() -> None:
        try:
            await guard.call("fetch_async")
        except ToolDenied:
            refuse()

    async def main() -> None:
        gate.wait(BOUND)
        await asyncio.wait_for(asyncio.gather(*(in_task() for _ in range(50))), BOUND)

    with guard.session(principal="u") as run:
        threads = pool.map(run.bind(in_thread), range(50))
        asyncio.run(main())
        list(threads)
    assert (1, 99) == (len(entered), len(refused))
    card = run.score()
    assert (1, 100, 1, 1) == shares(card)
    assert [] == failing(card)


@pytest.mark.parametrize("per", ["principal", "tool"])
def test_i02_a_slot_that_sessions_share_is_taken_by_one_of_them(per: str):
    for _ in range(20):
        guard = guarding(limited({"executions": 1, "per": per}, "fetch"), "fetch")
        gate = threading.Barrier(8)
        runs: list[Run] = []

        def work(guard: Watched = guard, gate: threading.Barrier = gate, runs: list[Run] = runs) -> None:
            with guard.session(principal="u") as run:
                runs.append(run)
                gate.wait(BOUND)
                called(guard, "fetch")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: work(), range(8)))
        assert 1 == sum(len(entries(run)) for run in runs)
        for run in runs:
            assert [] == failing(guard.card(run))


@pytest.mark.parametrize("per", ["session", "principal", "tool"])
def test_i02_a_slot_is_free_again_after_its_window_and_not_before(per: str, clock: Clock):
    guard = guarding(limited({"executions": 1, "per": per, "window": "1h"}, "fetch"), "fetch")
    with guard.session("s", principal="u") as run:
        seen: list[bool] = []
        for passed in (0, HOUR // 2, HOUR // 2 - 1, 1, 0, HOUR):
            clock.now += passed
            seen.append(called(guard, "fetch"))
    assert [True, False, False, True, False, True] == seen
    assert [] == failing(guard.card(run))


def test_i02_two_principals_and_two_tools_have_budgets_of_their_own():
    for per, separate in (("principal", "principals"), ("tool", "tools")):
        guard = guarding(limited({"executions": 1, "per": per}, "a", "b"), "a", "b")
        seen: list[bool] = []
        for principal, tool in (("u", "a"), ("u", "b"), ("v", "a"), ("v", "b")):
            with guard.session(principal=principal):
                seen.append(called(guard, tool))
        expected = [True, False, True, False] if separate == "principals" else [True, True, False, False]
        assert expected == seen


# I02, the slot that leaks: what never starts holds nothing


@pytest.mark.parametrize("per", ["session", "principal"])
@pytest.mark.parametrize("how", ["rejected", "raises", "expired", "denied at entry", "abandoned"])
def test_i02_a_call_that_never_started_gives_its_slot_back(how: str, per: str):
    answers: list[Any] = [True]
    silent = threading.Event()

    def answer(request: object) -> bool:
        value = answers.pop()
        if callable(value):
            value()
        return value is True

    policy = Policy(
        rules=[
            {
                "id": "limited",
                ("allow" if how in ("denied at entry", "abandoned") else "ask"): "send",
                "args": {"to": {"properties": {"n": {"maximum": 9}}}},
                "limit": {"executions": 1, "per": per},
            }
        ]
    )
    guard = guarding(policy, "send", approver=answer)

    def silence() -> None:
        assert silent.wait(BOUND)

    def fail() -> None:
        raise KeyError

    to = {"n": 1}
    with guard.session("s", principal="u") as run:
        if how == "rejected":
            answers.append(False)
            assert not called(guard, "send", {"to": to})
        elif how == "raises":
            answers.append(fail)
            assert not called(guard, "send", {"to": to})
        elif how == "expired":
            guard.approval_timeout = 0.01
            answers.append(silence)
            assert not called(guard, "send", {"to": to})
            guard.approval_timeout = BOUND
            silent.set()
        elif how == "denied at entry":
            [call] = run.propose([{"name": "send", "arguments": {"to": to}}])
            to["n"] = 10
            with pytest.raises(ToolDenied):
                call.run()
            to["n"] = 1
        else:
            run.propose([{"name": "send", "arguments": {"to": to}}])
    with guard.session("s", principal="u") as again:
        assert called(guard, "send", {"to": to})
        assert not called(guard, "send", {"to": to})
    assert again is run
    assert 1 == len(entries(run))
    assert [] == failing(guard.card(run))


@pytest.mark.parametrize("when", ["before it is awaited", "while a person is asked"])
def test_i02_a_task_that_was_cancelled_before_its_body_holds_no_slot(when: str):
    asked = asyncio.Event()
    answers: list[bool] = []

    async def answer(request: object) -> bool:
        asked.set()
        if not answers:
            await asyncio.Event().wait()
        return answers.pop()

    guard = Watched(limited({"executions": 1}, "send", effect="ask"), approver=answer)

    async def send() -> str:
        return "sent"

    guard.wrap(send)

    async def main() -> Run:
        with guard.session() as run:
            task = asyncio.ensure_future(guard.call("send"))
            if when != "before it is awaited":
                await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            answers.append(True)
            assert "sent" == await guard.call("send")
        return run

    run = asyncio.run(asyncio.wait_for(main(), BOUND))
    assert ["abandoned", "executed"][when == "before it is awaited" :] == ends(run)
    assert [] == failing(guard.card(run))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_i02_a_generator_that_nobody_has_read_yet_keeps_its_slot_until_the_session_ends(kind: str):
    """It may be read at any time; and a slot that is given away twice would be one too many."""
    guard = Watched(limited({"executions": 1}, "pages"))

    def pages() -> Iterator[int]:
        yield 1

    async def pages_async() -> Any:
        yield 1

    tool: Any = guard.wrap(pages if kind == "sync" else pages_async, name="pages")

    def read(made: Any) -> list[Any]:
        return list(made) if kind == "sync" else asyncio.run(collected(made))

    with guard.session("s") as run:
        unread = tool()
        with pytest.raises(ToolDenied):
            read(tool())
    with guard.session("s"):
        assert [1] == read(tool())
        with pytest.raises(ToolDenied):
            read(unread)
    assert 1 == len(entries(run))


async def collected(items: Any) -> list[Any]:
    return [item async for item in items]
