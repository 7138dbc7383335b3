"""The two moments: what is denied at either is never entered; what holds between them, under any concurrency."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gatescore import Guard, Policy, ToolDenied
from gatescore.decide import decide
from gatescore.guard import docket as docket_module
from gatescore.testing import RecordingGuard
from tests.guard.seen import executed, proposed, record

SMALL = Policy(
    rules=[{"id": "small", "allow": "tool", "args": {"given": {"properties": {"n": {"maximum": 9}}}}}]
)


def test_a_call_that_is_denied_when_proposed_is_not_judged_again():
    guard = RecordingGuard(Policy(allowed_tools=["other"]))
    guard.wrap(lambda: None, name="tool")
    with guard.session() as run, pytest.raises(ToolDenied) as caught:
        guard.call("tool")
    assert "proposal" == caught.value.moment
    assert ["SessionStarted", "Proposed", "Decided", "SessionEnded"] == [
        type(event).__name__ for event in record(run).events
    ]


@pytest.mark.parametrize("shape", ["generator", "async generator", "proposed call"])
def test_arguments_that_have_become_forbidden_before_the_entry_are_denied_at_the_entry(shape: str):
    guard = RecordingGuard(SMALL)
    entered: list[int] = []

    def plain(given: dict[str, int]) -> None:
        entered.append(given["n"])

    def generator(given: dict[str, int]) -> Iterator[int]:
        entered.append(given["n"])
        yield 1

    async def async_generator(given: dict[str, int]) -> Any:
        entered.append(given["n"])
        yield 1

    given = {"n": 1}
    with guard.session() as run:
        if shape == "generator":
            made = guard.wrap(generator, name="tool")(given)
            given["n"] = 10
            with pytest.raises(ToolDenied):
                next(made)
        elif shape == "async generator":
            made = guard.wrap(async_generator, name="tool")(given)
            given["n"] = 10
            with pytest.raises(ToolDenied):
                asyncio.run(anext(made))
        else:
            guard.wrap(plain, name="tool")
            [call] = run.propose([{"name": "tool", "arguments": {"given": given}}])
            given["n"] = 10
            with pytest.raises(ToolDenied):
                call.run()
    assert [] == entered
    assert ["denied"] == [proposal.end for proposal in proposed(run)]
    card = run.score()
    assert ["denied_at_entry"] == [finding.kind for finding in card.reconciliation]
    assert (1, 1, 0) == (card.planner.authorized, card.planner.total, card.execution.total)


@pytest.fixture
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("per", ["session", "principal"])
def test_threads_never_overshoot_a_limit(per: str):
    """FIELD 4 and 5; case I02: fifty at once, exactly two are entered, and the record has no gap."""
    policy = Policy(rules=[{"id": "two", "allow": "tool", "limit": {"executions": 2, "per": per}}])
    for _ in range(20):
        guard = RecordingGuard(policy)
        entered: list[int] = []
        tool = guard.wrap(lambda n, entered=entered: entered.append(n), name="tool")
        gate = threading.Barrier(10)

        def call(n: int, gate: threading.Barrier = gate, tool: Any = tool) -> None:
            gate.wait()
            for _ in range(5):
                with contextlib.suppress(ToolDenied):
                    tool(n)

        with guard.session(principal="u") as run, ThreadPoolExecutor(10) as pool:
            list(pool.map(run.bind(call), range(10)))
        assert 2 == len(entered)
        events = record(run).events
        assert list(range(len(events))) == [event.sequence for event in events]
        card = run.score()
        assert [] == [finding for finding in card.reconciliation if finding.fails]
        assert (2, 50, 2) == (card.planner.authorized, card.planner.total, card.execution.authorized)


def test_the_lock_is_held_while_a_call_is_decided(monkeypatch: pytest.MonkeyPatch):
    """What keeps two calls from taking the last unit both: no decision begins before another is on record."""
    inside: list[int] = []
    most: list[int] = []

    def slow(*args: Any, **kwargs: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.002)
        inside.pop()
        return decide(*args, **kwargs)

    monkeypatch.setattr(docket_module, "decide", slow)
    guard = Guard(Policy(rules=[{"id": "some", "allow": "tool", "limit": {"executions": 9}}], default="deny"))
    tool = guard.wrap(lambda n: n, name="tool")
    with guard.session() as run, ThreadPoolExecutor(5) as pool:
        list(pool.map(run.bind(tool), range(5)))
    assert 1 == max(most)
    assert 10 == len(most)


def test_a_failure_of_the_engine_is_on_record(monkeypatch: pytest.MonkeyPatch):
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret")

    guard = RecordingGuard(Policy(allowed_tools=["tool"]))
    tool = guard.wrap(lambda: "ran", name="tool")
    with guard.session() as run:
        monkeypatch.setattr(docket_module, "decide", broken)
        with pytest.raises(ToolDenied, match="the guard failed: `RuntimeError`"):
            tool()
        monkeypatch.undo()
    assert ["denied"] == [proposal.end for proposal in proposed(run)]
    assert "secret" not in str(record(run).events)


def test_two_proposals_of_one_id_are_entered_one_each():
    """Providers repeat ids: two calls of one message may share one."""
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))
    guard.wrap(lambda x: x, name="tool")
    with guard.session() as run:
        run.propose([{"id": "c", "name": "tool", "arguments": {"x": x}} for x in (1, 1)])
        assert [1, 1] == [guard.call("tool", {"x": 1}, call_id="c") for _ in range(2)]
    assert 2 == len({execution.call.call_id for execution in executed(run)})
    assert ["executed", "executed"] == [proposal.end for proposal in proposed(run)]


def test_what_a_session_holds_is_free_for_others_when_it_ends():
    """A proposal that was never entered gives its unit back."""
    policy = Policy(rules=[{"id": "one", "allow": "tool", "limit": {"executions": 1, "per": "principal"}}])
    guard = Guard(policy)
    guard.wrap(lambda: "ran", name="tool")
    with guard.session("first", principal="u") as run:
        [call] = run.propose([{"name": "tool"}])
        assert call.allowed
        with guard.session("second", principal="u"), pytest.raises(ToolDenied):
            guard.call("tool")
    with guard.session("third", principal="u"):
        assert "ran" == guard.call("tool")


def test_what_is_sent_and_thrown_into_a_generator_reaches_it():
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))

    def echo() -> Any:
        got = yield "first"
        while True:
            try:
                got = yield got
            except KeyError as error:
                got = repr(error)

    made = guard.wrap(echo, name="tool")()
    assert ["first", "a"] == [next(made), made.send("a")]
    assert "KeyError('x')" == made.throw(KeyError("x"))
    made.close()
    assert ["cancelled"] == [execution.outcome for execution in guard.executions]


def test_what_is_sent_and_thrown_into_an_async_generator_reaches_it():
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))
    closed: list[str] = []

    async def echo() -> Any:
        got: Any = "first"
        try:
            while True:
                try:
                    got = yield got
                except KeyError as error:
                    got = repr(error)
        finally:
            closed.append("closed")

    async def main() -> list[str]:
        made = guard.wrap(echo, name="tool")()
        items = [await anext(made), await made.asend("a"), await made.athrow(KeyError("x"))]
        await made.aclose()
        assert ["closed"] == closed
        return items

    assert ["first", "a", "KeyError('x')"] == asyncio.run(main())
    assert ["cancelled"] == [execution.outcome for execution in guard.executions]


@pytest.mark.parametrize(("raises", "outcome"), [(False, "succeeded"), (True, "failed")])
def test_a_task_that_a_function_returns_is_recorded_when_it_ends(raises: bool, outcome: str):
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))

    async def work() -> None:
        await asyncio.sleep(0)
        if raises:
            raise KeyError

    async def main() -> None:
        with guard.session():
            task = guard.wrap(lambda: asyncio.ensure_future(work()), name="tool")()
            assert ["unfinished"] == [execution.outcome for execution in guard.executions]
            with contextlib.suppress(KeyError):
                await task

    asyncio.run(main())
    assert [outcome] == [execution.outcome for execution in guard.executions]


def test_the_remembered_sessions_are_bounded():
    guard = Guard(Policy(allowed_tools=["tool"]))
    for number in range(1_100):
        with guard.session(f"s{number}"):
            pass
    assert (0, 1_000) == (len(guard._open), len(guard._ended))
