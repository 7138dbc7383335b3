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
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import jsonschema_rs

from gatescore.canonical import OPAQUE
from gatescore.errors import Path, PolicyError
from gatescore.policy.keywords import CHECK, TROUBLE, Keyword, StringCheck, Trouble, check_class, described
from gatescore.policy.schema_check import ANNOTATIONS, SPEAKS_ABOUT, TYPES, asserts
from gatescore.truth import FALSE, INDETERMINATE, TRUE, Truths

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

_CONTAINERS: Final = frozenset(("array", "object"))

# Keywords that plain JSON Schema reads together, under the first of each group.
_GROUPS: Final[Mapping[str, str]] = {
    "prefixItems": "items",
    "minContains": "contains",
    "maxContains": "contains",
    "patternProperties": "properties",
    "additionalProperties": "properties",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """
    One of the two readings of a condition, ready to be asked.

    Attributes:
        is_valid: The validator.
        may: It is the reading that holds unless the condition is false.
        watched: It uses keywords of ours, which collect what goes wrong in them.
    """

    is_valid: Callable[[object], bool]
    may: bool
    watched: bool

    def holds(self, value: object, errors: list[str] | None = None) -> bool:
        """
        Ask about *value*.

        Whatever goes wrong is added to *errors*, each text once, and makes a `must` False and a `may`
        True: it restricts, and never grants.
        """
        if self.watched:
            return self._watch(value, errors)
        try:
            return self.is_valid(value)
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no `Exception`
            return self._unanswered(error, errors)

    def _watch(self, value: object, errors: list[str] | None) -> bool:
        trouble = Trouble()
        token = TROUBLE.set(trouble)
        try:
            answer = self.is_valid(value)
        except BaseException as error:  # noqa: BLE001 - as above
            answer = self._unanswered(error, errors)
        finally:
            TROUBLE.reset(token)
        if trouble.interrupt is not None:
            raise trouble.interrupt
        for text in trouble.texts:
            _note(text, errors)
        return answer

    def _unanswered(self, error: BaseException, errors: list[str] | None) -> bool:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise error
        _note(f"the arguments could not be judged: {described(error)}", errors)
        return self.may


def _note(text: str, errors: list[str] | None) -> None:
    if errors is not None and text not in errors:
        errors.append(text)


class Pair(NamedTuple):
    """Both readings of one condition."""

    must: Reading
    may: Reading

    def judge(
        self, value: object, errors: list[str] | None = None, otherwise: Truths = INDETERMINATE
    ) -> Truths:
        """True, false, or *otherwise*."""
        if self.must.holds(value, errors):
            return TRUE
        return otherwise if self.may.holds(value, errors) else FALSE


@dataclass(frozen=True, slots=True)
class Conjunction:
    """
    What a keyword has to know of the schema that it stands in, and of those joined by `allOf`.

    Attributes:
        guarded: Something is said beside `type`, which then says what that is about.
        described: The members that `properties` describes, of which `required` adds nothing.
    """

    guarded: bool
    described: frozenset[str]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Conjunction:
        """The conjunction that *schema* is the whole of."""
        parts = list(_conjuncts(schema))
        said = {keyword for part in parts for keyword in part} - ANNOTATIONS - {"type", "allOf"}
        return cls(bool(said), frozenset(name for part in parts for name in part.get("properties", ())))


class Compiler:
    """
    Makes plain schemas of checked ones.

    Args:
        keywords: The ``x-`` keywords.
        path: Where in the policy the condition stands, for errors.
        opaque: Make every condition on a marker indeterminate; without, markers are plain objects.
    """

    __slots__ = ("_checks", "_keywords", "_left", "_opaque", "_path")

    def __init__(self, keywords: Mapping[str, Keyword], path: Path, *, opaque: bool) -> None:
        self._keywords = keywords
        self._path = path
        self._opaque = opaque
        self._checks: list[StringCheck] = []
        self._left = _MAX_SCHEMAS

    def pair(
        self, make: Callable[[bool], Plain], definitions: Callable[[bool], dict[str, Plain]] | None = None
    ) -> Pair:
        """
        Compile the schemas that *make* makes for `must` (False) and `may` (True).

        What they refer to, *definitions* makes likewise.
        """
        must, may = (
            self._reading(make(may), definitions(may) if definitions else {}, may) for may in (False, True)
        )
        return Pair(must, may)

    def _reading(self, plain: Plain, definitions: dict[str, Plain], may: bool) -> Reading:
        if self._opaque:
            definitions = {**definitions, **_DEFINITIONS}
        validator = jsonschema_rs.Draft202012Validator(
            {"$defs": definitions, "allOf": [plain]} if definitions else plain,
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
        if not _CONTAINERS.isdisjoint(types) and self._opaque:
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

    def every(self, schema: Any, *, may: bool, restricting: bool) -> tuple[Plain, dict[str, Plain]]:
        """
        Compile *schema* as a condition on the leaves and keys of a whole value, at every depth.

        With *restricting* some leaf or key meets it, else every one does. Those of a type that the
        schema never decides are passed over; a marker is a leaf that cannot be judged.

        Returns the plain schema, and the definitions that it needs at the root of what it stands in.
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
            {"if": {"type": sorted(_CONTAINERS)}, "then": inside, "else": leaves}, may != restricting
        )
        return {"not": here} if restricting else here, {"leaf": self.schema(schema, may=may), "every": node}


LEAVES: Final = tuple(name for name in TYPES if name not in _CONTAINERS)
"""The JSON types of leaves. Keys are strings."""


def groups(schema: Mapping[str, Any]) -> list[str]:
    """The keywords of *schema* that say something, those that are read together under one name."""
    return list(
        dict.fromkeys(_GROUPS.get(keyword, keyword) for keyword in schema if keyword not in ANNOTATIONS)
    )


def groups_of(group: str) -> list[str]:
    """The keywords that `groups` puts together under the name *group*."""
    return [group, *(keyword for keyword, name in _GROUPS.items() if name == group)]


def is_marker(value: object) -> bool:
    """Whether a plain JSON *value* is what `MARKER` is valid for."""
    return isinstance(value, dict) and (OPAQUE in value or WITHHELD in value)


def listed(keyword: str, limit: Any) -> list[Any]:
    """The values that `enum` or `const` lists; empty for any other *keyword*."""
    return limit if keyword == "enum" else [limit] if keyword == "const" else []


def json_type(value: object) -> str:
    """The JSON type of a plain JSON value; integers are numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def speaks_about(schema: Any) -> frozenset[str]:
    """
    The types that a branch of `anyOf` is about; empty where nothing in it says.

    Those that `type` names, else those that its keywords are about, each through `allOf` too.
    """
    named: list[frozenset[str]] = []
    implied: set[str] = set()
    for part in _conjuncts(schema):
        if "type" in part:
            named.append(frozenset("number" if name == "integer" else name for name in _names(part["type"])))
        for keyword, limit in part.items():
            implied |= _about(keyword)
            implied.update(json_type(value) for value in listed(keyword, limit))
    return frozenset.intersection(*named) if named else frozenset(implied)


def decides(schema: Any, leaf: str, whole: Conjunction | None = None) -> bool:
    """
    Whether any keyword of *schema* can be true or false of leaves of the type *leaf*.

    Said of the form alone: where this is False, the schema is indeterminate on all of them.
    """
    if isinstance(schema, bool) or not asserts(schema):
        return True
    guarded = (whole := whole or Conjunction.of(schema)).guarded

    def by(keyword: str, limit: Any) -> bool:
        match keyword:
            case "type":
                names = _names(limit)
                return not guarded or leaf in names or (leaf == "number" and "integer" in names)
            case "enum" | "const":
                types = {json_type(value) for value in listed(keyword, limit)}
                return leaf in types or types == {"null"}
            case "allOf":
                return any(decides(part, leaf, whole) for part in limit)
            case "anyOf":
                about = [speaks_about(branch) for branch in limit]
                taken = any(leaf in types for types in about)
                return any(
                    decides(branch, leaf)
                    for branch, types in zip(limit, about, strict=True)
                    if leaf in types or not (types and taken)
                )
            case "not":
                return decides(limit, leaf)
            case _:
                return leaf in _about(keyword)

    return any(by(keyword, limit) for keyword, limit in schema.items() if keyword not in ANNOTATIONS)


def _about(keyword: str) -> frozenset[str]:
    if keyword.startswith("x-"):
        return frozenset(("string", "array"))
    return frozenset((SPEAKS_ABOUT[keyword],)) if keyword in SPEAKS_ABOUT else frozenset()


def _names(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else types


def _conjuncts(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, bool):
        return
    yield schema
    for part in schema.get("allOf", ()):
        yield from _conjuncts(part)


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
