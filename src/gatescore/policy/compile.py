"""
A policy document to a compiled layer: every key known, every value read, or a `PolicyError`.

Nothing is skipped and nothing is guessed. Absent, empty, unknown and erroneous are four different
states, and none of them means allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gatescore.canonical import Json, digest
from gatescore.errors import Path, PolicyError
from gatescore.model import Effect, Outcome
from gatescore.policy.arguments import ArgumentsCondition, compile_arguments
from gatescore.policy.declared import ArgumentSchemas
from gatescore.policy.document import Document
from gatescore.policy.expressions import Expression, compile_expression
from gatescore.policy.keywords import KEYWORDS, Keyword
from gatescore.policy.names import NamePattern, parse_pattern
from gatescore.policy.reading import (
    argument_names,
    choice,
    count,
    duration,
    fail,
    kind,
    known,
    mapping,
    names_list,
    show,
    text_or_none,
)
from gatescore.policy.rules import After, Layer, Limit, Rule, RuleIndex, Selector, Tool

FORMAT: Final = 1

_EFFECTS: Final = tuple(effect.value for effect in (Effect.ALLOW, Effect.ASK, Effect.DENY))
_TOP: Final = (
    "gatescore",
    "name",
    "version",
    "default",
    "tools",
    "rules",
    "allowed_tools",
    "denied_tools",
    "extends",
)
_RULE: Final = ("id", *_EFFECTS, "args", "anywhere", "when", "after", "limit", "reason", "approval")
_TOOL: Final = ("labels", "once_per", "safe_to_repeat", "schema")
_AFTER: Final = ("tool", "args", "same", "within")
_UNITS: Final = ("executions", "calls", "proposals")
_LIMIT: Final = (*_UNITS, "per", "key", "window", "then")
_SCOPES: Final = ("session", "principal", "tool")
_REPEATABLE: Final = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.SUCCEEDED)


def compile_layer(document: Document, keywords: Mapping[str, Keyword] = KEYWORDS) -> Layer:
    """
    Compile one policy *document*.

    Args:
        document: A mapping in the short form, the full form or both.
        keywords: The ``x-`` keywords known in ``args``.

    Raises:
        PolicyError: With the place of the first fault.
    """
    try:
        return _Compiler(document, keywords).layer()
    except PolicyError as error:
        raise document.locate(error) from None


def extended(document: Document) -> tuple[str, ...]:
    """The files that a *document* says it extends, as written; empty for none."""
    try:
        data = mapping(document.data, (), "a policy")
        if "extends" not in data:
            return ()
        return names_list(data["extends"], ("extends",), "a file name, or a list of them", single=True)
    except PolicyError as error:
        raise document.locate(error) from None


@dataclass(slots=True)
class _Compiler:
    document: Document
    keywords: Mapping[str, Keyword]
    afters: list[After] = field(default_factory=lambda: [])
    label: str = ""

    def layer(self) -> Layer:
        data = mapping(self.document.data, (), "a policy")
        known(data, _TOP, ())
        if data.get("gatescore", FORMAT) != FORMAT or isinstance(data.get("gatescore"), bool):
            fail(f"format version {show(data['gatescore'])} is unknown: write `gatescore: 1`", ("gatescore",))
        listed = self._listed(data)
        if not any(key in data for key in ("rules", "allowed_tools", "denied_tools", "extends")):
            fail("no `rules`, `allowed_tools` or `denied_tools`: a policy needs at least one of them", ())
        written = self._written(data)
        self.label = text_or_none(data, "name") or ""
        tools = self._tools(data.get("tools", {})) if "tools" in data else ()
        rules = tuple(
            self._rule(position, spec, path) for position, (spec, path) in enumerate([*listed, *written])
        )
        self._unique(rules, [path for _, path in [*listed, *written]])
        default = self._default(data, rules)
        can_stop = any(rule.limit is not None and rule.limit.stop for rule in rules)
        return Layer(
            name=self.label or None,
            version=text_or_none(data, "version"),
            source=self.document.source,
            default=default,
            rules=rules,
            tools=tools,
            afters=tuple(self.afters),
            digest=_digest(default, rules, [*listed, *written], data.get("tools", {})),
            reads_history=can_stop
            or bool(self.afters)
            or any(rule.limit is not None for rule in rules)
            or any(tool.once_per for tool in tools)
            or any(rule.when is not None and "session" in rule.when.reads for rule in rules),
            can_stop=can_stop,
            _index=RuleIndex(rules, tools),
        )

    def _listed(self, data: Mapping[str, Json]) -> list[tuple[Mapping[str, Json], Path]]:
        """The short form's lists as rules; an empty list is a rule that matches nothing."""
        rules: list[tuple[Mapping[str, Json], Path]] = []
        for key, effect in (("allowed_tools", "allow"), ("denied_tools", "deny")):
            if key in data:
                names = names_list(data[key], (key,), "a list of tool names", empty=True)
                rules.append(({"id": key, effect: list(names)}, (key,)))
        return rules

    def _written(self, data: Mapping[str, Json]) -> list[tuple[Mapping[str, Json], Path]]:
        if "rules" not in data:
            return []
        rules = data["rules"]
        if not isinstance(rules, list):
            fail(f"`rules` is {kind(rules)}: write a list of rules", ("rules",))
        written: list[tuple[Mapping[str, Json], Path]] = []
        for number, rule in enumerate(rules):
            path: Path = ("rules", number)
            spec = mapping(rule, path, "a rule", "such as `{allow: search}`")
            known(spec, _RULE, path)
            written.append((spec, path))
        return written

    def _unique(self, rules: tuple[Rule, ...], paths: list[Path]) -> None:
        seen: set[str] = set()
        for rule, path in zip(rules, paths, strict=True):
            if rule.id in seen:
                fail(f"rule id `{rule.id}` stands twice: give each rule an id of its own", (*path, "id"))
            seen.add(rule.id)

    def _default(self, data: Mapping[str, Json], rules: tuple[Rule, ...]) -> Effect:
        if "default" in data:
            default = Effect(choice(data["default"], _EFFECTS, ("default",)))
            if default is Effect.ALLOW and "allowed_tools" in data:
                fail(
                    "`allowed_tools` with `default: allow` allows every tool: "
                    "write `default: deny`, or leave the list out",
                    ("default",),
                )
            return default
        if not any(rule.effect is not Effect.DENY for rule in rules):
            fail(
                "no rule allows or asks, so `default` must say what happens to the other tools: "
                "write `default: deny` or `default: allow`",
                (),
            )
        return Effect.DENY

    # tools

    def _tools(self, data: Json) -> tuple[Tool, ...]:
        entries = mapping(data, ("tools",), "`tools`", "of tool names")
        return tuple(self._tool(name, spec, ("tools", name)) for name, spec in entries.items())

    def _tool(self, name: str, spec: Json, path: Path) -> Tool:
        pattern = self._pattern(name, path, key=True)
        if "*" in name or "?" in name:
            fail(f"`{name}` is a glob: write one entry for each tool", path, key=True)
        entry = mapping(spec, path, "what is known about a tool", "such as `{labels: [external]}`")
        if "aliases" in entry:
            fail(
                "`aliases` are not read by this version: name every spelling in the rules",
                (*path, "aliases"),
                key=True,
            )
        known(entry, _TOOL, path)
        labels = None
        if "labels" in entry:
            labels = frozenset(names_list(entry["labels"], (*path, "labels"), "a list of labels", empty=True))
        once_per: tuple[str, ...] = ()
        if "once_per" in entry:
            once_per = argument_names(entry["once_per"], (*path, "once_per"), "a list of argument names")
        safe: frozenset[Outcome] = frozenset()
        if "safe_to_repeat" in entry:
            place = (*path, "safe_to_repeat")
            if not once_per:
                fail("`safe_to_repeat` without `once_per` has no effect: write both", place, key=True)
            outcomes = names_list(entry["safe_to_repeat"], place, "a list of outcomes")
            safe = frozenset(
                Outcome(choice(value, _REPEATABLE, (*place, number))) for number, value in enumerate(outcomes)
            )
        schemas = None
        if "schema" in entry:
            schemas = ArgumentSchemas.compile(entry["schema"], (*path, "schema"))
        return Tool(name=pattern, labels=labels, once_per=once_per, safe_to_repeat=safe, schemas=schemas)

    # rules

    def _rule(self, position: int, spec: Mapping[str, Json], path: Path) -> Rule:
        effects = [effect for effect in _EFFECTS if effect in spec]
        if len(effects) != 1:
            what = "has no effect" if not effects else "has more than one effect"
            fail(f"a rule {what}: write one of `allow`, `ask` or `deny` with the tools it is about", path)
        effect = Effect(effects[0])
        restricting = effect is not Effect.ALLOW
        rule_id = self._id(spec, path)
        place = path if path[0] != "rules" else (*path, effect.value)
        limit = self._limit(spec["limit"], rule_id, effect, (*path, "limit")) if "limit" in spec else None
        after = self._after(spec["after"], restricting, (*path, "after")) if "after" in spec else None
        return Rule(
            position=position,
            id=rule_id,
            effect=effect,
            selector=self._selector(spec[effect.value], restricting, place, empty=path[0] != "rules"),
            args=self._args(spec, restricting, path),
            when=self._when(spec, path),
            after=after,
            limit=limit,
            reason=self._reason(spec, path),
            approval_attempts=self._approval(spec, effect, path),
        )

    def _id(self, spec: Mapping[str, Json], path: Path) -> str:
        if "id" not in spec:
            return f"rules[{path[-1]}]"
        value = spec["id"]
        if not isinstance(value, str) or not value.strip():
            fail(f"a rule's `id` is text, not {kind(value)}", (*path, "id"))
        return value

    def _reason(self, spec: Mapping[str, Json], path: Path) -> str | None:
        if "reason" not in spec:
            return None
        value = spec["reason"]
        if not isinstance(value, str) or not value.strip():
            fail(f"`reason` is a sentence for the model, not {kind(value)}", (*path, "reason"))
        return value.strip()

    def _approval(self, spec: Mapping[str, Json], effect: Effect, path: Path) -> int:
        if "approval" not in spec:
            return 1
        place = (*path, "approval")
        if effect is not Effect.ASK:
            fail(f"`approval` belongs to an `ask` rule, not to `{effect.value}`", place, key=True)
        approval = mapping(spec["approval"], place, "`approval`", "such as `{attempts: 2}`")
        known(approval, ("attempts",), place)
        if "attempts" not in approval:
            fail("`approval` is empty: write `{attempts: 2}` or leave it out", place)
        return count(approval["attempts"], 1, (*place, "attempts"))

    def _args(self, spec: Mapping[str, Json], restricting: bool, path: Path) -> ArgumentsCondition | None:
        if "args" not in spec and "anywhere" not in spec:
            return None
        for key in ("args", "anywhere"):
            if key in spec and spec[key] is None:
                fail(f"`{key}` is empty: write a condition, or leave `{key}` out", (*path, key))
        return compile_arguments(
            spec.get("args"),
            spec.get("anywhere"),
            restricting=restricting,
            path=path,
            keywords=self.keywords,
        )

    def _when(self, spec: Mapping[str, Json], path: Path) -> Expression | None:
        return compile_expression(spec["when"], (*path, "when")) if "when" in spec else None

    def _selector(self, value: Json, restricting: bool, path: Path, *, empty: bool = False) -> Selector:
        if isinstance(value, dict):
            spec = mapping(value, path, "a selector")
            known(spec, ("labels",), path)
            if "labels" not in spec:
                fail("the selector is empty: write `{labels: [external]}`, or names", path)
            labels = names_list(spec["labels"], (*path, "labels"), "a list of labels")
            return Selector(labels=frozenset(labels), restricting=restricting)
        names = names_list(value, path, "a tool name, or a list of them", single=True, empty=empty)
        patterns = [
            self._pattern(name, path if isinstance(value, str) else (*path, number))
            for number, name in enumerate(names)
        ]
        return Selector(patterns=tuple(patterns), restricting=restricting)

    def _pattern(self, text: str, path: Path, *, key: bool = False) -> NamePattern:
        try:
            return parse_pattern(text)
        except PolicyError as error:
            fail(error.message, path, key=key)

    # after and limit

    def _after(self, value: Json, restricting: bool, path: Path) -> After:
        spec = mapping(value, path, "`after`", "such as `{tool: get_order, same: [order_id]}`")
        known(spec, _AFTER, path)
        if "tool" not in spec:
            fail("`after` names no tool: write `tool: NAME`", path)
        nanoseconds, calls = (
            self._within(spec["within"], (*path, "within")) if "within" in spec else (None, None)
        )
        after = After(
            index=len(self.afters),
            selector=self._selector(spec["tool"], restricting, (*path, "tool")),
            args=self._args(spec, restricting, path),
            same=self._same(spec["same"], (*path, "same")) if "same" in spec else (),
            nanoseconds=nanoseconds,
            calls=calls,
            restricting=restricting,
        )
        self.afters.append(after)
        return after

    def _same(self, value: Json, path: Path) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            wanted = "a list of argument names, or a mapping from this call's to the earlier call's"
            return tuple((name, name) for name in argument_names(value, path, wanted))
        pairs = mapping(value, path, "`same`")
        if not pairs:
            fail("`same` is empty: name the arguments whose values are equal", path)
        same: list[tuple[str, str]] = []
        for mine, theirs in pairs.items():
            if not mine:
                fail("an empty text is no name of an argument: write one", (*path, mine), key=True)
            if not isinstance(theirs, str) or not theirs:
                fail(
                    f"`{mine}` is {kind(theirs)}: write the name of the earlier call's argument",
                    (*path, mine),
                )
            same.append((mine, theirs))
        return tuple(same)

    def _within(self, value: Json, path: Path) -> tuple[int | None, int | None]:
        if isinstance(value, dict):
            spec = mapping(value, path, "`within`")
            known(spec, ("calls",), path)
            if "calls" not in spec:
                fail("`within` is empty: write `10m` or `{calls: 5}`", path)
            return None, count(spec["calls"], 1, (*path, "calls"))
        return duration(value, path), None

    def _limit(self, value: Json, rule_id: str, effect: Effect, path: Path) -> Limit:
        spec = mapping(value, path, "`limit`", "such as `{executions: 1}`")
        known(spec, _LIMIT, path)
        units = [unit for unit in _UNITS if unit in spec]
        if len(units) != 1:
            fail("`limit` counts one thing: write one of `executions`, `calls` or `proposals`", path)
        unit = units[0]
        if "then" in spec:
            choice(spec["then"], ("stop",), (*path, "then"))
            if unit != "proposals":
                fail(
                    "`then: stop` goes with `proposals`: refusals are what ends a run",
                    (*path, "then"),
                    key=True,
                )
        if effect is Effect.DENY and not (unit == "proposals" and "then" in spec):
            fail(
                "a deny rule denies every call, so only `limit: {proposals: N, then: stop}` has a meaning in it: "
                "put the limit into the rule that allows",
                path,
                key=True,
            )
        key = argument_names(spec["key"], (*path, "key"), "a list of argument names") if "key" in spec else ()
        return Limit(
            name=f"{self.label}/{rule_id}",
            units=count(spec[unit], 0, (*path, unit)),
            unit=unit,
            per=choice(spec.get("per", "session"), _SCOPES, (*path, "per")),
            key=key,
            window=duration(spec["window"], (*path, "window")) if "window" in spec else None,
            stop="then" in spec,
        )


def _digest(
    default: Effect,
    rules: tuple[Rule, ...],
    specs: list[tuple[Mapping[str, Json], Path]],
    tools: Json,
) -> str:
    """The digest of what decides. The order of rules does not decide, so it does not count."""
    written = sorted((rule.id, {**spec, "id": rule.id}) for rule, (spec, _) in zip(rules, specs, strict=True))
    return digest(
        {
            "gatescore": FORMAT,
            "default": default.value,
            "rules": [spec for _, spec in written],
            "tools": tools,
        }
    )
