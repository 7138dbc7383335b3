"""
Three-valued logic, on sets of possible values.

A condition is true, false or indeterminate. Where the *record* lacks what the condition needs,
several of the three are possible. So the engine works with sets of possible values, written as
bits: a condition that was judged is a set of one, and the rest of the engine need not know.

All functions are total on non-empty sets; the empty set never occurs.
"""

from __future__ import annotations

from typing import Final

Truths = int
"""A non-empty set of possible truth values: a sum of `FALSE`, `INDETERMINATE` and `TRUE`."""

FALSE: Final = 1
INDETERMINATE: Final = 2
TRUE: Final = 4
UNKNOWN: Final = FALSE | INDETERMINATE | TRUE
"""Nothing is known: the record lacks what is needed."""

_VALUES: Final = (FALSE, INDETERMINATE, TRUE)


def _members(truths: Truths) -> list[int]:
    return [value for value in _VALUES if truths & value]


def _table(pick: str) -> tuple[tuple[Truths, ...], ...]:
    """Lift Kleene's minimum or maximum to sets: every pair of members is possible."""
    choose = min if pick == "min" else max
    rows: list[tuple[Truths, ...]] = []
    for left in range(8):
        row: list[Truths] = []
        for right in range(8):
            truths = 0
            for a in _members(left):
                for b in _members(right):
                    truths |= choose(a, b)
            row.append(truths)
        rows.append(tuple(row))
    return tuple(rows)


AND: Final = _table("min")
"""``AND[a][b]``: the possible values of a conjunction."""

OR: Final = _table("max")
"""``OR[a][b]``: the possible values of a disjunction."""


def negate(truths: Truths) -> Truths:
    """The possible values of the negation."""
    return (truths & INDETERMINATE) | (TRUE if truths & FALSE else 0) | (FALSE if truths & TRUE else 0)


def of(value: bool | None) -> Truths:
    """The set of one: true, false, or None for indeterminate."""
    return INDETERMINATE if value is None else TRUE if value else FALSE
