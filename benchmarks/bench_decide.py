"""
What a decision costs.

    python benchmarks/bench_decide.py [--quick]

Measured is `gatescore.decide.decide` alone, with the policy compiled, the call made and the session's
history folded before, as they are where many calls are judged. The figures are ratios:

- of a decision by name, and of one with four conditions on arguments, to the construction of one frozen
  dataclass of the standard library with the fields of a decision;
- of a decision under 10,000 rules, of which 10 speak about the tool, to one under those 10 alone;
- of a decision after 100,000 events to one after 10.

The last table is about what is done once: the plan of a name that was not called before, and the fold
over a history that was not asked before. Before something is timed, its decision is compared with the
one that it is said to be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from timing import FEW, FULL, QUICK, Pace, Row, Statement, Target, compare, print_table, print_versions

from gatescore.decide import decide
from gatescore.history import History, advance
from gatescore.model import (
    NO_FACTS,
    Budget,
    Decision,
    Effect,
    Facts,
    Finished,
    Moment,
    Outcome,
    Proposed,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy

SECOND: Final = 10**9
OUTSIDE: Final = History()
SPEAKING: Final = 10
"""How many rules speak about the tool that is called."""
FEW_EVENTS: Final = 10


@dataclass(frozen=True)
class Plain:
    """What everything is held against: the fields of `Decision`, in a dataclass as most would write it."""

    effect: Effect
    rules: tuple[str, ...]
    reason: str
    policy_digest: str
    errors: tuple[str, ...]
    budgets: tuple[Budget, ...]
    undecidable: tuple[str, ...]
    invalid: str | None
    stop: bool


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is of everything, and how long it is measured."""

    rules: int
    events: int
    pace: Pace
    once: Pace


WHOLE: Final = Size(rules=10_000, events=100_000, pace=FULL, once=FEW)
SMALL: Final = Size(rules=100, events=100, pace=QUICK, once=QUICK)


def main(arguments: Sequence[str]) -> str | int:
    """Print all tables; return an exit status, or the text of an error."""
    if list(arguments) not in ([], ["--quick"]):
        return "usage: bench_decide.py [--quick]"
    size = SMALL if arguments else WHOLE
    print_versions("gatescore", "jsonschema-rs", "common-expression-language")
    print_table(
        "one decision, to the construction of one frozen dataclass", [*by_name(size), *by_arguments(size)]
    )
    title = f"one decision under {size.rules:,} rules, to one under the {SPEAKING} of them that speak about the tool"
    print_table(title, by_rules(size))
    print_table(f"one decision after {size.events:,} events, to one after {FEW_EVENTS}", by_events(size))
    print_table("what is done once, to the construction of one frozen dataclass", once(size))
    return 0


# Rows


def by_name(size: Size) -> list[Row]:
    """Decisions that the name of the tool makes."""
    policy = Policy(allowed_tools=["get_order", "search_kb"], denied_tools=["issue_refund"])
    target = Target("<=", 1.5)
    return [
        to_plain("by name, allowed", policy, ToolCall("get_order"), Effect.ALLOW, size, target),
        to_plain("by name, denied by a rule", policy, ToolCall("issue_refund"), Effect.DENY, size, target),
        to_plain("by name, denied by default", policy, ToolCall("cancel_order"), Effect.DENY, size, target),
    ]


def by_arguments(size: Size) -> list[Row]:
    """Decisions that one rule with four conditions on arguments makes."""
    conditions = {
        "order_id": {"pattern": "^[0-9]{3,}$"},
        "amount": {"maximum": 100},
        "currency": {"enum": ["EUR", "USD"]},
        "note": {"type": "string"},
    }
    allow = Policy(rules=[{"id": "small", "allow": "issue_refund", "args": conditions}])
    deny = Policy(rules=[{"id": "small", "deny": "issue_refund", "args": conditions}], default="allow")
    small = {"order_id": "814", "amount": 7, "currency": "EUR", "note": "broken"}
    meets, fails = ToolCall("issue_refund", small), ToolCall("issue_refund", {**small, "amount": 700})
    lacks = ToolCall("issue_refund", {"order_id": "814", "amount": 7, "currency": "EUR"})
    target = Target("<=", 3)
    return [
        to_plain("four conditions, met, allowed", allow, meets, Effect.ALLOW, size, target),
        to_plain("four conditions, one not met, denied", allow, fails, Effect.DENY, size, target),
        to_plain("four conditions, met, denied by a rule", deny, meets, Effect.DENY, size, target),
        to_plain("four conditions, one not met, not denied", deny, fails, Effect.ALLOW, size, target),
        to_plain("four conditions, an argument missing (says which)", allow, lacks, Effect.DENY, size, None),
    ]


def by_rules(size: Size) -> list[Row]:
    """Decisions under many rules, of which few speak about the tool; all of these have a condition."""
    call = ToolCall("get_order", {"amount": 7})
    target = Target("<", 2)
    rows: list[Row] = []
    for what, speaking, others in (
        ("exact names, each with a condition", exact_rules(), other_rules(size, "tool_{}")),
        ("exact names, without conditions", named_rules(), other_rules(size, "tool_{}")),
        ("globs, and a deny rule that does not match", glob_rules(), other_rules(size, "tool_{}_*")),
    ):
        many, few = in_policy(spread(speaking, others)), in_policy(speaking)
        expect(decide(many, OUTSIDE, call), Effect.ALLOW)
        expect(decide(few, OUTSIDE, call), Effect.ALLOW)
        measured, against = (deciding(policy, OUTSIDE, call, NO_FACTS) for policy in (many, few))
        rows.append(compare(what, measured, against, target, pace=size.pace))
    return rows


def by_events(size: Size) -> list[Row]:
    """Decisions that depend on what was executed before."""
    target = Target("<", 2)
    rows: list[Row] = []
    for what, policy, key in (
        ("`after` with `same`, a value of its own for each", AFTER, each_its_own),
        ("`after` with `same`, one value for all", AFTER, one_for_all),
        ("`limit` with key and window, a key of its own for each", LIMIT, each_its_own),
        ("`limit` with key and window, one key for all", LIMIT, one_for_all),
        ("`once_per`", ONCE, each_its_own),
        ("session labels in `when`", LABELS, each_its_own),
        ("all of them in one rule", ALL, each_its_own),
    ):
        made = Policy.from_dict(policy)
        sides: list[dict[Moment, Statement]] = []
        for events in (size.events, FEW_EVENTS):
            history, call, facts = past(made, events, key)
            side: dict[Moment, Statement] = {}
            for moment in Moment:
                expect(decide(made, history, call, facts, moment=moment), Effect.ALLOW)
                side[moment] = deciding(made, history, call, facts, moment)
            sides.append(side)
        many, few = sides
        rows.append(compare(what, many[Moment.ENTRY], few[Moment.ENTRY], target, pace=size.pace))
        if policy is ALL:
            proposal = Moment.PROPOSAL
            rows.append(
                compare(f"{what}, at the proposal", many[proposal], few[proposal], target, pace=size.pace)
            )
    return rows


def once(size: Size) -> list[Row]:
    """What the first call of a name costs, and the first question to a long history for each of its events."""
    call = ToolCall("get_order", {"amount": 7})
    rows: list[Row] = []
    for what, rules in (
        (f"{SPEAKING} rules", exact_rules()),
        (f"{size.rules:,} rules with exact names", spread(exact_rules(), other_rules(size, "tool_{}"))),
        (
            f"{size.rules:,} rules, nearly all with globs",
            spread(glob_rules(), other_rules(size, "tool_{}_*")),
        ),
    ):
        deciding_anew = deciding(in_policy(rules), OUTSIDE, call, NO_FACTS)
        anew = Statement(f"policy.plans.clear(); {deciding_anew.text}", deciding_anew.names)
        rows.append(compare(f"a new name, {what}", anew, constructing(), pace=size.once))
    policy = Policy.from_dict(ALL)
    history, call, facts = past(policy, size.events, each_its_own)
    names = {**deciding(policy, history, call, facts).names, "History": History, "events": history.events}
    fold = Statement("decide(policy, History(events), call, facts)", names, things=size.events)
    rows.append(
        compare(f"a history of {size.events:,} events, for each event", fold, constructing(), pace=size.once)
    )
    return rows


# Statements


def to_plain(
    what: str, policy: Policy, call: ToolCall, effect: Effect, size: Size, target: Target | None
) -> Row:
    """Hold one decision outside of any session against the construction of one dataclass."""
    expect(decide(policy, OUTSIDE, call), effect)
    return compare(what, deciding(policy, OUTSIDE, call, NO_FACTS), constructing(), target, pace=size.pace)


def constructing() -> Statement:
    """Construct one `Plain`, in the cheapest way to call it."""
    names = [field.name for field in fields(Plain)]
    decision = decide(Policy(allowed_tools=["get_order"]), OUTSIDE, ToolCall("get_order"))
    values = {name: getattr(decision, name) for name in names}
    return Statement(f"Plain({', '.join(names)})", {**values, "Plain": Plain})


def deciding(
    policy: Policy, history: History, call: ToolCall, facts: Facts, moment: Moment = Moment.ENTRY
) -> Statement:
    """Judge one call."""
    names = {"decide": decide, "policy": policy, "history": history, "call": call, "facts": facts}
    if moment is Moment.ENTRY:
        return Statement("decide(policy, history, call, facts)", names)
    return Statement("decide(policy, history, call, facts, moment=moment)", {**names, "moment": moment})


def expect(decision: Decision, effect: Effect) -> None:
    """Stop where *decision* is not the one that is meant to be measured."""
    if decision.effect is not effect or (decision.errors != () and effect is Effect.ALLOW):
        raise SystemExit(f"error: {effect} was to be measured, and this is {decision!r}")


# Policies of many rules

Rule = Mapping[str, Any]


def in_policy(rules: Sequence[Rule]) -> Policy:
    """Rules as a policy that denies by default."""
    return Policy(rules=rules, default="deny")


def named_rules() -> list[Rule]:
    """Rules about `get_order` that nothing but the name decides."""
    return [{"id": f"speaks-{number}", "allow": "get_order"} for number in range(SPEAKING)]


def exact_rules() -> list[Rule]:
    """Rules about `get_order` by its exact name, every second of which is met by an amount of 7."""
    return [{**rule, "args": amount(number)} for number, rule in enumerate(named_rules())]


def glob_rules() -> list[Rule]:
    """Rules about `get_order`, most of them by globs; one denies, and is not met by an amount of 7."""
    rules = [
        {**rule, "allow": "get_*" if number % 3 else "get_order"} for number, rule in enumerate(exact_rules())
    ]
    return [*rules[:-1], {"id": "denies", "deny": "*_order", "args": {"amount": {"minimum": 1_000}}}]


def amount(number: int) -> dict[str, Any]:
    """A condition that an amount of 7 meets where *number* is even."""
    return {"amount": {"maximum": 10 + number} if number % 2 == 0 else {"minimum": 10 + number}}


def other_rules(size: Size, pattern: str) -> list[Rule]:
    """As many rules as are still lacking, none of which speaks about `get_order`."""
    effects = ("allow", "deny", "ask")
    return [
        {"id": f"other-{number}", effects[number % 3]: pattern.format(number)}
        for number in range(size.rules - SPEAKING)
    ]


def spread(speaking: Sequence[Rule], others: Sequence[Rule]) -> list[Rule]:
    """All rules, those that speak about the tool evenly among the others."""
    rules = list(others)
    step = len(others) // len(speaking) + 1
    for number, rule in enumerate(speaking):
        rules.insert(number * step, rule)
    return rules


# Policies about the past: an order is read, then paid, once

AFTER: Final[dict[str, Any]] = {
    "rules": [
        {"id": "read", "allow": "get_order"},
        {"id": "pay", "allow": "pay_order", "after": {"tool": "get_order", "same": ["order_id"]}},
    ]
}
LIMIT: Final[dict[str, Any]] = {
    "rules": [
        {"id": "read", "allow": "get_order"},
        {
            "id": "pay",
            "allow": "pay_order",
            "limit": {"executions": 1_000_000, "per": "session", "key": ["order_id"], "window": "24h"},
        },
    ]
}
ONCE: Final[dict[str, Any]] = {
    "tools": {"pay_order": {"once_per": ["order_id"]}},
    "rules": [{"id": "all", "allow": ["get_order", "pay_order"]}],
}
LABELS: Final[dict[str, Any]] = {
    "tools": {"get_order": {"labels": ["private"]}, "pay_order": {"labels": ["external"]}},
    "rules": [
        {"id": "all", "allow": ["get_order", "pay_order"]},
        {
            "id": "no-exfiltration",
            "deny": "pay_order",
            "when": 'session.labels.exists(l, l == "untrusted") && session.labels.exists(l, l == "private")',
        },
    ],
}
ALL: Final[dict[str, Any]] = {
    "tools": {
        "get_order": {"labels": ["private"]},
        "pay_order": {"labels": ["external"], "once_per": ["order_id"]},
    },
    "rules": [
        {"id": "read", "allow": "get_order"},
        {**AFTER["rules"][1], **LIMIT["rules"][1], "when": 'session.labels.exists(l, l == "private")'},
    ],
}


def each_its_own(number: int) -> str:
    """An order of its own for every pair of calls."""
    return f"order-{number}"


def one_for_all(_: int) -> str:
    """The same order in all calls."""
    return "order-0"


def past(policy: Policy, events: int, order_of: Callable[[int], str]) -> tuple[History, ToolCall, Facts]:
    """
    A session of so many events, the call to be judged after it, and when.

    One order is read, and not paid: the call to be judged pays it. Others are read and paid in turn,
    one call a second; the last event puts the call to be judged forward.
    """
    opened = ToolCall("get_order", {"order_id": order_of(0)}, call_id="opened")
    calls = [opened]
    for number in range(1, (events - 2) // 2):
        name = "get_order" if number % 2 else "pay_order"
        calls.append(ToolCall(name, {"order_id": order_of((number + 1) // 2)}, call_id=f"call-{number}"))
    history = History([SessionStarted(time=0, session_id="session")])
    for second, call in enumerate(calls):
        now = second * SECOND
        budgets = decide(policy, history, call, Facts(now=now)).budgets
        history = advance(history, Started(time=now, call=call, budgets=budgets))
        history = advance(history, Finished(time=now, call_id=call.call_id, outcome=Outcome.SUCCEEDED))
    judged = ToolCall("pay_order", {"order_id": order_of(0)}, call_id="judged")
    now = len(calls) * SECOND
    history = advance(history, Proposed(time=now, call=judged, message="last"))
    if len(history) != events:
        raise SystemExit(f"error: {events:,} events were to be made, and these are {len(history):,}")
    return history, judged, Facts(now=now)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
