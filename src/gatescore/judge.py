"""
The parts of a rule, each judged by itself: `args`, `when`, `after`, `limit`, and `once_per` of a tool.

Each function gives the set of possible truth values, and notes in the case what could not be
judged and what the record lacks. How the parts make a verdict is `gatescore.decide`'s business.
"""

from __future__ import annotations

from typing import Final

from gatescore.canonical import is_marked, key_text
from gatescore.correlation import UNREADABLE, is_withheld, joined, values_of
from gatescore.model import Budget, Facts, Moment, ToolCall
from gatescore.policy.expressions import Expression
from gatescore.policy.rules import Layer, Limit, Rule, Tool
from gatescore.policy.three_valued import WITHHELD
from gatescore.state import NO_TIME, WITHHELD_ARGUMENTS, State, judge_arguments
from gatescore.truth import AND, FALSE, INDETERMINATE, OR, TRUE, UNKNOWN, Truths

NO_SESSION: Final = "outside of a session nothing is known of what happened before"
NO_EXECUTIONS: Final = "what was executed before was not observed"
WITHHELD_ATTRIBUTES: Final = "the attributes of the session are withheld"


class Case:
    """
    One call before one policy layer.

    Attributes:
        layer: The layer.
        tool: What the layer knows of the tool, or None.
        state: What had happened in the session.
        call, facts, moment: As given to `gatescore.decide.decide`.
        errors: Filled with what could not be judged, one line each.
        missing: Filled with what the record lacks.
        budgets: Filled with the units that the call would take.
        stop: Set where the call ends its session.
        may_stop: Set where the record does not tell whether it does.
    """

    __slots__ = (
        "budgets",
        "call",
        "errors",
        "facts",
        "layer",
        "may_stop",
        "missing",
        "moment",
        "state",
        "stop",
        "tool",
    )

    def __init__(
        self, layer: Layer, tool: Tool | None, state: State, call: ToolCall, facts: Facts, moment: Moment
    ) -> None:
        self.layer = layer
        self.tool = tool
        self.state = state
        self.call = call
        self.facts = facts
        self.moment = moment
        self.errors: list[str] = []
        self.missing: list[str] = []
        self.budgets: list[Budget] = []
        self.stop = False
        self.may_stop = False

    def lacks(self, what: str) -> Truths:
        """Note that the record lacks *what*: anything is possible."""
        self.missing.append(what)
        return UNKNOWN


def judge_conditions(case: Case, rule: Rule, names: Truths) -> Truths:
    """Whether *rule* matches, its selector being *names*. One false part is enough to say no."""
    truths = names
    if rule.args is not None:
        truths = AND[truths][judge_args(case, rule)]
    if rule.after is not None and truths != FALSE:
        truths = AND[truths][judge_after(case, rule)]
    if rule.when is not None and truths != FALSE:
        truths = AND[truths][judge_when(case, rule)]
    return truths


def judge_args(case: Case, rule: Rule) -> Truths:
    """Whether the arguments meet `args` and `anywhere`."""
    condition = rule.args
    if condition is None:
        return TRUE
    errors: list[str] = []
    truths = judge_arguments(condition, case.call, errors)
    if truths == INDETERMINATE and not errors:
        errors.append(condition.indeterminate_text(case.call.arguments, opaque=case.call.opaque))
    elif truths == UNKNOWN:
        case.lacks(WITHHELD_ARGUMENTS)
    case.errors.extend(f"`{rule.id}`: {error}" for error in errors)
    return truths


def judge_after(case: Case, rule: Rule) -> Truths:
    """Whether an execution that `after` asks for came before."""
    after = rule.after
    if after is None:
        return TRUE
    state, call = case.state, case.call
    if state.session is None:
        case.errors.append(f"`{rule.id}`: `after`: {NO_SESSION}")
        return INDETERMINATE
    lacking: list[str] = []
    truths = state.after(after, call, case.facts.now, case.moment, lacking)
    if not state.session.observed:
        return OR[truths][case.lacks(NO_EXECUTIONS)]
    if truths == INDETERMINATE:
        why = "the name or arguments of an earlier call could not be judged"
        mine = [name for name, _ in after.same]
        absent = [
            f"`{name}`" for name, value in zip(mine, values_of(call, mine), strict=True) if value is None
        ]
        if absent:
            why = "no value for " + ", ".join(absent)
        case.errors.append(f"`{rule.id}`: `after`: {why}")
    elif truths not in (FALSE, TRUE):
        case.missing.extend(lacking)
    return truths


def judge_when(case: Case, rule: Rule) -> Truths:
    """Whether the CEL expression of `when` is exactly true."""
    expression = rule.when
    if expression is None:
        return TRUE
    # A withheld value is neither of the right type nor of the wrong one: it is not looked at.
    if case.call.withheld and _reads_withheld(case.call, expression):
        return case.lacks(WITHHELD_ARGUMENTS)
    problem = _unfit(case, expression)
    if problem is not None:
        case.errors.append(f"`{rule.id}`: `when`: {problem}")
        return INDETERMINATE
    if "now" in expression.reads and case.facts.now is None:
        return case.lacks(NO_TIME)
    session = case.state.session
    if "labels" in expression.session_fields and session is not None and not session.observed:
        return case.lacks(NO_EXECUTIONS)
    if case.state.attributes_withheld and "attributes" in expression.session_fields:
        return case.lacks(WITHHELD_ATTRIBUTES)
    errors: list[str] = []
    truths = expression.evaluate(_variables(case, expression), errors)
    case.errors.extend(f"`{rule.id}`: `when`: {error}" for error in errors)
    return truths


def _reads_withheld(call: ToolCall, expression: Expression) -> bool:
    """Whether the expression reads an argument that the record does not tell, or may read one."""
    if "args" not in expression.reads:
        return False
    if expression.arguments is None or WITHHELD in call.arguments:
        return True
    return any(is_withheld(call.arguments.get(name)) for name in expression.arguments)


def _unfit(case: Case, expression: Expression) -> str | None:
    """Why the expression may not even be evaluated: it would compare what cannot be compared."""
    call, reads = case.call, expression.arguments
    if "session" in expression.reads and case.state.session is None:
        return NO_SESSION
    if "args" not in expression.reads:
        return None
    if call.opaque:
        read = call.arguments if reads is None else reads & call.arguments.keys()
        for name in sorted(read):
            if is_marked(call.arguments[name]):
                return f"`{name}` holds a value that JSON cannot hold"
    schemas = case.tool.schemas if case.tool is not None else None
    if schemas is not None:
        unfit = schemas.unfit(call.arguments, reads)
        if unfit is not None:
            return f"`{unfit}` does not fit the schema of `{call.name}`"
    return None


def _variables(case: Case, expression: Expression) -> dict[str, object]:
    variables: dict[str, object] = {}
    for root in expression.reads:
        if root == "args":
            variables["args"] = case.call.arguments
        elif root == "now":
            variables["now"] = case.facts.now
        elif root == "call":
            variables["call"] = {
                "name": case.call.name,
                "id": case.call.call_id,
                # Absent fields are left out: reading them is an error, and so indeterminate.
                **({} if case.call.server is None else {"server": case.call.server}),
            }
        elif root == "tool":
            tool: dict[str, object] = {"name": case.call.name}
            if case.call.server is not None:
                tool["server"] = case.call.server
            if case.tool is not None and case.tool.labels is not None:
                tool["labels"] = sorted(case.tool.labels)
            variables["tool"] = tool
        elif root == "session":
            variables["session"] = _session(case.state)
    return variables


def _session(state: State) -> dict[str, object]:
    started = state.session
    session: dict[str, object] = {"attributes": state.attributes, "labels": sorted(state.labels)}
    if started is not None:
        session["id"] = started.session_id
        if started.principal is not None:
            session["principal"] = started.principal
    return session


def judge_limit(case: Case, rule: Rule, limit: Limit, *, unsure: bool) -> Truths:
    """
    Whether the budget of *limit* is spent; notes the unit that the call would take.

    Args:
        case: The call, and what is known.
        rule: The rule that has the limit.
        limit: The limit.
        unsure: The record does not tell whether the rule matches at all.
    """
    if limit.unit == "proposals" and case.moment is Moment.ENTRY:
        return FALSE  # the call was counted, and judged, when it was proposed
    session = case.state.session
    if session is None:
        case.errors.append(f"`{rule.id}`: `limit`: {NO_SESSION}")
        return INDETERMINATE
    scope = {"session": "", "principal": session.principal, "tool": case.call.tool}[limit.per]
    if scope is None:
        case.errors.append(f"`{rule.id}`: `limit`: the session has no principal")
        return INDETERMINATE
    key = values_of(case.call, limit.key)
    if UNREADABLE in key and None not in key:
        return case.lacks(WITHHELD_ARGUMENTS)  # the budget may be any
    values = joined(key)
    if values is None:
        named = ", ".join(f"`{name}`" for name in limit.key)
        case.errors.append(f"`{rule.id}`: `limit`: no value for {named}")
        return INDETERMINATE
    budget = Budget(limit.name, limit.unit, key_text([limit.name, scope, values]), limit.wide, unsure)
    case.budgets.append(budget)
    elsewhere = case.facts.budgets.get(budget.limit) if limit.wide else 0
    spent = known = case.state.spent(limit, budget, case.call, elsewhere, case.facts.now)
    if spent == TRUE:
        return spent
    if case.state.mixes(limit, case.call, key):
        case.lacks(WITHHELD_ARGUMENTS)
        spent |= TRUE
    if limit.unit != "proposals" and not session.observed:
        return OR[spent][case.lacks(NO_EXECUTIONS)]
    if known != FALSE:
        if elsewhere is None:
            case.lacks(f"units of `{rule.id}` used outside of the session")
        elif case.state.doubts(budget):
            case.lacks(f"whether an earlier call took a unit of `{rule.id}`")
        else:
            case.lacks(NO_TIME)
    return spent


def judge_repeat(case: Case, tool: Tool) -> Truths:
    """
    Whether the once-only effect of the call is in flight, was had, or may have been had.

    By another call, or by an earlier attempt of this one that succeeded.
    """
    session = case.state.session
    named = f"`once_per` of `{tool.name.text}`"
    if session is None:
        case.errors.append(f"{named}: {NO_SESSION}")
        return INDETERMINATE
    truths = case.state.repeats(tool, case.call)
    if truths == TRUE:
        return truths
    if not session.observed:
        return OR[truths][case.lacks(NO_EXECUTIONS)]
    if truths == INDETERMINATE:
        case.errors.append(f"{named}: no value to compare, in this call or an earlier one")
    elif truths != FALSE:
        case.lacks(WITHHELD_ARGUMENTS)
    return truths
