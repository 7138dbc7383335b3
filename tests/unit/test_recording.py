"""What the events of a record say of its two streams."""

from __future__ import annotations

from typing import Any

import pytest

from gatescore.model import (
    Abandoned,
    Approved,
    Decided,
    Decision,
    Effect,
    End,
    Event,
    Executor,
    Finished,
    Join,
    Mode,
    Moment,
    Origin,
    Outcome,
    Position,
    Proposed,
    Record,
    Rejected,
    Session,
    SessionEnded,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.recording import session_of

POLICY = "sha256:p"
ENFORCED = SessionStarted(session_id="s", mode=Mode.ENFORCE)
MONITORED = SessionStarted(session_id="s", mode=Mode.MONITOR)
ENDED = SessionEnded()
ABANDONED = Abandoned(call_id="c")
REJECTED = Rejected(call_id="c")
EXPIRED = Rejected(call_id="c", expired=True)


def call(call_id: str = "c", digest: str | None = "d") -> ToolCall:
    return ToolCall.recorded("cancel", {"id": 1}, call_id=call_id, digest=digest)


def decided(effect: str, moment: Moment = Moment.PROPOSAL, call_id: str = "c", **more: Any) -> Decided:
    decision = Decision(Effect(effect), (), "because", more.pop("policy", POLICY), **more)
    return Decided(call_id=call_id, moment=moment, decision=decision)


def entry(effect: str, **more: Any) -> Decided:
    return decided(effect, Moment.ENTRY, **more)


def started(call_id: str = "c", **more: Any) -> Started:
    return Started(call=call(call_id), **more)


def approved(**more: Any) -> Approved:
    return Approved(**{"call_id": "c", "arguments": "d", "policy_digest": POLICY, **more})


def read(*events: Event, inherited: int = 0) -> Session:
    return session_of(Record(events=events, inherited=inherited), source="here")


def proposal(*events: Event, start: SessionStarted = ENFORCED) -> Any:
    session = read(start, Proposed(call=call()), *events)
    assert session.proposed is not None
    [only] = session.proposed
    return only


def executions(*events: Event) -> Any:
    executed = read(ENFORCED, Proposed(call=call()), *events).executed
    assert executed is not None
    return executed


def test_a_session_is_what_its_start_says():
    start = SessionStarted(
        session_id="s", principal="user:1", attributes={"n": 1}, catalog=frozenset({"cancel"})
    )
    session = read(start)
    assert ("s", "user:1", {"n": 1}, frozenset({"cancel"}), "here") == (
        session.id,
        session.principal,
        session.attributes,
        session.catalog,
        session.source,
    )
    assert ([], []) == (session.proposed, session.executed)
    assert session.record is not None
    assert session.error is None


def test_a_record_without_a_start_has_streams_all_the_same():
    session = read(Proposed(call=call()), started())
    assert ("", 1, 1) == (session.id, len(session.proposed or ()), len(session.executed or ()))


def test_an_executed_stream_that_was_not_observed_is_none():
    start = SessionStarted(session_id="s", observed=False)
    assert read(start, Proposed(call=call())).executed is None
    assert len(read(start, started()).executed or ()) == 1


ENDS = {
    "pending": ((decided("allow"),), None),
    "executed": ((decided("allow"), entry("allow"), started()), End.EXECUTED),
    "denied when proposed": ((decided("deny"),), End.DENIED),
    "denied when entered": ((decided("allow"), entry("deny")), End.DENIED),
    "denied when entered, and later let through": ((decided("allow"), entry("deny"), entry("allow")), None),
    "denied when proposed, whatever the entry says": ((decided("deny"), entry("allow")), End.DENIED),
    "denied, and executed nevertheless": ((decided("deny"), started()), End.EXECUTED),
    "executed, and another attempt denied": ((decided("allow"), started(), entry("deny")), End.EXECUTED),
    "invalid": ((decided("deny", invalid="not JSON"),), End.INVALID),
    "invalid when entered": ((decided("allow"), entry("deny", invalid="not JSON")), End.DENIED),
    "rejected": ((decided("ask"), REJECTED), End.REJECTED),
    "expired": ((decided("ask"), EXPIRED), End.EXPIRED),
    "rejected, and agreed to later": ((decided("ask"), REJECTED, approved()), None),
    "abandoned": ((decided("allow"), ABANDONED), End.ABANDONED),
    "abandoned by the end of the session": ((decided("allow"), ENDED), End.ABANDONED),
    "denied before the end of the session": ((decided("deny"), ENDED), End.DENIED),
    "executed after the end": ((decided("allow"), ENDED, started()), End.EXECUTED),
}


@pytest.mark.parametrize(("events", "end"), ENDS.values(), ids=ENDS.keys())
def test_how_a_proposal_ended(events: tuple[Event, ...], end: End | None):
    found = proposal(*events)
    assert end is found.end
    assert (end in (End.DENIED, End.INVALID, End.REJECTED, End.EXPIRED)) == found.refused


def test_in_monitor_mode_nothing_is_refused():
    assert proposal(decided("deny"), start=MONITORED).end is None
    assert proposal(decided("deny"), entry("deny"), started(), start=MONITORED).end is End.EXECUTED
    assert proposal(decided("deny"), ENDED, start=MONITORED).end is End.ABANDONED


def test_a_session_that_goes_on_after_its_end_has_pending_proposals_again():
    session = read(
        ENFORCED, Proposed(call=call("a")), ENDED, ENFORCED, Proposed(call=call("b")), decided("allow")
    )
    assert [End.ABANDONED, None] == [p.end for p in session.proposed or ()]


@pytest.mark.parametrize(
    ("events", "end", "selected"),
    [((), End.NOT_SELECTED, False), ((ENDED,), End.NOT_SELECTED, False), ((started(),), End.EXECUTED, True)],
    ids=["dropped", "dropped, and over", "entered nevertheless"],
)
def test_a_proposal_that_was_not_selected(events: tuple[Event, ...], end: End, selected: bool):
    [found] = read(ENFORCED, Proposed(call=call(), selected=False), *events).proposed or ()
    assert (end, selected) == (found.end, found.selected)


def test_calls_of_one_message_are_one_turn():
    session = read(
        ENFORCED,
        Proposed(call=call("a"), message="m"),
        Proposed(call=call("b"), message="m"),
        Proposed(call=call("c")),
        Proposed(call=call("d")),
        Proposed(call=call("e"), message="n", origin=Origin.NESTED, edited_from="a", time=7),
        started("d"),
        started("stray"),
        started("b"),
    )
    assert [0, 0, 1, 2, 3] == [p.turn for p in session.proposed or ()]
    last = (session.proposed or ())[-1]
    assert (Origin.NESTED, "a", 7) == (last.origin, last.edited_from, last.time)
    # What no proposal joins is in the turn of the execution before it.
    assert [("d", 2, True), ("stray", 2, False), ("b", 0, True)] == [
        (e.call.call_id, e.turn, e.proposed) for e in session.executed or ()
    ]


def test_an_execution_is_what_its_start_and_end_say():
    [first, second, third] = executions(
        started(time=5, join=Join.ID, executor=Executor.PROVIDER),
        Finished(call_id="c", outcome=Outcome.FAILED, error_type="OSError"),
        started(attempt=2),
        Finished(call_id="c", outcome=Outcome.UNFINISHED, attempt=2),
        started(attempt=3),
    )
    assert (1, Executor.PROVIDER, Outcome.FAILED, "OSError", Join.ID, 5, False) == (
        first.attempt,
        first.executor,
        first.outcome,
        first.error_type,
        first.join,
        first.time,
        first.returned,
    )
    assert (2, Outcome.UNFINISHED, True) == (second.attempt, second.outcome, second.returned)
    assert (3, Outcome.UNFINISHED, False) == (third.attempt, third.outcome, third.returned)


ASKED = decided("ask"), entry("ask")
YESES: dict[str, tuple[tuple[Event, ...], bool]] = {
    "no yes": ((*ASKED, started()), False),
    "a yes": ((*ASKED, approved(), started()), True),
    "a yes that comes too late": ((*ASKED, started(), approved()), False),
    "a yes to another call": ((*ASKED, approved(call_id="other"), started()), False),
    "a yes to other arguments": ((*ASKED, approved(arguments="else"), started()), False),
    "a yes to no arguments": ((*ASKED, approved(arguments=None), started()), False),
    "no digest on either side": (
        (*ASKED, approved(arguments=None), Started(call=call(digest=None))),
        True,
    ),
    "no digest of what was entered": ((*ASKED, approved(), Started(call=call(digest=None))), False),
    "a yes under another policy": ((*ASKED, approved(policy_digest="sha256:q"), started()), False),
    "a yes before the entry was judged under another policy": (
        (decided("ask"), approved(), entry("ask", policy="sha256:q"), started()),
        False,
    ),
    "a yes before it expires": ((*ASKED, approved(expires=10), started(time=9)), True),
    "a yes as it expires": ((*ASKED, approved(expires=10), started(time=10)), False),
    "a yes that expires, at no known time": ((*ASKED, approved(expires=10), started()), False),
    "a yes that was taken back": ((*ASKED, approved(), REJECTED, started()), False),
    "a no, and then a yes": ((*ASKED, REJECTED, approved(), started()), True),
}


@pytest.mark.parametrize(("events", "valid"), YESES.values(), ids=YESES.keys())
def test_a_yes_covers_an_entry(events: tuple[Event, ...], valid: bool):
    [execution] = executions(*events)
    assert valid == execution.approved


@pytest.mark.parametrize(("attempts", "valid"), [(1, [True, False, False]), (2, [True, True, False])])
def test_a_yes_lasts_for_its_attempts(attempts: int, valid: list[bool]):
    entries = [started(attempt=number) for number in (1, 2, 3)]
    found = executions(*ASKED, approved(attempts=attempts), *entries)
    assert valid == [execution.approved for execution in found]


def test_a_proposal_is_approved_by_any_yes():
    assert proposal(decided("ask"), approved()).approved
    assert not proposal(decided("ask"), REJECTED).approved


def test_events_of_an_earlier_writer_are_in_no_stream():
    goes_on = SessionStarted(
        session_id="s", attributes={"n": 2}, continues=Position(writer="w", sequence=9), mode=Mode.ENFORCE
    )
    session = read(
        ENFORCED,
        Proposed(call=call("a")),
        decided("allow", call_id="a"),
        started("a"),
        Proposed(call=call("b")),
        goes_on,
        Finished(call_id="a", outcome=Outcome.SUCCEEDED),
        started("b"),
        Proposed(call=call("c")),
        inherited=5,
    )
    assert {"n": 2} == session.attributes
    assert ["c"] == [p.call.call_id for p in session.proposed or ()]
    assert [("b", True)] == [(e.call.call_id, e.proposed) for e in session.executed or ()]
