"""
What both directions share: the parts of a span, and how texts and JSON stand in its attributes.

A text that UTF-8 or a backend cannot hold (a lone surrogate, a zero byte) is escaped behind a mark, and
comes back as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from gatescore.canonical import Json, canonical_text
from gatescore.errors import GatescoreError
from gatescore.model import Event

Attributes: TypeAlias = "dict[str, str | bool | int | float | Sequence[str]]"

SCHEMA: Final = 1
"""The version of the `gatescore.*` attributes."""

EVENTS: Final = "gatescore.events"
"""The names of the events that a span carries. It makes a span one of gatescore's."""

ARGUMENTS: Final = "gen_ai.tool.call.arguments"
"""Where arguments stand that are told as they are."""

SHAPE: Final = "gatescore.args.shape"
"""Where they stand if some of them are withheld."""

_JSON: Final = frozenset({ARGUMENTS, SHAPE, "gatescore.facts", "gatescore.attributes", "gatescore.budgets"})
"""What `json_text` has escaped already."""

SIZE: Final = "gatescore.size"
"""How many attributes of gatescore's the span has, and characters in their texts, in one sum (see `measured`)."""

LOST: Final = "gatescore.lost"
"""How many attributes are left out, because the tracer provider would have cut or evicted them."""

FACTS_WITHHELD: Final = "gatescore.facts.withheld"
"""Whether facts about limits are left out."""

OWN: Final = frozenset(
    {
        ARGUMENTS,
        EVENTS,
        SHAPE,
        SIZE,
        FACTS_WITHHELD,
        "gatescore.action",
        "gatescore.approval",
        "gatescore.approval.attempts",
        "gatescore.approval.by",
        "gatescore.approval.error",
        "gatescore.approval.expires",
        "gatescore.args.digest",
        "gatescore.args.opaque",
        "gatescore.args.raw",
        "gatescore.args.withheld",
        "gatescore.attempt",
        "gatescore.attributes",
        "gatescore.attributes.withheld",
        "gatescore.budgets",
        "gatescore.call.id",
        "gatescore.catalog",
        "gatescore.continues.sequence",
        "gatescore.continues.writer",
        "gatescore.decision",
        "gatescore.decision.invalid",
        "gatescore.edited_from",
        "gatescore.errors",
        "gatescore.executor",
        "gatescore.facts",
        "gatescore.finish.sequence",
        "gatescore.finish.time",
        "gatescore.host_call.id",
        "gatescore.invalid",
        "gatescore.join",
        "gatescore.lone",
        "gatescore.message.id",
        "gatescore.mode",
        "gatescore.moment",
        "gatescore.origin",
        "gatescore.outcome",
        "gatescore.parent",
        "gatescore.policy.digest",
        "gatescore.policy.name",
        "gatescore.policy.version",
        "gatescore.principal",
        "gatescore.reason",
        "gatescore.rule.ids",
        "gatescore.schema",
        "gatescore.selected",
        "gatescore.sequence",
        "gatescore.server",
        "gatescore.session.id",
        "gatescore.stop",
        "gatescore.stream",
        "gatescore.time",
        "gatescore.tool.name",
        "gatescore.unobserved",
        "gatescore.writer",
    }
)
"""The attributes that are read; others may stand beside them."""

MARK: Final = "escaped:"
"""What a text with escapes in it begins with."""

_ESCAPE: Final = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


class DamagedSpanError(GatescoreError, ValueError):
    """A span of gatescore's that lacks some of its attributes, or holds what none of them can be."""


class SpanData(NamedTuple):
    """What a span is made of: its name, and all of its attributes."""

    name: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events of one span, and whose they are."""

    session_id: str
    writer: str
    events: list[Event]


def escaped(text: str) -> str:
    """*text* itself where every backend can hold it; else with its odd characters escaped, behind a mark."""
    # Most texts are short and ASCII, and both questions are quick for these.
    if "\0" not in text and not text.startswith(MARK) and (text.isascii() or not _is_odd(text)):
        return text
    plain = text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode("utf-8")
    return MARK + plain.replace("\0", "\\u0000")


def _is_odd(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def unescaped(text: str) -> str:
    """The text that stands in an attribute as *text*."""
    if not text.startswith(MARK):
        return text
    # Not as JSON: that would make one character of two lone surrogates that follow each other.
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text.removeprefix(MARK))


def json_text(value: Json) -> str:
    """
    A canonical *value* as the text of an attribute: its canonical text, but for one case.

    JSON cannot tell two lone surrogates side by side from the one character that they would make. A
    value with such a pair in it is escaped as other texts are, and is then no JSON.
    """
    text = canonical_text(value)
    if "\\ud" in text and json.loads(text) != value:
        plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return escaped(plain)
    return text


def parsed(text: str) -> Any:
    """
    The value that stands in an attribute as *text*, as `json_text` writes it.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It nests deeper than a parser bears.
    """
    return json.loads(unescaped(text))


def measured(attributes: Attributes) -> int:
    """How many *attributes* there are, and characters in their texts: what a span must still have when it is read."""
    size = len(attributes)
    for value in attributes.values():
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, tuple):
            size += sum(map(len, value))
    return size


def put(own: Attributes, key: str, value: str | int | None) -> None:
    """Set an attribute, where there is something to tell."""
    if value is not None:
        own[key] = value


def sealed(own: Attributes) -> int:
    """Escape what must be among the texts of attributes, and say what they measure then."""
    # Nearly all texts are as they can be, and one look at them together is quick.
    whole = "".join(
        [
            value if isinstance(value, str) else "".join(value) if isinstance(value, tuple) else ""
            for value in own.values()
        ]
    )
    if whole.isascii() and "\0" not in whole and MARK not in whole:
        return len(own) + len(whole)
    for key, value in own.items():
        if key in _JSON:
            continue
        if isinstance(value, str):
            own[key] = escaped(value)
        elif isinstance(value, tuple):
            own[key] = tuple([escaped(text) for text in value])
    return measured(own)
