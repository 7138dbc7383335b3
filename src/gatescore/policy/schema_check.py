"""
What a condition on arguments may be written with, checked when a policy is loaded.

jsonschema-rs ignores what it does not know, a misspelt keyword included. A condition that is
ignored is a condition that holds; so everything is checked here, down to the type of every value,
and what is not known is an error that names the remedy.

Source: DESIGN 3.3, "Accepted keywords".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

import jsonschema_rs

from gatescore.canonical import Json
from gatescore.errors import Path, PolicyError, did_you_mean
from gatescore.policy.keywords import KEYWORDS, Keyword
from gatescore.policy.schema_reading import ANNOTATIONS, TYPES

MAX_NESTING: Final = 32
"""How deep schemas may stand in schemas."""

_MAX_DEPTH: Final = 96
_MAX_VALUES: Final = 50_000
_MAX_COUNT: Final = 2**53
_MAX_PATTERN: Final = 10_000
_MAX_BITS: Final = 13_000  # some 4,000 decimal digits: no more can be written as JSON

_NO_REFERENCES = "write the schema out where it is needed"
_REMEDIES: Final[Mapping[str, str]] = {
    "oneOf": "use `anyOf`, and `not` for what may not hold together",
    "format": "it checks nothing unless asked to: use `pattern`",
    "if": "use `anyOf` with one `allOf` for each case",
    "then": "use `anyOf` with one `allOf` for each case",
    "else": "use `anyOf` with one `allOf` for each case",
    "$ref": _NO_REFERENCES,
    "$dynamicRef": _NO_REFERENCES,
    "$recursiveRef": _NO_REFERENCES,
    "$defs": _NO_REFERENCES,
    "definitions": _NO_REFERENCES,
    "$schema": "leave it out: it is always JSON Schema 2020-12",
    "$id": "leave it out",
    "id": "leave it out; an argument of that name stands under `properties`",
    "$anchor": "leave it out",
    "unevaluatedProperties": "use `additionalProperties`",
    "unevaluatedItems": "use `items`",
    "additionalItems": "use `items`, which speaks about what follows `prefixItems`",
    "dependentRequired": "use `anyOf`",
    "dependentSchemas": "use `anyOf`",
    "dependencies": "use `anyOf`",
    "nullable": 'list the types, as in `type: [string, "null"]`',
    # The operators of other policy languages.
    "gt": "use `exclusiveMinimum`",
    "gte": "use `minimum`",
    "ge": "use `minimum`",
    "lt": "use `exclusiveMaximum`",
    "lte": "use `maximum`",
    "le": "use `maximum`",
    "eq": "use `const`",
    "equals": "use `const`",
    "ne": "use `not: {const: ...}`",
    "not_equals": "use `not: {const: ...}`",
    "in": "use `enum`",
    "not_in": "use `not: {enum: [...]}`",
    "starts_with": "use `pattern: ^...`",
    "ends_with": "use `pattern: ...$`",
    "matches": "use `pattern`",
    "glob": "use `pattern`",
    "regex": "use `pattern`",
    "min": "use `minimum`",
    "max": "use `maximum`",
    "example": "use `examples`",
}


def check_schema(schema: object, path: Path, keywords: Mapping[str, Keyword] = KEYWORDS) -> Json:
    """
    Check that *schema*, found at *path* in a policy, is one that conditions can be made of.

    Returns a copy of it, in plain JSON types, that nobody else holds.

    Raises:
        PolicyError: With the path to the fault, from the root of the document, and the remedy.
    """
    copy = plain_copy(schema, path)
    _Check(keywords, MAX_NESTING).schema(copy, path)
    return copy


def plain_copy(value: object, path: Path) -> Json:
    """
    Copy *value*, found at *path*, into plain JSON types.

    Raises:
        PolicyError: JSON cannot hold it, or it is larger than any condition has to be.
    """
    return _Copy().value(value, path, 0)


class _Copy:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MAX_VALUES

    def value(self, value: object, path: Path, depth: int) -> Json:
        self.left -= 1
        if self.left < 0:
            _refuse(f"is too large: a condition has at most {_MAX_VALUES:,} values", path)
        if depth > _MAX_DEPTH:
            _refuse(f"nests deeper than {_MAX_DEPTH} levels, or holds itself", path)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(str.__str__(value), path)
        if isinstance(value, int):
            if value.bit_length() > _MAX_BITS:
                _refuse("has more digits than a number can have", path)
            return int.__int__(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                _refuse("is not a finite number: no value can be compared with it", path)
            return float.__float__(value)
        if isinstance(value, Mapping):
            return self._object(value, path, depth)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, (list, tuple)):
            items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType]
            return [self.value(item, (*path, index), depth + 1) for index, item in enumerate(items)]
        raise PolicyError(f"a {type(value).__name__} is no JSON value: write it as text", path=path)

    def _object(self, mapping: Mapping[object, object], path: Path, depth: int) -> dict[str, Json]:
        copy: dict[str, Json] = {}
        for key, item in mapping.items():
            if not isinstance(key, str):
                _refuse(f'key `{key}` is no text: write `"{key}"`', path)
            name = self._text(str.__str__(key), path)
            copy[name] = self.value(item, (*path, name), depth + 1)
        return copy

    def _text(self, text: str, path: Path) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            _refuse("holds half of a surrogate pair, which is no character", path)
        return text


def _refuse(message: str, path: Path, *, key: bool = False) -> NoReturn:
    raise PolicyError(message, path=path, key=key)


@dataclass(frozen=True, slots=True)
class _Check:
    """The check of one schema and of what it holds."""

    keywords: Mapping[str, Keyword]
    room: int
    """How many more levels of schemas fit below."""

    def schema(self, schema: Json, path: Path) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            _refuse(f"{_kind(schema)} is no schema{_meant(schema)}", path)
        if self.room == 0:
            _refuse(f"schemas nest deeper than {MAX_NESTING} levels: take some apart into rules", path)
        for keyword, value in schema.items():
            self._keyword(keyword, value, schema, (*path, keyword))

    def _keyword(self, keyword: str, value: Json, schema: dict[str, Json], path: Path) -> None:
        if keyword in ANNOTATIONS:
            return
        if keyword in self.keywords:
            self.keywords[keyword].compile(value, path)
            return
        check = _CHECKS.get(keyword)
        if check is None:
            self._unknown(keyword, value, path)
        if keyword in ("minContains", "maxContains") and "contains" not in schema:
            _refuse(f"`{keyword}` counts what `contains` describes: add `contains`", path, key=True)
        check(_Check(self.keywords, self.room - 1), value, path)

    def _unknown(self, keyword: str, value: Json, path: Path) -> NoReturn:
        if keyword in _REMEDIES:
            _refuse(f"keyword `{keyword}` is not accepted: {_REMEDIES[keyword]}", path, key=True)
        if keyword.startswith("x-"):
            known = self.keywords
            hint = did_you_mean(keyword, known) if known else "this version has no keywords of its own"
            _refuse(f"unknown keyword `{keyword}`: {hint}", path, key=True)
        hint = did_you_mean(keyword, (*_CHECKS, *self.keywords))
        if not hint.startswith("did"):
            hint = "leave it out"
            if isinstance(value, (dict, bool)):
                hint = "if it is the name of a member, it stands under `properties`"
        _refuse(f"unknown keyword `{keyword}`: {hint}", path, key=True)

    # What follows checks the value of one keyword each.

    def schemas(self, value: Json, path: Path) -> None:
        for index, schema in enumerate(self._list(value, path, "schemas")):
            self.schema(schema, (*path, index))

    def items(self, value: Json, path: Path) -> None:
        if isinstance(value, list):
            _refuse("`items` is one schema for all items: for a list of schemas use `prefixItems`", path)
        self.schema(value, path)

    def members(self, value: Json, path: Path) -> None:
        for name, schema in self._object(value, path).items():
            self.schema(schema, (*path, name))

    def pattern_members(self, value: Json, path: Path) -> None:
        for pattern, schema in self._object(value, path).items():
            _compile_pattern(pattern, (*path, pattern), key=True)
            self.schema(schema, (*path, pattern))

    def types(self, value: Json, path: Path) -> None:
        listed = isinstance(value, list)
        names = self._list(value, path, "types") if isinstance(value, list) else [value]
        for index, name in enumerate(names):
            place = (*path, index) if listed else path
            if not isinstance(name, str):
                meant = ': write `"null"`' if name is None else ""
                _refuse(f"{_kind(name)} is no name of a type{meant}", place)
            if name not in (*TYPES, "integer"):
                _refuse(f"unknown type `{name}`: {did_you_mean(name, (*TYPES, 'integer'))}", place)
            if name in names[:index]:
                _refuse(f"type `{name}` is listed twice", place)

    def listed(self, value: Json, path: Path) -> None:
        self._list(value, path, "values")

    def anything(self, value: Json, path: Path) -> None:
        """`const` takes any value."""

    def number(self, value: Json, path: Path) -> None:
        keyword = path[-1]
        if isinstance(value, bool) and keyword in ("exclusiveMaximum", "exclusiveMinimum"):
            _refuse(f"`{keyword}` is the limit itself, a number, and stands alone", path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            _refuse(f"`{keyword}` takes a number, not {_kind(value)}", path)

    def positive(self, value: Json, path: Path) -> None:
        self.number(value, path)
        if isinstance(value, (int, float)) and value <= 0:
            _refuse(f"`{path[-1]}` takes a number over 0", path)

    def count(self, value: Json, path: Path) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
            shown = f"`{value}`" if isinstance(value, (int, float)) else _kind(value)
            _refuse(f"`{path[-1]}` takes a whole number from 0, not {shown}", path)

    def boolean(self, value: Json, path: Path) -> None:
        if not isinstance(value, bool):
            _refuse(f"`{path[-1]}` takes true or false, not {_kind(value)}", path)

    def pattern(self, value: Json, path: Path) -> None:
        if not isinstance(value, str):
            _refuse(f"`pattern` takes a regular expression as text, not {_kind(value)}", path)
        _compile_pattern(value, path)

    def names(self, value: Json, path: Path) -> None:
        if not isinstance(value, list):
            _refuse(f"`required` takes a list of names, not {_kind(value)}", path)
        for index, name in enumerate(value):
            if not isinstance(name, str):
                _refuse(f"{_kind(name)} is no name", (*path, index))
            if name in value[:index]:
                _refuse(f"`{name}` is listed twice", (*path, index))

    def _list(self, value: Json, path: Path, what: str) -> list[Json]:
        if not isinstance(value, list):
            _refuse(f"`{path[-1]}` takes a list of {what}, not {_kind(value)}", path)
        if not value:
            _refuse(f"`{path[-1]}` is empty: list the {what}, or leave it out", path)
        return value

    def _object(self, value: Json, path: Path) -> dict[str, Json]:
        if not isinstance(value, dict):
            _refuse(f"`{path[-1]}` takes a mapping of names to schemas, not {_kind(value)}", path)
        return value


_CHECKS: Final[Mapping[str, Callable[[_Check, Json, Path], None]]] = {
    "type": _Check.types,
    "enum": _Check.listed,
    "const": _Check.anything,
    "maximum": _Check.number,
    "minimum": _Check.number,
    "exclusiveMaximum": _Check.number,
    "exclusiveMinimum": _Check.number,
    "multipleOf": _Check.positive,
    "pattern": _Check.pattern,
    "minLength": _Check.count,
    "maxLength": _Check.count,
    "items": _Check.items,
    "prefixItems": _Check.schemas,
    "contains": _Check.schema,
    "minContains": _Check.count,
    "maxContains": _Check.count,
    "uniqueItems": _Check.boolean,
    "minItems": _Check.count,
    "maxItems": _Check.count,
    "properties": _Check.members,
    "patternProperties": _Check.pattern_members,
    "additionalProperties": _Check.schema,
    "propertyNames": _Check.schema,
    "required": _Check.names,
    "minProperties": _Check.count,
    "maxProperties": _Check.count,
    "allOf": _Check.schemas,
    "anyOf": _Check.schemas,
    "not": _Check.schema,
}

_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE: Final = re.compile(r"\\(?:[1-9]|k[<'{])")


def _compile_pattern(pattern: str, path: Path, *, key: bool = False) -> None:
    """Refuse what the linear-time engine cannot run; see `gatescore.policy.three_valued.validator`."""
    if len(pattern) > _MAX_PATTERN:
        _refuse(f"a pattern has at most {_MAX_PATTERN:,} characters: use several", path, key=key)
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except ValueError:
        bare = re.sub(r"\\\\", "", pattern)
        shown = pattern if len(pattern) <= 60 else pattern[:57] + "..."
        reason = "is not a regular expression, or repeats too much: count with `minLength` and `maxLength`"
        if _LOOK_AROUND.search(bare):
            reason = "looks around, which takes more than linear time: use `not` and a second pattern"
        elif _BACK_REFERENCE.search(bare):
            reason = "refers back to a group, which takes more than linear time: write the text out"
        _refuse(f"pattern `{shown}` {reason}", path, key=key)


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (int, float)):
        return f"the number `{value}`"
    if isinstance(value, str):
        return f"the text `{value if len(value) <= 60 else value[:57] + '...'}`"
    return "a list" if isinstance(value, list) else "a mapping"


def _meant(value: Json) -> str:
    """What somebody who wrote *value* for a schema probably meant."""
    if isinstance(value, list):
        return ": write `{enum: [...]}` for one value of several"
    return ": write `{const: ...}` for one value"
