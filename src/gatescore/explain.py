"""
Why a call got its verdict: every rule that was looked at, part by part, and the nearest miss.

Nothing is decided here. The parts are judged by the same functions as in `gatescore.decide`, only
that none is skipped when another has already said no.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gatescore.decide import decide
from gatescore.history import History
from gatescore.judge import Case, judge_after, judge_args, judge_limit, judge_repeat, judge_when
from gatescore.model import NO_FACTS, Decision, Effect, Facts, Moment, ToolCall
from gatescore.policy import Policy
from gatescore.policy.rules import Layer, Limit, Rule, Tool
from gatescore.truth import AND, FALSE, INDETERMINATE, TRUE, Truths


@dataclass(frozen=True, slots=True)
class Part:
    """
    One condition of a rule.

    Attributes:
        name: ``tool``, ``args``, ``when``, ``after``, ``limit`` or ``once_per``.
        truths: Its possible truth values.
        text: What it was held against, or why it failed.
    """

    name: str
    truths: Truths
    text: str

    @property
    def word(self) -> str:
        """Its truth in one word; of a budget, whether it is spent."""
        if self.name == "limit":
            return "not spent" if self.truths == FALSE else "spent" if self.truths == TRUE else "unclear"
        return _WORDS.get(self.truths, "undecidable")


_WORDS = {FALSE: "false", INDETERMINATE: "indeterminate", TRUE: "true"}


@dataclass(frozen=True, slots=True)
class Reading:
    """
    One rule (or the `once_per` of a tool) as it reads this call.

    Attributes:
        layer: The name of its policy, or None.
        rule: Its id.
        effect: What it says if it matches.
        parts: Its conditions, the tool first; a limit last.
        truths: Whether it matches; for a limit or `once_per`, whether it denies.
        determining: It made the verdict.
    """

    layer: str | None
    rule: str
    effect: Effect
    parts: tuple[Part, ...]
    truths: Truths
    determining: bool

    @property
    def failed(self) -> tuple[Part, ...]:
        """The conditions that kept it from matching for sure."""
        return tuple(part for part in self.parts if part.truths != TRUE and part.name != "limit")


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    A decision, explained.

    Attributes:
        decision: The decision.
        readings: Rules that may speak about the tool, in the order of the policy.
        others: How many rules speak about other tools.
        nearest: The rule that came nearest to allowing the call (or to asking), where none did.
        similar: A name in the policy's allow and ask rules that is spelt nearly like the call's.
    """

    decision: Decision
    readings: tuple[Reading, ...]
    others: int
    nearest: Reading | None
    similar: str | None


def explain(
    policy: Policy,
    history: History,
    call: ToolCall,
    facts: Facts = NO_FACTS,
    *,
    moment: Moment = Moment.ENTRY,
) -> Explanation:
    """
    Explain the decision on *call*; the arguments are those of `gatescore.decide.decide`.

    An invalid call is denied without looking at any rule: no readings then, and no others.
    """
    decision = decide(policy, history, call, facts, moment=moment)
    if call.invalid is not None:
        return Explanation(decision, (), 0, None, None)
    readings: list[Reading] = []
    others = 0
    for layer in policy.layers:
        tool = layer.tool(call.server, call.name)
        case = Case(layer, tool, history.state(layer), call, facts, moment)
        rules = layer.rules_for(call.server, call.name, tool)
        readings.extend(_reading(case, rule, names, decision) for rule, names in rules)
        once = layer.restricting_tools(call.server, call.name)
        readings.extend(_once(case, meant, decision) for meant in once if meant.once_per)
        others += len(layer.rules) - len(rules)
    nearest = None if decision.effect is Effect.ALLOW else _nearest(readings)
    similar = None if readings or decision.allowed else _similar(policy, call.name)
    return Explanation(decision, tuple(readings), others, nearest, similar)


def _reading(case: Case, rule: Rule, names: Truths, decision: Decision) -> Reading:
    parts = [Part("tool", names, _selector_text(rule, case))]
    if rule.args is not None:
        for _, truths, text in rule.args.failures(case.call.arguments, opaque=case.call.opaque):
            parts.append(Part("args", truths, text))
        if all(part.name != "args" for part in parts):
            parts.append(Part("args", judge_args(case, rule), "all conditions on the arguments are met"))
    if rule.after is not None:
        parts.append(_part(case, rule, "after", judge_after(case, rule)))
    if rule.when is not None:
        parts.append(_part(case, rule, "when", judge_when(case, rule)))
    truths = TRUE
    for part in parts:
        truths = AND[truths][part.truths]
    if rule.limit is not None:
        spent = judge_limit(case, rule, rule.limit, unsure=False)
        parts.append(Part("limit", spent, _limit_text(rule.limit, spent)))
    return Reading(case.layer.name, rule.id, rule.effect, tuple(parts), truths, rule.id in decision.rules)


def _limit_text(limit: Limit, spent: Truths) -> str:
    unit = limit.unit.removesuffix("s") if limit.units == 1 else limit.unit
    whether = {FALSE: "not spent", TRUE: "spent"}.get(spent, "may be spent")
    return f"{limit.units} {unit} per {limit.per}: {whether}"


def _part(case: Case, rule: Rule, name: str, truths: Truths) -> Part:
    text = case.errors[-1].split(f"`{name}`: ", 1)[-1] if truths == INDETERMINATE and case.errors else ""
    if name == "when" and rule.when is not None:
        text = f"{rule.when.text}" + (f" ({text})" if text else "")
    elif not text:
        found = {TRUE: "such a call came before", FALSE: "no such call came before"}
        text = found.get(truths, "the record does not say")
    return Part(name, truths, text)


def _selector_text(rule: Rule, case: Case) -> str:
    selector = rule.selector
    if selector.labels is not None:
        return "labels " + ", ".join(sorted(selector.labels))
    shown = [pattern.text for pattern in selector.patterns]
    if len(shown) > 3:
        near = [text for text in shown if text == case.call.name] or shown[:3]
        return ", ".join(near) + f" and {len(shown) - len(near)} more"
    return ", ".join(shown)


def _once(case: Case, tool: Tool, decision: Decision) -> Reading:
    truths = judge_repeat(case, tool)
    named = ", ".join(tool.once_per)
    text = (
        f"no other call for this {named}"
        if truths == FALSE
        else f"another call for this {named}, or it cannot be told"
    )
    rule = f"once_per:{tool.name.text}"
    return Reading(
        case.layer.name, rule, Effect.DENY, (Part("once_per", truths, text),), truths, rule in decision.rules
    )


def _nearest(readings: Sequence[Reading]) -> Reading | None:
    """The granting rule with the fewest failed conditions; allow before ask, then in order."""
    granting = [r for r in readings if r.effect is not Effect.DENY and r.failed]
    return min(granting, key=lambda r: (len(r.failed), r.effect is Effect.ASK), default=None)


def _similar(policy: Policy, name: str) -> str | None:
    known = {
        pattern.text
        for layer in policy.layers
        for rule in _granting(layer)
        for pattern in rule.selector.patterns
    }
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.7)), None)


def _granting(layer: Layer) -> list[Rule]:
    return [rule for rule in layer.rules if rule.effect is not Effect.DENY]
