"""
The ledger: the events of one session in this process, the source of truth of a live score.

Not locked by itself: whoever appends holds the session's lock.
"""

from __future__ import annotations

import time
import uuid
from copy import deepcopy
from dataclasses import replace

from gatescore.history import History
from gatescore.model import (
    AttributesChanged,
    Decided,
    Event,
    Position,
    Proposed,
    Record,
    SessionEnded,
    SessionStarted,
    Started,
    ToolCall,
)


def _copied(event: Event, copies: dict[int, ToolCall]) -> Event:
    """An event of which nothing can be changed through the copy; events of one call keep one call."""
    if isinstance(event, (SessionStarted, AttributesChanged)):
        return replace(event, attributes=deepcopy(event.attributes))
    if not isinstance(event, (Proposed, Decided, Started)) or event.call is None:
        return event
    call = copies.get(id(event.call))
    if call is None:
        call = copies[id(event.call)] = event.call.copied()
    return replace(event, call=call)


class Ledger:
    """
    Events in order, with the history that they fold to.

    Attributes:
        writer: Who appends: new for every ledger, and new in a forked process.
        sequence: The number of the next event.
        history: The history after the last event.
    """

    __slots__ = ("_inherited", "_last_time", "history", "sequence", "writer")

    def __init__(self) -> None:
        self.writer = uuid.uuid4().hex
        self.sequence = 0
        self.history = History()
        self._last_time = 0
        self._inherited = 0

    def now(self) -> int:
        """The time of the next event: nanoseconds since 1970, and never before that of the last one."""
        self._last_time = max(self._last_time, time.time_ns())
        return self._last_time

    def append(self, event: Event) -> None:
        """Add an event that was made with the current `sequence`."""
        self.history.grow(event)
        self.sequence += 1

    @property
    def last(self) -> Position | None:
        """Where the record stands; None before the first event."""
        return Position(writer=self.writer, sequence=self.sequence - 1) if self.sequence else None

    def forked(self) -> Position | None:
        """Go on as another writer, in a new process: what was recorded so far is history."""
        before = self.last
        self.writer = uuid.uuid4().hex
        self.history = History(self.history.events)
        self._inherited = len(self.history)
        self.sequence = 0
        return before

    def record(self) -> Record:
        """What was recorded so far, as a copy; it lacks its end until the session is over."""
        copies: dict[int, ToolCall] = {}
        events = tuple(_copied(event, copies) for event in self.history.events)
        own = events[self._inherited :]
        ends = [event for event in own if isinstance(event, (SessionStarted, SessionEnded))]
        ended = bool(ends) and isinstance(ends[-1], SessionEnded)
        missing = () if ended else ("the session is still open: its end is not recorded yet",)
        return Record(events=events, inherited=self._inherited, writer=self.writer, missing=missing)
