"""
Public faults of kind I: loops that never end, batches that are stopped, and what a retry does.

Each test has the id of a fault in its name, and goes through the whole kind of it. Executions and
proposals are counted apart; a stop lasts; a retry is another attempt, and a new call a repetition.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gatescore import ApprovalRequest, Policy, ToolDenied
from gatescore.guard import Refusal, Run
from tests.faults.watched import (
    BOUND,
    Person,
    Watched,
    called,
    ends,
    entries,
    failing,
    given,
    guarding,
    limited,
    shares,
)
from tests.guard.seen import executed, proposed

# I04: a run of refusals ends the run

STOP = {"proposals": 5, "then": "stop"}

LOOPS: dict[str, tuple[dict[str, Any], Any]] = {
    "denied": ({"deny": "write"}, {"x": 1}),
    "denied by its arguments": ({"deny": "write", "args": {"x": {"minimum": 1}}}, {"x": 1}),
    "refused by a person": ({"ask": "write"}, {"x": 1}),
    "not JSON": ({"allow": "write"}, '{"x": '),
    "not fitting": ({"allow": "write"}, {"y": 1}),
}


@pytest.mark.parametrize("how", ["called", "proposed"])
@pytest.mark.parametrize(("rule", "arguments"), LOOPS.values(), ids=LOOPS)
def test_i04_a_loop_of_refused_calls_ends_the_run(rule: dict[str, Any], arguments: Any, how: str):
    rules = [{"id": "loop", **rule}, {"id": "budget", "allow": ["write", "other"], "limit": STOP}]
    if rule == {"deny": "write"}:
        rules = [{"id": "loop", **rule, "limit": STOP}, {"id": "other", "allow": "other"}]
    guard = Watched(Policy(rules=rules), approver=Person(lambda request: False))

    def write(x: int) -> None: ...

    guard.wrap(write)
    guard.wrap(given, name="other")
    stopped: list[bool] = []
    with guard.session() as run:
        for number in range(8):
            if how == "called":
                assert not called(guard, "write", arguments, f"c{number}")
            else:
                [call] = run.propose([{"id": f"c{number}", "name": "write", "arguments": arguments}])
                with pytest.raises(ToolDenied):
                    call.run()
            stopped.append(run.stopped)
        with pytest.raises(ToolDenied, match="the session has been stopped"):
            guard.call("other")
    assert [False] * 5 + [True] * 3 == stopped
    assert [] == entries(run)
    card = guard.card(run)
    assert 9 == card.planner.total
    assert 1.0 == card.execution.score
    assert [] == failing(card)
    if "ask" in rule:
        assert ["rejected"] * 5 + ["denied"] * 4 == ends(run)
    else:
        assert 0.0 == card.planner.score


def test_i04_a_loop_over_a_tool_that_does_not_exist_ends_the_run():
    guard = Watched(limited(STOP, "*"))
    with guard.session() as run:
        for number in range(6):
            assert not called(guard, "wirte", {}, f"c{number}")
    assert run.stopped


def stopped_by(guard: Watched, run: Run) -> None:
    for _ in range(2):
        called(guard, "loop")
    assert run.stopped


@pytest.mark.parametrize(
    "what", ["proposed", "asked about", "attempt", "generator", "nested", "opened again"]
)
def test_i04_a_stop_holds_for_all_that_had_been_let_through_before(what: str):
    approving: list[Callable[[], None]] = []

    def answer(request: ApprovalRequest) -> bool:
        approving.pop()()
        return True

    policy = Policy(
        rules=[
            {"id": "loop", "deny": "loop", "limit": {"proposals": 1, "then": "stop"}},
            {"id": "ask", "ask": "asked"},
            {"id": "rest", "allow": ["tool", "pages", "outer"]},
        ]
    )
    guard = guarding(policy, "loop", "asked", "tool", approver=answer)
    read: list[int] = []

    def pages() -> Any:
        read.append(1)
        yield 1

    def outer() -> bool:
        stopped_by(guard, run)
        return called(guard, "tool")

    guard.wrap(pages)
    guard.wrap(outer)
    expected: list[tuple[str, dict[str, Any]]] = []
    with guard.session("s") as run:
        if what == "proposed":
            [call] = run.propose([{"id": "c1", "name": "tool"}])
            stopped_by(guard, run)
            with pytest.raises(ToolDenied, match="the session has been stopped"):
                call.run()
        elif what == "asked about":
            approving.append(lambda: stopped_by(guard, run))
            assert not called(guard, "asked")
        elif what == "attempt":
            expected = [("tool", {})]
            assert called(guard, "tool", {}, "c1")
            stopped_by(guard, run)
            assert not called(guard, "tool", {}, "c1")
        elif what == "generator":
            made = guard.call("pages")
            stopped_by(guard, run)
            with pytest.raises(ToolDenied, match="the session has been stopped"):
                next(made)
        elif what == "nested":
            expected = [("outer", {})]
            assert guard.call("outer") is False
        else:
            stopped_by(guard, run)
    if what == "opened again":
        with guard.session("s"):
            assert not called(guard, "tool")
    assert (expected, []) == (entries(run), read)
    assert [] == failing(guard.card(run))


def test_i04_refusals_use_no_slot_of_an_execution_and_executions_no_slot_of_a_refusal():
    policy = Policy(
        rules=[
            {"id": "two", "allow": "write", "limit": {"executions": 2}},
            {"id": "never", "deny": "write", "args": {"to": {"pattern": "^/ro"}}},
            {"id": "six", "allow": "write", "limit": {"proposals": 6, "then": "stop"}},
        ]
    )
    guard = guarding(policy, "write")
    with guard.session() as run:
        seen = [called(guard, "write", {"to": to}) for to in ("/ro", "/ro", "/ro", "/a", "/b", "/c")]
        assert [False, False, False, True, True, False] == seen
        assert not run.stopped
        assert not called(guard, "write", {"to": "/d"})
        assert run.stopped
    assert (2, 7, 2, 2) == shares(guard.card(run))


# I05: every call is answered, also where the run stops


@pytest.mark.parametrize("limit", [{"executions": 1}, {"proposals": 1}, {"proposals": 1, "then": "stop"}])
def test_i05_every_call_of_a_batch_that_is_cut_is_answered_by_its_id(limit: dict[str, Any]):
    guard = guarding(limited(limit, "a", "b"), "a", "b", on_deny="return")
    with guard.session() as run:
        first, second, third = run.propose([{"id": f"c{n}", "name": name} for n, name in enumerate("aba", 1)])
        assert [True, False, False] == [call.allowed for call in (first, second, third)]
        results = [call.run() for call in (third, second, first)]
    for call, result in zip((third, second), results, strict=False):
        assert isinstance(result, Refusal)
        assert call.id == result.call.host_call_id
    stops = "then" in limit
    assert isinstance(results[2], Refusal) == stops
    assert ["denied" if stops else "executed", "denied", "denied"] == ends(run)
    card = guard.card(run)
    assert (1, 3, not stops, not stops) == shares(card)
    assert [] == failing(card)


# I06: a retry of the same call, and the same effect again

CHARGE = {"customer": 1, "invoice": 9}


def charging(*safe: str) -> Policy:
    tool: dict[str, Any] = {"once_per": ["customer", "invoice"]}
    if safe:
        tool["safe_to_repeat"] = list(safe)
    return Policy(allowed_tools=["charge"], tools={"charge": tool})


class Charge:
    """A tool that does what each of its calls is told."""

    def __init__(self, *results: BaseException | Callable[[], None] | None) -> None:
        self.results = list(results)

    def __call__(self, customer: int, invoice: int, note: str = "") -> str:
        result = self.results.pop(0) if self.results else None
        if isinstance(result, BaseException):
            raise result
        if result is not None:
            result()
        return "charged"


def test_i06_a_retry_after_a_time_out_is_an_attempt_and_a_new_call_is_denied():
    guard = Watched(charging())
    guard.wrap(Charge(TimeoutError()), name="charge")
    with guard.session() as run:
        with pytest.raises(TimeoutError):
            guard.call("charge", CHARGE, call_id="c1")
        with pytest.raises(ToolDenied, match="it runs only once"):
            guard.call("charge", CHARGE, call_id="c2")
        assert "charged" == guard.call("charge", CHARGE, call_id="c1")
        with pytest.raises(ToolDenied, match="it runs only once"):
            guard.call("charge", {**CHARGE, "note": "again"}, call_id="c3")
    assert ["c1", "c2", "c3"] == [proposal.call.host_call_id for proposal in proposed(run)]
    first, second = executed(run)
    assert (first.attempt, first.outcome) == (1, "unfinished")
    assert (second.attempt, second.outcome) == (2, "succeeded")
    assert first.call.call_id == second.call.call_id
    card = guard.card(run)
    assert (1, 3, 2, 2) == shares(card)
    assert [] == failing(card)


@pytest.mark.parametrize(
    ("error", "safe", "new", "again"),
    [
        (None, (), False, False),
        (None, ("failed",), False, False),
        (KeyError(), (), False, True),
        (KeyError(), ("failed",), True, True),
        (TimeoutError(), ("failed",), False, True),
        (asyncio.CancelledError(), (), False, True),
        (asyncio.CancelledError(), ("cancelled",), True, True),
    ],
    ids=[
        "success",
        "success, failures safe",
        "failure",
        "safe failure",
        "time-out",
        "cancelled",
        "safely cancelled",
    ],
)
def test_i06_whether_an_effect_may_be_had_again_depends_on_what_is_known_of_it(
    error: BaseException | None, safe: tuple[str, ...], new: bool, again: bool
):
    for call_id, expected in (("c2", new), (None, new), ("c1", again)):
        guard = Watched(charging(*safe))
        guard.wrap(Charge(error), name="charge")
        with guard.session() as run:
            if error is None:
                guard.call("charge", CHARGE, call_id="c1")
            else:
                with pytest.raises(type(error)):
                    guard.call("charge", CHARGE, call_id="c1")
            assert expected == called(guard, "charge", CHARGE, call_id)
            assert called(guard, "charge", {**CHARGE, "invoice": 10})
        assert [] == failing(guard.card(run))


def test_i06_of_parallel_calls_with_one_effect_one_runs_and_the_rest_are_denied_while_it_does():
    guard = Watched(charging())
    all_refused = threading.Event()
    gate = threading.Barrier(10)
    refused: list[int] = []
    lock = threading.Lock()

    def wait() -> None:
        assert all_refused.wait(BOUND)

    guard.wrap(Charge(wait, wait), name="charge")

    def charge(number: int) -> None:
        gate.wait(BOUND)
        if not called(guard, "charge", CHARGE, f"c{number}"):
            with lock:
                refused.append(number)
                if len(refused) == 9:
                    all_refused.set()

    with guard.session() as run, ThreadPoolExecutor(10) as pool:
        list(pool.map(run.bind(charge), range(10)))
    assert (1, 9) == (len(entries(run)), len(refused))
    assert (1, 10, 1, 1) == shares(guard.card(run))


def test_i06_a_success_is_remembered_where_two_attempts_of_a_call_overlap():
    """The first attempt is still running when the runtime tries again; it fails, and then the second succeeds."""
    guard = Watched(charging("failed"))
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        first_in.set()
        assert second_in.wait(BOUND)
        raise KeyError

    def second() -> None:
        second_in.set()
        assert first_out.wait(BOUND)

    guard.wrap(Charge(first, second), name="charge")

    def attempt_1() -> None:
        with pytest.raises(KeyError):
            guard.call("charge", CHARGE, call_id="c1")
        first_out.set()

    with guard.session() as run, ThreadPoolExecutor(2) as pool:
        started = pool.submit(run.bind(attempt_1))
        assert first_in.wait(BOUND)
        assert "charged" == guard.call("charge", CHARGE, call_id="c1")
        started.result(BOUND)
        assert not called(guard, "charge", CHARGE, "c1")
        assert not called(guard, "charge", CHARGE, "c2")
    assert ["failed", "succeeded"] == [execution.outcome for execution in executed(run)]
    assert [] == failing(guard.card(run))


@pytest.mark.parametrize(
    ("unit", "same", "new"),
    [
        ("executions", [True, True, False], [True, True, False]),
        ("calls", [True, True, True], [True, True, False]),
        ("proposals", [True, True, True], [True, True, False]),
    ],
)
def test_i06_what_a_retry_counts_as(unit: str, same: list[bool], new: list[bool]):
    """Attempts of one call are executions of their own, and one call of one proposal; new calls are all three."""
    for ids, expected in ((["c1"] * 3, same), (["c1", "c2", "c3"], new)):
        for per in ("session", "principal", "tool"):
            guard = guarding(limited({unit: 2, "per": per}, "search"), "search")
            with guard.session(principal="u") as run:
                assert expected == [called(guard, "search", {"q": 1}, call_id) for call_id in ids]
            assert [] == failing(guard.card(run))
