"""The units of a session's budgets: which are used, when, and which are held by calls that have not started."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field

from gatescore.model import Budget


@dataclass(slots=True)
class _Used:
    """
    The units used of one budget.

    Attributes:
        times: When, in order.
        undated: How many at a time the record does not hold.
        unsure: As `times`, of units of which the record does not tell whether they were used.
        unsure_undated: As `undated`, of such units.
    """

    times: list[int] = field(default_factory=lambda: [])
    undated: int = 0
    unsure: list[int] = field(default_factory=lambda: [])
    unsure_undated: int = 0


class Units:
    """The units of all budgets of one session, under one policy layer. A budget is known by its key."""

    __slots__ = ("_held", "_held_by", "_held_unsure", "_used")

    def __init__(self) -> None:
        self._used: defaultdict[str, _Used] = defaultdict(_Used)
        self._held: defaultdict[str, int] = defaultdict(int)
        self._held_unsure: defaultdict[str, int] = defaultdict(int)
        self._held_by: dict[str, tuple[Budget, ...]] = {}

    def use(self, budget: Budget, time: int | None) -> None:
        """One unit is used up, or may be."""
        used = self._used[budget.key]
        if time is not None:
            insort(used.unsure if budget.unsure else used.times, time)
        elif budget.unsure:
            used.unsure_undated += 1
        else:
            used.undated += 1

    def reserve(self, call_id: str, budgets: tuple[Budget, ...]) -> None:
        """A call holds one unit of each of *budgets*, and of no other any more."""
        self.release(call_id)
        if budgets:
            self._held_by[call_id] = budgets
            for budget in budgets:
                (self._held_unsure if budget.unsure else self._held)[budget.key] += 1

    def release(self, call_id: str) -> None:
        """What a call holds is free again."""
        for budget in self._held_by.pop(call_id, ()):
            (self._held_unsure if budget.unsure else self._held)[budget.key] -= 1

    def release_all(self) -> None:
        """What any call holds is free again."""
        self._held_by.clear()
        self._held.clear()
        self._held_unsure.clear()

    def taken(self, key: str, call_id: str, window: int | None, now: int | None) -> tuple[int, int]:
        """
        How many units of a budget are used, or held by other calls than *call_id*; and how many more may be.

        Those that may be are those that may not have been used at all, or not within the window.
        """
        sure, unsure = self._held.get(key, 0), self._held_unsure.get(key, 0)
        for budget in self._held_by.get(call_id, ()):
            if budget.key == key:
                sure, unsure = (sure, unsure - 1) if budget.unsure else (sure - 1, unsure)
        used = self._used.get(key)
        if used is None:
            return sure, unsure
        if window is None:
            dated, maybe = len(used.times) + used.undated, len(used.unsure) + used.unsure_undated
        elif now is None:
            dated = 0
            maybe = len(used.times) + used.undated + len(used.unsure) + used.unsure_undated
        else:
            since = now - window
            dated = len(used.times) - bisect_right(used.times, since)
            maybe = len(used.unsure) - bisect_right(used.unsure, since) + used.undated + used.unsure_undated
        return sure + dated, unsure + maybe

    def doubts(self, key: str) -> bool:
        """Whether there are units of a budget of which the record does not tell if they are used or held."""
        used = self._used.get(key)
        unsure = used is not None and bool(used.unsure or used.unsure_undated)
        return unsure or self._held_unsure.get(key, 0) > 0
