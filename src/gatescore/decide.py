"""
The policy decision point: ``decide(policy, history, call, facts) -> Decision``, a pure function.

Deny if a deny rule may match; else ask if an ask rule must match, or may match and the call would
otherwise be allowed; else allow if an allow rule must match; else the policy's default. The order
of rules never matters. Where the record holds too little to say which of these it was, the
decision is undecidable, and its effect is deny.

Source: DESIGN, "Conditions are three-valued"; the executable specification in ``tests/spec``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gatescore.history import History
from gatescore.judge import Case, judge_conditions, judge_limit, judge_repeat
from gatescore.model import NO_FACTS, Decision, Effect, Execution, Facts, Moment, Proposal, ToolCall
from gatescore.policy import Policy
from gatescore.policy.rules import Layer, Limit, Rule, Tool
from gatescore.truth import AND, FALSE, INDETERMINATE, OR, TRUE, Truths

# Verdicts as bits in the order of strictness, so that the strictest of several is `OR`.
_ALLOW: Final = FALSE
_ASK: Final = INDETERMINATE
_DENY: Final = TRUE
_BIT: Final = {Effect.ALLOW: _ALLOW, Effect.ASK: _ASK, Effect.DENY: _DENY}
_EFFECT: Final = {bit: effect for effect, bit in _BIT.items()}
_MAY: Final = INDETERMINATE | TRUE

_REASON: Final = {
    Effect.ALLOW: "allowed",
    Effect.ASK: "a person must agree",
    Effect.DENY: "no rule allows it",
}

_MAX_PLANS: Final = 10_000
_MAX_PLANNED_NAME: Final = 256
_MAX_MADE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerPlan:
    """The rules of one layer that may speak about one tool, with the truths of their selectors."""

    layer: Layer
    tool: Tool | None
    once: tuple[Tool, ...]
    rules: tuple[tuple[Rule, Truths], ...]
    errors: tuple[str, ...]
    static: bool
    by_arguments: bool


class Plan:
    """
    How the calls of one tool are judged: found once for each name, and kept with the policy.

    Attributes:
        layers: What each layer has to say.
        decision: The decision, where nothing but the name decides.
        by_arguments: The rules of all layers, where nothing but name and arguments decides; else None.
        made: Decisions by the truth of each of these rules.
    """

    __slots__ = ("by_arguments", "decision", "layers", "made")

    def __init__(self, layers: tuple[_LayerPlan, ...]) -> None:
        self.layers = layers
        self.decision: Decision | None = None
        self.by_arguments: tuple[tuple[Rule, Truths], ...] | None = None
        if all(part.by_arguments for part in layers):
            self.by_arguments = tuple(row for part in layers for row in part.rules)
        self.made: dict[tuple[Truths, ...], Decision] = {}


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one layer says: possible verdicts as bits, determining rules, their reason."""

    bits: Truths
    rules: tuple[str, ...]
    reason: str | None


def decide(
    policy: Policy,
    history: History,
    call: ToolCall,
    facts: Facts = NO_FACTS,
    *,
    moment: Moment = Moment.ENTRY,
) -> Decision:
    """
    Judge one *call* under *policy*.

    Args:
        policy: The policy in force.
        history: What had happened in the session before. At a proposal, executions of calls of the
            same message do not count.
        call: The call.
        facts: The time, and what budgets wider than the session have in use.
        moment: Whether the call is put forward or about to be entered.

    Returns:
        The decision. An invalid call is denied whatever the rules say; what was proposed is counted all
        the same. Raises for no call.
    """
    plan = policy.plans.get(call.identity)
    if plan is None:
        plan = _plan(policy, call.server, call.name)
    if call.invalid is not None:
        return _judge_invalid(policy, plan, history, call, call.invalid, facts, moment)
    if plan.decision is not None:
        return plan.decision
    if plan.by_arguments is not None and not call.withheld:
        return _judge_arguments(policy, plan, plan.by_arguments, call)
    return _judge(policy, plan, history, call, facts, moment)


def stays(policy: Policy, call: ToolCall) -> bool:
    """Whether `decide` says the same of *call* at any moment of any session: nothing but name and arguments decides."""
    plan = policy.plans.get(call.identity) if call.invalid is None else None
    return plan is not None and (plan.decision is not None or plan.by_arguments is not None)


def decide_each(policy: Policy, entries: Iterable[Proposal | Execution], *, moment: Moment) -> list[Decision]:
    """
    Judge recorded calls, none of them after any other: for a policy that does not read history.

    The same as `decide` for each, outside of a session and at the time of each; for many calls it
    takes less.
    """
    plan_of = policy.plans.get
    outside: History | None = None
    decisions: list[Decision] = []
    for entry in entries:
        call = entry.call
        plan = plan_of(call.identity)
        decision = plan.decision if plan is not None and call.invalid is None else None
        if decision is None:
            outside = outside or History()
            facts = NO_FACTS if entry.time is None else Facts(now=entry.time)
            decision = decide(policy, outside, call, facts, moment=moment)
        decisions.append(decision)
    return decisions


def _plan(policy: Policy, server: str | None, name: str) -> Plan:
    plan = Plan(tuple(_plan_layer(layer, server, name) for layer in policy.layers))
    if all(part.static for part in plan.layers):
        plan.decision = _judge(policy, plan, History(), ToolCall(name, server=server), NO_FACTS, Moment.ENTRY)
    if len(name) <= _MAX_PLANNED_NAME:
        # Names come from models: a flood of new ones must not grow the memory.
        if len(policy.plans) >= _MAX_PLANS:
            policy.plans.clear()
        policy.plans[server, name] = plan
    return plan


def _judge_invalid(
    policy: Policy, plan: Plan, history: History, call: ToolCall, why: str, facts: Facts, moment: Moment
) -> Decision:
    """Deny what cannot be judged; where proposals are counted, it was one: a loop of such calls must end, too."""
    cases: list[Case] = []
    for part in plan.layers:
        case = Case(part.layer, part.tool, history.state(part.layer), call, facts, moment)
        for rule, names in part.rules:
            limit = rule.limit
            if limit is None or limit.unit != "proposals" or case.state.stopped:
                continue
            value = judge_conditions(case, rule, names)
            if value == FALSE:
                continue
            counted = len(case.budgets)
            over = AND[value][judge_limit(case, rule, limit, unsure=bool(value & FALSE))]
            # Without arguments nobody knows whose budget a keyed one would be.
            if limit.stop and len(case.budgets) > counted and over & _MAY:
                case.stop = case.stop or not over & FALSE
                case.may_stop = case.may_stop or bool(over & FALSE)
        cases.append(case)
    return Decision(
        Effect.DENY,
        (),
        f"its arguments are not valid: {why}",
        policy.digest,
        (why,),
        tuple(budget for case in cases for budget in case.budgets),
        invalid=why,
        stop=any(case.stop for case in cases),
        may_stop=any(case.may_stop for case in cases),
    )


def _judge_arguments(
    policy: Policy, plan: Plan, rules: tuple[tuple[Rule, Truths], ...], call: ToolCall
) -> Decision:
    """Judge a call of which nothing but name and arguments decides: equal truths, equal decision."""
    truths: list[Truths] = []
    errors: list[str] = []
    for rule, names in rules:
        condition = rule.args
        if condition is None:
            truths.append(names)
            continue
        value = condition.judge(call.arguments, errors, opaque=call.opaque)
        if value == INDETERMINATE or errors:
            # What could not be judged is told, and differs from call to call.
            return _judge(policy, plan, History(), call, NO_FACTS, Moment.ENTRY)
        truths.append(value)
    key = tuple(truths)
    decision = plan.made.get(key)
    if decision is None:
        decision = _judge(policy, plan, History(), call, NO_FACTS, Moment.ENTRY)
        if len(plan.made) < _MAX_MADE:
            plan.made[key] = decision
    return decision


def _plan_layer(layer: Layer, server: str | None, name: str) -> _LayerPlan:
    tool = layer.tool(server, name)
    rules = tuple(layer.rules_for(server, name, tool))
    errors = tuple(_selector_error(rule, name) for rule, truths in rules if truths == INDETERMINATE)
    once = tuple(meant for meant in layer.restricting_tools(server, name) if meant.once_per)
    timeless = not (layer.can_stop or once)
    by_arguments = timeless and not any(rule.when or rule.after or rule.limit for rule, _ in rules)
    return _LayerPlan(
        layer=layer,
        tool=tool,
        once=once,
        rules=rules,
        errors=errors,
        static=by_arguments and not any(rule.conditional for rule, _ in rules),
        by_arguments=by_arguments,
    )


def _selector_error(rule: Rule, name: str) -> str:
    if rule.selector.labels is not None:
        return f"`{rule.id}`: `tools` has no `labels` for `{name}`"
    return f"`{rule.id}`: the record does not say which server offers `{name}`"


def _judge(
    policy: Policy, plan: Plan, history: History, call: ToolCall, facts: Facts, moment: Moment
) -> Decision:
    cases: list[Case] = []
    verdicts: list[_Verdict] = []
    bits = _ALLOW
    for part in plan.layers:
        case = Case(part.layer, part.tool, history.state(part.layer), call, facts, moment)
        verdict = _verdict(part, case)
        cases.append(case)
        verdicts.append(verdict)
        bits = OR[bits][verdict.bits]
    effect = _EFFECT.get(bits)
    errors = tuple(dict.fromkeys(error for case in cases for error in case.errors))
    missing = tuple(dict.fromkeys(what for case in cases for what in case.missing))
    reason = next((verdict.reason for verdict in verdicts if verdict.bits == bits and verdict.reason), None)
    if effect is None:
        reason = "it cannot be said from this record: " + "; ".join(missing)
    return Decision(
        effect or Effect.DENY,
        tuple(rule for verdict in verdicts if verdict.bits == bits for rule in verdict.rules),
        reason or _REASON[effect or Effect.DENY],
        policy.digest,
        errors,
        tuple(budget for case in cases for budget in case.budgets),
        missing if effect is None else (),
        stop=any(case.stop for case in cases),
        may_stop=any(case.may_stop for case in cases),
    )


def _verdict(part: _LayerPlan, case: Case) -> _Verdict:
    """Judge every rule that may speak about the call, and put them in their order."""
    if case.state.stopped:
        return _Verdict(_DENY, (), "the session has been stopped")
    case.errors.extend(part.errors)
    truths = {Effect.DENY: FALSE, Effect.ASK: FALSE, Effect.ALLOW: FALSE}
    matched: list[tuple[Effect, Truths, str, str | None]] = []

    def match(effect: Effect, value: Truths, rule_id: str, reason: str | None) -> None:
        if value != FALSE:
            truths[effect] = OR[truths[effect]][value]
            matched.append((effect, value, rule_id, reason))

    for rule, names in part.rules:
        value = judge_conditions(case, rule, names) if rule.conditional else names
        match(rule.effect, value, rule.id, rule.reason)
        if rule.limit is not None and value != FALSE:
            over = AND[value][judge_limit(case, rule, rule.limit, unsure=bool(value & FALSE))]
            match(Effect.DENY, over, rule.id, _limit_reason(rule.limit, over))
            if rule.limit.stop and over & _MAY:
                case.stop = case.stop or not over & FALSE
                case.may_stop = case.may_stop or bool(over & FALSE)
    for tool in part.once:
        named = ", ".join(f"`{name}`" for name in tool.once_per)
        repeat = judge_repeat(case, tool)
        match(Effect.DENY, repeat, f"once_per:{tool.name.text}", f"it runs only once for each {named}")

    bits = _possible(truths[Effect.DENY], truths[Effect.ASK], truths[Effect.ALLOW], part.layer.default)
    if case.state.may_be_stopped and bits != _DENY:
        bits |= _DENY
        case.missing.append("whether an earlier call stopped the session")
    needed = TRUE if bits == _ALLOW else _MAY
    determining = [row for row in matched if _BIT[row[0]] == bits and row[1] & needed]
    reason = next((row[3] for row in determining if row[3]), None)
    if reason is None and determining and bits == _DENY:
        sure = any(row[1] == TRUE for row in determining)
        reason = "a rule denies it" if sure else "a rule may deny it, and could not be judged"
    return _Verdict(bits, tuple(dict.fromkeys(row[2] for row in determining)), reason)


def _possible(deny: Truths, ask: Truths, allow: Truths, default: Effect) -> Truths:
    """Every verdict that the possible truths of the three kinds of rules can give."""
    verdicts = _DENY if deny & _MAY else 0
    if not deny & FALSE:
        return verdicts
    for must_allow in (False, True):
        if not allow & (TRUE if must_allow else FALSE | INDETERMINATE):
            continue
        otherwise = Effect.ALLOW if must_allow else default
        if ask & TRUE or (ask & INDETERMINATE and otherwise is Effect.ALLOW):
            verdicts |= _ASK
        if ask & FALSE or (ask & INDETERMINATE and otherwise is not Effect.ALLOW):
            verdicts |= _BIT[otherwise]
    return verdicts


def _limit_reason(limit: Limit, over: Truths) -> str:
    unit = limit.unit.removesuffix("s") if limit.units == 1 else limit.unit
    return f"its limit of {limit.units} {unit} {'is' if over == TRUE else 'may be'} spent"
