"""
What a tracer provider's limits leave of a span.

A provider cuts a text in the middle and evicts the oldest attribute, and tells nobody. So a span is made
to fit before it is given to one; what does not fit in any way is left out, and the span says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from gatescore.model import Facts
from gatescore.semconv.encoding import facts_text
from gatescore.semconv.texts import (
    EVENTS,
    FACTS_WITHHELD,
    LOST,
    OWN,
    SIZE,
    Attributes,
    escaped,
    measured,
    parsed,
    unescaped,
)

_FACTS: Final = "gatescore.facts"
_FOR_PEOPLE: Final = frozenset(
    {
        "error.type",
        "gatescore.approval.error",
        "gatescore.decision.invalid",
        "gatescore.errors",
        "gatescore.invalid",
        "gatescore.policy.name",
        "gatescore.policy.version",
        "gatescore.reason",
        "gen_ai.agent.name",
    }
)
"""What people read, and nothing is judged by: it may be shortened."""

# The last ones are evicted last.
_LEAST: Final = ("gatescore.schema", "gatescore.writer", "gatescore.session.id", EVENTS)
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class Limits:
    """
    The limits of a tracer provider, each None for none.

    Attributes:
        length: How many characters a text may have.
        count: How many attributes a span may have.
    """

    length: int | None
    count: int | None


def fit(attributes: Attributes, limits: Limits, *, reserved: int = 0) -> Attributes:
    """
    *attributes* as they pass the *limits* whole.

    Texts for people are shortened. Whatever else is too long is left out, and `gatescore.lost` says of how
    many attributes that is so: the span is then damaged, and read as such.

    Args:
        attributes: The attributes of a span.
        limits: The limits.
        reserved: How many more attributes the span will get later.
    """
    kept, lost = dict(attributes), 0
    length, count = limits.length, limits.count
    if length is not None:
        for key in _too_long(attributes, length):
            _shorten(kept, key, length)
        for key in _too_long(kept, length):
            del kept[key]
            # What of the others is told by one of ours is left out as it is.
            lost += key in OWN
    if count is not None and len(kept) + reserved > count:
        rest: Attributes = {key: kept[key] for key in _LEAST if key in kept}
        lost += len(kept) - len(rest)
        kept = rest
    if lost:
        kept = {LOST: lost, **{key: value for key, value in kept.items() if key != SIZE}}
    elif SIZE in kept:
        kept[SIZE] = measured({key: value for key, value in kept.items() if key in OWN and key != SIZE})
    return kept


def _too_long(attributes: Attributes, length: int) -> list[str]:
    return [key for key, value in attributes.items() if any(len(text) > length for text in _texts(value))]


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, tuple):
        return cast("tuple[str, ...]", value)
    return (value,) if isinstance(value, str) else ()


def _shorten(attributes: Attributes, key: str, length: int) -> None:
    value = attributes[key]
    if key == _FACTS:
        attributes[key] = facts_text(Facts(now=parsed(str(value)).get("now")))
        attributes[FACTS_WITHHELD] = True
    elif key in _FOR_PEOPLE:
        if isinstance(value, str):
            attributes[key] = _shortened(value, length)
        else:
            attributes[key] = tuple([_shortened(text, length) for text in _texts(value)])


def _shortened(text: str, length: int) -> str:
    """The beginning of *text*, with an ellipsis; *text* itself where it fits."""
    if len(text) <= length:
        return text
    plain = unescaped(text)[:length]
    while plain and len(text) > length:
        plain = plain[:-1]
        text = escaped(plain + _ELLIPSIS)
    return text
