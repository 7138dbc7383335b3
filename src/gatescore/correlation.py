"""
Calls that belong together because some of their arguments have equal values.

A value that is absent, null, or one that JSON cannot hold compares with nothing: whether it would
be equal is indeterminate. Two values that are there and differ are surely different, so two calls
can be told apart by one argument although another is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from gatescore.canonical import Json, is_marked, key_text
from gatescore.model import ToolCall
from gatescore.truth import INDETERMINATE, TRUE, Truths

Values = tuple[str | None, ...]
"""The values of some arguments as texts, equal where the values are; None for one that compares with nothing."""

V = TypeVar("V")


def values_of(call: ToolCall, names: Sequence[str]) -> Values:
    """The values of the arguments *names* of *call*, in that order."""
    return tuple([_text(call, name) for name in names])


def _text(call: ToolCall, name: str) -> str | None:
    value: Json = call.arguments.get(name)
    return None if value is None or (call.opaque and is_marked(value)) else key_text(value)


def joined(values: Values) -> str | None:
    """All of *values* as one text, a JSON array; None where one of them compares with nothing."""
    present = [value for value in values if value is not None]
    return f"[{','.join(present)}]" if len(present) == len(values) else None


class Index(Generic[V]):
    """
    Something for each combination of values, found again by other values.

    A look-up takes as long as there are *sets of missing arguments* on record, not combinations. Only
    values of which some but not all are missing are compared with each combination.
    """

    __slots__ = ("_all", "_make", "_places")

    def __init__(self, make: Callable[[], V]) -> None:
        self._make: Final = make
        self._all = make()
        # By which of the values are there, then by the values.
        self._places: dict[Values, dict[Values, V]] = {}

    def at(self, values: Values) -> tuple[V, V]:
        """What is kept for *values*, made when it is new, and what is kept for all values together."""
        place = self._places.setdefault(_pattern(values), {})
        found = place.get(values)
        if found is None:
            found = place[values] = self._make()
        return found, self._all

    def matching(self, values: Values) -> Iterator[tuple[Truths, V]]:
        """What is kept for values that are equal (true) or may be (indeterminate) to *values*."""
        if values and not any(value is not None for value in values):
            yield INDETERMINATE, self._all
            return
        own = _pattern(values)
        for pattern, place in self._places.items():
            if all(mine is not None for mine, theirs in zip(own, pattern, strict=True) if theirs is not None):
                found = place.get(_only(values, pattern))
                if found is not None:
                    yield TRUE if None not in pattern and None not in own else INDETERMINATE, found
                continue
            for theirs, found in place.items():
                if all(a is None or b is None or a == b for a, b in zip(values, theirs, strict=True)):
                    yield INDETERMINATE, found


def _pattern(values: Values) -> Values:
    """Which of *values* are there: an empty text for each, None for the others."""
    return tuple([None if value is None else "" for value in values])


def _only(values: Values, pattern: Values) -> Values:
    return tuple(
        [value if wanted is not None else None for value, wanted in zip(values, pattern, strict=True)]
    )
