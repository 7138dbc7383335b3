"""
Three-valued JSON Schema, made of two plain schemas.

A condition on a value is true, false or indeterminate. A validator knows two answers, so each
schema is compiled twice: `must` is valid if and only if the condition is true, `may` if and only if
it is not false. `not` swaps the two, and so does the upper bound of `contains`.

What is indeterminate: a keyword about one JSON type on a value of another; a member or position
that is absent; `enum` and `const` on a value of a type that no listed value has (``const: null`` is
always decided); `type`, on a value of another type, where it stands beside other keywords and so
says what they are about. In `anyOf`, a branch about other types has no say where another branch is
about this one. The specification that this module is tested against is `tests/spec/args_spec.py`.

Source: DESIGN 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import jsonschema_rs

from gatescore.canonical import OPAQUE
from gatescore.errors import Path, PolicyError
from gatescore.policy.keywords import CHECK, Keyword, StringCheck, check_class
from gatescore.policy.readings import Pair, Reading
from gatescore.policy.schema_reading import (
    CONTAINERS,
    LEAVES,
    SPEAKS_ABOUT,
    Conjunction,
    asserts,
    decides,
    groups,
    json_type,
    listed,
    speaks_about,
)

Plain: TypeAlias = "bool | dict[str, Any]"
"""A schema of two values, for jsonschema-rs."""

WITHHELD: Final = "$withheld"
"""The key of the marker that stands for a value which the record does not tell."""

MARKER: Final[Plain] = {"type": "object", "anyOf": [{"required": [OPAQUE]}, {"required": [WITHHELD]}]}
"""Valid for a marker. Having the key is enough: a marker with more in it is not to be trusted either."""

_UNMARKED: Final[Plain] = {"$ref": "#/$defs/unmarked"}
_DEFINITIONS: Final[Mapping[str, Plain]] = {
    "unmarked": {"not": MARKER, "additionalProperties": _UNMARKED, "items": _UNMARKED}
}
"""``unmarked``: no marker stands in the value, at any depth."""

_MAX_SCHEMAS: Final = 50_000


class Compiler:
    """
    Makes plain schemas of checked ones.

    Args:
        keywords: The ``x-`` keywords.
        path: Where in the policy the condition stands, for errors.
        opaque: Make every condition on a marker indeterminate; without, markers are plain objects.
    """

    __slots__ = ("_checks", "_definitions", "_keywords", "_left", "_opaque", "_path")

    def __init__(self, keywords: Mapping[str, Keyword], path: Path, *, opaque: bool) -> None:
        self._keywords = keywords
        self._path = path
        self._opaque = opaque
        self._checks: list[StringCheck] = []
        self._definitions: dict[str, Plain] = {}
        self._left = _MAX_SCHEMAS

    def pair(self, make: Callable[[bool], Plain]) -> Pair:
        """Compile what *make* makes of schemas, for `must` where it is called with False, else for `may`."""
        return Pair(self._reading(make, may=False), self._reading(make, may=True))

    def _reading(self, make: Callable[[bool], Plain], *, may: bool) -> Reading:
        self._definitions = dict(_DEFINITIONS) if self._opaque else {}
        plain = make(may)
        validator = jsonschema_rs.Draft202012Validator(
            {"$defs": self._definitions, "allOf": [plain]} if self._definitions else plain,
            # The engine that takes linear time. The other gives up on hard patterns, and says "no match".
            pattern_options=jsonschema_rs.RegexOptions(),
            keywords={CHECK: check_class(tuple(self._checks))} if self._checks else None,
            offline=True,
        )
        return Reading(validator.is_valid, may, bool(self._checks))

    def schema(self, schema: Any, *, may: bool) -> Plain:
        """Compile a whole *schema* for one of the two readings."""
        if isinstance(schema, bool):
            return schema
        if not asserts(schema):
            return True
        self._left -= 1
        if self._left < 0:
            # `contains` with `maxContains` compiles its schema twice, and one in the other twice twice.
            raise PolicyError("grows too large: put fewer `maxContains` into each other", path=self._path)
        return self.known(self.conjunct(schema, Conjunction.of(schema), may=may), may)

    def known(self, plain: Plain, marked: bool) -> Plain:
        """*plain*, but *marked* for a marker."""
        if not self._opaque:
            return plain
        return {"if": MARKER, "then": marked, "else": plain}

    def null(self, *, marked: bool) -> Plain:
        """Valid for null, and for markers if they are *marked* as null."""
        return {"anyOf": [{"type": "null"}, MARKER]} if marked and self._opaque else {"type": "null"}

    def conjunct(self, schema: Any, whole: Conjunction, *, may: bool) -> Plain:
        """Compile *schema* as a part of the conjunction *whole*."""
        if isinstance(schema, bool):
            return schema
        return _joined(part for group in groups(schema) for part in self._group(group, schema, whole, may))

    def group(self, group: str, schema: Mapping[str, Any], whole: Conjunction, *, may: bool) -> Plain:
        """Compile what `groups` has found in *schema* under the name *group*."""
        return _joined(self._group(group, schema, whole, may))

    def _group(
        self, group: str, schema: Mapping[str, Any], whole: Conjunction, may: bool
    ) -> list[dict[str, Any]]:
        parts = self._parts(group, schema, whole, may)
        if group in SPEAKS_ABOUT and not may:
            # Plain JSON Schema lets a keyword hold for all other types; here it does not say so.
            parts.insert(0, {"type": SPEAKS_ABOUT[group]})
        return parts

    def _parts(
        self, group: str, schema: Mapping[str, Any], whole: Conjunction, may: bool
    ) -> list[dict[str, Any]]:
        match group:
            case "type":
                return [] if may and whole.guarded else [{"type": schema["type"]}]
            case "enum" | "const":
                return self._listed(listed(group, schema[group]), may)
            case "allOf":
                return [{"allOf": [self.conjunct(part, whole, may=may) for part in schema["allOf"]]}]
            case "anyOf":
                return [{"anyOf": list(self._branches(schema["anyOf"], may))}]
            case "not":
                return [{"not": self.schema(schema["not"], may=not may)}]
            case "items":
                return [self._items(schema, may)]
            case "contains":
                return self._contains(schema, may)
            case "uniqueItems":
                return [self._unique(schema["uniqueItems"], may)]
            case "properties":
                return [self._members(schema, may)]
            case "propertyNames":
                return [{"propertyNames": self.schema(schema["propertyNames"], may=may)}]
            case "required":
                return [{"required": [name for name in schema["required"] if name not in whole.described]}]
            case _ if group in self._keywords:
                # Checked when the policy was loaded: it does not fail.
                check = self._keywords[group].compile(schema[group], self._path)
                self._checks.append(StringCheck(group, check, may))
                return [{CHECK: len(self._checks) - 1}]
            case _:
                return [{group: schema[group]}]

    def _listed(self, values: Sequence[Any], may: bool) -> list[dict[str, Any]]:
        types = sorted({json_type(value) for value in values})
        plain: dict[str, Any] = {"enum": list(values)}
        if not CONTAINERS.isdisjoint(types) and self._opaque:
            plain = {"if": _UNMARKED, "then": plain, "else": may}
        if may and types != ["null"]:
            plain = {"if": {"type": types}, "then": plain}
        return [plain]

    def _branches(self, schemas: Sequence[Any], may: bool) -> Iterator[Plain]:
        about = [speaks_about(schema) for schema in schemas]
        taken = frozenset[str]().union(*(types for types in about if types))
        for schema, types in zip(schemas, about, strict=True):
            plain = self.schema(schema, may=may)
            elsewhere = taken - types if types else None
            if may and elsewhere:
                # In `must` this is not needed: a schema is never true of a type that it is not about.
                plain = {"if": {"type": sorted(elsewhere)}, "then": False, "else": plain}
            yield plain

    def _items(self, schema: Mapping[str, Any], may: bool) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        if "prefixItems" in schema:
            plain["prefixItems"] = [self.schema(item, may=may) for item in schema["prefixItems"]]
            if not may:
                plain["minItems"] = len(schema["prefixItems"])
        if "items" in schema:
            plain["items"] = self.schema(schema["items"], may=may)
        return plain

    def _contains(self, schema: Mapping[str, Any], may: bool) -> list[dict[str, Any]]:
        item = schema["contains"]
        plain: list[dict[str, Any]] = [
            {"contains": self.schema(item, may=may), "minContains": schema.get("minContains", 1)}
        ]
        if "maxContains" in schema:
            # An upper bound is kept for sure where even the items that only may count are few enough.
            counted = self.schema(item, may=not may)
            plain.append({"contains": counted, "minContains": 0, "maxContains": schema["maxContains"]})
        return plain

    def _unique(self, wanted: bool, may: bool) -> dict[str, Any]:
        plain: dict[str, Any] = {"uniqueItems": wanted}
        if wanted and self._opaque:
            return {"if": _UNMARKED, "then": plain, "else": may}
        return plain

    def _members(self, schema: Mapping[str, Any], may: bool) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for keyword in ("properties", "patternProperties"):
            if keyword in schema:
                members = schema[keyword].items()
                plain[keyword] = {name: self.schema(member, may=may) for name, member in members}
        if "properties" in schema and not may:
            plain["required"] = list(schema["properties"])
        if "additionalProperties" in schema:
            plain["additionalProperties"] = self.schema(schema["additionalProperties"], may=may)
        return plain

    def every(self, schema: Any, *, may: bool, restricting: bool) -> Plain:
        """
        Compile *schema* as a condition on the leaves and keys of a whole value, at every depth.

        With *restricting* some leaf or key meets it, else every one does. Those of a type that the
        schema never decides are passed over; a marker is a leaf that cannot be judged.
        """
        # "Some is" is "not every one is not"; these two negations are plain ones, of plain schemas.
        leaf: Plain = {"$ref": "#/$defs/leaf"}
        judged: Plain = {"not": leaf} if restricting else leaf
        passed = [name for name in LEAVES if not decides(schema, name)]
        leaves = {"if": {"type": passed}, "else": judged} if passed else judged
        here: Plain = {"$ref": "#/$defs/every"}
        inside: Plain = {
            "propertyNames": True if "string" in passed else judged,
            "additionalProperties": here,
            "items": here,
        }
        node = self.known(
            {"if": {"type": sorted(CONTAINERS)}, "then": inside, "else": leaves}, may != restricting
        )
        self._definitions |= {"leaf": self.schema(schema, may=may), "every": node}
        return {"not": here} if restricting else here


def is_marker(value: object) -> bool:
    """Whether a plain JSON *value* is what `MARKER` is valid for."""
    return isinstance(value, dict) and (OPAQUE in value or WITHHELD in value)


def _joined(parts: Iterable[dict[str, Any]]) -> Plain:
    """Put schemas that must all hold into one, flat where their keywords do not meet."""
    joined: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    for part in parts:
        # Only types are compared: to Python, what is listed as 1 would equal what is listed as true.
        if any(
            keyword in joined and (keyword != "type" or joined[keyword] != part[keyword]) for keyword in part
        ):
            others.append(part)
        else:
            joined.update(part)
    if others:
        joined["allOf"] = [*joined.get("allOf", ()), *others]
    return joined
