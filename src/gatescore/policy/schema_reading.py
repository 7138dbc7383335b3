"""What a checked schema says by its form alone, before any value is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
"""The JSON types. To JSON an integer is a number, and is treated so but in `type`."""

ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
"""Keywords that say something to people and nothing about a value: accepted, and ignored."""

SPEAKS_ABOUT: Final[Mapping[str, str]] = {
    keyword: json_type
    for json_type, keywords in {
        "number": "maximum minimum exclusiveMaximum exclusiveMinimum multipleOf",
        "string": "pattern minLength maxLength",
        "array": "items prefixItems contains minContains maxContains uniqueItems minItems maxItems",
        "object": "properties patternProperties additionalProperties propertyNames required"
        " minProperties maxProperties",
    }.items()
    for keyword in keywords.split()
}
"""Each keyword that judges values of one JSON type alone, with that type."""

CONTAINERS: Final = frozenset(("array", "object"))
"""The JSON types that hold other values."""

LEAVES: Final = tuple(name for name in TYPES if name not in CONTAINERS)
"""The JSON types of leaves. Keys are strings."""


# Keywords that plain JSON Schema reads together, under the first of each group.
_GROUPS: Final[Mapping[str, str]] = {
    "prefixItems": "items",
    "minContains": "contains",
    "maxContains": "contains",
    "patternProperties": "properties",
    "additionalProperties": "properties",
}


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


def asserts(schema: Mapping[str, Any]) -> bool:
    """Whether *schema* says anything about a value; ``{}`` and annotations do not."""
    return not ANNOTATIONS.issuperset(schema)


def groups(schema: Mapping[str, Any]) -> list[str]:
    """The keywords of *schema* that say something, those that are read together under one name."""
    return list(
        dict.fromkeys(_GROUPS.get(keyword, keyword) for keyword in schema if keyword not in ANNOTATIONS)
    )


def groups_of(group: str) -> list[str]:
    """The keywords that `groups` puts together under the name *group*."""
    return [group, *(keyword for keyword, name in _GROUPS.items() if name == group)]


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
    named: set[str] | None = None
    implied: set[str] = set()
    for part in _conjuncts(schema):
        if "type" in part:
            types = {"number" if name == "integer" else name for name in _names(part["type"])}
            named = types if named is None else named & types
        for keyword, limit in part.items():
            implied |= _about(keyword)
            implied.update(json_type(value) for value in listed(keyword, limit))
    return frozenset(implied if named is None else named)


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
                return any(decides(branch, leaf) for branch in limit)
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
