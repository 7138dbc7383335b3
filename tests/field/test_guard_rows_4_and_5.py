"""
Rows 4 and 5 of the survey: limits that parallel calls overshoot, and evidence about another thing.

The inputs are those on which other guards were seen to fail: five calls at once, or five checks
before anything is recorded, under a limit of two; and one order that unlocks another.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gatescore import Policy, ToolDenied
from gatescore.testing import RecordingGuard
from tests.guard.seen import executed, proposed


class WrongError(Exception):
    """What a tool or an approver raises."""


def limit(units: int = 2, unit: str = "executions", effect: str = "allow") -> Policy:
    return Policy(rules=[{"id": "two", effect: "tool", "limit": {unit: units}}])


class Bodies:
    """The bodies of a tool, each of which ends only after five calls have been decided, or two have begun."""

    def __init__(self) -> None:
        self.entered: list[int] = []
        self.decided: list[object] = []
        self.all_decided = threading.Event()
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self.entered.append(1)
        self.decide("entered")
        assert self.all_decided.wait(30)

    def decide(self, what: object) -> None:
        with self._lock:
            self.decided.append(what)
            if len(self.decided) == 5:
                self.all_decided.set()

    def text(self) -> str:
        self.enter()
        return "DENIED"

    def raising(self) -> None:
        self.enter()
        raise WrongError

    def generator(self) -> Iterator[int]:
        self.enter()
        yield 1

    async def coroutine(self) -> str:
        await asyncio.to_thread(self.enter)
        return "ran"

    async def raising_later(self) -> None:
        await asyncio.to_thread(self.enter)
        raise WrongError

    async def async_generator(self) -> Any:
        await asyncio.to_thread(self.enter)
        yield 1


KINDS = ["text", "raising", "generator", "coroutine", "raising_later", "async_generator"]


async def finished(made: Any) -> None:
    if hasattr(made, "__aiter__"):
        async for _ in made:
            pass
    elif hasattr(made, "__await__"):
        await made
    elif hasattr(made, "__next__"):
        list(made)


@pytest.mark.parametrize("unit", ["executions", "calls"])
@pytest.mark.parametrize("kind", KINDS)
def test_row_4_of_five_parallel_calls_under_a_limit_of_two_two_are_entered(kind: str, unit: str):
    """Also where the bodies raise, return texts, or are async: what has started has used its slot."""
    guard = RecordingGuard(limit(unit=unit))
    bodies = Bodies()
    tool: Any = guard.wrap(getattr(bodies, kind), name="tool")
    gate = threading.Barrier(5)

    def call(_: int) -> None:
        gate.wait(30)
        try:
            with contextlib.suppress(WrongError):
                asyncio.run(finished(tool()))
        except ToolDenied:
            bodies.decide("denied")

    with guard.session() as run, ThreadPoolExecutor(5) as pool:
        list(pool.map(run.bind(call), range(5)))
    assert 2 == len(bodies.entered)
    assert {"failed" if "raising" in kind else "succeeded"} == {e.outcome for e in executed(run)}
    card = run.score()
    assert (1.0, 2, 2) == (card.execution.score, card.execution.authorized, card.execution.total)
    assert [] == [finding for finding in card.reconciliation if finding.fails]


@pytest.mark.parametrize("kind", ["coroutine", "raising_later"])
def test_row_4_of_five_tasks_under_a_limit_of_two_two_are_entered(kind: str):
    guard = RecordingGuard(limit())
    bodies = Bodies()
    tool: Any = guard.wrap(getattr(bodies, kind), name="tool")

    async def call() -> None:
        try:
            with contextlib.suppress(WrongError):
                await tool()
        except ToolDenied:
            bodies.decide("denied")

    async def main() -> None:
        await asyncio.wait_for(asyncio.gather(*(call() for _ in range(5))), 30)

    with guard.session() as run:
        asyncio.run(main())
    assert 2 == len(bodies.entered)
    assert (2, 5) == (run.score().planner.authorized, run.score().planner.total)


def answering(value: object) -> Callable[[object], Any]:
    def approver(request: object) -> object:
        if isinstance(value, BaseException):
            raise value
        return value

    return approver


def answering_async(value: object) -> Callable[[object], Any]:
    sync = answering(value)

    async def approver(request: object) -> object:
        return sync(request)

    return approver


@pytest.mark.parametrize("how", [answering, answering_async], ids=["sync", "async"])
@pytest.mark.parametrize(
    "answer", [True, "yes", WrongError("yes"), None], ids=["yes", "text", "raises", "None"]
)
def test_row_4_of_five_calls_that_a_person_is_asked_about_no_more_than_two_are_entered(
    answer: object, how: Callable[[object], Any]
):
    """All five are asked about before any is answered: five yeses are two entries, and no yes is none."""
    guard = RecordingGuard(limit(effect="ask"))
    all_asked = threading.Barrier(5)
    approver = how(answer)

    def person(request: object) -> Any:
        all_asked.wait(30)
        return approver(request)

    guard.approver = person
    entered: list[int] = []
    tool = guard.wrap(lambda: entered.append(1), name="tool")
    denied: list[str] = []

    def call(_: int) -> None:
        try:
            tool()
        except ToolDenied as refused:
            denied.append(str(refused))

    with guard.session("s") as run, ThreadPoolExecutor(5) as pool:
        list(pool.map(run.bind(call), range(5)))
    yes = 2 if answer is True else 0
    assert (yes, 5 - yes) == (len(entered), len(denied))
    assert yes == sum(execution.approved for execution in executed(run))
    if yes:
        assert all("its limit of 2 executions is spent" in text for text in denied)
    card = run.score()
    assert [] == [finding.kind for finding in card.reconciliation if finding.fails]
    # What was refused has used nothing: there is room for two more.
    guard.approver = answering(True)
    with guard.session("s"):
        for _ in range(2 - yes):
            guard.call("tool")
        with pytest.raises(ToolDenied):
            guard.call("tool")
    assert 2 == len(entered)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_row_5_five_checks_before_anything_runs_let_two_through(order: tuple[int, ...]):
    guard = RecordingGuard(limit())
    entered: list[int] = []
    guard.wrap(entered.append, name="tool")
    policy_call = {"name": "tool", "arguments": {"object": 1}}
    with guard.session() as run:
        calls = [call for _ in range(5) for call in run.propose([policy_call])]
        assert [True, True, False, False, False] == [call.allowed for call in calls]
        for number in order:
            with contextlib.suppress(ToolDenied):
                calls[number].run()
        with pytest.raises(ToolDenied):
            guard.call("tool", {"object": 1})
    assert 2 == len(entered)
    assert (2, 6) == (run.score().planner.authorized, run.score().planner.total)
    assert ["executed"] * 2 + ["denied"] * 4 == [proposal.end for proposal in proposed(run)]


OWN = {"id": "own", "allow": "cancel_order", "after": {"tool": "get_order", "same": ["order_id"]}}
UNLOCK = Policy(rules=[{"id": "read", "allow": "get_order"}, OWN])


def orders(policy: Policy = UNLOCK, **options: Any) -> RecordingGuard:
    guard = RecordingGuard(policy, **options)

    def get_order(order_id: Any) -> str:
        if order_id == "gone":
            raise WrongError
        return "an order"

    def cancel_order(order_id: Any) -> str:
        return "cancelled"

    guard.wrap(get_order)
    guard.wrap(cancel_order)
    return guard


@pytest.mark.parametrize(
    ("read", "cancelled", "unlocked"),
    [
        ("814", "814", True),
        ("999", "814", False),
        (814, "814", False),
        ("814 ", "814", False),
        ("814", None, False),
        ("gone", "gone", False),
        (["814"], "814", False),
    ],
)
def test_row_5_one_order_does_not_unlock_another(read: object, cancelled: object, unlocked: bool):
    """What was read must be the same order, and its reading must have succeeded."""
    guard = orders()
    with guard.session() as run:
        with contextlib.suppress(WrongError, ToolDenied):
            guard.call("get_order", {"order_id": read})
        if unlocked:
            assert "cancelled" == guard.call("cancel_order", {"order_id": cancelled})
        else:
            with pytest.raises(ToolDenied):
                guard.call("cancel_order", {"order_id": cancelled})
            guard.assert_not_entered("cancel_order")
    assert [] == [finding for finding in run.score().reconciliation if finding.fails]


@pytest.mark.parametrize("answer", [False, "yes", WrongError()], ids=["no", "text", "raises"])
@pytest.mark.parametrize("how", [answering, answering_async], ids=["sync", "async"])
def test_row_5_a_reading_that_was_refused_unlocks_nothing(answer: object, how: Callable[[object], Any]):
    guard = orders(Policy(rules=[{"id": "read", "ask": "get_order"}, OWN]), approver=how(answer))
    with guard.session():
        with pytest.raises(ToolDenied):
            guard.call("get_order", {"order_id": "814"})
        with pytest.raises(ToolDenied):
            guard.call("cancel_order", {"order_id": "814"})
    guard.assert_not_entered("cancel_order")


def test_row_5_a_reading_that_is_proposed_beside_it_or_still_running_unlocks_nothing():
    guard = RecordingGuard(UNLOCK)
    seen: list[bool] = []

    def get_order(order_id: str) -> None:
        try:
            guard.call("cancel_order", {"order_id": order_id})
        except ToolDenied:
            seen.append(False)

    guard.wrap(get_order)
    guard.wrap(lambda order_id: order_id, name="cancel_order")
    with guard.session() as run:
        calls = run.propose(
            [{"name": name, "arguments": {"order_id": "814"}} for name in ("get_order", "cancel_order")]
        )
        assert [True, False] == [call.allowed for call in calls]
        calls[0].run()
        assert [False] == seen
        with pytest.raises(ToolDenied):
            calls[1].run()
        assert "814" == guard.call("cancel_order", {"order_id": "814"})


def test_row_5_of_two_readings_under_one_id_each_unlocks_its_own_order_alone():
    """The reading of 814 is still under way, and fails, when that of 999 is done: it must not count for it."""
    guard = RecordingGuard(UNLOCK)
    inside = {"999": threading.Event(), "814": threading.Event()}
    other_done = threading.Event()

    def get_order(order_id: str) -> None:
        inside[order_id].set()
        if order_id == "999":
            assert inside["814"].wait(30)
        else:
            assert other_done.wait(30)
            raise WrongError

    guard.wrap(get_order)
    guard.wrap(lambda order_id: order_id, name="cancel_order")

    def read(order_id: str) -> None:
        with contextlib.suppress(WrongError):
            guard.call("get_order", {"order_id": order_id}, call_id="c1")

    def cancelled(order_id: str) -> bool:
        try:
            guard.call("cancel_order", {"order_id": order_id})
        except ToolDenied:
            return False
        return True

    with guard.session() as run, ThreadPoolExecutor(2) as pool:
        run.propose([{"id": "c1", "name": "get_order", "arguments": {"order_id": "814"}}])
        readings = [pool.submit(run.bind(read), "999")]
        assert inside["999"].wait(30)
        readings.append(pool.submit(run.bind(read), "814"))
        readings[0].result(30)
        while_it_is_read = cancelled("814")
        other_done.set()
        readings[1].result(30)
        assert (False, False, True) == (while_it_is_read, cancelled("814"), cancelled("999"))
