"""Spans that a guard wrote, to sessions: from objects of an exporter, and from OTLP JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from gatescore.model import Event, Finished, Position, Record, Session, SessionEnded, SessionStarted
from gatescore.recording import session_of
from gatescore.semconv import DamagedSpanError, decode, unescaped
from gatescore.traces.joining import LineError

NO_SPAN: Final = "no span of a guard in it: record with `Guard(policy, tracer_provider=...)`"
"""What is wrong with spans that are all of somebody else."""

_OURS: Final = "gatescore.events"
_SIGNALS: Final = ("resourceSpans", "resourceLogs", "resourceMetrics", "resourceProfiles")
_MOST_DAMAGED: Final = 20

_Spans = tuple[dict[str, Any], int]


@dataclass(slots=True)
class _Writer:
    """What one writer recorded of one session, by sequence number."""

    source: str
    events: dict[int, Event] = field(default_factory=lambda: {})
    damaged: dict[str, None] = field(default_factory=lambda: {})


def _told(attributes: Mapping[str, Any], key: str, otherwise: str) -> str:
    """A text of a damaged span, whatever stands there."""
    return unescaped(str(attributes.get(key, otherwise)))


class SpanSessions:
    """
    Collects spans, in any order and from any number of files, and gives the sessions that they are of.

    Attributes:
        found: How many of the spans were gatescore's.
    """

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], _Writer] = {}
        self.found = 0

    def add(self, attributes: Mapping[str, Any], source: str, *, dropped: int = 0) -> None:
        """
        Take in one span by its attributes; one that is not gatescore's is passed over.

        Args:
            attributes: The attributes.
            source: Where the span was read.
            dropped: How many more attributes it had, which its tracer left out.
        """
        if _OURS not in attributes:
            return
        self.found += 1
        try:
            if dropped:
                raise DamagedSpanError(
                    "a span lost attributes: raise the limit, as `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`"
                )
            decoded = decode(attributes)
            assert decoded is not None, "its events were asked for above"  # noqa: S101
        except (DamagedSpanError, RecursionError) as error:
            session = _told(attributes, "gatescore.session.id", "unknown session")
            name = _told(attributes, "gatescore.writer", "")
            self._writers.setdefault((session, name), _Writer(source)).damaged[str(error)] = None
            return
        writer = self._writers.setdefault((decoded.session_id, decoded.writer), _Writer(source))
        for event in decoded.events:
            if event.sequence is None:
                writer.damaged["an event has no sequence number"] = None
            elif writer.events.setdefault(event.sequence, event) != event:
                writer.damaged[f"two different events have the number {event.sequence}"] = None

    def sessions(self) -> Iterator[Session]:
        """One session for each writer of each session, in the order of their first spans."""
        for (session_id, name), writer in self._writers.items():
            session = session_of(self._record(session_id, name, writer), source=writer.source)
            # One whose beginning is missing still has the id that its spans name.
            yield session if session.id == session_id else replace(session, id=session_id)

    def _record(self, session_id: str, name: str, writer: _Writer) -> Record:
        events = [writer.events[number] for number in sorted(writer.events)]
        missing = [*_damage(writer), *_gaps(writer.events)]
        inherited, lacks = self._inherited(session_id, name, writer.events)
        missing.extend(lacks)
        if not isinstance(writer.events.get(0), SessionStarted):
            missing.append("the beginning of the session is missing")
        last = next((event for event in reversed(events) if not isinstance(event, Finished)), None)
        if not isinstance(last, SessionEnded):
            missing.append("the end of the session is missing")
        return Record(
            events=[*inherited, *events], inherited=len(inherited), writer=name, missing=tuple(missing)
        )

    def _inherited(
        self, session_id: str, name: str, events: Mapping[int, Event]
    ) -> tuple[list[Event], list[str]]:
        """The events of the earlier writers, each up to where the next one goes on, and what they lack."""
        parts: list[list[Event]] = []
        missing: list[str] = []
        seen = {name}
        while (position := _continues(events)) is not None and position.writer not in seen:
            seen.add(position.writer)
            writer = self._writers.get((session_id, position.writer))
            if writer is None:
                missing.append("what another process recorded of the session before is missing")
                break
            events = {number: event for number, event in writer.events.items() if number <= position.sequence}
            missing.extend(f"before it went on: {lack}" for lack in [*_damage(writer), *_gaps(events)])
            if position.sequence not in events:
                missing.append(f"before it went on: the events up to {position.sequence} are missing")
            parts.append([events[number] for number in sorted(events)])
        return [event for part in reversed(parts) for event in part], missing


def _continues(events: Mapping[int, Event]) -> Position | None:
    first = events.get(0)
    return first.continues if isinstance(first, SessionStarted) else None


def _damage(writer: _Writer) -> list[str]:
    damaged = list(writer.damaged)
    more = len(damaged) - _MOST_DAMAGED
    return damaged if more < 1 else [*damaged[:_MOST_DAMAGED], f"{more:,} more spans are damaged"]


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


def spans_of(source: object) -> Iterable[Any] | None:
    """The spans that *source* holds: an in-memory exporter, or an iterable of spans; None for anything else."""
    finished = getattr(source, "get_finished_spans", None)
    if callable(finished):
        return cast("Iterable[Any]", finished())
    if isinstance(source, (str, bytes, os.PathLike, Mapping)) or not isinstance(source, Iterable):
        return None
    items: list[Any] = list(source)
    return items if all(hasattr(item, "attributes") and hasattr(item, "name") for item in items) else None


# OTLP JSON


def is_otlp(data: object) -> bool:
    """Whether parsed JSON is a line of OTLP, of any signal."""
    return isinstance(data, dict) and any(signal in data for signal in _SIGNALS)


def otlp_spans(data: Mapping[str, Any]) -> Iterator[_Spans]:
    """
    The attributes of each of gatescore's spans in a parsed OTLP request, and how many more it had.

    Fields that are not known are passed over, and so are the spans of others.

    Raises:
        LineError: Something in it has the wrong form; raised after all that can be read.
    """
    wrong: list[str] = []
    for resource in _objects(data, "resourceSpans", wrong):
        # The second name is what exporters wrote before 2022.
        for scopes in ("scopeSpans", "instrumentationLibrarySpans"):
            for scope in _objects(resource, scopes, wrong):
                for span in _objects(scope, "spans", wrong):
                    pairs = _objects(span, "attributes", wrong)
                    if any(pair.get("key") == _OURS for pair in pairs):
                        yield _read_span(span, pairs)
    if wrong:
        raise LineError(f"OTLP, but {wrong[0]}: write it with an OTLP JSON exporter")


def _objects(data: Mapping[str, Any], key: str, wrong: list[str]) -> list[Mapping[str, Any]]:
    values: object = data.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        wrong.append(f"`{key}` is not a list")
        return []
    items = cast("list[object]", values)
    found = [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]
    if len(found) != len(items):
        wrong.append(f"`{key}` holds something that is not an object")
    return found


def _read_span(span: Mapping[str, Any], pairs: Iterable[Mapping[str, Any]]) -> _Spans:
    attributes: dict[str, Any] = {}
    for pair in pairs:
        try:
            attributes[str(pair.get("key"))] = _value(pair.get("value"))
        except (ValueError, TypeError, AttributeError, RecursionError):
            attributes[str(pair.get("key"))] = None  # which no attribute of ours is: the span is damaged
    try:
        dropped = int(span.get("droppedAttributesCount") or 0)
    except (ValueError, TypeError):
        dropped = 0
    return attributes, dropped


def _value(value: Any) -> Any:
    """The Python value of an AnyValue."""
    if not value:
        return None
    kind, held = next(iter(value.items()))
    if kind in ("stringValue", "boolValue"):
        return held
    if kind == "intValue":
        return int(held)
    if kind == "doubleValue":
        return float(held)
    if kind == "arrayValue":
        return [_value(item) for item in _values(held)]
    # Objects and bytes are never ours, and only ours are looked at.
    return None


def _values(held: Any) -> list[Any]:
    return (held["values"] if held and "values" in held else None) or []


def otlp_documents(text: str) -> list[Any] | None:
    """
    The JSON values of *text*, one after the other, whatever the line ends in them; None where it is not JSON.

    For a recording that was made readable, or saved as one large document.
    """
    decoder = json.JSONDecoder()
    found: list[Any] = []
    place = 0
    while (place := _next_place(text, place)) < len(text):
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None
        found.append(value)
    return found


def _next_place(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place
