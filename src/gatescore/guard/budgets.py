"""
Budgets wider than one session: what all sessions of a guard have used and hold.

What one session sees of them are the units of the others; its own are in its history. Not locked by
itself: whoever decides holds the guard's lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gatescore.model import Budget


@dataclass(slots=True)
class _Units:
    """
    The units of one budget.

    Attributes:
        used: How many each session that is known has used, for good.
        times: When, and by which session, where a unit is free again after a window; oldest first.
        held: Reserved, by session and call.
    """

    used: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    times: list[tuple[int, str]] = field(default_factory=lambda: [])
    held: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


_FORMER = ""
"""Stands for all sessions that are closed: their units are other sessions' units for good."""


class WideBudgets:
    """The units of all budgets that sessions of one guard share."""

    __slots__ = ("_held_by", "_units")

    def __init__(self) -> None:
        self._units: dict[str, _Units] = {}
        self._held_by: dict[tuple[str, str], tuple[str, ...]] = {}

    def elsewhere(self, budget: Budget, writer: str, window: int | None, now: int) -> int:
        """Units of *budget* that sessions other than *writer* have in use."""
        units = self._units.get(budget.key)
        if units is None:
            return 0
        held = sum(owner != writer for owner, _ in units.held)
        if window is None:
            return held + sum(count for owner, count in units.used.items() if owner != writer)
        units.times = [(time, owner) for time, owner in units.times if time > now - window]
        return held + sum(owner != writer for _, owner in units.times)

    def reserve(self, budgets: Iterable[Budget], writer: str, call_id: str) -> None:
        """A call of *writer* holds one unit of each of *budgets*, and of no other any more."""
        self.release(writer, call_id)
        keys = tuple(budget.key for budget in budgets if budget.wide)
        for key in keys:
            self._units.setdefault(key, _Units()).held.add((writer, call_id))
        if keys:
            self._held_by[writer, call_id] = keys

    def release(self, writer: str, call_id: str) -> None:
        """What a call holds is free again."""
        for key in self._held_by.pop((writer, call_id), ()):
            self._units[key].held.discard((writer, call_id))

    def use(self, budget: Budget, writer: str, time: int, *, windowed: bool) -> None:
        """One unit is used up."""
        units = self._units.setdefault(budget.key, _Units())
        if windowed:
            units.times.append((time, writer))
        else:
            units.used[writer] += 1

    def close(self, writer: str) -> None:
        """The session is over: what it used counts as used by others."""
        for owner, call_id in [held for held in self._held_by if held[0] == writer]:
            self.release(owner, call_id)
        for units in self._units.values():
            if writer in units.used:
                units.used[_FORMER] += units.used.pop(writer)
