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
"""Stands for all sessions that cannot be opened again: their units are other sessions' units for good."""


class WideBudgets:
    """The units of all budgets that sessions of one guard share."""

    __slots__ = ("_held_by", "_units", "_used_by")

    def __init__(self) -> None:
        self._units: dict[str, _Units] = {}
        self._held_by: dict[tuple[str, str], tuple[str, ...]] = {}
        self._used_by: dict[str, set[str]] = {}

    def elsewhere(self, budget: Budget, owner: str, window: int | None, now: int) -> int:
        """Units of *budget* that sessions other than *owner* have in use."""
        units = self._units.get(budget.key)
        if units is None:
            return 0
        held = sum(other != owner for other, _ in units.held)
        if window is None:
            return held + sum(count for other, count in units.used.items() if other != owner)
        units.times = [row for row in units.times if row[0] > now - window]
        return held + sum(other != owner for _, other in units.times)

    def reserve(self, budgets: Iterable[Budget], owner: str, call_id: str) -> None:
        """A call of *owner* holds one unit of each of *budgets*, and of no other any more."""
        self.release(owner, call_id)
        keys = tuple(budget.key for budget in budgets if budget.wide)
        for key in keys:
            self._units.setdefault(key, _Units()).held.add((owner, call_id))
        if keys:
            self._held_by[owner, call_id] = keys

    def release(self, owner: str, call_id: str) -> None:
        """What a call holds is free again."""
        for key in self._held_by.pop((owner, call_id), ()):
            self._units[key].held.discard((owner, call_id))

    def use(self, budget: Budget, owner: str, time: int, *, windowed: bool) -> None:
        """One unit is used up."""
        units = self._units.setdefault(budget.key, _Units())
        if windowed:
            units.times.append((time, owner))
        else:
            units.used[owner] += 1
            self._used_by.setdefault(owner, set()).add(budget.key)

    def release_all(self, owner: str) -> None:
        """The session is over: what its calls hold is free again."""
        for _, call_id in [held for held in self._held_by if held[0] == owner]:
            self.release(owner, call_id)

    def forget(self, owner: str) -> None:
        """The session cannot be opened again: what it used is used by others, for good."""
        for key in self._used_by.pop(owner, ()):
            used = self._units[key].used
            used[_FORMER] += used.pop(owner)
