"""
The JSON Schema that a tool declares for its arguments, and which of them do not fit it.

A declared schema is ordinary, two-valued JSON Schema: it says what arguments are, not which of them
a rule is about. CEL answers false, and raises nothing, where it compares values of two types; so a
`when` that reads an argument which is not what was declared has no answer.

Source: DESIGN 3.3, `when`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs

from gatescore.canonical import Json
from gatescore.errors import Path, PolicyError, did_you_mean
from gatescore.policy.places import shown
from gatescore.policy.schema_check import plain_copy

_DRAFTS: Final = frozenset(
    (
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    )
)
_REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
_DATA: Final = frozenset(("const", "enum", "default", "example", "examples", "$vocabulary"))
_NAMED: Final = frozenset(
    [
        "properties",
        "patternProperties",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "$defs",
        "definitions",
    ]
)
_KEYWORDS: Final = (
    _REFERENCES
    | _DATA
    | _NAMED
    | frozenset(
        [
            "$schema",
            "$id",
            "id",
            "$anchor",
            "$dynamicAnchor",
            "$recursiveAnchor",
            "$comment",
            "type",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
            "pattern",
            "format",
            "items",
            "prefixItems",
            "additionalItems",
            "contains",
            "minContains",
            "maxContains",
            "maxItems",
            "minItems",
            "uniqueItems",
            "unevaluatedItems",
            "additionalProperties",
            "propertyNames",
            "required",
            "maxProperties",
            "minProperties",
            "unevaluatedProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "then",
            "else",
            "title",
            "description",
            "deprecated",
            "readOnly",
            "writeOnly",
            "contentEncoding",
            "contentMediaType",
            "contentSchema",
            "nullable",
            "discriminator",
            "xml",
            "externalDocs",
        ]
    )
)
"""The keywords of all drafts: a validator passes over any other, and with it over what was meant."""


@dataclass(frozen=True, slots=True)
class ArgumentSchemas:
    """
    The declared schemas of a tool's arguments.

    Attributes:
        schema: The whole schema, as declared.
        names: The arguments that have a schema; the empty set for none.
    """

    schema: Mapping[str, Json]
    names: frozenset[str]
    _validators: Mapping[str, jsonschema_rs.Validator] = field(repr=False, compare=False)

    @classmethod
    def compile(cls, schema: object, path: Path) -> ArgumentSchemas:
        """
        Compile *schema*, found at *path*: an object schema with ``properties``, and ``$defs`` if need be.

        It is JSON Schema 2020-12, or an older draft that ``$schema`` names. `format` is not checked.
        What it says beside ``properties`` (``required`` and the like) is checked for being JSON
        Schema, and not used.

        Raises:
            PolicyError: *schema* is no mapping, is no valid JSON Schema, or refers to another
                document; a regular expression takes more than linear time, or is none.
        """
        copy = plain_copy(schema, path)
        if not isinstance(copy, dict):
            message = "a declared schema is a mapping, such as `{properties: {amount: {type: number}}}`"
            raise PolicyError(message, path=path)
        if not copy:
            raise PolicyError("the declared schema is empty: write `properties`, or leave it out", path=path)
        _check_places(copy, path)
        try:
            jsonschema_rs.meta.validate(copy)
        except jsonschema_rs.ValidationError as error:
            place = (*path, *error.instance_path)
            raise PolicyError(f"the declared schema is not JSON Schema: {_line(error)}", path=place) from None
        return cls(copy, frozenset(_properties(copy)), _validators(copy, path))

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and sent to other processes as data: validators are bound to their process."""
        return ArgumentSchemas.compile, (self.schema, ())

    def unfit(self, arguments: Mapping[str, Json], names: Set[str] | None) -> str | None:
        """
        The first argument (as declared) that is present and does not fit its schema, or None.

        Args:
            arguments: The arguments of a call, in plain JSON types.
            names: Which of them matter; None for all. An argument that is absent, or that has no
                schema, is not unfit.

        A value that the check stumbles over, such as half of a surrogate pair, does not fit.
        """
        for name, validator in self._validators.items():
            if name in arguments and (names is None or name in names):
                try:
                    fits = validator.is_valid(arguments[name])
                except ValueError:
                    fits = False
                if not fits:
                    return name
        return None


def _properties(schema: Mapping[str, Json]) -> dict[str, Json]:
    properties = schema.get("properties", {})
    return properties if isinstance(properties, dict) else {}


def _validators(schema: dict[str, Any], path: Path) -> dict[str, jsonschema_rs.Validator]:
    # The linear-time engine: the other one answers "no match" when it gives up.
    patterns = jsonschema_rs.RegexOptions()
    try:
        # The map leaves out what does not compile, without a word; compiling the whole says it.
        jsonschema_rs.validator_for(schema, validate_formats=False, pattern_options=patterns, offline=True)
        compiled = jsonschema_rs.validator_map_for(
            schema, validate_formats=False, pattern_options=patterns, offline=True
        )
        return {name: compiled[_pointer(name)] for name in _properties(schema)}
    except jsonschema_rs.ValidationError as error:
        message = f"the declared schema cannot be used: {_line(error)}"
        if {"pattern", "patternProperties"}.intersection(error.schema_path[-2:]):
            message = (
                "a regular expression of the declared schema is none, or looks around or back, which"
                " takes more than linear time: leave it out"
            )
        raise PolicyError(message, path=(*path, *error.instance_path)) from None
    except (ValueError, KeyError):
        message = "the declared schema cannot be used: check its references"
        raise PolicyError(message, path=path) from None


def _pointer(name: str) -> str:
    return "#/properties/" + name.replace("~", "~0").replace("/", "~1")


def _check_places(schema: dict[str, Json], path: Path) -> None:
    """Refuse references that lead out of the schema or nowhere, wherever a schema may stand in it."""
    pending: list[tuple[Json, Path, bool]] = [(schema, path, True)]
    while pending:
        value, at, keywords = pending.pop()
        if isinstance(value, list):
            pending.extend((item, (*at, index), True) for index, item in enumerate(value))
        elif isinstance(value, dict):
            for key, item in value.items():
                place = (*at, key)
                if keywords and key not in _KEYWORDS and not key.startswith("x-"):
                    message = f"unknown keyword {shown(key)} in a declared schema: {_remedy(key)}"
                    raise PolicyError(message, path=place, key=True)
                if keywords and key == "$schema" and not _is_draft(item):
                    message = "unknown version of JSON Schema: leave `$schema` out for 2020-12"
                    raise PolicyError(message, path=place)
                if keywords and key in _REFERENCES and isinstance(item, str):
                    _check_reference(schema, item, place)
                if not (keywords and key in _DATA):
                    pending.append((item, place, not (keywords and key in _NAMED)))


def _remedy(key: str) -> str:
    hint = did_you_mean(key, _KEYWORDS)
    return hint if hint.startswith("did") else "leave it out, or let its name begin with `x-`"


def _check_reference(schema: Json, reference: str, path: Path) -> None:
    if reference != "#" and not reference.startswith("#/"):
        message = (
            f"`{reference}` does not point into this schema: write it out under `$defs`, as `#/$defs/name`"
        )
        raise PolicyError(message, path=path)
    target: Json = schema
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        elif isinstance(target, dict) and key in target:
            target = target[key]
        else:
            raise PolicyError(f"`{reference}` points to nothing in this schema: add it", path=path)


def _is_draft(value: Json) -> bool:
    return isinstance(value, str) and value.removesuffix("#") in _DRAFTS


def _line(error: jsonschema_rs.ValidationError) -> str:
    line = error.message.splitlines()[0] if error.message else "it is not valid"
    return line if len(line) <= 200 else line[:197] + "..."
