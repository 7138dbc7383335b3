"""The units of a session's budgets: which are used, when, and which are held by calls that have not started."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field

from gatescore.model import Budget


@dataclass(slots=True)
class _Used:
    """The units used of one budget: when, in order, and how many at a time the record does not hold."""

    times: list[int] = field(default_factory=lambda: [])
    undated: int = 0


class Units:
    """The units of all budgets of one session, under one policy layer. A budget is known by its key."""

    __slots__ = ("_held", "_held_by", "_used")

    def __init__(self) -> None:
        self._used: defaultdict[str, _Used] = defaultdict(_Used)
        self._held: defaultdict[str, int] = defaultdict(int)
        self._held_by: dict[str, tuple[Budget, ...]] = {}

    def use(self, key: str, time: int | None) -> None:
        """One unit is used up."""
        used = self._used[key]
        if time is None:
            used.undated += 1
        else:
            insort(used.times, time)

    def reserve(self, call_id: str, budgets: tuple[Budget, ...]) -> None:
        """A call holds one unit of each of *budgets*, and of no other any more."""
        self.release(call_id)
        if budgets:
            self._held_by[call_id] = budgets
            for budget in budgets:
                self._held[budget.key] += 1

    def release(self, call_id: str) -> None:
        """What a call holds is free again."""
        for budget in self._held_by.pop(call_id, ()):
            self._held[budget.key] -= 1

    def release_all(self) -> None:
        """What any call holds is free again."""
        self._held_by.clear()
        self._held.clear()

    def held_by_others(self, key: str, call_id: str) -> int:
        """How many units of a budget other calls hold."""
        own = sum(budget.key == key for budget in self._held_by.get(call_id, ()))
        return self._held.get(key, 0) - own

    def in_use(self, key: str, window: int | None, now: int | None) -> tuple[int, int]:
        """How many units are in use, and how many more may be (used at a time the record does not hold)."""
        used = self._used.get(key)
        if used is None:
            return 0, 0
        if window is None:
            return len(used.times) + used.undated, 0
        if now is None:
            return 0, len(used.times) + used.undated
        return len(used.times) - bisect_right(used.times, now - window), used.undated
