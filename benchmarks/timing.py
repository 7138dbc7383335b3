"""
Timing by turns: something, and what it is held against, in one run on one machine.

A machine that does other things too is slower at one moment than at the next. So the two take turns,
each for about a millisecond, and each goes first in half of the rounds. Counted is the time that the
processor spends on this process, not the time in which it waits for others. Of a ratio two figures
are given: the least time of the one over the least time of the other, and the median over all rounds
of the ratio within the round.
"""

from __future__ import annotations

import operator
import platform
import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

_SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to measure: rounds, and the seconds that one turn takes at least."""

    rounds: int
    seconds: float


FULL: Final = Pace(rounds=500, seconds=0.001)
FEW: Final = Pace(rounds=5, seconds=0.001)
"""For what takes long by itself."""
QUICK: Final = Pace(rounds=1, seconds=0.0)
"""Says nothing about time: it shows that a benchmark runs."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio has to be, such as ``<= 1.5``."""

    sign: Literal["<=", "<", ">="]
    limit: float

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"

    def reached(self, ratio: float) -> bool:
        """Whether *ratio* is what it has to be."""
        return _SIGNS[self.sign](ratio, self.limit)


@dataclass(frozen=True, slots=True)
class Statement:
    """
    What one turn repeats.

    Attributes:
        text: Python. Run as it is, so that no call of a function stands round what is measured.
        names: The values of the names in it.
        things: How many of what is measured it does at once.
    """

    text: str
    names: Mapping[str, object]
    things: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: a ratio by its least times and by its median, and what it has to be."""

    what: str
    minimum: float
    median: float
    target: Target | None

    @property
    def outcome(self) -> str:
        """``reached`` only where both figures are what they have to be; empty without a target."""
        if self.target is None:
            return ""
        return "reached" if all(map(self.target.reached, (self.minimum, self.median))) else "missed"


def compare(
    what: str, measured: Statement, against: Statement, target: Target | None = None, *, pace: Pace
) -> Row:
    """Say how many times as long *measured* takes as *against*, by turns."""
    sides = [(_timer(side), side.things) for side in (measured, against)]
    turns = [(timer, _repetitions(timer, pace.seconds), things) for timer, things in sides]
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(pace.rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            timer, repetitions, things = turns[side]
            times[side].append(timer.timeit(repetitions) / repetitions / things)
    return Row(
        what=what,
        minimum=min(times[0]) / min(times[1]),
        median=statistics.median(one / other for one, other in zip(*times, strict=True)),
        target=target,
    )


def _timer(statement: Statement) -> timeit.Timer:
    return timeit.Timer(statement.text, timer=time.process_time, globals=dict(statement.names))


def _repetitions(timer: timeit.Timer, seconds: float) -> int:
    """How often a turn of *seconds* can repeat; finding that out also warms up."""
    repetitions = 1
    while timer.timeit(repetitions) < seconds:
        repetitions *= 2
    return repetitions


def print_versions(*distributions: str) -> None:
    """Print what the figures hold for: the interpreter, and the versions of *distributions*."""
    found = [f"{platform.python_implementation()} {platform.python_version()}"]
    for name in distributions:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} (not installed, run from its source)")
    print(", ".join(found))


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Print *rows* under *title*, with the target and whether it is reached."""
    width = max(len(row.what) for row in rows)
    print(f"\n{title}")
    print(f"  {'':{width}}  {'min':>8}  {'median':>8}  target")
    for row in rows:
        target = "" if row.target is None else str(row.target)
        line = f"  {row.what:{width}}  {_shown(row.minimum):>8}  {_shown(row.median):>8}  {target:8}{row.outcome}"
        print(line.rstrip())


def _shown(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"
