"""
YAML, as far as a policy may use it.

Read from the events of PyYAML's parser, never by its constructors: the types are those of YAML
1.2's core schema (`no`, `on`, dates and `1:30` stay text), and nothing that a tag could make is
ever made. Refused: tags, merge keys, more than one document, an empty one.

Imported only where YAML is read, because PyYAML is not needed for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml

from gatescore.errors import PolicyError
from gatescore.policy.places import TOO_DEEP, Builder, Lines, Node, Place, shown, value_fault

# YAML 1.2.2, section 10.3.2. Python's `\d` would take the digits of every script.
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_PREFIXED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CONSTANTS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip

# What YAML forbids, and the line breaks that only YAML 1.1 had: PyYAML would break a line there
# and an editor would not, so that a comment could hide a rule.
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


def parse(text: str, source: str | None) -> Node:
    """
    Read the one YAML document in *text*.

    Raises:
        PolicyError: It is not YAML, it is empty, or it uses what a policy may not. With its place.
    """
    lines = Lines(text)
    bad = _FORBIDDEN.search(text)
    if bad is not None:
        code = f"{ord(bad[0]):04X}"
        message = value_fault(bad[0]) or (
            f"U+{code} cannot stand in YAML: remove it, or write it as `\\u{code}` in double quotes"
        )
        raise PolicyError(message).located(source, *lines.place(bad.start()))
    builder = Builder(source)
    try:
        for event in _events(text, builder):
            _feed(event, builder)
    except yaml.MarkedYAMLError as error:
        message, place = _syntax_fault(error, text, lines)
        raise PolicyError(message).located(source, *place) from None
    except PolicyError:
        raise
    except (OverflowError, ValueError):  # PyYAML without libyaml, at an escape beyond Unicode
        message = "not YAML: an escape in double quotes names no character"
        raise PolicyError(message).located(source, 1, 1) from None
    return builder.finish()


def resolve(raw: str) -> str | float | bool | None:
    """Give a plain scalar its type by the core schema; ValueError for an int too long for Python."""
    if raw in _CONSTANTS:
        return _CONSTANTS[raw]
    if _INTEGER.fullmatch(raw):
        return int(raw)
    if _FLOAT.fullmatch(raw):
        return float(raw)
    if _PREFIXED.fullmatch(raw):
        return int(raw, 0)
    if _NOT_FINITE.fullmatch(raw):
        return float(raw.replace(".", ""))
    return raw


def _events(text: str, builder: Builder) -> Iterator[yaml.NodeEvent | yaml.CollectionEndEvent]:
    found = False
    for event in yaml.parse(text, Loader=yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader):
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event
        elif isinstance(event, yaml.DocumentStartEvent):
            if found:
                raise builder.fault(
                    "a second document begins here: put it into a file of its own", _place(event)
                )
            found = True


def _feed(event: yaml.NodeEvent | yaml.CollectionEndEvent, builder: Builder) -> None:
    place = _place(event)
    if isinstance(event, yaml.ScalarEvent):
        _feed_scalar(event, place, builder)
    elif isinstance(event, yaml.CollectionStartEvent):
        _refuse_tag(event.tag, place, builder)
        builder.start(mapping=isinstance(event, yaml.MappingStartEvent), place=place, anchor=event.anchor)
    elif isinstance(event, yaml.CollectionEndEvent):
        builder.end()
    elif event.anchor is not None:
        builder.alias(event.anchor, place)


def _feed_scalar(event: yaml.ScalarEvent, place: Place, builder: Builder) -> None:
    raw: str = event.value
    if event.style:  # in quotes or a block: text, and `!` says no more than that
        _refuse_tag(None if event.tag == "!" else event.tag, place, builder)
        builder.scalar(str, raw, place, event.anchor)
        return
    _refuse_tag(event.tag, place, builder)
    if raw == "<<" and builder.awaits_key:
        raise builder.fault("merge keys are not read: write the keys out", place)
    builder.scalar(resolve, raw, place, event.anchor)


def _refuse_tag(tag: str | None, place: Place, builder: Builder) -> None:
    if tag is not None:
        short = tag.replace("tag:yaml.org,2002:", "!!")
        message = (
            f"the tag {shown(short)} is not read: leave it out, or put text that begins with `!` in quotes"
        )
        raise builder.fault(message, place)


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


def _syntax_fault(error: yaml.MarkedYAMLError, text: str, lines: Lines) -> tuple[str, Place]:
    """Word the parser's complaint, with a remedy where policies are known to go wrong."""
    problem, context = error.problem or "", error.context or ""
    begin, mark = error.context_mark, error.problem_mark or error.context_mark
    remedy = ""
    if "alias" in context or "anchor" in context:
        mark = begin or mark
        remedy = ": put a name or pattern that begins with `*` or `&` in quotes"
    offset = min(mark.index, len(text)) if mark is not None else 0
    char = text[offset : offset + 1]
    # The mark of an end of file may be on a line that no editor shows.
    place = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    if place[0] > len(lines):
        place = lines.place(len(text))
    if "maximum nesting" in problem:  # libyaml looks ahead, and meets its own limit before ours
        return TOO_DEEP, place
    if char == "\t" or "tab" in problem:
        remedy = ": indent with spaces, not with tabs"
    elif "cannot start any token" in problem:
        remedy = f": put text that begins with {shown(char)} in quotes"
    elif "mapping values are not allowed" in problem:
        remedy = ": put text that holds `: ` in quotes, and begin the keys of one mapping in one column"
    message = f"not YAML: {problem or context}"
    if problem and context and begin is not None and begin.line + 1 != place[0]:
        message += f" {context} that begins on line {begin.line + 1}"
    return message + remedy, place
