"""
Events to the two streams of a session.

Nothing here judges: what a proposal came to, and how an execution ended, is what the events say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    end: End | None = None
    entered: list[Execution] = field(default_factory=lambda: [])


def session_of(record: Record, *, source: str | None = None) -> Session:
    """
    Take the proposed and the executed stream from the events of *record*.

    Events of an earlier writer are history, and in no stream. The attributes are those at the start.

    Args:
        record: The events, in order.
        source: Where they were read.
    """
    started = next((event for event in record.events if isinstance(event, SessionStarted)), None)
    monitored = started is not None and started.mode is Mode.MONITOR
    calls: dict[str, _Call] = {}
    proposed: list[Proposed] = []
    entries: list[tuple[Started, bool]] = []
    finished: dict[tuple[str, int], Finished] = {}
    ended = False
    for position, event in enumerate(record.events):
        own = position >= record.inherited
        if isinstance(event, Proposed):
            calls.setdefault(event.call.call_id, _Call())
            if own:
                proposed.append(event)
        elif isinstance(event, Started):
            state = calls.setdefault(event.call.call_id, _Call())
            agreed = _agreed(state, event)
            state.end = End.EXECUTED
            if own:
                entries.append((event, agreed))
        elif isinstance(event, Finished):
            finished[event.call_id, event.attempt] = event
        elif isinstance(event, SessionEnded):
            ended = True
        elif isinstance(event, (Decided, Approved, Rejected, Abandoned)):
            _note(calls.setdefault(event.call_id, _Call()), event, monitored=monitored)
    known = {event.call.call_id for event in record.events if isinstance(event, Proposed)}
    turns = _turns(proposed)
    return Session(
        id=started.session_id if started is not None else "",
        principal=started.principal if started is not None else None,
        attributes=started.attributes if started is not None else {},
        catalog=started.catalog if started is not None else None,
        proposed=[
            _proposal(event, calls[event.call.call_id], turns[event.call.call_id], over=ended)
            for event in proposed
        ],
        executed=[
            _execution(event, agreed, turns.get(event.call.call_id, 0), event.call.call_id in known, finished)
            for event, agreed in entries
        ],
        source=source,
        record=record,
    )


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
        if event.decision.effect is Effect.DENY and not monitored and state.end is None:
            invalid = event.decision.invalid is not None and event.moment is Moment.PROPOSAL
            state.end = End.INVALID if invalid else End.DENIED
    elif isinstance(event, Approved):
        state.yes, state.entries_left, state.agreed = event, event.attempts, True
    elif isinstance(event, Rejected):
        state.yes = None
        state.end = state.end or (End.EXPIRED if event.expired else End.REJECTED)
    elif isinstance(event, Abandoned):
        state.end = state.end or End.ABANDONED


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
    end = state.end
    if not event.selected and end is None:
        end = End.NOT_SELECTED
    if end is None and over:
        end = End.ABANDONED
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


def _execution(
    event: Started, agreed: bool, turn: int, proposed: bool, finished: dict[tuple[str, int], Finished]
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
