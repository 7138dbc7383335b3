"""
Events to the two streams of a session.

Nothing here judges: what a proposal came to, and how an execution ended, is what the events say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from gatescore.model import (
    Abandoned,
    Approved,
    Decided,
    Effect,
    End,
    Event,
    Execution,
    Finished,
    Mode,
    Moment,
    Outcome,
    Proposal,
    Proposed,
    Record,
    Rejected,
    Session,
    SessionEnded,
    SessionStarted,
    Started,
)


@dataclass(slots=True)
class _Call:
    """What the events say of one call so far."""

    verdict: Decided | None = None
    yes: Approved | None = None
    entries_left: int = 0
    agreed: bool = False
    started: bool = False
    barred: End | None = None  # by the verdict at the proposal, which no later one takes back
    denied: bool = False  # by the last verdict at the entry
    unanswered: End | None = None  # somebody said no, or nobody said yes
    abandoned: bool = False

    def end(self, *, selected: bool, over: bool) -> End | None:
        """How the call ended; None while it is pending. *over*: so is the session that it was put forward in."""
        if self.started:
            return End.EXECUTED
        refused = self.barred or (End.DENIED if self.denied else self.unanswered)
        if refused is not None:
            return refused
        if not selected:
            return End.NOT_SELECTED
        return End.ABANDONED if self.abandoned or over else None


def session_of(record: Record, *, source: str | None = None) -> Session:
    """
    Take the proposed and the executed stream from the events of *record*.

    Events of an earlier writer are history, and in no stream. The attributes are those at the start
    of what this writer recorded.

    Args:
        record: The events, in order.
        source: Where they were read.
    """
    started = _beginning(record)
    monitored = False
    calls: dict[str, _Call] = {}
    proposed: list[Proposed] = []
    open_from = 0  # the first of *proposed* that was put forward after the last end of the session
    entries: list[tuple[Started, bool]] = []
    finished: dict[tuple[str, int], Finished] = {}
    for position, event in enumerate(record.events):
        own = position >= record.inherited
        if isinstance(event, Proposed):
            calls.setdefault(event.call.call_id, _Call())
            if own:
                proposed.append(event)
        elif isinstance(event, Started):
            state = calls.setdefault(event.call.call_id, _Call())
            agreed = _agreed(state, event)
            state.started = True
            if own:
                entries.append((event, agreed))
        elif isinstance(event, Finished):
            finished[event.call_id, event.attempt] = event
        elif isinstance(event, SessionStarted):
            monitored = event.mode is Mode.MONITOR
        elif isinstance(event, SessionEnded):
            open_from = len(proposed)  # the session may go on after it
        elif isinstance(event, (Decided, Approved, Rejected, Abandoned)):
            _note(calls.setdefault(event.call_id, _Call()), event, monitored=monitored)
    known = {event.call.call_id for event in record.events if isinstance(event, Proposed)}
    turns = _turns(proposed)
    unobserved = started is not None and not started.observed and not entries
    return Session(
        id=started.session_id if started is not None else "",
        principal=started.principal if started is not None else None,
        attributes=started.attributes if started is not None else {},
        catalog=started.catalog if started is not None else None,
        proposed=[
            _proposal(event, calls[event.call.call_id], turns[event.call.call_id], over=number < open_from)
            for number, event in enumerate(proposed)
        ],
        executed=None if unobserved else _executions(entries, turns, known, finished),
        source=source,
        record=record,
    )


def _beginning(record: Record) -> SessionStarted | None:
    """Where this writer's part begins; without that, where the record does."""
    found: SessionStarted | None = None
    for position, event in enumerate(record.events):
        if isinstance(event, SessionStarted):
            if position >= record.inherited:
                return event
            found = found or event
    return found


def _turns(proposed: Sequence[Proposed]) -> dict[str, int]:
    """The turn of each call: calls of one message are one, others one each."""
    numbers: dict[object, int] = {}
    turns: dict[str, int] = {}
    for position, event in enumerate(proposed):
        group = position if event.message is None else event.message
        turns[event.call.call_id] = numbers.setdefault(group, len(numbers))
    return turns


def _note(state: _Call, event: Event, *, monitored: bool) -> None:
    if isinstance(event, Decided):
        state.verdict = event
        denied = event.decision.effect is Effect.DENY and not monitored
        if event.moment is Moment.ENTRY:
            state.denied = denied
        elif denied:
            state.barred = End.DENIED if event.decision.invalid is None else End.INVALID
    elif isinstance(event, Approved):
        state.yes, state.entries_left, state.agreed = event, event.attempts, True
        state.unanswered = None
    elif isinstance(event, Rejected):
        state.yes = None
        state.unanswered = End.EXPIRED if event.expired else End.REJECTED
    elif isinstance(event, Abandoned):
        state.abandoned = True


def _agreed(state: _Call, event: Started) -> bool:
    """Whether a yes covers this entry: to these arguments, under this policy, in time, and not used up."""
    yes, verdict = state.yes, state.verdict
    if yes is None or state.entries_left < 1:
        return False
    if yes.arguments != event.call.digest:
        return False
    if verdict is None or yes.policy_digest != verdict.decision.policy_digest:
        return False
    if yes.expires is not None and (event.time is None or event.time >= yes.expires):
        return False
    state.entries_left -= 1
    return True


def _proposal(event: Proposed, state: _Call, turn: int, *, over: bool) -> Proposal:
    end = state.end(selected=event.selected, over=over)
    return Proposal(
        call=event.call,
        origin=event.origin,
        turn=turn,
        time=event.time,
        approved=state.agreed,
        selected=event.selected or end is End.EXECUTED,
        refused=end in (End.DENIED, End.REJECTED, End.EXPIRED, End.INVALID),
        end=end,
        edited_from=event.edited_from,
    )


def _executions(
    entries: Sequence[tuple[Started, bool]],
    turns: Mapping[str, int],
    known: Set[str],
    finished: Mapping[tuple[str, int], Finished],
) -> list[Execution]:
    """One for each entry: in the turn of its proposal, or else in that of the entry before it."""
    executed: list[Execution] = []
    turn = 0
    for event, agreed in entries:
        call_id = event.call.call_id
        turn = turns.get(call_id, turn)
        executed.append(_execution(event, agreed, turn, call_id in known, finished))
    return executed


def _execution(
    event: Started, agreed: bool, turn: int, proposed: bool, finished: Mapping[tuple[str, int], Finished]
) -> Execution:
    end = finished.get((event.call.call_id, event.attempt))
    return Execution(
        call=event.call,
        proposed=proposed,
        turn=turn,
        attempt=event.attempt,
        executor=event.executor,
        outcome=Outcome.UNFINISHED if end is None else end.outcome,
        time=event.time,
        approved=agreed,
        join=event.join,
        error_type=None if end is None else end.error_type,
        returned=end is not None and end.outcome is Outcome.UNFINISHED,
    )
