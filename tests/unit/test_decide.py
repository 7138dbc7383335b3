"""What the theorems about `decide` do not say: what a decision tells besides its effect."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from gatescore.decide import decide, decide_each
from gatescore.errors import Path
from gatescore.history import History
from gatescore.model import Effect, Facts, Moment, Proposal, ToolCall
from gatescore.policy import Policy
from gatescore.policy.compile import compile_layer
from gatescore.policy.document import from_data


class Failing:
    """A keyword of our own that cannot tell."""

    def compile(self, value: Any, path: Path, /) -> Callable[[str], bool]:
        def check(text: str) -> bool:
            raise TimeoutError(f"no answer about {len(text)} characters")

        return check


def with_keyword(rule: dict[str, Any]) -> Policy:
    document = from_data({"default": "allow" if "deny" in rule else "deny", "rules": [rule]})
    return Policy._of((compile_layer(document, {"x-test": Failing()}),))


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_what_a_keyword_raises_denies_and_is_told(effect: str) -> None:
    """An exception inside a condition neither grants, nor lifts a denial, nor gets lost."""
    policy = with_keyword({"id": "r", effect: "send", "args": {"to": {"x-test": 1}}})

    decision = decide(policy, History(), ToolCall("send", {"to": "a@b"}))

    assert Effect.DENY == decision.effect
    assert any("no answer about 3 characters" in error for error in decision.errors)


def test_what_a_keyword_raises_is_told_where_another_condition_decides() -> None:
    """A fault of the policy must be seen although the verdict does not hang on it."""
    policy = with_keyword(
        {"id": "r", "deny": "send", "args": {"to": {"anyOf": [{"x-test": 1}, {"const": "a"}]}}}
    )

    decision = decide(policy, History(), ToolCall("send", {"to": "a"}))

    assert Effect.DENY == decision.effect
    assert decision.errors


def test_a_call_that_only_its_name_decides_gets_the_same_decision_each_time() -> None:
    """Nothing is made for such a call: that is what makes it cheap."""
    policy = Policy(allowed_tools=["a"])

    assert decide(policy, History(), ToolCall("a")) is decide(policy, History(), ToolCall("a", {"x": 1}))


def test_an_invalid_call_is_denied_whatever_the_rules_say() -> None:
    decision = decide(Policy(denied_tools=[], default="allow"), History(), ToolCall("a", '{"x": NaN}'))

    assert Effect.DENY == decision.effect
    assert decision.invalid is not None


def test_many_calls_are_judged_as_each_by_itself() -> None:
    policy = Policy(rules=[{"allow": "a", "args": {"x": {"maximum": 1}}}, {"allow": "b"}])
    calls = [ToolCall(name, {"x": x}) for name in "abc" for x in (1, 2, "1")]
    proposals = [Proposal(call=call) for call in calls]

    expected = [decide(policy, History(), call, moment=Moment.PROPOSAL) for call in calls]

    assert expected == decide_each(policy, proposals, moment=Moment.PROPOSAL)
    assert expected == decide_each(policy, proposals, moment=Moment.PROPOSAL)


def test_a_decision_cannot_be_changed_and_can_be_copied() -> None:
    decision = decide(Policy(allowed_tools=["a"]), History(), ToolCall("b"), Facts(now=1))

    with pytest.raises(AttributeError, match="cannot be changed"):
        decision.effect = Effect.ALLOW
    assert decision == copy.deepcopy(decision) == pickle.loads(pickle.dumps(decision))  # noqa: S301 - our own
    assert hash(decision) == hash(copy.deepcopy(decision))


def test_a_flood_of_names_does_not_grow_the_memory() -> None:
    """Names come from models."""
    policy = Policy(allowed_tools=["a"])
    for number in range(25_000):
        decide(policy, History(), ToolCall(f"made-up-{number}"))

    assert len(policy.plans) <= 10_000
