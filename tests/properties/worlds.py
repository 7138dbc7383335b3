"""
Small random worlds: policies, pasts and calls that meet often enough to matter.

Three tools, two arguments, few values: with more of them, two calls would hardly ever share a tool,
a key or a correlated value, and most rules would speak of nothing. A past is made as a run makes
one: every decision in it is the engine's own, and what is done with it is random, also against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from gatescore.decide import decide
from gatescore.history import History
from gatescore.model import (
    Abandoned,
    Decided,
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


def values() -> st.SearchStrategy[Any]:
    return st.sampled_from([1, 2, 1.0, True, "1", None, 200])


def arguments() -> st.SearchStrategy[dict[str, Any]]:
    plain = st.fixed_dictionaries({}, optional={"x": values(), "y": values()})
    return st.one_of(plain, plain, plain, plain.map(lambda held: {**held, "x": Live()}))


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    schema = st.sampled_from([{"maximum": 1}, {"const": 1}, {"type": "string"}, {"not": {"const": "1"}}, {}])
    one = st.dictionaries(st.sampled_from(["x", "y", "x?", "*"]), schema, min_size=1, max_size=2)
    return one.filter(lambda args: not {"x", "x?"} <= args.keys())


def selectors() -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)
    return st.one_of(names, names, names, st.sampled_from([{"labels": ["external"]}, {"labels": ["a", "b"]}]))


@st.composite
def afters(draw: st.DrawFn) -> dict[str, Any]:
    after: dict[str, Any] = {"tool": draw(selectors())}
    if draw(st.booleans()):
        after["same"] = draw(st.sampled_from([{"x": "x"}, {"x": "y"}, {"x": "x", "y": "y"}]))
    if draw(st.integers(0, 2)) == 0:
        after["args"] = draw(conditions())
    within = draw(st.sampled_from([None, "2s", "9s", {"calls": 1}, {"calls": 2}]))
    return after if within is None else {**after, "within": within}


@st.composite
def limits(draw: st.DrawFn, effect: str) -> dict[str, Any]:
    if effect == "deny":
        return {"proposals": draw(st.integers(0, 2)), "then": "stop"}
    limit: dict[str, Any] = {draw(st.sampled_from(["executions", "calls", "proposals"])): draw(st.integers(0, 2))}
    if draw(st.booleans()):
        limit["key"] = draw(st.sampled_from([["x"], ["x", "y"]]))
    if draw(st.integers(0, 2)) == 0:
        limit["window"] = draw(st.sampled_from(["2s", "9s"]))
    if "proposals" in limit and draw(st.integers(0, 3)) == 0:
        limit["then"] = "stop"
    return limit


@st.composite
def rules(draw: st.DrawFn, number: int, *, with_limits: bool = True) -> dict[str, Any]:
    effect = draw(st.sampled_from(["allow", "allow", "ask", "deny"]))
    rule: dict[str, Any] = {"id": f"r{number}", effect: draw(selectors())}
    if draw(st.booleans()):
        rule["args"] = draw(conditions())
    if draw(st.integers(0, 2)) == 0:
        rule["after"] = draw(afters())
    if with_limits and draw(st.integers(0, 2)) == 0:
        rule["limit"] = draw(limits(effect))
    return rule


def known_tools() -> st.SearchStrategy[dict[str, Any]]:
    labels = st.sampled_from([[], ["external"], ["a"], ["b", "external"]])
    once = st.fixed_dictionaries(
        {"once_per": st.sampled_from([["x"], ["x", "y"]])},
        optional={"safe_to_repeat": st.sampled_from([["failed"], ["failed", "cancelled", "unfinished"]])},
    )
    entry = st.one_of(st.fixed_dictionaries({"labels": labels}), once)
    return st.dictionaries(st.sampled_from(TOOLS), entry, max_size=2)


@st.composite
def documents(draw: st.DrawFn, *, with_limits: bool = True, defaults: Sequence[str] = ("deny", "ask", "allow")) -> dict[str, Any]:
    count = draw(st.integers(1, 4))
    return {
        "default": draw(st.sampled_from(defaults)),
        "tools": draw(known_tools()),
        "rules": [draw(rules(number, with_limits=with_limits)) for number in range(count)],
    }


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


@st.composite
def calls(draw: st.DrawFn, call_id: str) -> ToolCall:
    return ToolCall(draw(st.sampled_from(TOOLS)), draw(arguments()), call_id=call_id)


@st.composite
def pasts(draw: st.DrawFn, policy: Policy, *, in_session: bool = True) -> tuple[History, int, dict[str, ToolCall]]:
    """A run of some steps: calls are proposed, decided, entered (or not) and ended (or not)."""
    history = History([SessionStarted(time=0, session_id="s")] if in_session else [])
    now = 0
    known: dict[str, ToolCall] = {}
    open_ids: list[str] = []
    for step in range(draw(st.integers(0, 6))):
        now += draw(st.integers(0, 4)) * SECOND
        action = draw(st.sampled_from(["propose", "propose", "enter", "enter", "end", "drop"]))
        if action == "propose" or (action in ("enter", "drop") and not known):
            call = draw(calls(f"c{step}"))
            known[call.call_id] = call
            history = history.advanced(Proposed(time=now, call=call, message=draw(st.sampled_from(["m1", "m2", None]))))
            history = _decided(history, policy, call, Moment.PROPOSAL, now)
        elif action == "enter":
            call = known[draw(st.sampled_from(sorted(known)))]
            history = _entered(history, policy, call, now, against=draw(st.booleans()))
            open_ids.append(call.call_id)
        elif action == "end" and open_ids:
            call_id = open_ids.pop(draw(st.integers(0, len(open_ids) - 1)))
            outcome = draw(st.sampled_from([Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED]))
            history = history.advanced(Finished(time=now, call_id=call_id, outcome=outcome))
        elif action == "drop":
            call_id = draw(st.sampled_from(sorted(known)))
            event = draw(st.sampled_from([Rejected(time=now, call_id=call_id), Abandoned(time=now, call_id=call_id)]))
            history = history.advanced(event)
    return history, now, known


def _decided(history: History, policy: Policy, call: ToolCall, moment: Moment, now: int) -> History:
    decision = decide(policy, history, call, Facts(now=now), moment=moment)
    return history.advanced(Decided(time=now, call_id=call.call_id, moment=moment, decision=decision))


def _entered(history: History, policy: Policy, call: ToolCall, now: int, *, against: bool) -> History:
    """Enter a body, as a guard does after it has decided; or as something does that asks nobody."""
    decision = decide(policy, history, call, Facts(now=now))
    if not against:
        history = history.advanced(
            Decided(time=now, call_id=call.call_id, moment=Moment.ENTRY, decision=decision)
        )
        if decision.effect is Effect.DENY:
            return history
    return history.advanced(Started(time=now, call=call, budgets=decision.budgets))


@st.composite
def worlds(draw: st.DrawFn, policy: Policy) -> World:
    history, now, known = draw(pasts(policy, in_session=draw(st.integers(0, 5)) > 0))
    now += draw(st.integers(0, 4)) * SECOND
    moment = draw(st.sampled_from([Moment.PROPOSAL, Moment.ENTRY]))
    events = history.events
    if known and draw(st.booleans()):
        call = known[draw(st.sampled_from(sorted(known)))]
        return World(events, call, moment, now)
    call = draw(calls("new"))
    if moment is Moment.PROPOSAL:
        message = draw(st.sampled_from(["m1", "m2", None]))
        events = (*events, Proposed(time=now, call=call, message=message))
    return World(events, call, moment, now)


def undated(world: World) -> World:
    """The same world, recorded without times."""
    return replace(world, events=tuple(replace(event, time=None) for event in world.events))
