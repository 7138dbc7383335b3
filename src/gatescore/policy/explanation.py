"""
Why a condition on arguments is not met: one line for a person.

Nothing is decided here. Every truth value is asked of the same compiled schemas as a decision, only
of smaller and smaller parts of them, until one keyword and one value are left to name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gatescore.canonical import OPAQUE, Json
from gatescore.policy.readings import Pair
from gatescore.policy.schema_reading import (
    TYPES,
    Conjunction,
    decides,
    groups,
    groups_of,
    json_type,
    listed,
    speaks_about,
)
from gatescore.policy.three_valued import Compiler, Plain, is_marker
from gatescore.truth import AND, FALSE, INDETERMINATE, OR, TRUE, Truths

_WIDTH = 60

_PLAIN_NAME = re.compile(r"[\w$-]{1,60}")
_ARTICLES = {
    "null": "null",
    "boolean": "a boolean",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_PLURALS = {
    "null": "null",
    "boolean": "booleans",
    "number": "numbers",
    "integer": "integers",
    "string": "strings",
    "array": "arrays",
    "object": "objects",
}


class Explainer:
    """
    Explains one condition.

    Args:
        args, anywhere, restricting: See `gatescore.policy.arguments.ArgumentsCondition`.
        compiler: Makes a new compiler of schemas.
        opaque: Markers are markers.
    """

    __slots__ = ("_anywhere", "_args", "_compiler", "_opaque", "_pairs", "_restricting")

    def __init__(
        self,
        args: Mapping[str, Any],
        anywhere: Any,
        *,
        restricting: bool,
        compiler: Callable[[], Compiler],
        opaque: bool,
    ) -> None:
        self._args = args
        self._anywhere = anywhere
        self._restricting = restricting
        self._compiler = compiler
        self._opaque = opaque
        # By the identity of a schema, which lives as long as the condition, and what of it is meant.
        self._pairs: dict[tuple[int, Conjunction | None, str], Pair] = {}

    def explain(self, arguments: dict[str, Json], *, values: bool) -> Iterator[tuple[str, Truths, str]]:
        """Yield the name, the truth value and the line of each part; *values* are shown, or not."""
        line = _Lines(values)
        if self._marked(arguments):
            for key in [*self._args, *([] if self._anywhere is None else ["anywhere"])]:
                yield key.removesuffix("?"), INDETERMINATE, "the arguments are not there to be judged"
            return
        names = {key: key.removesuffix("?") for key in self._args if key != "*"}
        for key, schema in self._args.items():
            if key == "*":
                others = {name: value for name, value in arguments.items() if name not in names.values()}
                yield (key, *self._every(schema, others, line))
            else:
                yield (names[key], *self._named(key, names[key], schema, arguments, line))
        if self._anywhere is not None:
            yield ("anywhere", *self._leaves(arguments, line))

    def _named(
        self, key: str, name: str, schema: Any, arguments: dict[str, Json], line: _Lines
    ) -> tuple[Truths, str]:
        optional, place = key != name, _member("", name)
        if name not in arguments and not optional:
            return INDETERMINATE, f"{place} is absent"
        value = arguments.get(name)
        if value is None and optional:
            text = f"{place} is null" if name in arguments else f"{place} is absent"
            return (FALSE, text) if self._restricting else (TRUE, f"{text}, and may be")
        truths = self._judge(schema, value)
        if optional and self._marked(value):
            truths = (AND if self._restricting else OR)[truths][INDETERMINATE]
            if truths == INDETERMINATE:
                return truths, f"{place} is {_marker_text(value)}"
        return truths, self._why(schema, value, place, truths, line)

    def _every(self, schema: Any, others: dict[str, Json], line: _Lines) -> tuple[Truths, str]:
        found: dict[Truths, str] = {}
        for name, value in others.items():
            found.setdefault(self._judge(schema, value), name)
        for truths in (FALSE, INDETERMINATE):
            if truths in found:
                name = found[truths]
                return truths, self._why(schema, others[name], _member("", name), truths, line)
        return TRUE, "every other argument meets `*`" if others else "there are no other arguments"

    def _leaves(self, arguments: dict[str, Json], line: _Lines) -> tuple[Truths, str]:
        schema = self._anywhere
        found: dict[Truths, tuple[str, Json]] = {}
        for place, leaf in _leaves_and_keys(arguments, "", self._opaque):
            if self._opaque and is_marker(leaf):
                truths = INDETERMINATE
            elif decides(schema, json_type(leaf)):
                truths = self._judge(schema, leaf)
            else:
                continue
            found.setdefault(truths, (place, leaf))
        for truths in (TRUE, INDETERMINATE) if self._restricting else (FALSE, INDETERMINATE):
            if truths in found:
                place, leaf = found[truths]
                if truths == TRUE:
                    return truths, f"{line.subject(place, leaf)} meets `anywhere`"
                return truths, self._why(schema, leaf, place, truths, line)
        if self._restricting:
            return FALSE, "no leaf or key meets `anywhere`"
        return TRUE, "every leaf and key meets `anywhere`"

    def _why(
        self,
        schema: Any,
        value: Json,
        place: str,
        truths: Truths,
        line: _Lines,
        whole: Conjunction | None = None,
    ) -> str:
        """Name what makes *schema* false or indeterminate, as *truths* says that it is."""
        if truths == TRUE:
            return f"{line.subject(place, value)} meets its condition"
        if self._marked(value):
            return f"{place} is {_marker_text(value)}"
        if isinstance(schema, bool):
            return f"{line.subject(place, value)} is not allowed"
        whole = whole or Conjunction.of(schema)
        for group in groups(schema):
            if self._judge(schema, value, whole, group) == truths:
                deeper = self._deeper(group, schema, value, place, truths, line, whole)
                return deeper or line.keyword(group, schema, value, place, truths)
        return f"{line.subject(place, value)} could not be judged"

    def _deeper(
        self,
        group: str,
        schema: Mapping[str, Any],
        value: Json,
        place: str,
        truths: Truths,
        line: _Lines,
        whole: Conjunction,
    ) -> str | None:
        """Explain by a part of the value or of the schema, where one of them is to blame alone."""
        limit = schema.get(group)
        match group:
            case "allOf":
                for part in limit or ():
                    if self._judge(part, value, whole) == truths:
                        return self._why(part, value, place, truths, line, whole)
            case "anyOf" if truths == INDETERMINATE:
                for branch in limit or ():
                    if self._judge(branch, value) == truths:
                        return self._why(branch, value, place, truths, line)
            case "not" if truths == INDETERMINATE:
                return self._why(limit, value, place, truths, line)
            case "properties" if isinstance(value, dict):
                for name, member in schema.get("properties", {}).items():
                    if name not in value:
                        if truths == INDETERMINATE:
                            return f"{_member(place, name)} is absent"
                    elif self._judge(member, value[name]) == truths:
                        return self._why(member, value[name], _member(place, name), truths, line)
                if "patternProperties" not in schema and "additionalProperties" in schema:
                    others = value.keys() - schema.get("properties", {}).keys()
                    for name in sorted(others):
                        member = schema["additionalProperties"]
                        if self._judge(member, value[name]) == truths:
                            return self._why(member, value[name], _member(place, name), truths, line)
            case "items" if isinstance(value, list):
                first = schema.get("prefixItems", [])
                for index, item in enumerate(value):
                    member = first[index] if index < len(first) else schema.get("items", True)
                    if self._judge(member, item) == truths:
                        return self._why(member, item, _item(place, index), truths, line)
                if len(value) < len(first) and truths == INDETERMINATE:
                    return f"{place}[{len(value)}] is absent"
            case _:
                pass
        return None

    def _judge(self, schema: Any, value: Json, whole: Conjunction | None = None, group: str = "") -> Truths:
        """Judge *value* by a schema, by a part of the conjunction *whole*, or by one *group* of its keywords."""
        if isinstance(schema, bool):
            return TRUE if schema else FALSE
        key = (id(schema), whole, group)
        pair = self._pairs.get(key)
        if pair is None:
            compiler = self._compiler()

            def make(may: bool) -> Plain:
                if whole is None:
                    return compiler.schema(schema, may=may)
                if group:
                    return compiler.group(group, schema, whole, may=may)
                return compiler.conjunct(schema, whole, may=may)

            pair = self._pairs[key] = compiler.pair(make)
        return pair.judge(value)

    def _marked(self, value: Json) -> bool:
        return self._opaque and is_marker(value)


class _Lines:
    """Writes values and limits into lines; the values only if they may be shown."""

    __slots__ = ("_values",)

    def __init__(self, values: bool) -> None:
        self._values = values

    def subject(self, place: str, value: Json) -> str:
        return f"{place} = {_shown(value)}" if self._values else place

    def keyword(self, group: str, schema: Mapping[str, Any], value: Json, place: str, truths: Truths) -> str:
        """One keyword that is not met, or that does not fit the type of the value."""
        subject = self.subject(place, value)
        # Of several that are read together, the one that is left when members have been looked at.
        keyword = [keyword for keyword in groups_of(group) if keyword in schema][
            -1 if group == "properties" else 0
        ]
        if truths == FALSE:
            return f"{subject}: `{keyword}: {_shown(schema[keyword])}` is not met"
        own_type = json_type(value)
        is_a = f"{place if value is None else subject} is {_ARTICLES[own_type]}"
        if keyword == "type":
            return f"{is_a}, and the condition is about {_plurals(_types(schema[keyword]))}"
        if keyword in ("enum", "const"):
            types = {json_type(item) for item in listed(keyword, schema[keyword])}
            if own_type not in types:
                return f"{is_a}, `{keyword}` lists {_plurals(types)}"
        about = speaks_about({keyword: schema[keyword]})
        if about and own_type not in about:
            return f"{is_a}, `{keyword}` speaks about {_plurals(about)}"
        return f"{subject}: `{keyword}` could not be judged"


def _leaves_and_keys(value: Json, place: str, opaque: bool) -> Iterator[tuple[str, Json]]:
    """Each leaf with its place, and each key as what it is: a string."""
    if isinstance(value, dict) and not (place and opaque and is_marker(value)):
        for key, item in value.items():
            inner = _member(place, key)
            yield f"the key {inner}", key
            yield from _leaves_and_keys(item, inner, opaque)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves_and_keys(item, _item(place, index), opaque)
    else:
        yield place, value


def _member(place: str, name: str) -> str:
    """The place of a member, for reading: cut in the middle where it is long."""
    text = name if _PLAIN_NAME.fullmatch(name) else _shown(name)
    return _cut(f"{place}.{text}" if place else text)


def _item(place: str, index: int) -> str:
    return _cut(f"{place}[{index}]")


def _cut(place: str) -> str:
    half = _WIDTH // 2
    return place if len(place) <= 2 * _WIDTH else f"{place[:half]}...{place[-half:]}"


def _marker_text(value: Json) -> str:
    """Say what a marker stands for, in the place of a value."""
    kind = value.get(OPAQUE) if isinstance(value, dict) else None
    if isinstance(kind, str):
        return f"a value of type {_shown(kind)}, which JSON cannot hold"
    return "withheld by the record"


def _types(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _plurals(types: Iterable[str]) -> str:
    return " and ".join(_PLURALS[name] for name in (*TYPES, "integer") if name in types)


def _shown(value: Json) -> str:
    """JSON text of *value* on one line, cut for display."""
    if isinstance(value, str):
        value = value[: _WIDTH + 1]
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _WIDTH:
        text = text[: _WIDTH - 3] + "..."
    return text.encode("utf-8", "backslashreplace").decode()
