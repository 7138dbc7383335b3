"""
The theorems about `decide`, by name, and proof that each of them would notice a wrong engine.

A property is a function that takes the decision point under test and gives a Hypothesis test of it.
So the same property runs against the engine, and against mutants of it made by hand, which it must
kill: a test of the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import gatescore.decide
import gatescore.history
import gatescore.state
from gatescore.decide import decide
from gatescore.model import Decided, Effect, Moment
from gatescore.policy import Policy
from tests.properties.worlds import (
    AFTERS,
    CONDITIONS,
    SELECTORS,
    TIMED_DOCUMENTS,
    Decide,
    documents,
    made,
    overlapping_attempts,
    undated,
    worlds,
)
from tests.spec import decide_spec
from tests.spec.args_spec import I

Check = Callable[[], None]
STRICTNESS = {Effect.ALLOW: 0, Effect.ASK: 1, Effect.DENY: 2}
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def spec_verdict(document: dict[str, Any], world: Any) -> str:
    return decide_spec.verdict(document, list(world.events), world.call, world.moment, world.now)


def with_rule(document: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    return {**document, "rules": [*document["rules"], rule]}


def engine_and_specification_agree(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        world = data.draw(worlds(made(document)))
        decision = world.judged(decision_point, made(document))
        assert not decision.undecidable
        assert decision.effect == spec_verdict(document, world)
        past = list(world.events)
        if not any(isinstance(event, Decided) and event.decision.stop for event in past):
            taken = {budget.limit.split("/")[-1] for budget in decision.budgets}
            assert taken == decide_spec.budgets(document, past, world.call, world.moment, world.now)
            assert decision.stop == decide_spec.stops(document, past, world.call, world.moment, world.now)

    return check


def deny_trumps_ask_trumps_allow(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        world = data.draw(worlds(made(document)))
        asking = with_rule(document, {"id": "asks", "ask": [world.call.name]})
        denying = with_rule(asking, {"id": "denies", "deny": [world.call.name]})
        assert world.judged(decision_point, made(asking)).effect != Effect.ALLOW
        assert world.judged(decision_point, made(denying)).effect == Effect.DENY

    return check


def with_default_deny_nothing_is_allowed_without_an_allow(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents("deny"))
        document["rules"] = [rule for rule in document["rules"] if "allow" not in rule]
        world = data.draw(worlds(made(document)))
        assert world.judged(decision_point, made(document)).effect != Effect.ALLOW

    return check


def order_and_duplication_of_rules_are_irrelevant(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        world = data.draw(worlds(made(document)))
        again = [{**rule, "id": f"again-{rule['id']}"} for rule in document["rules"]]
        shuffled = {**document, "rules": data.draw(st.permutations([*document["rules"], *again]))}
        first, second = (
            world.judged(decision_point, made(document)),
            world.judged(decision_point, made(shuffled)),
        )
        assert first.effect == second.effect
        assert {rule.removeprefix("again-") for rule in second.rules} == set(first.rules)

    return check


def adding_a_deny_never_allows(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        world = data.draw(worlds(made(document)))
        deny: dict[str, Any] = {"id": "added", "deny": data.draw(SELECTORS)}
        if data.draw(st.booleans()):
            deny["args"] = data.draw(CONDITIONS)
        if data.draw(st.booleans()):
            deny["after"] = data.draw(AFTERS)
        before = world.judged(decision_point, made(document)).effect
        after = world.judged(decision_point, made(with_rule(document, deny))).effect
        assert after in (before, Effect.DENY)

    return check


def adding_an_allow_without_a_limit_never_denies(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        world = data.draw(worlds(made(document)))
        allow: dict[str, Any] = {"id": "added", "allow": data.draw(SELECTORS)}
        if data.draw(st.booleans()):
            allow["args"] = data.draw(CONDITIONS)
        before = world.judged(decision_point, made(document)).effect
        after = world.judged(decision_point, made(with_rule(document, allow))).effect
        assert before == Effect.DENY or after != Effect.DENY

    return check


def an_indeterminate_condition_never_grants(decision_point: Decide) -> Check:
    """Without the allow rules that are indeterminate, nothing is stricter; with a deny that is, it is a deny."""

    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents("deny", "ask"))
        world = data.draw(worlds(made(document)))

        def truth(rule: dict[str, Any]) -> int:
            past = list(world.events)
            return decide_spec.matching(document, rule, past, world.call, world.moment, world.now)

        indeterminate = [rule for rule in document["rules"] if truth(rule) == I]
        assume(indeterminate)
        effect = world.judged(decision_point, made(document)).effect
        if any("deny" in rule for rule in indeterminate):
            assert effect == Effect.DENY
        kept = [rule for rule in document["rules"] if "allow" not in rule or truth(rule) != I]
        without = world.judged(decision_point, made({**document, "rules": kept})).effect
        assert STRICTNESS[without] <= STRICTNESS[effect]

    return check


def a_layer_never_widens(decision_point: Decide) -> Check:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        layers = [{**data.draw(documents()), "name": name} for name in ("org", "app")]
        policy = Policy.layered(*map(made, layers))
        world = data.draw(worlds(policy))
        effect = world.judged(decision_point, Policy.layered(*map(made, layers))).effect
        alone = [world.judged(decision_point, made(layer)).effect for layer in layers]
        assert STRICTNESS[effect] == max(STRICTNESS[verdict] for verdict in alone)

    return check


def what_is_decided_from_less_is_what_more_would_say(decision_point: Decide) -> Check:
    """Take the times out of a record: the verdict stays, or is undecidable."""

    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(TIMED_DOCUMENTS)
        world = data.draw(worlds(made(document)))
        full = world.judged(decision_point, made(document))
        less = decision_point(
            made(document), gatescore.history.History(undated(world).events), world.call, moment=world.moment
        )
        assert less.effect == Effect.DENY or not less.undecidable
        assert less.undecidable or less.effect == full.effect

    return check


def folding_in_one_go_or_event_by_event_is_the_same(history: ModuleType) -> Check:
    """Also when it is asked in between, and when two futures part from one past."""

    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        world = data.draw(worlds(made(document)))
        policy = made(document)
        steps = [history.History()]
        for event in world.events:
            steps.append(history.advance(steps[-1], event))
            if data.draw(st.booleans()):
                decide(policy, steps[-1], world.call, world.facts, moment=world.moment)
        cut = data.draw(st.integers(0, len(world.events)))
        other = history.advance(steps[cut], world.events[0]) if world.events else steps[0]
        for length, step in [(cut, steps[cut]), (len(world.events), steps[-1])]:
            fresh = history.History(world.events[:length])
            assert step.events == fresh.events == world.events[:length]
            judged = [
                decide(made(document), h, world.call, world.facts, moment=world.moment) for h in (step, fresh)
            ]
            asked = decide(policy, step, world.call, world.facts, moment=world.moment)
            assert judged[0] == judged[1] == asked
        assert other.events == ((*world.events[:cut], world.events[0]) if world.events else ())

    return check


def what_stays_is_the_same_at_every_moment(engine: ModuleType) -> Check:
    """A guard that judged a call once need not judge it again where nothing but the call decides."""

    @given(st.data())
    def check(data: st.DataObject) -> None:
        document = data.draw(documents())
        policy = made(document)
        world, other = data.draw(worlds(policy)), data.draw(worlds(policy))
        first = world.judged(decide, policy)
        if engine.stays(policy, world.call):
            elsewhere = replace(other, call=world.call, moment=data.draw(st.sampled_from(Moment)))
            assert first == elsewhere.judged(decide, policy)

    return check


def attempts_of_one_call_are_kept_apart(history: ModuleType) -> Check:
    """Each attempt ends by its own end, and its end unlocks, and uses up, what it was entered with."""
    read = {"id": "read", "allow": ["read"]}
    pay = {"id": "pay", "allow": ["pay"], "after": {"tool": ["read"], "same": {"x": "x"}}}
    once = {"read": {"once_per": ["x"], "safe_to_repeat": ["failed"]}}
    document: dict[str, Any] = {"default": "deny", "tools": once, "rules": [read, pay]}

    @given(overlapping_attempts())
    def check(world: Any) -> None:
        past = history.History(world.events)
        decision = decide(made(document), past, world.call, world.facts, moment=world.moment)
        assert decision.effect == spec_verdict(document, world)

    return check


PROPERTIES = [
    engine_and_specification_agree,
    deny_trumps_ask_trumps_allow,
    with_default_deny_nothing_is_allowed_without_an_allow,
    order_and_duplication_of_rules_are_irrelevant,
    adding_a_deny_never_allows,
    adding_an_allow_without_a_limit_never_denies,
    an_indeterminate_condition_never_grants,
    a_layer_never_widens,
    what_is_decided_from_less_is_what_more_would_say,
]


@pytest.mark.parametrize("theorem", PROPERTIES, ids=lambda theorem: theorem.__name__)
def test_the_engine_holds_the_theorem(theorem: Callable[[Decide], Check]) -> None:
    """Each rule of the verdict holds for random policies, pasts and calls."""
    many = settings(PATIENT, max_examples=2 * PATIENT.max_examples)
    (many if theorem is engine_and_specification_agree else PATIENT)(theorem(decide))()


def test_replaying_a_fold_in_one_go_or_event_by_event_gives_the_same_history() -> None:
    """A scorer that reads a record must see what the guard saw."""
    PATIENT(folding_in_one_go_or_event_by_event_is_the_same(gatescore.history))()


def test_what_need_not_be_judged_again_is_the_same_at_every_moment() -> None:
    """Also in another session, after another past."""
    PATIENT(what_stays_is_the_same_at_every_moment(gatescore.decide))()


def test_attempts_that_overlap_are_kept_apart() -> None:
    """A runtime may try a call again while its first attempt still runs."""
    PATIENT(attempts_of_one_call_are_kept_apart(gatescore.history))()


# Mutants made by hand. Each is one text of a module and what it becomes; each must be killed by the
# theorem it stands under, three for every theorem.

DENY_FIRST = """\
    verdicts = _DENY if deny & _MAY else 0
    if not deny & FALSE:
        return verdicts
"""
MUST_ALLOW = "if not allow & (TRUE if must_allow else FALSE | INDETERMINATE):"
ASK = "if ask & TRUE or (ask & INDETERMINATE and otherwise is Effect.ALLOW):"
STRICTEST = "bits = OR[bits][verdict.bits]"
DETERMINING = "determining = [row for row in matched if _BIT[row[0]] == bits and row[1] & needed]"
JUDGED = "value = judge_conditions(case, rule, names) if rule.conditional else names"
OVER = "match(Effect.DENY, over, rule.id, _limit_reason(rule.limit, over))"
OTHERWISE = "otherwise = Effect.ALLOW if must_allow else default"
RULES = "for rule, names in part.rules:\n        value = judge_conditions(case, rule, names) if"
MATCH = "match(rule.effect, value, rule.id, rule.reason)"
COLLECT = "truths[effect] = OR[truths[effect]][value]"

DECIDE_MUTANTS: dict[Callable[[Decide], Check], list[tuple[str, str]]] = {
    engine_and_specification_agree: [
        (OVER, OVER.replace("Effect.DENY", "Effect.ASK")),
        ("match(Effect.DENY, repeat,", "match(Effect.ASK, repeat,"),
        (ASK, "if ask & TRUE:"),
    ],
    deny_trumps_ask_trumps_allow: [
        (DENY_FIRST, "    verdicts = 0\n    if deny & _MAY and not allow & TRUE:\n        return _DENY\n"),
        (OTHERWISE, OTHERWISE + "\n        if must_allow:\n            return verdicts | _ALLOW"),
        (MATCH, "match(rule.effect if rule.conditional else Effect.ALLOW, value, rule.id, rule.reason)"),
    ],
    with_default_deny_nothing_is_allowed_without_an_allow: [
        (OTHERWISE, "otherwise = Effect.ALLOW"),
        ("verdicts |= _BIT[otherwise]", "verdicts |= _ALLOW"),
        (MATCH, "match(Effect.ALLOW, value, rule.id, rule.reason)"),
    ],
    order_and_duplication_of_rules_are_irrelevant: [
        (f"if value != FALSE:\n            {COLLECT}", "if True:\n            truths[effect] = value"),
        (RULES, RULES.replace("rules:", "rules[:4]:")),
        (DETERMINING, DETERMINING + "[:1]"),
    ],
    adding_a_deny_never_allows: [
        (COLLECT, "truths[effect] ^= value"),
        (RULES, RULES.replace("rules:", "rules[-3:]:")),
        (DENY_FIRST, "    if deny == INDETERMINATE:\n        return _ALLOW\n" + DENY_FIRST),
    ],
    adding_an_allow_without_a_limit_never_denies: [
        (OTHERWISE, "otherwise = Effect.DENY if must_allow and default is Effect.ASK else default"),
        (DENY_FIRST, DENY_FIRST.replace("deny & _MAY", "deny & _MAY or allow & INDETERMINATE")),
        (MATCH, "match(rule.effect if len(matched) < 2 else Effect.DENY, value, rule.id, rule.reason)"),
    ],
    an_indeterminate_condition_never_grants: [
        (MUST_ALLOW, "if not allow & (INDETERMINATE | TRUE if must_allow else FALSE):"),
        (DENY_FIRST, DENY_FIRST.replace("_MAY", "TRUE").replace("if not deny & FALSE", "if deny & TRUE")),
        (JUDGED, JUDGED + "\n        value = TRUE if value == INDETERMINATE else value"),
    ],
    a_layer_never_widens: [
        (STRICTEST, "bits = verdict.bits"),
        (STRICTEST, "bits = verdicts[0].bits"),
        (STRICTEST, STRICTEST + " if verdict.rules else bits"),
    ],
    what_is_decided_from_less_is_what_more_would_say: [
        (DENY_FIRST, DENY_FIRST.replace("deny & _MAY", "deny in (INDETERMINATE, TRUE)")),
        (DENY_FIRST, DENY_FIRST.replace("if not deny & FALSE", "if deny & _MAY")),
        (MUST_ALLOW, MUST_ALLOW.replace(":", " or (allow & TRUE and not must_allow):")),
    ],
}

STAYS = "return plan is not None and (plan.decision is not None or plan.by_arguments is not None)"
STAYS_MUTANTS = [
    (STAYS, "return True"),
    (STAYS, "return plan is not None"),
    (STAYS, "return plan is not None and plan.decision is None"),
]
HISTORY_MUTANTS = [
    ("if len(log.events) != self._length:", "if len(log.events) < self._length:"),
    ("if state is None or state.folded > self._length:", "if state is None:"),
    ("log = _Log(log.events[: self._length])", "log = _Log(log.events)"),
]
STATE_MUTANTS = [
    ("self._open[call.call_id, event.attempt] = running", "self._open[call.call_id, 1] = running"),
    ("self._open.pop((event.call_id, event.attempt), None)", "self._open.pop((event.call_id, 1), None)"),
    ("_take_one(effect.calls, event.call_id)", "effect.calls.pop(event.call_id, None)"),
]

HUNT = settings(
    PATIENT,
    max_examples=1_000,
    phases=[Phase.generate],
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
)


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """A copy of *module* with one text changed."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert not old or source.count(old) == 1, (
        f"the text to change stands {source.count(old)} times in the module: {old}"
    )
    changed = ModuleType(f"{module.__name__}_mutant")
    # Dataclasses look their module up by name.
    sys.modules[changed.__name__] = changed
    exec(compile(source.replace(old, new) if old else source, module.__file__, "exec"), changed.__dict__)  # noqa: S102 - our own source, with one text changed
    return changed


def assert_killed(check: Check) -> None:
    with pytest.raises((AssertionError, ExceptionGroup)):
        HUNT(check)()


@pytest.mark.parametrize(
    ("theorem", "old", "new"),
    [(theorem, old, new) for theorem, pairs in DECIDE_MUTANTS.items() for old, new in pairs],
    ids=[
        f"{theorem.__name__}-{number}"
        for theorem, pairs in DECIDE_MUTANTS.items()
        for number in range(len(pairs))
    ],
)
def test_the_theorem_kills_the_mutant(theorem: Callable[[Decide], Check], old: str, new: str) -> None:
    """A theorem that a wrong engine can satisfy proves nothing."""
    assert_killed(theorem(mutant(gatescore.decide, old, new).decide))


@pytest.mark.parametrize(("old", "new"), STAYS_MUTANTS, ids=range(len(STAYS_MUTANTS)))
def test_judging_once_kills_the_mutant(old: str, new: str) -> None:
    """The same for what need not be judged again."""
    assert_killed(what_stays_is_the_same_at_every_moment(mutant(gatescore.decide, old, new)))


@pytest.mark.parametrize(("old", "new"), HISTORY_MUTANTS, ids=range(len(HISTORY_MUTANTS)))
def test_replaying_kills_the_mutant(old: str, new: str) -> None:
    """The same for the fold."""
    assert_killed(folding_in_one_go_or_event_by_event_is_the_same(mutant(gatescore.history, old, new)))


@pytest.mark.parametrize(("old", "new"), STATE_MUTANTS, ids=range(len(STATE_MUTANTS)))
def test_keeping_attempts_apart_kills_the_mutant(old: str, new: str) -> None:
    """The same for what is known of each attempt."""
    history = mutant(gatescore.history, "", "")
    history.__dict__["State"] = mutant(gatescore.state, old, new).State
    assert_killed(attempts_of_one_call_are_kept_apart(history))


def test_every_theorem_has_three_mutants() -> None:
    """A theorem that is added without mutants is not proved to notice anything."""
    assert {theorem: len(DECIDE_MUTANTS.get(theorem, [])) for theorem in PROPERTIES} == dict.fromkeys(
        PROPERTIES, 3
    )
