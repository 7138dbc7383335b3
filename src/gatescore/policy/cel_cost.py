"""
How much work the evaluation of a CEL expression is, counted before it begins.

The unit is one value looked at or copied (measured: some 30 ns to 1 µs). What was measured and is
counted: selecting a member copies all of it; `map` and `filter` copy what they have built for each
item; `matches` compiles its pattern each time that it is called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import ClassVar, Final, cast

EXACT: Final = 2**53
"""Beyond it, CEL compares an integer with a double as doubles, which then may not tell two numbers apart."""

MAX_DEPTH: Final = 64
"""How deep a value may nest; the library is recursive, and overflows the stack some way beyond."""

MAX_VALUES: Final = 1_000_000
"""How many values may be given, so that counting them is bounded too."""

_TEXT_UNIT: Final = 64  # characters that are looked at in the time of one value
_PATTERN: Final = 100  # a plain pattern takes some 50 µs to compile
_ANY_PATTERN: Final = 300_000  # one that is refused for its size, or nearly, takes some 100 ms
_REPEATED: Final = re.compile(r"(.)\{(?:[0-9]*,)?([0-9]+),?\}")
_COPIES: Final = ((re.compile(r"\\[wWpP]"), 1_000), (re.compile(r"\\[dD]"), 50), (re.compile(""), 10))
"""What each copy of a part takes (measured: 500, 25 and 4 µs), by the largest class in the pattern."""

Source = tuple[str, str | None]
"""Where a collection comes from: a root and its member, or a root and None for the whole of it."""

ELEMENT: Final[Source] = ("", None)
"""The source of a collection that is part of what a comprehension goes through."""


@dataclass(slots=True)
class Work:
    """
    What an expression, or the body of a comprehension, does each time that it is evaluated.

    Attributes:
        reads: The members of roots that it reads; one that is read twice stands twice.
        items: The variables of comprehensions that it uses.
        patterns: What compiling its regular expressions costs; see `pattern_cost`.
        additions: How many ``+`` it has, which also join lists.
        loops: The comprehensions in it, without those in their bodies.
    """

    reads: list[Source] = field(default_factory=list[Source])
    items: set[str] = field(default_factory=set[str])
    patterns: int = 0
    additions: int = 0
    loops: list[Loop] = field(default_factory=list["Loop"])


@dataclass(slots=True)
class Loop:
    """
    A comprehension.

    Attributes:
        source: What it goes through is a part of this; None where that is something computed.
        path: A root and the members that lead to what it goes through, where it is written so.
        constants: The length of what it goes through, where that is a list of constants.
        apart: Whether the body uses no variable of the comprehensions around it.
        builds: ``map`` or ``filter`` where it builds a list, which the library copies for each item.
        body: What it does with each item.
    """

    source: Source | None
    path: tuple[str, ...]
    constants: int | None
    apart: bool
    builds: str | None
    body: Work


class Unfit(Exception):  # noqa: N818 - no error of the program, but an answer about a value
    """A value that may not be given to the library; the text says why, without the value."""


class Sizes:
    """
    The sizes of what an expression reads, by member, and whether its numbers can be compared.

    A value is measured when it is taken; what is not taken is not read. An absent member has no size.
    """

    __slots__ = ("_largest", "_left", "_taken", "_units", "_wide")

    INTEGER: ClassVar[int] = 1
    """An integer beyond `EXACT` occurs."""
    DOUBLE: ClassVar[int] = 2
    """A double beyond `EXACT` occurs."""

    def __init__(self, wide: int) -> None:
        self._units: dict[Source, int] = {}
        self._largest: dict[Source, int] = {}
        self._taken: dict[str, dict[str, object]] = {}
        self._wide = wide
        self._left = MAX_VALUES

    def take(self, root: str, value: object, members: frozenset[str] | None) -> dict[str, object]:
        """
        Measure *members* of a root (None for all of them), and return these alone.

        Raises:
            Unfit: What would be given may not be.
        """
        if not isinstance(value, Mapping):
            raise Unfit(f"`{root}` is no object")
        whole = cast("Mapping[object, object]", value)
        names = whole.keys() if members is None else sorted(members & whole.keys())
        taken: dict[str, object] = {}
        for name in names:
            if not isinstance(name, str):
                raise Unfit(f"`{root}` has a key that is no text")
            taken[name] = whole[name]
            source = (root, name)
            units, self._largest[source] = self._measure(source, taken[name])
            self._units[source] = units
            self._left -= units
        if members is None:
            self._units[root, None] = sum(self._units.values()) + len(taken)
            self._largest[root, None] = max(len(taken), *self._largest.values(), 0)
        self._taken[root] = taken
        return taken

    def at(self, path: tuple[str, ...]) -> tuple[int, int]:
        """Units and length of what is at *path*; nothing where it is absent, or no array or object."""
        value: object = self._taken
        for step in path:
            value = cast("Mapping[object, object]", value).get(step) if isinstance(value, Mapping) else None
        if not isinstance(value, (Mapping, list, tuple)):
            return 0, 0
        source = (path[0], path[1] if len(path) > 1 else None)
        if len(path) <= 2:
            return self._units[source], len(cast("Sized", value))
        self._left = MAX_VALUES  # counted before, as a part
        units, _ = self._measure(source, cast("object", value))
        return units, len(cast("Sized", value))

    def units(self, source: Source) -> int:
        """How many values, and texts of some length, are in *source*."""
        return self._units.get(source, 1)

    def total(self) -> int:
        """How many there are in all that is read."""
        return sum(self._units.values())

    def largest(self, source: Source | None = None) -> int:
        """The size of the largest array or object in *source*, or in all that is read."""
        if source is None:
            return max(self._largest.values(), default=0)
        return self._largest.get(source, 0)

    def _measure(self, source: Source, value: object) -> tuple[int, int]:
        """Units and largest collection, level by level: a recursive count could itself overflow."""
        units = text = largest = depth = 0
        low = high = 0
        level = [value]
        while level:
            units += len(level)
            if units > self._left:
                raise Unfit(f"the values are too large: over {MAX_VALUES:,}")
            if depth > MAX_DEPTH:
                raise Unfit(f"`{_written(source)}` nests deeper than {MAX_DEPTH} levels")
            depth += 1
            below: list[object] = []
            for item in level:
                if isinstance(item, str):
                    text += len(item)
                elif isinstance(item, int):
                    if not low <= item <= high:
                        low, high = min(low, item), max(high, item)
                elif isinstance(item, float):
                    self._double(source, item)
                elif isinstance(item, Mapping):
                    members = cast("Mapping[object, object]", item)
                    largest = max(largest, len(members))
                    text += _key_length(source, members)
                    below.extend(members.values())
                elif isinstance(item, (list, tuple)):
                    items = cast("Sequence[object]", item)
                    largest = max(largest, len(items))
                    below.extend(items)
                elif item is not None:
                    raise Unfit(f"`{_written(source)}` holds a value that is not JSON")
            level = below
        if low < -(2**63) or high >= 2**63:
            raise Unfit(f"`{_written(source)}` holds an integer that does not fit 64 bits")
        if low < -EXACT or high > EXACT:
            self._note(source, self.INTEGER)
        return units + text // _TEXT_UNIT, largest

    def _double(self, source: Source, number: float) -> None:
        if not math.isfinite(number):
            raise Unfit(f"`{_written(source)}` holds a number that is not finite")
        if not -EXACT < number < EXACT:
            self._note(source, self.DOUBLE)

    def _note(self, source: Source, kind: int) -> None:
        self._wide |= kind
        if self._wide == self.INTEGER | self.DOUBLE:
            raise Unfit(f"`{_written(source)}` holds a number that cannot be compared exactly")


def cost(work: Work, sizes: Sizes, length: int, around: int = 0) -> int:
    """
    The most that *work* takes.

    Args:
        work: That of an expression, or of the body of a comprehension.
        sizes: Those of what the expression reads.
        length: That of the expression, for the lists written in it.
        around: The mean size of the items of the comprehensions around: it may use each as a whole.
    """
    units = 1 + around + work.patterns + sum(map(sizes.units, work.reads))
    for loop in work.loops:
        size, rounds = _extent(loop, sizes, (sizes.total() + length) * (1 + work.additions), around)
        # Items are of any size, but together they have that of what they are part of.
        share = size // rounds if rounds else 0
        each = cost(loop.body, sizes, length, (0 if loop.apart else around) + share)
        units += rounds * each
        if loop.builds:
            longest = max(rounds, sizes.largest()) if loop.source == ELEMENT else rounds
            units += rounds * longest * (share if loop.builds == "filter" else each) // 2
    return units


def _extent(loop: Loop, sizes: Sizes, everything: int, around: int) -> tuple[int, int]:
    """The size and the number of items of what *loop* goes through."""
    if loop.constants is not None:
        return loop.constants, loop.constants
    if loop.path:
        return sizes.at(loop.path)
    if loop.source is None:
        return everything, everything
    if loop.source == ELEMENT:
        # All items around together have no more parts than there are, unless a body mixes both.
        return around, around if loop.apart else max(sizes.largest(), around)
    return sizes.units(loop.source), sizes.largest(loop.source)


def pattern_cost(pattern: str | None) -> int:
    """
    What it takes to compile *pattern*, which the library does each time; None for one not yet known.

    A class of Unicode, such as that of letters, is some thousand states; counted repetition copies them.
    """
    if pattern is None:
        return _ANY_PATTERN
    copies, groups = 1, 1
    for before, count in _REPEATED.findall(pattern):
        if before == ")":
            groups *= max(1, int(count))
        else:
            copies += int(count)
    each = next(units for letter, units in _COPIES if letter.search(pattern))
    return _PATTERN + min(_ANY_PATTERN, copies * groups) * each


def _key_length(source: Source, members: Mapping[object, object]) -> int:
    length = 0
    for key in members:
        if not isinstance(key, str):
            raise Unfit(f"`{_written(source)}` holds a key that is no text")
        length += len(key)
    return length


def _written(source: Source) -> str:
    root, member = source
    return root if member is None else f"{root}.{member}"
