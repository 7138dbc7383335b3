"""What a record withholds is unknown: a decision from it is what the full record would say, or undecidable."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatescore.canonical import Json, is_marked, key_text
from gatescore.correlation import UNREADABLE, joined, values_of
from gatescore.decide import decide
from gatescore.history import History
from gatescore.model import (
    AttributesChanged,
    Budget,
    Decided,
    Decision,
    Effect,
    Event,
    Facts,
    Finished,
    Outcome,
    Proposed,
    Record,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy
from gatescore.score.replay import replay
from tests.properties.worlds import World, documents, made, worlds

ARGUMENTS = "the arguments of a call are withheld"
SESSION = SessionStarted(time=0, session_id="s")
NOW = Facts(now=10)


def marker(value: Json, *, digest: bool = True, key: str = "k", opaque: bool = False) -> dict[str, Json]:
    told: dict[str, Json] = {"size": 5}
    if digest:
        told["digest"] = f"hmac-sha256:{key}:{hashlib.sha256(key_text(value).encode()).hexdigest()}"
    if opaque:
        told["opaque"] = True
    return {"$withheld": told}


def withheld(name: str, arguments: dict[str, Json], call_id: str = "c") -> ToolCall:
    return ToolCall.recorded(name, arguments, call_id=call_id, opaque=is_marked(arguments), withheld=True)


def ran(call: ToolCall, outcome: Outcome | None = Outcome.SUCCEEDED) -> list[Event]:
    events: list[Event] = [Started(time=1, call=call)]
    if outcome is not None:
        events.append(Finished(time=1, call_id=call.call_id, outcome=outcome))
    return events


def judged(document: dict[str, Any], call: ToolCall, *past: Event) -> Decision:
    policy = Policy.from_dict({"default": "deny", **document})
    return decide(policy, History([SESSION, *past]), call, NOW)


def outcome(decision: Decision) -> str:
    return "undecidable" if decision.undecidable else str(decision.effect)


# Arguments

SMALL = {"rules": [{"id": "r", "allow": "pay", "args": {"x": {"maximum": 1}}}]}
CASES_OF_ARGS: dict[str, tuple[ToolCall, str]] = {
    "withheld": (withheld("pay", {"x": marker(1)}), "undecidable"),
    "all withheld": (withheld("pay", {"$withheld": {"size": 9}}), "undecidable"),
    "another one withheld": (withheld("pay", {"x": 1, "y": marker(1)}), "allow"),
    "told, and too large": (withheld("pay", {"x": 2, "y": marker(1)}), "deny"),
    "null": (withheld("pay", {"x": None, "y": marker(1)}), "deny"),
}


@pytest.mark.parametrize(("call", "expected"), CASES_OF_ARGS.values(), ids=CASES_OF_ARGS)
def test_a_condition_on_a_withheld_argument_is_undecidable(call: ToolCall, expected: str) -> None:
    decision = judged(SMALL, call)

    assert expected == outcome(decision)
    assert ((ARGUMENTS,) if expected == "undecidable" else ()) == decision.undecidable


def test_what_is_withheld_is_no_error() -> None:
    """An error says that a call could not be judged; here the record is at fault, not the call."""
    assert () == judged(SMALL, withheld("pay", {"x": marker(1)})).errors


def test_a_live_argument_that_looks_like_a_marker_is_judged_as_what_it_is() -> None:
    """A model may not make its calls undecidable, and so hide them from a score."""
    live = ToolCall("pay", {"x": marker(1), "$withheld": {"size": 9}})
    reading = {"rules": [{"id": "r", "allow": "pay", "when": "has(args.x)"}]}

    assert "deny" == outcome(judged(SMALL, live))
    assert "allow" == outcome(judged(reading, live))


# Expressions

CASES_OF_WHEN: dict[str, tuple[str, dict[str, Json], str]] = {
    "withheld": ("args.x == 1", {"x": marker(1)}, "undecidable"),
    "inside of a value": ("args.x.y == 1", {"x": {"y": 1, "z": [marker(1)]}}, "undecidable"),
    "whether it is there": ("has(args.x)", {"x": marker(1)}, "undecidable"),
    "all arguments are read": ("size(args) == 2", {"x": 1, "y": marker(1)}, "undecidable"),
    "all are withheld": ("args.x == 1", {"$withheld": {"size": 9}}, "undecidable"),
    "another one is withheld": ("args.x == 1", {"x": 1, "y": marker(1)}, "allow"),
    "absent": ("args.x == 1", {"y": marker(1)}, "deny"),
    "arguments are not read": ("call.name == 'pay'", {"$withheld": {"size": 9}}, "allow"),
}


@pytest.mark.parametrize(("when", "arguments", "expected"), CASES_OF_WHEN.values(), ids=CASES_OF_WHEN)
def test_an_expression_that_reads_what_is_withheld_is_undecidable(
    when: str, arguments: dict[str, Json], expected: str
) -> None:
    document = {"rules": [{"id": "r", "allow": "pay", "when": when}]}

    assert expected == outcome(judged(document, withheld("pay", arguments)))


@pytest.mark.parametrize(
    ("when", "expected"),
    [("session.attributes.tier == 'a'", "undecidable"), ("session.id == 's'", "allow")],
)
def test_an_expression_that_reads_withheld_attributes_is_undecidable(when: str, expected: str) -> None:
    policy = Policy.from_dict({"default": "deny", "rules": [{"id": "r", "allow": "pay", "when": when}]})
    begun = History([SessionStarted(time=0, session_id="s", withheld=True)])

    assert expected == outcome(decide(policy, begun, ToolCall("pay"), NOW))


def test_the_last_attributes_count() -> None:
    """Attributes that are told again are known again, and the other way round."""
    document = {"rules": [{"id": "r", "allow": "pay", "when": "session.attributes.tier == 'a'"}]}
    told, hidden = (
        AttributesChanged(attributes={"tier": "a"}),
        AttributesChanged(attributes={}, withheld=True),
    )

    assert "allow" == outcome(judged(document, ToolCall("pay"), hidden, told))
    decision = judged(document, ToolCall("pay"), told, hidden)
    assert ("the attributes of the session are withheld",) == decision.undecidable


# Values that are compared

VALUES: dict[str, tuple[Json, Json, str]] = {
    "equal digests": (marker(1), marker(1.0), "same"),
    "other digests": (marker(1), marker(2), "differ"),
    "digests made with other keys": (marker(1), marker(1, key="other"), "unknown"),
    "a digest and a value": (marker(1), 1, "unknown"),
    "a value and a digest": (1, marker(2), "unknown"),
    "no digest here": (marker(1, digest=False), marker(1), "unknown"),
    "no digest there": (marker(1), marker(1, digest=False), "unknown"),
    "no digest at all": (marker(1, digest=False), marker(1, digest=False), "unknown"),
    "a part is withheld": ([marker(1)], [1], "unknown"),
    "JSON cannot hold it": (marker(1, opaque=True), marker(1, opaque=True), "no value"),
    "null": (None, marker(1), "no value"),
}
BY_VALUES = pytest.mark.parametrize(("mine", "theirs", "relation"), VALUES.values(), ids=VALUES)
AFTER = {"allow": "pay", "after": {"tool": "read", "same": {"x": "x"}}}


@BY_VALUES
def test_calls_are_correlated_by_digests(mine: Json, theirs: Json, relation: str) -> None:
    expected = {"same": "allow", "differ": "deny", "no value": "deny", "unknown": "undecidable"}
    earlier = ran(withheld("read", {"x": theirs}, "earlier"))

    decision = judged({"rules": [{"id": "r", **AFTER}]}, withheld("pay", {"x": mine}), *earlier)

    assert expected[relation] == outcome(decision)
    assert ((ARGUMENTS,) if relation == "unknown" else ()) == decision.undecidable


def test_a_call_of_which_all_is_withheld_may_equal_any() -> None:
    document = {
        "tools": {"read": {"once_per": ["x"]}},
        "rules": [{"id": "r", **AFTER}, {"id": "s", "allow": "read"}],
    }
    all_withheld: dict[str, Json] = {"$withheld": {"size": 9}}
    told, nothing = ToolCall("read", {"x": 1}, call_id="e"), withheld("read", all_withheld, "e")

    assert "undecidable" == outcome(judged(document, withheld("pay", all_withheld), *ran(told)))
    assert "undecidable" == outcome(judged(document, ToolCall("pay", {"x": 1}), *ran(nothing)))
    assert "undecidable" == outcome(judged(document, withheld("read", all_withheld), *ran(told)))
    assert "deny" == outcome(judged(document, ToolCall("pay", {"y": 1}), *ran(nothing)))


def test_one_argument_that_surely_differs_tells_two_calls_apart() -> None:
    document = {
        "rules": [{"id": "r", "allow": "pay", "after": {"tool": "read", "same": {"x": "x", "y": "y"}}}]
    }
    earlier = ran(withheld("read", {"x": marker(1, digest=False), "y": 1}, "earlier"))

    assert "deny" == outcome(judged(document, withheld("pay", {"x": marker(1), "y": 2}), *earlier))
    assert "undecidable" == outcome(judged(document, withheld("pay", {"x": marker(1), "y": 1}), *earlier))


def test_conditions_of_after_on_withheld_arguments_are_undecidable() -> None:
    document = {
        "rules": [{"id": "r", "allow": "pay", "after": {"tool": "read", "args": {"x": {"const": 1}}}}]
    }
    hidden = ran(withheld("read", {"x": marker(1)}, "hidden"))

    assert "undecidable" == outcome(judged(document, ToolCall("pay"), *hidden))
    told = ran(withheld("read", {"x": 1, "y": marker(1)}, "told"))
    assert "allow" == outcome(judged(document, ToolCall("pay"), *told, *hidden))


def test_what_the_record_lacks_is_told_apart() -> None:
    """A person mends a record that withholds too much otherwise than one without times."""
    after = {"tool": "read", "same": {"x": "x"}, "within": "5s"}
    undated = [replace(event, time=None) for event in ran(withheld("read", {"x": marker(1)}, "earlier"))]

    decision = judged(
        {"rules": [{"id": "r", "allow": "pay", "after": after}]}, ToolCall("pay", {"x": 1}), *undated
    )

    assert {"the time of a call is not recorded", ARGUMENTS} == set(decision.undecidable)


@BY_VALUES
def test_an_effect_is_found_again_by_its_digest(mine: Json, theirs: Json, relation: str) -> None:
    expected = {"same": "deny", "differ": "allow", "no value": "deny", "unknown": "undecidable"}
    document = {"tools": {"pay": {"once_per": ["x"]}}, "rules": [{"id": "r", "allow": "pay"}]}
    earlier = ran(withheld("pay", {"x": theirs}, "earlier"))

    assert expected[relation] == outcome(judged(document, withheld("pay", {"x": mine}), *earlier))
    assert "allow" == outcome(judged(document, withheld("pay", {"x": marker(1)})))


# Limits

LIMITED = {"rules": [{"id": "r", "allow": "pay", "limit": {"executions": 1, "key": ["x"]}}]}


def used(call: ToolCall) -> list[Event]:
    """An execution of *call* as a scorer folds it in: with the units that its own decision gives it."""
    return [Started(time=1, call=call, budgets=judged(LIMITED, call).budgets)]


@BY_VALUES
def test_a_budget_is_found_again_by_its_digest(mine: Json, theirs: Json, relation: str) -> None:
    expected = {"same": "deny", "differ": "allow", "unknown": "undecidable"}
    earlier = used(withheld("pay", {"x": theirs}, "earlier"))

    decision = judged(LIMITED, withheld("pay", {"x": mine}), *earlier)

    # A call without a value takes no unit, and gets none: only its own value matters.
    without = "deny" if mine is None or theirs == marker(1, opaque=True) else "allow"
    assert expected.get(relation, without) == outcome(decision)


def test_a_key_that_cannot_be_read_takes_no_unit() -> None:
    decision = judged(LIMITED, withheld("pay", {"x": marker(1, digest=False)}))

    assert "undecidable" == outcome(decision)
    assert () == decision.budgets


def test_a_live_call_after_a_withheld_one_does_not_know_its_budget() -> None:
    earlier = used(withheld("pay", {"x": marker(1)}, "earlier"))

    assert "undecidable" == outcome(judged(LIMITED, ToolCall("pay", {"x": 2}), *earlier))
    assert "deny" == outcome(
        judged(LIMITED, ToolCall("pay", {"x": 1}), *used(ToolCall("pay", {"x": 1}, call_id="e")))
    )


def test_a_withheld_call_after_a_live_one_does_not_know_its_budget() -> None:
    live = ToolCall("pay", {"x": 1}, call_id="earlier")

    assert "undecidable" == outcome(judged(LIMITED, withheld("pay", {"x": marker(2)}), *used(live)))


def test_values_that_cannot_be_read_are_not_equal() -> None:
    """Two calls of which nothing is known are not the same effect."""
    call = withheld("pay", {"x": marker(1, digest=False)})

    assert (UNREADABLE,) == values_of(call, ["x"])
    assert joined(values_of(call, ["x"])) is None


# Another attempt

ONCE = {"tools": {"pay": {"once_per": ["x"]}}, "rules": [{"id": "r", "allow": "pay"}]}


@pytest.mark.parametrize(
    ("end", "expected"),
    [(Outcome.SUCCEEDED, "deny"), (Outcome.FAILED, "allow"), (Outcome.UNFINISHED, "allow"), (None, "allow")],
)
def test_a_retry_after_a_success_is_no_retry(end: Outcome | None, expected: str) -> None:
    """The effect was had, whoever asks for it again."""
    call = ToolCall("pay", {"x": 1}, call_id="c")

    assert expected == outcome(judged(ONCE, call, *ran(call, end)))
    assert "deny" == outcome(judged(ONCE, call, *ran(call), *ran(call, Outcome.FAILED)))


# The theorem

WITHHOLDINGS = st.tuples(
    st.sampled_from(["told", "digest", "digest", "nothing"]),
    st.sampled_from(["told", "digest", "nothing"]),
    st.sampled_from([False] * 9 + [True]),
)
EXPRESSIONS = st.fixed_dictionaries(
    {
        "id": st.just("w"),
        "when": st.sampled_from(["args.x == 1", "has(args.y)", "size(args) == 1", "call.name == 'pay'"]),
    }
)

# Policies that mostly depend on which values are equal.
SAME = st.fixed_dictionaries(
    {"tool": st.just(["*"]), "same": st.sampled_from([{"x": "x"}, {"x": "x", "y": "y"}])}
)
KEYED = st.fixed_dictionaries({"executions": st.integers(1, 2), "key": st.sampled_from([["x"], ["x", "y"]])})
ONCE_ENTRY = st.fixed_dictionaries({"once_per": st.sampled_from([["x"], ["x", "y"]])})
CORRELATING = st.fixed_dictionaries(
    {
        "default": st.sampled_from(["allow", "deny"]),
        "tools": st.dictionaries(st.sampled_from(["read", "pay"]), ONCE_ENTRY),
        "rules": st.one_of(
            st.fixed_dictionaries({"id": st.just("r"), "allow": st.just(["*"])}),
            st.fixed_dictionaries({"id": st.just("r"), "allow": st.just(["*"]), "after": SAME}),
            st.fixed_dictionaries({"id": st.just("r"), "deny": st.just(["*"]), "after": SAME}),
            st.fixed_dictionaries({"id": st.just("r"), "allow": st.just(["*"]), "limit": KEYED}),
        ).map(lambda rule: [rule]),
    }
)


def with_expression(document: dict[str, Any], effect: str, rule: dict[str, Any]) -> dict[str, Any]:
    return {**document, "rules": [*document["rules"], {**rule, effect: ["*"]}]}


DOCUMENTS = {
    "plain": documents(),
    "any": st.builds(with_expression, documents(), st.sampled_from(["allow", "ask", "deny"]), EXPRESSIONS),
    "correlating": st.builds(
        with_expression, CORRELATING, st.just("allow"), st.just({"id": "w", "when": "call.name == ''"})
    ),
}


def hidden(call: ToolCall, withholding: tuple[str, str, bool]) -> ToolCall:
    """*call* as a record holds it that withholds some or all of its arguments."""
    first, second, everything = withholding
    if call.invalid is not None:
        return call  # it has no arguments that could be told
    if everything:
        return withheld(call.name, {"$withheld": {"size": 9}}, call.call_id)
    arguments = dict(call.arguments)
    for name, how in (("x", first), ("y", second)):
        value = arguments.get(name)
        if value is not None and how != "told":
            arguments[name] = marker(value, digest=how == "digest", opaque=is_marked(value))
    return withheld(call.name, arguments, call.call_id) if arguments != call.arguments else call


def with_keys(policy: Policy, call: ToolCall, budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """*budgets* with the keys that the record of *call* gives them; without those that it does not tell."""
    limits = {rule.limit.name: rule.limit for layer in policy.layers for rule in layer.rules if rule.limit}
    found: list[Budget] = []
    for budget in budgets:
        values = joined(values_of(call, limits[budget.limit].key))
        if values is not None:
            found.append(replace(budget, key=key_text([budget.limit, "", values])))
    return tuple(found)


def withholding_world(data: st.DataObject, policy: Policy, world: World) -> World:
    """The same world from a record that withholds some arguments of some calls."""
    calls: dict[tuple[str, str, bool], ToolCall] = {}
    proposed: dict[str, ToolCall] = {}

    def seen(call: ToolCall) -> ToolCall:
        key = call.call_id, key_text(call.arguments), call.invalid is None
        if key not in calls:
            calls[key] = hidden(call, data.draw(WITHHOLDINGS))
        return calls[key]

    events: list[Event] = []
    for event in world.events:
        changed = event
        if isinstance(event, Proposed):
            proposed[event.call.call_id] = seen(event.call)
            changed = replace(event, call=seen(event.call))
        elif isinstance(event, Started):
            call = seen(event.call)
            changed = replace(event, call=call, budgets=with_keys(policy, call, event.budgets))
        elif isinstance(event, Decided):
            full = event.decision
            call = proposed[event.call_id] if event.call is None else seen(event.call)
            budgets = with_keys(policy, call, full.budgets)
            told = Decision(
                full.effect, full.rules, full.reason, full.policy_digest, budgets=budgets, stop=full.stop
            )
            changed = replace(event, decision=told, call=event.call and call)
        events.append(changed)
    return World(tuple(events), seen(world.call), world.moment, world.now)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_what_is_decided_from_a_withholding_record_is_what_the_full_one_says(kind: str) -> None:
    """Or it is undecidable. A record can hide a verdict, and never change one."""

    @settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        policy = made(data.draw(DOCUMENTS[kind]))
        world = data.draw(worlds(policy))
        less = withholding_world(data, policy, world).judged(decide, policy)
        full = world.judged(decide, policy)

        assert not full.undecidable
        assert less.undecidable or less.effect == full.effect
        assert less.effect == Effect.DENY or not less.undecidable

    check()


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_another_policy_calls_nothing_unauthorized_that_it_cannot_know_to_be(kind: str) -> None:
    """A withholding record, judged by a policy that was not in force: as the full one, or undecidable."""

    @settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        policy, other = made(data.draw(documents())), made(data.draw(DOCUMENTS[kind]))
        world = data.draw(worlds(policy))
        full = replay(other, Record(events=list(world.events)))
        less = replay(other, Record(events=list(withholding_world(data, policy, world).events)))
        for stream in ("proposals", "executions"):
            for known, told in zip(getattr(full, stream), getattr(less, stream), strict=True):
                assert told.undecidable or known.undecidable or told.effect == known.effect

    check()


def test_a_unit_that_may_have_been_taken_is_not_taken_for_sure() -> None:
    """By another policy than the one in force: whether the first call was limited, the record withholds."""
    limited = {"id": "once", "allow": "pay", "args": {"x": {"maximum": 5}}, "limit": {"executions": 1}}
    policy = made({"default": "deny", "rules": [limited]})
    first, second = withheld("pay", {"x": marker(1)}, "a"), ToolCall("pay", {"x": 2}, call_id="b")
    past = [SessionStarted(session_id="s"), Started(time=1, call=first), Started(time=2, call=second)]
    one, two = replay(policy, Record(events=past)).executions
    assert one.undecidable
    assert ("whether an earlier call took a unit of `once`",) == two.undecidable
    told = [*past[:1], Started(time=1, call=ToolCall("pay", {"x": 1}, call_id="a")), *past[2:]]
    assert [(), ()] == [decision.undecidable for decision in replay(policy, Record(events=told)).executions]
