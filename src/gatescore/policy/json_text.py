"""
JSON, strictly: what `json.loads` takes, less NaN, infinities and duplicate keys.

`json.loads` judges the text; a small tokenizer then walks text that is known to be good, for the
places that `json` does not keep.
"""

from __future__ import annotations

import json
import re
from typing import Final

from gatescore.errors import PolicyError
from gatescore.policy.places import EMPTY, MAX_DEPTH, TOO_DEEP, Builder, Lines, Node

# Strings, brackets, and everything else up to the next of them; white space, `,` and `:` fall between.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]|[^][{}",:\s]+')
_CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}


def parse(text: str, source: str | None) -> Node:
    """
    Read one JSON value.

    Raises:
        PolicyError: It is not JSON, it is empty, or it uses what a policy may not. With its place.
    """
    lines = Lines(text)
    try:
        json.loads(text, parse_int=_skip, parse_float=_skip, parse_constant=_skip)
    except json.JSONDecodeError as error:
        message = _syntax_fault(error) if text.strip() else EMPTY
        raise PolicyError(message).located(source, *lines.place(error.pos)) from None
    except RecursionError:
        raise PolicyError(TOO_DEEP).located(source, *lines.place(_deepest(text))) from None
    builder = Builder(source)
    for token in _TOKEN.finditer(text):
        raw, place = token[0], lines.place(token.start())
        if raw in "{[":
            builder.start(mapping=raw == "{", place=place)
        elif raw in "}]":
            builder.end()
        else:
            builder.scalar(_value, raw, place)
    return builder.finish()


def _syntax_fault(error: json.JSONDecodeError) -> str:
    """Word the parser's complaint, with a remedy where people take JSON for something near it."""
    reason = error.msg.removesuffix(" at").removesuffix(" starting")
    rest = error.doc[error.pos : error.pos + 1]
    remedy = ""
    if rest == "'":
        remedy = ": put text in double quotes"
    elif rest in {"/", "#"}:
        remedy = ": JSON has no comments, YAML has"
    elif rest == "," or (rest in {"}", "]"} and error.doc[: error.pos].rstrip().endswith(",")):
        remedy = ": there is a comma too many"
    return f"not JSON: {reason[:1].lower()}{reason[1:]}{remedy}"


def _deepest(text: str) -> int:
    """Find where *text*, which nothing has checked, nests deeper than allowed."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth > MAX_DEPTH:
            return token.start()
    return 0


def _skip(_: str) -> None:
    """Numbers are made later, where their place is known."""


def _value(raw: str) -> str | float | bool | None:
    if raw[0] == '"':
        text: str = json.loads(raw) if "\\" in raw else raw[1:-1]
        return text
    if raw in _CONSTANTS:
        return _CONSTANTS[raw]
    # `NaN` and `Infinity`, which are not JSON but which `json` takes, become floats and are refused
    return int(raw) if raw.lstrip("-").isdigit() else float(raw)
