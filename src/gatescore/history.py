"""
A session's past as a value: ``advance(history, event) -> history``.

A `History` never changes, and the one before an event stays what it was. Histories of one session
share the list of events, so that advancing costs the same at event 10 and at event 100,000. What a
policy must know of the past is kept per policy layer in a `gatescore.state.State`, brought up to
date when it is asked for; folding in one go or event by event gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from gatescore.model import Event
from gatescore.policy.rules import Layer
from gatescore.state import State


class _Log:
    """The events that histories of one session share, and the states folded from them."""

    __slots__ = ("events", "states")

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.states: dict[Layer, State] = {}


class History:
    """
    What had happened in a session at one point.

    `History()` is outside of any session: nothing is known of what happened before. A session
    begins with a `SessionStarted` event.
    """

    __slots__ = ("_length", "_log")

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._log = _Log(list(events))
        self._length = len(self._log.events)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events so far, oldest first."""
        return tuple(self._log.events[: self._length])

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return self.events == other.events if isinstance(other, History) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._length)

    def __reduce__(self) -> tuple[object, ...]:
        """Copied, and sent to other processes, as its events: what was folded from them is folded again."""
        return History, (self.events,)

    def advanced(self, event: Event) -> History:
        """The history after one more *event*. See `advance`."""
        log = self._log
        if len(log.events) != self._length:
            # Another event follows this point already: the two futures part here.
            log = _Log(log.events[: self._length])
        log.events.append(event)
        after = History.__new__(History)
        after._log, after._length = log, self._length + 1
        return after

    def grow(self, event: Event) -> None:
        """Become the history after one more *event*: for the one who made it, while nobody else holds it."""
        if len(self._log.events) != self._length:
            self._log = _Log(self._log.events[: self._length])
        self._log.events.append(event)
        self._length += 1

    def state(self, layer: Layer) -> State:
        """What *layer* must know of the past, as of this point."""
        log = self._log
        state = log.states.get(layer)
        if state is None or state.folded > self._length:
            newest = state is None
            state = State(layer)
            if newest:
                log.states[layer] = state
        for position in range(state.folded, self._length):
            state.apply(log.events[position])
        return state


def advance(history: History, event: Event) -> History:
    """
    Fold one *event* into a *history*.

    Returns:
        The history after the event; *history* itself stays as it was.
    """
    return history.advanced(event)
