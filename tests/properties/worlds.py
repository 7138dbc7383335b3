"""
Small random worlds: policies, pasts and calls that meet often enough to matter.

Three tools, two arguments, few values: with more of them, two calls would hardly ever share a tool,
a key or a correlated value, and most rules would speak of nothing. A past is made as a run makes
one: every decision in it is the engine's own, and what is done with it is random, also against it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from gatescore.decide import decide
from gatescore.history import History
from gatescore.model import (
    Abandoned,
    Decided,
    Decision,
    Effect,
    Event,
    Facts,
    Finished,
    Moment,
    Outcome,
    Proposed,
    Rejected,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy

Decide = Callable[..., Any]

TOOLS = ("read", "write", "pay")
NAMES = (*TOOLS, "rea*", "*", "p?y")
KEYS = ("x", "y")
SECOND = 10**9


class Live:
    """A value that JSON cannot hold."""


# Strategies are made once: to make them anew in each draw would take longer than the drawing.

VALUES = st.sampled_from([1, 2, 1.0, True, "1", None, 200])
PLAIN = st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES})
ARGUMENTS = st.one_of(
    PLAIN,
    PLAIN,
    PLAIN,
    PLAIN,
    PLAIN.map(lambda held: {**held, "x": Live()}),
    PLAIN.map(lambda held: {**held, "x": Live() if "y" in held else math.nan}),
)
SCHEMAS = st.sampled_from([{"maximum": 1}, {"const": 1}, {"type": "string"}, {"not": {"const": "1"}}, {}])
CONDITIONS = st.dictionaries(st.sampled_from(["x", "y", "x?", "*"]), SCHEMAS, min_size=1, max_size=2).filter(
    lambda args: not {"x", "x?"} <= args.keys()
)
NAME_LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)
SELECTORS = st.one_of(
    NAME_LISTS, NAME_LISTS, NAME_LISTS, st.sampled_from([{"labels": ["external"]}, {"labels": ["a", "b"]}])
)
AFTERS = st.fixed_dictionaries(
    {"tool": SELECTORS},
    optional={
        "same": st.sampled_from([{"x": "x"}, {"x": "y"}, {"x": "x", "y": "y"}]),
        "args": CONDITIONS,
        "within": st.sampled_from(["2s", "9s", {"calls": 1}, {"calls": 2}]),
    },
)
UNITS = st.integers(0, 2)
LIMIT_PARTS = {
    "key": st.sampled_from([["x"], ["x", "y"]]),
    "window": st.sampled_from(["2s", "9s"]),
}
LIMITS = st.one_of(
    st.fixed_dictionaries({"executions": UNITS}, optional=LIMIT_PARTS),
    st.fixed_dictionaries({"calls": UNITS}, optional=LIMIT_PARTS),
    st.fixed_dictionaries({"proposals": UNITS}, optional={**LIMIT_PARTS, "then": st.just("stop")}),
)
STOPS = st.fixed_dictionaries({"proposals": UNITS, "then": st.just("stop")})
PARTS = {"args": CONDITIONS, "after": AFTERS}
RULES = st.one_of(
    st.fixed_dictionaries({"allow": SELECTORS}, optional=PARTS),
    st.fixed_dictionaries({"allow": SELECTORS, "limit": LIMITS}, optional=PARTS),
    st.fixed_dictionaries({"ask": SELECTORS}, optional={**PARTS, "limit": LIMITS}),
    st.fixed_dictionaries({"deny": SELECTORS}, optional={**PARTS, "limit": STOPS}),
)
LABELS = st.sampled_from([[], ["external"], ["a"], ["b", "external"]])
TOOL_ENTRIES = st.one_of(
    st.fixed_dictionaries({"labels": LABELS}),
    st.fixed_dictionaries(
        {"once_per": st.sampled_from([["x"], ["x", "y"]])},
        optional={"safe_to_repeat": st.sampled_from([["failed"], ["failed", "cancelled", "unfinished"]])},
    ),
)
RULE_LISTS = st.lists(RULES, min_size=1, max_size=4).map(
    lambda rules: [{"id": f"r{number}", **rule} for number, rule in enumerate(rules)]
)
DOCUMENTS = {
    defaults: st.fixed_dictionaries(
        {
            "default": st.sampled_from(defaults),
            "tools": st.dictionaries(st.sampled_from(TOOLS), TOOL_ENTRIES, max_size=2),
            "rules": RULE_LISTS,
        }
    )
    for defaults in [("deny", "ask", "allow"), ("deny", "ask"), ("deny",)]
}


# Policies that mostly depend on time: each rule on how long ago something ran, or on a window.
TIMED = {
    "after": st.fixed_dictionaries({"tool": NAME_LISTS, "within": st.sampled_from(["1s", "2s", "4s"])}),
    "limit": st.fixed_dictionaries(
        {"executions": st.integers(1, 2), "window": st.sampled_from(["1s", "4s"])}
    ),
}
TIMED_RULES = st.one_of(
    st.fixed_dictionaries({"allow": NAME_LISTS}),
    st.fixed_dictionaries({"allow": NAME_LISTS, "after": TIMED["after"]}),
    st.fixed_dictionaries({"allow": NAME_LISTS, "limit": TIMED["limit"]}),
    st.fixed_dictionaries({"deny": NAME_LISTS, "after": TIMED["after"]}),
    st.fixed_dictionaries({"ask": NAME_LISTS, "after": TIMED["after"]}),
)
TIMED_DOCUMENTS = st.fixed_dictionaries(
    {
        "default": st.sampled_from(["deny", "allow"]),
        "tools": st.just({}),
        "rules": st.lists(TIMED_RULES, min_size=1, max_size=3).map(
            lambda rules: [{"id": f"r{number}", **rule} for number, rule in enumerate(rules)]
        ),
    }
)


def documents(*defaults: str) -> st.SearchStrategy[dict[str, Any]]:
    """Policy documents whose `default` is one of *defaults*; of all three where none is given."""
    return DOCUMENTS[defaults or ("deny", "ask", "allow")]


def made(document: dict[str, Any]) -> Policy:
    return Policy.from_dict(document)


@dataclass(frozen=True)
class World:
    """A past, and a call to be judged after it."""

    events: tuple[Event, ...]
    call: ToolCall
    moment: Moment
    now: int

    @property
    def facts(self) -> Facts:
        return Facts(now=self.now)

    def judged(self, decision_point: Decide, policy: Policy) -> Any:
        return decision_point(policy, History(self.events), self.call, self.facts, moment=self.moment)


MESSAGES = st.sampled_from(["m1", "m2", None])
CALLS = st.tuples(st.sampled_from(TOOLS), ARGUMENTS)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["propose", "propose", "enter", "enter", "enter", "end", "end", "drop"]),
        st.integers(0, 4),
        st.integers(0, 5),
        CALLS,
        MESSAGES,
        st.sampled_from([Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED]),
        st.booleans(),
    ),
    max_size=9,
)


def run(
    policy: Policy, steps: Sequence[tuple[Any, ...]], *, in_session: bool
) -> tuple[History, int, list[ToolCall]]:
    """A run of some steps: calls are proposed, decided, entered (or not) and ended (or not)."""
    history = History([SessionStarted(time=0, session_id="s")] if in_session else [])
    now = 0
    known: list[ToolCall] = []
    entered: list[tuple[str, int]] = []
    attempts: defaultdict[str, int] = defaultdict(int)
    for number, (action, seconds, choice, (name, held), message, outcome, yes) in enumerate(steps):
        now += seconds * SECOND
        if action == "propose" or not known:
            call = ToolCall(name, held, call_id=f"c{number}")
            known.append(call)
            history = history.advanced(Proposed(time=now, call=call, message=message))
            history, _ = _decided(history, policy, call, Moment.PROPOSAL, now)
        elif action == "enter":
            call = known[choice % len(known)]
            if message == "m2":  # with other arguments than it was put forward with, or entered with before
                call = ToolCall(call.name, held, call_id=call.call_id)
            history, decision = _decided(history, policy, call, Moment.ENTRY, now)
            # A body is entered as a guard would; or against it, as by something that asks nobody.
            if decision.effect is not Effect.DENY or yes:
                attempts[call.call_id] += 1
                entry = call.call_id, attempts[call.call_id]
                history = history.advanced(
                    Started(time=now, call=call, budgets=decision.budgets, attempt=entry[1])
                )
                entered.append(entry)
        elif action == "end" and entered:
            call_id, attempt = entered.pop(choice % len(entered))
            history = history.advanced(Finished(time=now, call_id=call_id, outcome=outcome, attempt=attempt))
        elif action == "drop":
            call_id = known[choice % len(known)].call_id
            history = history.advanced((Rejected if yes else Abandoned)(time=now, call_id=call_id))
    return history, now, known


def _decided(
    history: History, policy: Policy, call: ToolCall, moment: Moment, now: int
) -> tuple[History, Decision]:
    decision = decide(policy, history, call, Facts(now=now), moment=moment)
    entered = call if moment is Moment.ENTRY else None
    event = Decided(time=now, call_id=call.call_id, moment=moment, decision=decision, call=entered)
    return history.advanced(event), decision


ATTEMPTS = st.tuples(
    st.lists(st.sampled_from([1, 1, 2]), min_size=2, max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from([Outcome.SUCCEEDED, Outcome.FAILED, Outcome.UNFINISHED])
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["read", "pay"]),
    st.sampled_from([1, 2]),
    st.booleans(),
)


def overlapping_attempts() -> st.SearchStrategy[World]:
    """Worlds in which attempts of one call, with arguments of their own, run at the same time, and end in any order."""
    return ATTEMPTS.map(lambda drawn: _overlapping(*drawn))


def _overlapping(
    values: list[int], ends: list[tuple[int, Outcome]], name: str, value: int, own: bool
) -> World:
    events: list[Event] = [SessionStarted(time=0, session_id="s")]
    for attempt, x in enumerate(values, 1):
        call = ToolCall("read", {"x": x}, call_id="c")
        events.append(Started(time=SECOND, call=call, attempt=attempt))
    for attempt, outcome in dict(ends).items():
        if attempt < len(values):
            events.append(Finished(time=SECOND, call_id="c", attempt=attempt + 1, outcome=outcome))
    call_id = "c" if own and name == "read" else "new"
    return World(tuple(events), ToolCall(name, {"x": value}, call_id=call_id), Moment.ENTRY, SECOND)


LASTS = st.tuples(
    STEPS,
    st.integers(0, 5),
    st.integers(0, 4),
    st.sampled_from([Moment.PROPOSAL, Moment.ENTRY]),
    st.integers(-3, 5),
    CALLS,
    MESSAGES,
)


def worlds(policy: Policy) -> st.SearchStrategy[World]:
    """Worlds whose past was run under *policy*; one in six is outside of a session."""
    return LASTS.map(lambda drawn: _world(policy, *drawn))


def _world(
    policy: Policy,
    steps: Sequence[tuple[Any, ...]],
    session: int,
    seconds: int,
    moment: Moment,
    again: int,
    drawn: tuple[str, Any],
    message: str | None,
) -> World:
    history, now, known = run(policy, steps, in_session=session > 0)
    now += seconds * SECOND
    if known and again >= 0:
        return World(history.events, known[again % len(known)], moment, now)
    call = ToolCall(*drawn, call_id="new")
    events = history.events
    if moment is Moment.PROPOSAL:
        events = (*events, Proposed(time=now, call=call, message=message))
    return World(events, call, moment, now)


def undated(world: World) -> World:
    """The same world, recorded without times."""
    return replace(world, events=tuple(replace(event, time=None) for event in world.events))
