"""
Calls that belong together because some of their arguments have equal values.

A value that is absent, null, or one that JSON cannot hold compares with nothing: whether it would
be equal is indeterminate. Two values that are there and differ are surely different, so two calls
can be told apart by one argument although another is missing.

A record may withhold a value and tell its keyed digest instead: two digests made with one key are
equal exactly where the values are. A digest says nothing about a value that is told, or about a
digest made with another key, and a value withheld without a digest may be any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from gatescore.canonical import Json, is_marked, key_text
from gatescore.model import ToolCall
from gatescore.policy.three_valued import WITHHELD
from gatescore.truth import AND, FALSE, INDETERMINATE, TRUE, UNKNOWN, Truths

Values = tuple[str | None, ...]
"""
The values of some arguments as texts, equal where the values are; None for one that compares with nothing.

A value that is told is its JSON text. One that is withheld is ``#`` and its digest, or `UNREADABLE`;
no JSON text begins like these.
"""

UNREADABLE: Final = "?"
"""The text of a value that the record does not tell, not even whether another one is equal."""

V = TypeVar("V")


def values_of(call: ToolCall, names: Sequence[str]) -> Values:
    """The values of the arguments *names* of *call*, in that order."""
    text = _withheld_text if call.withheld else _text
    return tuple([text(call, name) for name in names])


def _text(call: ToolCall, name: str) -> str | None:
    value: Json = call.arguments.get(name)
    return None if value is None or (call.opaque and is_marked(value)) else key_text(value)


def _withheld_text(call: ToolCall, name: str) -> str | None:
    """The same for a call of which the record withholds something."""
    if WITHHELD in call.arguments:
        return UNREADABLE  # the marker stands for all the arguments
    value: Json = call.arguments.get(name)
    if not is_withheld(value):
        return _text(call, name)
    told = value[WITHHELD] if isinstance(value, dict) and len(value) == 1 and WITHHELD in value else None
    if not isinstance(told, dict):
        return UNREADABLE  # a part of the value is withheld, or the marker is none that we make
    if told.get("opaque") is True:
        return None
    digest = told.get("digest")
    return f"#{digest}" if isinstance(digest, str) else UNREADABLE


def is_withheld(value: Json) -> bool:
    """Whether the marker of a value that the record does not tell stands anywhere in *value*."""
    if isinstance(value, dict):
        return WITHHELD in value or any(is_withheld(item) for item in value.values())
    return isinstance(value, list) and any(is_withheld(item) for item in value)


def joined(values: Values) -> str | None:
    """
    All of *values* as one text; None where one of them compares with nothing, or cannot be read.

    It is a JSON array unless digests are among them.
    """
    present = [value for value in values if value is not None and value != UNREADABLE]
    return f"[{','.join(present)}]" if len(present) == len(values) else None


class Index(Generic[V]):
    """
    Something for each combination of values, found again by other values.

    A look-up takes as long as there are *sets of missing arguments* on record, not combinations. Only
    values of which some but not all are missing, or that are told here and withheld there, are
    compared with each combination.
    """

    __slots__ = ("_all", "_make", "_places")

    def __init__(self, make: Callable[[], V]) -> None:
        self._make: Final = make
        self._all = make()
        # By what can be compared with the values, then by the values.
        self._places: dict[Values, dict[Values, V]] = {}

    def at(self, values: Values) -> tuple[V, V]:
        """What is kept for *values*, made when it is new, and what is kept for all values together."""
        place = self._places.setdefault(pattern_of(values), {})
        found = place.get(values)
        if found is None:
            found = place[values] = self._make()
        return found, self._all

    def matching(self, values: Values) -> Iterator[tuple[Truths, V]]:
        """What is kept for values that are not surely different from *values*, with whether they are equal."""
        if values and not any(value is not None and value != UNREADABLE for value in values):
            yield UNKNOWN if UNREADABLE in values else INDETERMINATE, self._all
            return
        own = pattern_of(values)
        for pattern, place in self._places.items():
            if all(
                theirs is None or mine == theirs != UNREADABLE
                for mine, theirs in zip(own, pattern, strict=True)
            ):
                found = place.get(_only(values, pattern))
                if found is not None:
                    yield TRUE if None not in pattern and None not in own else INDETERMINATE, found
                continue
            for theirs, found in place.items():
                same = _same(values, theirs)
                if same != FALSE:
                    yield same, found


def pattern_of(values: Values) -> Values:
    """
    What can be compared with each of *values*: those for which the same stands here.

    None for a value that compares with nothing, an empty text for one that is told, `UNREADABLE` for
    one that is that, and for a digest what it begins with: how it was made, and with which key.
    """
    return tuple(
        [None if value is None else "" if value[0] not in "#?" else _kind(value) for value in values]
    )


def _kind(value: str) -> str:
    return UNREADABLE if value == UNREADABLE else value.rpartition(":")[0] or "#"


def _same(values: Values, others: Values) -> Truths:
    """Whether all of *values* equal all of *others*."""
    truths = TRUE
    for mine, theirs in zip(values, others, strict=True):
        if mine is None or theirs is None:
            truths = AND[truths][INDETERMINATE]
        elif UNREADABLE in (mine, theirs):
            truths = AND[truths][UNKNOWN]
        elif pattern_of((mine,)) != pattern_of((theirs,)):
            truths = AND[truths][FALSE | TRUE]
        elif mine != theirs:
            return FALSE
    return truths


def _only(values: Values, pattern: Values) -> Values:
    return tuple(
        [value if wanted is not None else None for value, wanted in zip(values, pattern, strict=True)]
    )
