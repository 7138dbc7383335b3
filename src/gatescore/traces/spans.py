"""Spans that a guard wrote, to sessions: from objects of an exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from gatescore.model import Event, Finished, Position, Record, Session, SessionEnded, SessionStarted
from gatescore.recording import session_of
from gatescore.semconv import DamagedSpanError, decode


@dataclass(slots=True)
class _Writer:
    """What one writer recorded of one session, by sequence number."""

    events: dict[int, Event] = field(default_factory=lambda: {})
    damaged: list[str] = field(default_factory=lambda: [])


class SpanSessions:
    """Collects spans, in any order, and gives the sessions that they are of."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], _Writer] = {}
        self.found = False

    def add(self, attributes: Mapping[str, Any]) -> None:
        """Take in one span by its attributes; one that is not gatescore's is passed over."""
        try:
            decoded = decode(attributes)
        except DamagedSpanError as error:
            session = str(attributes.get("gatescore.session.id", "unknown session"))
            key = session, str(attributes.get("gatescore.writer", ""))
            self._writers.setdefault(key, _Writer()).damaged.append(str(error))
            self.found = True
            return
        if decoded is None:
            return
        self.found = True
        writer = self._writers.setdefault((decoded.session_id, decoded.writer), _Writer())
        for event in decoded.events:
            if event.sequence is None:
                writer.damaged.append("an event has no sequence number")
            elif writer.events.setdefault(event.sequence, event) != event:
                writer.damaged.append(f"two different events have the number {event.sequence}")

    def sessions(self, source: str) -> Iterator[Session]:
        """One session for each writer of each session, in the order of their first spans."""
        for (session_id, name), writer in self._writers.items():
            record = self._record(session_id, name, writer)
            session = session_of(record, source=source)
            yield session if session.id else _named(session, session_id)

    def _record(self, session_id: str, name: str, writer: _Writer) -> Record:
        events = [writer.events[number] for number in sorted(writer.events)]
        missing = [*writer.damaged, *_gaps(writer.events)]
        inherited: list[Event] = []
        first = events[0] if events else None
        if not isinstance(first, SessionStarted):
            missing.append("the beginning of the session is missing")
        elif first.continues is not None and first.continues.writer != name:
            inherited, lacks = self._before(session_id, first.continues)
            missing.extend(lacks)
        last = next((event for event in reversed(events) if not isinstance(event, Finished)), None)
        if not isinstance(last, SessionEnded):
            missing.append("the end of the session is missing")
        return Record(
            events=[*inherited, *events], inherited=len(inherited), writer=name, missing=tuple(missing)
        )

    def _before(self, session_id: str, position: Position) -> tuple[list[Event], list[str]]:
        """The events of an earlier writer up to *position*."""
        writer = self._writers.get((session_id, position.writer))
        if writer is None:
            return [], ["what another process recorded of the session before is missing"]
        own = {number: event for number, event in writer.events.items() if number <= position.sequence}
        lacks = _gaps(own)
        if position.sequence not in own:
            lacks.append(f"events up to {position.sequence} of another process are missing")
        return [own[number] for number in sorted(own)], lacks


def _gaps(events: Mapping[int, Event]) -> list[str]:
    gaps: list[str] = []
    expected = 0
    for number in sorted(events):
        if number > expected:
            many = (
                f"events {expected} to {number - 1} are" if number - 1 > expected else f"event {expected} is"
            )
            gaps.append(f"{many} missing")
        expected = number + 1
    return gaps


def _named(session: Session, session_id: str) -> Session:
    """A session whose beginning is missing still has the id that its spans name."""
    return Session(
        id=session_id,
        proposed=session.proposed,
        executed=session.executed,
        source=session.source,
        record=session.record,
    )


def spans_of(source: object) -> Iterable[Any] | None:
    """The spans that *source* holds: an in-memory exporter, or a collection of spans; None for anything else."""
    finished = getattr(source, "get_finished_spans", None)
    if callable(finished):
        return cast("Iterable[Any]", finished())
    if isinstance(source, (list, tuple)):
        items = cast("list[Any]", source)
        if items and all(hasattr(item, "attributes") and hasattr(item, "name") for item in items):
            return items
    return None
