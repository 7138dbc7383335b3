"""
Policies: what they are made of, what is refused and where, and how several narrow each other.

In a text that is refused, `¦` stands before the place that the error must name.
"""

import copy
import itertools
import json
import pickle
from collections import UserDict
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.decide import decide
from gatescore.errors import PolicyError
from gatescore.history import History, advance
from gatescore.model import (
    Decided,
    Effect,
    Event,
    Facts,
    Finished,
    Moment,
    Outcome,
    Proposed,
    Session,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy
from gatescore.policy.document import parse_yaml
from gatescore.score import score_permissions
from gatescore.traces import read_session

Document = dict[str, Any]

SECOND = 10**9


def effect(policy: Policy, name: str, arguments: object = None) -> Effect:
    return decide(policy, History([SessionStarted(session_id="s")]), ToolCall(name, arguments)).effect


def rule(**parts: Any) -> Policy:
    """A policy of one rule, over a default that the rule's effect is told apart from."""
    return Policy(rules=[{"id": "r", **parts}], default="deny" if "allow" in parts else "allow")


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def ids(values: Any) -> list[str]:
    return [f"{number}-{str(value)[:40]}" for number, value in enumerate(values)]


# --- the short form ------------------------------------------------------------------------------


def test_two_lists_are_a_policy(tmp_path: Path):
    """Two lines are enough for most."""
    policy = Policy.load(written(tmp_path, "policy.yaml", "allowed_tools: [a, 'b*']\ndenied_tools: [b2]\n"))

    assert [Effect.ALLOW, Effect.ALLOW, Effect.DENY, Effect.DENY] == [
        effect(policy, name) for name in ("a", "b1", "b2", "c")
    ]
    assert [("allowed_tools", Effect.ALLOW), ("denied_tools", Effect.DENY)] == [
        (found.id, found.effect) for found in policy.layers[0].rules
    ]


def test_the_short_form_is_the_full_form_of_two_rules():
    """Decision by decision, and in the digest."""
    short = Policy(allowed_tools=["a"], denied_tools=["b"])
    full = Policy(rules=[{"id": "denied_tools", "deny": ["b"]}, {"id": "allowed_tools", "allow": ["a"]}])

    assert short.digest == full.digest


def test_the_lists_add_to_the_rules():
    """They do not replace them, nor are they replaced."""
    policy = Policy(allowed_tools=["a"], denied_tools=["b", "c"], rules=[{"allow": ["b", "d"]}, {"ask": "a"}])

    assert [Effect.ASK, Effect.DENY, Effect.DENY, Effect.ALLOW, Effect.DENY] == [
        effect(policy, name) for name in "abcde"
    ]


def test_an_empty_list_is_a_rule_that_matches_nothing():
    """It is said, and so it is there."""
    policy = Policy(allowed_tools=[], denied_tools=[])

    assert ["allowed_tools", "denied_tools"] == [found.id for found in policy.layers[0].rules]
    assert Effect.DENY == effect(policy, "a")


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_a_list_of_denials_alone_needs_a_default_that_is_written(default: str):
    """It says nothing of all other tools."""
    policy = Policy(denied_tools=["b"], default=default)

    assert (default, Effect.DENY) == (effect(policy, "a"), effect(policy, "b"))


# --- the full form -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["allow", "ask"])
def test_the_default_is_deny_where_a_rule_allows_or_asks(kind: str):
    """What was not thought of is not allowed."""
    policy = Policy(rules=[{kind: "a"}])

    assert (Effect.DENY, Effect.DENY) == (policy.layers[0].default, effect(policy, "b"))


def test_a_rule_without_an_id_is_called_by_its_place():
    """Short-form lists before it do not count."""
    policy = Policy(allowed_tools=["x"], rules=[{"allow": "a"}, {"id": "b", "allow": "b"}, {"deny": "c"}])

    assert ["allowed_tools", "rules[0]", "b", "rules[2]"] == [found.id for found in policy.layers[0].rules]


def test_names_may_stand_alone_or_in_a_list():
    """One name is a list of one."""
    alone, listed = (Policy(rules=[{"allow": names}]) for names in ("a", ["a"]))

    assert [Effect.ALLOW] * 2 == [effect(policy, "a") for policy in (alone, listed)]


def test_a_reason_is_what_a_denied_model_reads():
    """Without one there is a plain sentence."""
    policy = Policy(
        rules=[{"deny": "a", "reason": " Ask billing. "}, {"deny": "b"}, {"ask": "c"}], default="allow"
    )

    assert ["Ask billing.", "a rule denies it", "a person must agree", "allowed"] == [
        decide(policy, History(), ToolCall(name)).reason for name in "abcd"
    ]


@pytest.mark.parametrize(
    ("written_as", "text"), [("2026-11-30", "2026-11-30"), ("7", "7"), ("1.5", "1.5"), ("'x'", "x")]
)
def test_name_and_version_are_free_text(written_as: str, text: str, tmp_path: Path):
    """Dates and numbers are what people write there."""
    file = written(tmp_path, "p.yaml", f"name: {written_as}\nversion: {written_as}\nallowed_tools: []\n")
    policy = Policy.load(file)

    assert (text, text) == (policy.name, policy.version)


def test_a_policy_says_what_it_is():
    """In a debugger, and in a log."""
    policy = Policy(allowed_tools=["a"], name="support")

    assert f"<Policy support: 1 rules, {policy.digest[:19]}>" == repr(policy)
    assert repr(Policy(allowed_tools=[])).startswith("<Policy without a name: 1 rules, sha256:")


@pytest.mark.parametrize(
    ("parts", "reads"),
    [
        ({"allow": "a"}, False),
        ({"allow": "a", "args": {"x": {"const": 1}}}, False),
        ({"allow": "a", "when": "args.x == 1 && call.name == 'a'"}, False),
        ({"allow": "a", "when": "session.id == 's'"}, True),
        ({"allow": "a", "after": {"tool": "b"}}, True),
        ({"allow": "a", "limit": {"calls": 1}}, True),
        ({"deny": "a", "limit": {"proposals": 1, "then": "stop"}}, True),
    ],
    ids=ids(range(7)),
)  # fmt: skip
def test_a_policy_knows_whether_the_past_matters(parts: Document, *, reads: bool):
    """Where it does not, every call can be judged by itself."""
    assert reads == rule(**parts).reads_history
    assert reads == Policy.layered(Policy(allowed_tools=["a"]), rule(**parts)).reads_history


def test_a_tool_that_runs_once_makes_the_past_matter():
    """Though no rule speaks of it."""
    assert Policy(allowed_tools=["a"], tools={"a": {"once_per": ["x"]}}).reads_history


# --- three ways in -------------------------------------------------------------------------------

EVERYTHING: Document = {
    "gatescore": 1,
    "name": "support",
    "version": "1",
    "default": "ask",
    "tools": {
        "cancel": {"labels": ["external"], "once_per": ["order"], "safe_to_repeat": ["failed"]},
        "refund": {"schema": {"properties": {"amount": {"type": "number"}}}},
    },
    "allowed_tools": ["get_order"],
    "denied_tools": ["drop"],
    "rules": [
        {"id": "cancel", "allow": "cancel", "args": {"order": {"pattern": "^[0-9]+$"}}, "after": {"tool": "get_order", "same": ["order"], "within": "10m"}},
        {"id": "refund", "ask": "refund", "when": "args.amount > 100", "approval": {"attempts": 2}, "reason": "Over 100."},
        {"id": "small", "allow": "refund", "args": {"amount": {"maximum": 100}}, "limit": {"executions": 2, "per": "session", "key": ["order"], "window": "1h"}},
        {"id": "out", "deny": {"labels": ["external"]}, "anywhere": {"const": "secret"}},
    ],
}  # fmt: skip


def test_yaml_json_and_python_make_the_same_policy(tmp_path: Path):
    """One format, however it is written."""
    text = json.dumps(EVERYTHING)
    parts = {key: value for key, value in EVERYTHING.items() if key != "gatescore"}
    policies = [
        Policy.load(written(tmp_path, "a.yaml", text)),
        Policy.load(str(written(tmp_path, "b.yml", text))),
        Policy.load(written(tmp_path, "c", f"# a comment\n{text}")),
        Policy.load(written(tmp_path, "d.json", json.dumps(EVERYTHING, indent=3))),
        Policy.load(written(tmp_path, "e.JSON", "\ufeff" + text)),
        Policy.from_dict(EVERYTHING),
        Policy(**parts),
        Policy.layered(Policy.from_dict(EVERYTHING)),
    ]

    assert {policies[0].digest} == {policy.digest for policy in policies}
    assert {("support", "1")} == {(policy.name, policy.version) for policy in policies}


def test_a_policy_in_python_may_be_made_of_read_only_and_derived_types():
    """Constants of a program, for example."""

    class Names(StrEnum):
        READ = "read"

    policy = Policy.from_dict(MappingProxyType({"rules": ({"allow": (Names.READ,)}, UserDict(deny=["b"]))}))

    assert [Effect.ALLOW, Effect.DENY] == [effect(policy, name) for name in ("read", "b")]


def test_what_is_changed_afterwards_changes_no_policy():
    """A policy is what it was when it was made."""
    document = copy.deepcopy(EVERYTHING)
    policy = Policy.from_dict(document)
    document["rules"].clear()
    document["denied_tools"].clear()

    assert (Effect.DENY, policy.digest) == (effect(policy, "drop"), Policy.from_dict(EVERYTHING).digest)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"a", 1j, Path("a"), float("nan"), float("inf"), "\ud800", {1: 2}, 10**5_000], ids=ids(range(10)))  # fmt: skip
@pytest.mark.parametrize("place", ["const", "reason", "name", "names"])
def test_what_is_no_plain_value_is_refused_wherever_it_stands(value: Any, place: str):
    """It is never a marker that no argument equals."""
    documents: Document = {
        "const": {"rules": [{"allow": "a", "args": {"x": {"const": value}}}]},
        "reason": {"rules": [{"allow": "a", "reason": value}]},
        "name": {"allowed_tools": ["a"], "name": value},
        "names": {"allowed_tools": ["a", value]},
    }

    with pytest.raises(PolicyError):
        Policy.from_dict(documents[place])


def test_the_path_to_a_fault_in_python_is_shown_as_a_person_writes_it():
    """There are no lines to point to."""
    with pytest.raises(PolicyError) as caught:
        Policy(rules=[{"allow": "a"}, {"allow": "b", "args": {"x": {"maximun": 1}}}])

    assert "rules[1].args.x.maximun: unknown keyword `maximun`: did you mean `maximum`?" == str(caught.value)
    assert (None, None, None) == (caught.value.source, caught.value.line, caught.value.column)


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - it was written a moment ago


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, sent])
def test_a_policy_can_be_copied_and_sent_to_other_processes(make: Any):
    """Workers need it too, and decide the same."""
    policy = Policy.from_dict(EVERYTHING)
    effect(policy, "get_order")
    other = make(policy)

    assert (policy.digest, policy.name) == (other.digest, other.name)
    for name, arguments in [
        ("get_order", {}),
        ("drop", {}),
        ("refund", {"amount": 500}),
        ("cancel", {"order": "1"}),
    ]:
        assert effect(policy, name, arguments) == effect(other, name, arguments)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, sent])
def test_what_a_policy_is_asked_and_what_it_answers_can_be_copied_and_sent_too(make: Any):
    """A scorer may run in several processes, and a framework may copy what it is given."""
    policy = Policy(rules=[{"allow": "a", "limit": {"calls": 1}}])
    call = ToolCall("a", {"x": 1}, call_id="c")
    history = advance(History([SessionStarted(session_id="s")]), Started(call=call))
    decision = decide(policy, history, call)
    values = [
        call,
        history,
        history.events[0],
        decision,
        Facts(),
        Facts(now=1, budgets={"x": 1}),
        Session(id="s"),
    ]

    assert values == [make(value) for value in values]
    assert decision == decide(make(policy), make(history), make(call))


# --- what is refused, and where ------------------------------------------------------------------

NO_DEFAULT = (
    "no rule allows or asks, so `default` must say what happens to the other tools: "
    "write `default: deny` or `default: allow`"
)
NO_RULES = "no `rules`, `allowed_tools` or `denied_tools`: a policy needs at least one of them"
EFFECT = "write one of `allow`, `ask` or `deny` with the tools it is about"
ONE_UNIT = "`limit` counts one thing: write one of `executions`, `calls` or `proposals`"
DENY_LIMIT = (
    "a deny rule denies every call, so only `limit: {proposals: N, then: stop}` has a meaning in it: "
    "put the limit into the rule that allows"
)
DURATION = "is not a duration: write one such as `10m`, `1h30m` or `45s`"
AFTER = "such as `{tool: get_order, same: [order_id]}`"
NAMES = "a tool name, or a list of them"
ARGUMENTS = "a list of argument names"

FAULTS: list[tuple[str, str]] = [
    # the document
    ("¦- a", "a policy is a mapping, not a list"),
    ("¦allow everything", "a policy is a mapping, not the text `allow everything`"),
    ("¦5", "a policy is a mapping, not the number `5`"),
    ("¦{}", NO_RULES),
    ("¦default: deny", NO_RULES),
    ("¦tools: {a: {labels: []}}\ndefault: allow", NO_RULES),
    ("default: deny\n¦allowed_tool: [a]", "unknown key `allowed_tool`: did you mean `allowed_tools`?"),
    ("¦policy: x", "unknown key `policy`: use one of `allowed_tools`, `default`, `denied_tools`, `extends`, `gatescore`, `name`, `rules`, `tools`, `version`"),
    ("gatescore: ¦2\nallowed_tools: []", "format version the number `2` is unknown: write `gatescore: 1`"),
    ("gatescore: ¦'1'\nallowed_tools: []", "format version `1` is unknown: write `gatescore: 1`"),
    ("gatescore: ¦true\nallowed_tools: []", "format version the truth value `true` is unknown: write `gatescore: 1`"),
    ("gatescore:¦\nallowed_tools: []", "format version nothing is unknown: write `gatescore: 1`"),
    ("name: ¦[a]\nallowed_tools: []", "`name` is text, not a list"),
    ("name: ¦''\nallowed_tools: []", "`name` is text, not the text ``"),
    ("version: ¦true\nallowed_tools: []", "`version` is text, not the truth value `true`"),
    ("version: ¦{a: 1}\nallowed_tools: []", "`version` is text, not a mapping"),
    # default
    ("¦denied_tools: [a]", NO_DEFAULT),
    ("¦rules: []", NO_DEFAULT),
    ("¦rules: [{deny: a}]", NO_DEFAULT),
    ("rules: [{allow: a}]\ndefault: ¦permit", "`permit` is not known here: use one of `allow`, `ask`, `deny`"),
    ("rules: [{allow: a}]\ndefault: ¦Deny", "`Deny` is not known here: did you mean `deny`?"),
    ("rules: [{allow: a}]\ndefault: ¦true", "the truth value `true` is not known here: use one of `allow`, `ask`, `deny`"),
    ("allowed_tools: [a]\ndefault: ¦allow", "`allowed_tools` with `default: allow` allows every tool: write `default: deny`, or leave the list out"),
    # lists
    ("allowed_tools: ¦a", "the text `a` instead of a list of tool names: write `[a]`"),
    ("allowed_tools: ¦{a: 1}", "a mapping instead of a list of tool names"),
    ("allowed_tools: ¦~", "nothing instead of a list of tool names"),
    ("allowed_tools:\n  - a\n  - ¦5", "the number `5` in a list of tool names: write text"),
    ("allowed_tools: [a, ¦'']", "`` in a list of tool names: write text"),
    ("allowed_tools: [a, ¦' b']", "white space around ` b`: remove it"),
    ("default: allow\ndenied_tools: [a, ¦'b(c)']", "`b(c)` is not a tool name: conditions on arguments go under `args:`, beside the name of the tool"),
    # rules
    ("rules: ¦{allow: a}", "`rules` is a mapping: write a list of rules"),
    ("rules: ¦a", "`rules` is the text `a`: write a list of rules"),
    ("rules:\n- ¦'allow: a'", "a rule is a mapping such as `{allow: search}`, not the text `allow: a`"),
    ("rules: [{allow: a}, ¦[b]]", "a rule is a mapping such as `{allow: search}`, not a list"),
    ("rules: [{allow: a}, ¦{}]", f"a rule has no effect: {EFFECT}"),
    ("rules: [¦{id: x, reason: y}]", f"a rule has no effect: {EFFECT}"),
    ("rules: [¦{allow: a, deny: b}]", f"a rule has more than one effect: {EFFECT}"),
    ("rules: [{¦alow: a}]", "unknown key `alow`: did you mean `allow`?"),
    ("rules: [{allow: a, ¦tool: b}]", "unknown key `tool`: use one of `after`, `allow`, `anywhere`, `approval`, `args`, `ask`, `deny`, `id`, `limit`, `reason`, `when`"),
    ("rules: [{allow: a, id: ¦5}]", "a rule's `id` is text, not the number `5`"),
    ("rules: [{allow: a, id: ¦' '}]", "a rule's `id` is text, not the text ` `"),
    ("rules: [{allow: a, id: x}, {allow: b, id: ¦x}]", "rule id `x` stands twice: give each rule an id of its own"),
    ("allowed_tools: []\nrules: [{allow: a, id: ¦allowed_tools}]", "rule id `allowed_tools` stands twice: give each rule an id of its own"),
    ("rules: [{allow: a, id: 'rules[1]'}, ¦{allow: b}]", "rule id `rules[1]` stands twice: give each rule an id of its own"),
    ("rules: [{allow: a, reason: ¦''}]", "`reason` is a sentence for the model, not the text ``"),
    ("rules: [{allow: a, reason: ¦[b]}]", "`reason` is a sentence for the model, not a list"),
    # selectors
    ("rules: [{allow: ¦[]}]", f"an empty list says nothing: write {NAMES}"),
    ("rules: [{allow: ¦''}]", f"an empty text: write {NAMES}"),
    ("rules: [{allow: ¦~}]", f"nothing instead of {NAMES}"),
    ("rules: [{allow: ¦true}]", f"the truth value `true` instead of {NAMES}"),
    ("rules: [{allow: [a, ¦[b]]}]", f"a list in {NAMES}: write text"),
    ("rules: [{allow: [a, ¦'b c|d']}]", "`b c|d` is not a tool name or pattern, which cannot hold `|`: wildcards are `*`, `**` and `?`, and several names are a list"),
    ("rules: [{allow: ¦{}}]", "the selector is empty: write `{labels: [external]}`, or names"),
    ("rules: [{allow: {¦label: [a]}}]", "unknown key `label`: did you mean `labels`?"),
    ("rules: [{allow: {labels: ¦a}}]", "the text `a` instead of a list of labels: write `[a]`"),
    ("rules: [{allow: {labels: ¦[]}}]", "an empty list says nothing: write a list of labels"),
    ("rules: [{allow: {labels: [¦1]}}]", "the number `1` in a list of labels: write text"),
    # conditions
    ("rules: [{allow: a, args: ¦{}}]", "`args` is empty: name an argument, or leave `args` out"),
    ("rules: [{allow: a, args: ¦~}]", "`args` is empty: write a condition, or leave `args` out"),
    ("rules: [{allow: a, anywhere: ¦~}]", "`anywhere` is empty: write a condition, or leave `anywhere` out"),
    ("rules: [{allow: a, args: {x: {}}, anywhere: ¦~}]", "`anywhere` is empty: write a condition, or leave `anywhere` out"),
    ("rules: [{allow: a, args: ¦[x]}]", "`args` takes a mapping of argument names to schemas"),
    ("rules: [{allow: a, args: {x: {¦max: 1}}}]", "keyword `max` is not accepted: use `maximum`"),
    ("rules: [{allow: a, args: {x: {pattern: ¦'('}}}]", "pattern `(` is not a regular expression, or repeats too much: count with `minLength` and `maxLength`"),
    ("rules: [{allow: a, args: {x: {}, ¦'x?': {}}}]", "`x` and `x?` are one argument: keep one of them"),
    ("rules: [{allow: a, when: ¦''}]", "`when` is empty: write a condition such as `args.amount <= 100`"),
    ("rules: [{allow: a, when: ¦true}]", "`when` is text in CEL, not bool: write a condition such as `args.amount <= 100`"),
    # approval
    ("rules: [{allow: a, ¦approval: {attempts: 2}}]", "`approval` belongs to an `ask` rule, not to `allow`"),
    ("default: allow\nrules: [{deny: a, ¦approval: {attempts: 2}}]", "`approval` belongs to an `ask` rule, not to `deny`"),
    ("rules: [{ask: a, approval: ¦2}]", "`approval` is a mapping such as `{attempts: 2}`, not the number `2`"),
    ("rules: [{ask: a, approval: ¦{}}]", "`approval` is empty: write `{attempts: 2}` or leave it out"),
    ("rules: [{ask: a, approval: {¦attempt: 2}}]", "unknown key `attempt`: did you mean `attempts`?"),
    ("rules: [{ask: a, approval: {attempts: ¦0}}]", "the number `0` is not a count: write a whole number from 1"),
    ("rules: [{ask: a, approval: {attempts: ¦two}}]", "the text `two` is not a count: write a whole number from 1"),
    # after
    ("rules: [{allow: a, after: ¦b}]", f"`after` is a mapping {AFTER}, not the text `b`"),
    ("rules: [{allow: a, after: ¦{}}]", "`after` names no tool: write `tool: NAME`"),
    ("rules: [{allow: a, after: {¦tools: b}}]", "unknown key `tools`: did you mean `tool`?"),
    ("rules: [{allow: a, after: {tool: ¦[]}}]", f"an empty list says nothing: write {NAMES}"),
    ("rules: [{allow: a, after: {tool: {labels: ¦[]}}}]", "an empty list says nothing: write a list of labels"),
    ("rules: [{allow: a, after: {tool: b, args: ¦{}}}]", "`args` is empty: name an argument, or leave `args` out"),
    ("rules: [{allow: a, after: {tool: b, ¦when: 'true'}}]", "unknown key `when`: did you mean `within`?"),
    ("rules: [{allow: a, after: {tool: b, same: ¦[]}}]", f"an empty list says nothing: write {ARGUMENTS}, or a mapping from this call's to the earlier call's"),
    ("rules: [{allow: a, after: {tool: b, same: ¦x}}]", f"the text `x` instead of {ARGUMENTS}, or a mapping from this call's to the earlier call's: write `[x]`"),
    ("rules: [{allow: a, after: {tool: b, same: ¦{}}}]", "`same` is empty: name the arguments whose values are equal"),
    ("rules: [{allow: a, after: {tool: b, same: {x: ¦1}}}]", "`x` is the number `1`: write the name of the earlier call's argument"),
    ("rules: [{allow: a, after: {tool: b, same: {x: ¦''}}}]", "`x` is the text ``: write the name of the earlier call's argument"),
    ("rules: [{allow: a, after: {tool: b, same: {¦'': x}}}]", "an empty text is no name of an argument: write one"),
    ("rules: [{allow: a, after: {tool: b, within: ¦{}}}]", "`within` is empty: write `10m` or `{calls: 5}`"),
    ("rules: [{allow: a, after: {tool: b, within: {¦call: 5}}}]", "unknown key `call`: did you mean `calls`?"),
    ("rules: [{allow: a, after: {tool: b, within: {calls: ¦0}}}]", "the number `0` is not a count: write a whole number from 1"),
    ("rules: [{allow: a, after: {tool: b, within: ¦5}}]", f"the number `5` {DURATION}"),
    ("rules: [{allow: a, after: {tool: b, within: ¦soon}}]", f"`soon` {DURATION}"),
    # limit
    ("rules: [{allow: a, limit: ¦1}]", "`limit` is a mapping such as `{executions: 1}`, not the number `1`"),
    ("rules: [{allow: a, limit: ¦{}}]", ONE_UNIT),
    ("rules: [{allow: a, limit: ¦{per: session}}]", ONE_UNIT),
    ("rules: [{allow: a, limit: ¦{calls: 1, executions: 2}}]", ONE_UNIT),
    ("rules: [{allow: a, limit: {¦execution: 1}}]", "unknown key `execution`: did you mean `executions`?"),
    ("rules: [{allow: a, limit: {calls: ¦-1}}]", "the number `-1` is not a count: write a whole number from 0"),
    ("rules: [{allow: a, limit: {calls: ¦1.5}}]", "the number `1.5` is not a count: write a whole number from 0"),
    ("rules: [{allow: a, limit: {calls: ¦true}}]", "the truth value `true` is not a count: write a whole number from 0"),
    ("rules: [{allow: a, limit: {calls: 1, per: ¦user}}]", "`user` is not known here: use one of `principal`, `session`, `tool`"),
    ("rules: [{allow: a, limit: {calls: 1, per: ¦sessions}}]", "`sessions` is not known here: did you mean `session`?"),
    ("rules: [{allow: a, limit: {calls: 1, key: ¦x}}]", f"the text `x` instead of {ARGUMENTS}: write `[x]`"),
    ("rules: [{allow: a, limit: {calls: 1, key: ¦[]}}]", f"an empty list says nothing: write {ARGUMENTS}"),
    ("rules: [{allow: a, limit: {calls: 1, window: ¦1 hour}}]", f"`1 hour` {DURATION}"),
    ("rules: [{allow: a, limit: {calls: 1, window: ¦0s}}]", f"`0s` {DURATION}"),
    ("rules: [{allow: a, limit: {proposals: 1, then: ¦halt}}]", "`halt` is not known here: use one of `stop`"),
    ("rules: [{allow: a, limit: {calls: 1, ¦then: stop}}]", "`then: stop` goes with `proposals`: refusals are what ends a run"),
    ("default: allow\nrules: [{deny: a, ¦limit: {executions: 1}}]", DENY_LIMIT),
    ("default: allow\nrules: [{deny: a, ¦limit: {calls: 0}}]", DENY_LIMIT),
    ("default: allow\nrules: [{deny: a, ¦limit: {proposals: 1}}]", DENY_LIMIT),
    # tools
    ("allowed_tools: []\ntools: ¦[a]", "`tools` is a mapping of tool names, not a list"),
    ("allowed_tools: []\ntools: {a: ¦[external]}", "what is known about a tool is a mapping such as `{labels: [external]}`, not a list"),
    ("allowed_tools: []\ntools: {¦'a*': {labels: []}}", "`a*` is a glob: write one entry for each tool"),
    ("allowed_tools: []\ntools: {¦'a b|': {labels: []}}", "`a b|` is not a tool name or pattern, which cannot hold `|`: wildcards are `*`, `**` and `?`, and several names are a list"),
    ("allowed_tools: []\ntools: {a: {¦aliases: [b]}}", "`aliases` are not read by this version: name every spelling in the rules"),
    ("allowed_tools: []\ntools: {a: {¦label: []}}", "unknown key `label`: did you mean `labels`?"),
    ("allowed_tools: []\ntools: {a: {labels: ¦external}}", "the text `external` instead of a list of labels: write `[external]`"),
    ("allowed_tools: []\ntools: {a: {labels: ¦~}}", "nothing instead of a list of labels"),
    ("allowed_tools: []\ntools: {a: {once_per: ¦[]}}", f"an empty list says nothing: write {ARGUMENTS}"),
    ("allowed_tools: []\ntools: {a: {once_per: ¦x}}", f"the text `x` instead of {ARGUMENTS}: write `[x]`"),
    ("allowed_tools: []\ntools: {a: {¦safe_to_repeat: [failed]}}", "`safe_to_repeat` without `once_per` has no effect: write both"),
    ("allowed_tools: []\ntools: {a: {once_per: [x], safe_to_repeat: [failed, ¦succeeded]}}", "`succeeded` is not known here: use one of `cancelled`, `failed`, `unfinished`"),
    ("allowed_tools: []\ntools: {a: {schema: ¦[x]}}", "a declared schema is a mapping, such as `{properties: {amount: {type: number}}}`"),
    # extends
    ("extends: ¦[]\nallowed_tools: []", "an empty list says nothing: write a file name, or a list of them"),
    ("extends: ¦''\nallowed_tools: []", "an empty text: write a file name, or a list of them"),
    ("extends: ¦5\nallowed_tools: []", "the number `5` instead of a file name, or a list of them"),
    ("extends: [a.yaml, ¦~]\nallowed_tools: []", "nothing in a file name, or a list of them: write text"),
    ("extends: ¦policy.yaml\nallowed_tools: []", "`policy.yaml` extends this file in turn: a policy cannot extend itself"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=ids(text for text, _ in FAULTS))
def test_a_fault_is_told_with_its_place_and_a_remedy(text: str, message: str, tmp_path: Path):
    """File, line, column; what is wrong; what to write."""
    before, after = text.split("¦")
    file = written(tmp_path, "policy.yaml", before + after)
    line, column = before.count("\n") + 1, len(before.rsplit("\n", 1)[-1]) + 1

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert f"{file}:{line}:{column}: {message}" == str(caught.value)
    assert (str(file), line, column, message) == (
        caught.value.source,
        caught.value.line,
        caught.value.column,
        caught.value.message,
    )


IN_PYTHON = [(text, message) for text, message in FAULTS if not text.startswith("extends")]


@pytest.mark.parametrize(("text", "message"), IN_PYTHON, ids=ids(text for text, _ in IN_PYTHON))
def test_the_same_fault_is_told_of_a_policy_built_in_python(text: str, message: str):
    """With the path instead of the place."""
    data: Any = parse_yaml(text.replace("¦", "")).data

    with pytest.raises(PolicyError) as caught:
        Policy.from_dict(data)

    assert (message, None) == (caught.value.message, caught.value.line)


def test_the_first_fault_of_several_is_told(tmp_path: Path):
    """One at a time, from the top."""
    file = written(tmp_path, "policy.yaml", "rules:\n- {allow: a, when: ''}\n- {allow: b, limit: 5}\n")

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert 2 == caught.value.line


# --- durations -----------------------------------------------------------------------------------

DURATIONS = {
    "1ms": 10**6,
    "45s": 45 * SECOND,
    "10m": 600 * SECOND,
    "1h": 3_600 * SECOND,
    "2d": 172_800 * SECOND,
    "1h30m": 5_400 * SECOND,
    "1d2h3m4s5ms": 93_784 * SECOND + 5 * 10**6,
    "90m": 5_400 * SECOND,
    "0h1s": SECOND,
    "007s": 7 * SECOND,
    "999999999d": 999_999_999 * 86_400 * SECOND,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_numbers_with_units_from_days_to_milliseconds(text: str):
    """In this order, each at most once."""
    [after] = rule(allow="a", after={"tool": "b", "within": text}).layers[0].afters
    limit = rule(allow="a", limit={"calls": 1, "window": text}).layers[0].rules[0].limit

    assert limit is not None
    assert (DURATIONS[text], DURATIONS[text]) == (after.nanoseconds, limit.window)


NO_DURATIONS: list[Any] = ["", "0", "0s", "0d0h", "10", "m", "1.5h", "-1h", "+1h", "1h ", " 1h", "1 h", "1H", "1M", "1w", "1y", "1us", "30m1h", "1h1h", "1:30", "PT1H", "1hour", "٣s", "9" * 10 + "s", "9" * 5_000 + "s", 5, 0, 1.5, True, None, [], ["1h"]]  # fmt: skip


@pytest.mark.parametrize("value", NO_DURATIONS, ids=ids(NO_DURATIONS))
def test_what_is_no_duration_is_refused(value: Any):
    """A window that is guessed would be a limit that nobody set."""
    for parts in ({"after": {"tool": "b", "within": value}}, {"limit": {"calls": 1, "window": value}}):
        with pytest.raises(PolicyError, match="is not a duration: write one such as `10m`, `1h30m` or `45s`"):
            rule(allow="a", **parts)


# --- layers --------------------------------------------------------------------------------------

STRICTNESS = [Effect.ALLOW, Effect.ASK, Effect.DENY]


@pytest.mark.parametrize("effects", list(itertools.product(["allow", "ask", "deny"], repeat=3)), ids="-".join)
def test_the_strictest_of_all_layers_holds(effects: tuple[str, ...]):
    """Deny if any denies, ask if any asks, allow only if all allow; the order does not matter."""
    layers = [Policy(rules=[{"id": kind, kind: "a"}], default="allow") for kind in effects]
    strictest = max((Effect(kind) for kind in effects), key=STRICTNESS.index)
    decision = decide(Policy.layered(*layers), History(), ToolCall("a"))

    assert strictest == decision.effect
    assert [kind for kind in effects if kind == strictest] == list(decision.rules)


@pytest.mark.parametrize(
    "defaults", list(itertools.product(["allow", "ask", "deny"], repeat=2)), ids="-".join
)
def test_the_strictest_default_holds_where_no_rule_decides(defaults: tuple[str, ...]):
    """A layer that says nothing of a tool says its default."""
    layers = [Policy(denied_tools=["other"], default=default) for default in defaults]

    assert max((Effect(default) for default in defaults), key=STRICTNESS.index) == effect(
        Policy.layered(*layers), "a"
    )


def test_an_allow_of_one_layer_is_no_allow_of_another():
    """Allow only if every layer allows."""
    one, other = Policy(allowed_tools=["a", "b"]), Policy(allowed_tools=["b", "c"])

    assert {"b"} == {name for name in "abc" if effect(Policy.layered(one, other), name) == Effect.ALLOW}


def test_layers_of_layers_are_layers():
    """Put together in any grouping, in their order."""
    a, b, c = (Policy(allowed_tools=["x"], name=name) for name in "abc")
    flat = Policy.layered(a, b, c)

    assert ["a", "b", "c"] == [layer.name for layer in flat.layers]
    assert {flat.digest} == {
        Policy.layered(Policy.layered(a, b), c).digest,
        Policy.layered(a, Policy.layered(b, c)).digest,
    }


def test_a_layered_policy_is_called_by_its_last_layer_that_has_a_name():
    """The nearest to the application."""
    org, team, app = (
        Policy(allowed_tools=[], name="org", version="1"),
        Policy(allowed_tools=[], name="team"),
        Policy(allowed_tools=[]),
    )

    assert ("team", None) == (Policy.layered(org, team, app).name, Policy.layered(org, team, app).version)
    assert ("org", "1") == (Policy.layered(org, app).name, Policy.layered(org, app).version)
    assert None is Policy.layered(app, app).name


def test_no_layers_are_no_policy():
    """Nothing said is not everything allowed."""
    with pytest.raises(PolicyError, match="no policies to put over each other: pass at least one"):
        Policy.layered()


def test_what_one_layer_knows_about_a_tool_another_does_not():
    """Each layer reads its own `tools`: a label that is unknown to it may restrict."""
    knows = Policy(rules=[{"deny": {"labels": ["out"]}}], default="allow", tools={"a": {"labels": []}})
    ignorant = Policy(rules=[{"deny": {"labels": ["out"]}}], default="allow")

    assert (Effect.ALLOW, Effect.DENY) == (effect(knows, "a"), effect(Policy.layered(knows, ignorant), "a"))


# --- budgets of several layers -------------------------------------------------------------------


def limited(name: str | None, units: int, rule_id: str = "r", **limit: Any) -> Policy:
    return Policy(rules=[{"id": rule_id, "allow": "a", "limit": {"executions": units, **limit}}], name=name)


def entered(
    history: History, policy: Policy, call_id: str, arguments: Document | None = None
) -> tuple[Effect, History]:
    """Decide an entry; if it is allowed, let it run to its end."""
    call = ToolCall("a", arguments or {}, call_id=call_id)
    decision = decide(policy, history, call)
    if decision.allowed:
        history = advance(history, Started(call=call, budgets=decision.budgets))
        history = advance(history, Finished(call_id=call_id, outcome=Outcome.SUCCEEDED))
    return decision.effect, history


def run(policy: Policy, count: int) -> int:
    """How many of so many calls are allowed."""
    history, allowed = History([SessionStarted(session_id="s")]), 0
    for number in range(count):
        effect_, history = entered(history, policy, f"c{number}")
        allowed += effect_ == Effect.ALLOW
    return allowed


def test_the_limits_of_all_layers_apply():
    """Each keeps its own count; the smaller one is met first."""
    assert [3, 2, 2, 0] == [
        run(policy, 5)
        for policy in (
            limited("org", 3),
            Policy.layered(limited("org", 3), limited("app", 2)),
            Policy.layered(limited("app", 2), limited("org", 3)),
            Policy.layered(limited("org", 3), limited("app", 0)),
        )
    ]


def test_a_call_takes_a_unit_of_each_budget():
    """All of them, told apart by layer and rule."""
    policy = Policy.layered(limited("org", 3), limited("app", 2), limited(None, 9, "other"))
    decision = decide(policy, History([SessionStarted(session_id="s")]), ToolCall("a"))

    assert ["org/r", "app/r", "/other"] == [budget.limit for budget in decision.budgets]
    assert 3 == len({budget.key for budget in decision.budgets})


def test_a_budget_that_is_spent_in_one_layer_is_named_in_the_reason():
    """And the rule that it belongs to determines the decision."""
    policy = Policy.layered(limited("org", 1, "wide"), limited("app", 0, "narrow"))
    decision = decide(policy, History([SessionStarted(session_id="s")]), ToolCall("a"))

    assert (Effect.DENY, ("narrow",), "its limit of 0 executions is spent") == (
        decision.effect,
        decision.rules,
        decision.reason,
    )


@pytest.mark.parametrize("names", [(None, None), ("app", "app")], ids=["without names", "of one name"])
def test_two_layers_whose_budgets_could_not_be_told_apart_are_refused(names: tuple[str | None, ...]):
    """One would count the other's units."""
    with pytest.raises(
        PolicyError, match=r"two layers have a limit in a rule `r`.*: give each policy a `name` of its own"
    ):
        Policy.layered(*(limited(name, 1) for name in names))

    assert 2 == len(Policy.layered(limited(names[0], 1, "x"), limited(names[1], 1, "y")).layers)


# --- files that extend others --------------------------------------------------------------------


def test_a_file_narrows_the_file_that_it_extends(tmp_path: Path):
    """The name is relative to the file that holds it, wherever the program runs."""
    written(tmp_path, "base/org.yaml", "name: org\nallowed_tools: [a, b, c]\n")
    file = written(
        tmp_path,
        "teams/app.yaml",
        "extends: ../base/org.yaml\nname: app\nallowed_tools: [b, c, d]\ndenied_tools: [c]\n",
    )
    policy = Policy.load(file)

    assert ["org", "app"] == [layer.name for layer in policy.layers]
    assert {"b"} == {name for name in "abcd" if effect(policy, name) == Effect.ALLOW}
    assert (
        Policy.layered(
            Policy(allowed_tools=["a", "b", "c"], name="org"),
            Policy(allowed_tools=["b", "c", "d"], denied_tools=["c"], name="app"),
        ).digest
        == policy.digest
    )


def test_several_files_are_extended_in_their_order_and_with_what_they_extend(tmp_path: Path):
    """The widest first."""
    for name, extends in {"law": "", "org": "extends: law.yaml\n", "team": ""}.items():
        written(tmp_path, f"{name}.yaml", f"{extends}name: {name}\nallowed_tools: [a]\n")
    file = written(
        tmp_path, "app.json", '{"extends": ["org.yaml", "team.yaml"], "name": "app", "allowed_tools": ["a"]}'
    )

    assert ["law", "org", "team", "app"] == [layer.name for layer in Policy.load(file).layers]


def test_one_file_may_be_extended_on_two_ways(tmp_path: Path):
    """It is no cycle, and narrowing twice is narrowing once."""
    written(tmp_path, "base.yaml", "allowed_tools: [a, b]\n")
    for name in ("left", "right"):
        written(tmp_path, f"{name}.yaml", "extends: base.yaml\nallowed_tools: [a]\n")
    policy = Policy.load(
        written(tmp_path, "app.yaml", "extends: [left.yaml, right.yaml]\nallowed_tools: [a, b]\n")
    )

    assert (5, Effect.ALLOW, Effect.DENY) == (len(policy.layers), effect(policy, "a"), effect(policy, "b"))


def test_a_file_that_only_extends_needs_its_own_default(tmp_path: Path):
    """It is a layer as well, and says what it leaves open."""
    written(tmp_path, "base.yaml", "allowed_tools: [a]\n")
    bare = written(tmp_path, "bare.yaml", "extends: base.yaml\n")
    open_ = written(tmp_path, "open.yaml", "extends: base.yaml\ndefault: allow\n")

    with pytest.raises(PolicyError, match="so `default` must say"):
        Policy.load(bare)
    assert (Effect.ALLOW, Effect.DENY) == (effect(Policy.load(open_), "a"), effect(Policy.load(open_), "b"))


@pytest.mark.parametrize(
    "through",
    [["a.yaml"], ["b.yaml"], ["b.yaml", "c.yaml"], ["./a.yaml"], ["../{folder}/a.yaml"], ["link.yaml"]],
    ids=str,
)
def test_a_cycle_of_files_is_refused_where_it_closes(through: list[str], tmp_path: Path):
    """However the file is called in it."""
    names = ["a.yaml", *through]
    for name, extends in itertools.pairwise(
        [*names, "a.yaml"] if names[-1] in {"b.yaml", "c.yaml"} else names
    ):
        written(tmp_path, name, f"allowed_tools: []\nextends: {extends.format(folder=tmp_path.name)}\n")
    (tmp_path / "link.yaml").symlink_to("a.yaml")
    closing = names[-1] if names[-1] in {"b.yaml", "c.yaml"} else "a.yaml"
    called = "a.yaml" if closing != "a.yaml" else through[0].format(folder=tmp_path.name)

    with pytest.raises(PolicyError) as caught:
        Policy.load(tmp_path / "a.yaml")

    assert f"`{called}` extends this file in turn: a policy cannot extend itself" == caught.value.message
    assert (2, 10) == (caught.value.line, caught.value.column)
    assert closing == Path(str(caught.value.source)).name


def test_a_cycle_below_the_first_file_is_refused(tmp_path: Path):
    """The first file need not be a part of it."""
    for name, extends in itertools.pairwise("abcb"):
        written(tmp_path, name, f"allowed_tools: []\nextends: {extends}\n")

    with pytest.raises(PolicyError) as caught:
        Policy.load(tmp_path / "a")

    assert f"{tmp_path / 'c'}:2:10: `b` extends this file in turn: a policy cannot extend itself" == str(
        caught.value
    )


def test_a_missing_file_is_told_by_its_own_name(tmp_path: Path):
    """A policy without its base would allow more."""
    file = written(tmp_path, "app.yaml", "extends: [base.yaml]\ndefault: allow\n")

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert f"{tmp_path / 'base.yaml'}: the policy cannot be read: no such file or directory" == str(
        caught.value
    )


def test_a_fault_in_an_extended_file_is_told_with_its_place_there(tmp_path: Path):
    """Where it has to be mended."""
    written(tmp_path, "base.yaml", "allowed_tools: [a]\nrules: [{alow: b}]\n")
    file = written(tmp_path, "app.yaml", "extends: base.yaml\ndefault: allow\n")

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert f"{tmp_path / 'base.yaml'}:2:10: unknown key `alow`: did you mean `allow`?" == str(caught.value)


def test_a_long_chain_of_files_is_refused(tmp_path: Path):
    """It is a mistake, or made to keep the reader busy."""
    for number in range(20):
        written(tmp_path, f"{number}.yaml", f"extends: {number + 1}.yaml\nallowed_tools: []\n")

    with pytest.raises(PolicyError, match="more than 16 files extend each other"):
        Policy.load(tmp_path / "0.yaml")


def test_only_a_file_can_extend_another():
    """A mapping in Python stands in no folder."""
    with pytest.raises(PolicyError, match=r"extends: only a file can extend another: use `Policy\.layered`"):
        Policy.from_dict({"extends": "base.yaml", "allowed_tools": []})


# --- the digest ----------------------------------------------------------------------------------


def digest(**changes: Any) -> str:
    return Policy.from_dict({**EVERYTHING, **changes}).digest


RULES: list[Document] = EVERYTHING["rules"]


@given(st.permutations(RULES))
def test_the_order_of_rules_changes_no_digest(rules: list[Document]):
    """It decides nothing."""
    assert digest() == digest(rules=rules)


@given(st.permutations(list(EVERYTHING)))
def test_the_order_of_keys_changes_no_digest(keys: list[str]):
    """At the top, and in each rule."""
    turned = {key: EVERYTHING[key] for key in keys}
    turned["rules"] = [dict(reversed(spec.items())) for spec in RULES]

    assert digest() == Policy.from_dict(turned).digest


@pytest.mark.parametrize(
    "changes",
    [{"name": "other"}, {"version": "2"}, {"name": "other", "version": 3.5}, {"gatescore": 1.0}],
    ids=str,
)
def test_what_a_policy_is_called_changes_no_digest(changes: Document):
    """It decides nothing either."""
    assert digest() == digest(**changes)


def test_what_is_said_by_default_changes_no_digest(tmp_path: Path):
    """Nor do comments, quotes and blanks."""
    plain = Policy.load(written(tmp_path, "a.yaml", "rules: [{id: x, allow: a, args: {n: {maximum: 1}}}]\n"))
    wordy = Policy.load(
        written(
            tmp_path,
            "b.yaml",
            "gatescore: 1 # one\nname: b\ndefault: 'deny'\nrules:\n\n- allow: \"a\"\n  id: x\n  args:\n    n:\n      maximum: 1.0\n",
        )
    )

    assert plain.digest == wordy.digest


def test_a_rule_without_an_id_is_another_rule_in_another_place():
    """Its id is its place, and decisions and budgets are recorded by ids."""
    rules: list[Document] = [{"allow": "a"}, {"allow": "b"}]

    assert Policy(rules=rules).digest != Policy(rules=rules[::-1]).digest


def changed(number: int, **parts: Any) -> Document:
    """The document with some parts of one rule changed; None takes a part away."""
    rules = copy.deepcopy(RULES)
    rules[number] = {key: value for key, value in {**rules[number], **parts}.items() if value is not None}
    return {"rules": rules}


CHANGES: list[Document] = [
    {"default": "deny"},
    {"allowed_tools": ["get_orders"]},
    {"allowed_tools": []},
    {"denied_tools": ["drop", "delete"]},
    {"denied_tools": []},
    {"rules": RULES[1:]},
    {"rules": [*RULES, {"id": "more", "deny": "x"}]},
    {"tools": {}},
    {"tools": {**EVERYTHING["tools"], "cancel": {"labels": []}}},
    {"tools": {**EVERYTHING["tools"], "refund": {"labels": []}}},
    {"tools": {**EVERYTHING["tools"], "refund": {"schema": {"properties": {"amount": {"type": "string"}}}}}},
    {"tools": {**EVERYTHING["tools"], "other": {"labels": ["external"]}}},
    changed(0, id="cancelling"),
    changed(0, allow=None, ask="cancel"),
    changed(0, allow="cancel_order"),
    changed(0, args={"order": {"pattern": "^[0-9]*$"}}),
    changed(0, args={"order?": {"pattern": "^[0-9]+$"}}),
    changed(0, args=None),
    changed(0, when="true"),
    changed(0, after={"tool": "get_orders", "same": ["order"], "within": "10m"}),
    changed(0, after={"tool": "get_order", "same": ["id"], "within": "10m"}),
    changed(0, after={"tool": "get_order", "same": ["order"], "within": "11m"}),
    changed(0, after={"tool": "get_order", "same": ["order"]}),
    changed(0, after=None),
    changed(1, when="args.amount >= 100"),
    changed(1, approval={"attempts": 3}),
    changed(1, approval=None),
    changed(1, reason="Over a hundred."),
    changed(1, reason=None),
    changed(2, args={"amount": {"maximum": 101}}),
    changed(2, limit={"executions": 3, "per": "session", "key": ["order"], "window": "1h"}),
    changed(2, limit={"calls": 2, "per": "session", "key": ["order"], "window": "1h"}),
    changed(2, limit={"executions": 2, "per": "tool", "key": ["order"], "window": "1h"}),
    changed(2, limit={"executions": 2, "per": "session", "window": "1h"}),
    changed(2, limit={"executions": 2, "per": "session", "key": ["order"]}),
    changed(2, limit=None),
    changed(3, deny={"labels": ["internal"]}),
    changed(3, anywhere={"const": "Secret"}),
    changed(3, anywhere=None),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_whatever_decides_changes_the_digest(number: int):
    """Each change by itself, and no two of them alike."""
    assert digest() != digest(**CHANGES[number])


def test_no_two_changes_have_one_digest():
    """A digest that forgets would make two policies one."""
    assert len(CHANGES) + 1 == len({digest(), *(digest(**change) for change in CHANGES)})


def test_layers_have_a_digest_of_their_own():
    """Of all of them together; one layer alone is itself."""
    one, other = Policy(allowed_tools=["a"]), Policy(allowed_tools=["b"])

    assert one.digest == Policy.layered(one).digest
    assert 4 == len(
        {one.digest, other.digest, Policy.layered(one, other).digest, Policy.layered(one, one).digest}
    )


# --- approval ------------------------------------------------------------------------------------


def executions(policy: Policy, attempts: int, *, each: bool = False) -> tuple[int, int]:
    """How many of several entries a yes covers: one at the proposal, or one at each entry."""
    yes = {"approval": {"by": "ann"}}
    proposed = [{"id": "a", "name": "a", **({} if each else yes)}]
    executed = [
        {"id": "a", "name": "a", "attempt": number, **(yes if each else {})}
        for number in range(1, attempts + 1)
    ]
    card = score_permissions(read_session({"id": "s", "proposed": proposed, "executed": executed}), policy)
    return card.execution.authorized, card.execution.total


@pytest.mark.parametrize(
    ("approval", "covered"),
    [
        ({}, 1),
        ({"approval": {"attempts": 1}}, 1),
        ({"approval": {"attempts": 2}}, 2),
        ({"approval": {"attempts": 9}}, 4),
    ],
    ids=str,
)
def test_a_yes_covers_one_entry_unless_the_rule_says_more(approval: Document, covered: int):
    """A retry is another entry, and needs another yes."""
    policy = Policy(rules=[{"ask": "a", **approval}])

    assert (covered, 4) == executions(policy, 4)
    assert (4, 4) == executions(policy, 4, each=True)


def test_a_yes_covers_as_many_entries_as_the_strictest_rule_says():
    """Of all rules that ask, in all layers; also where two of them share an id."""
    three, two, one = (
        Policy(rules=[{"id": "r", "ask": "a", "approval": {"attempts": n}}]) for n in (3, 2, 1)
    )
    plain = Policy(rules=[{"id": "r", "ask": "a"}])

    assert [(3, 4), (2, 4), (2, 4), (1, 4), (1, 4)] == [
        executions(policy, 4)
        for policy in (
            three,
            Policy.layered(three, two),
            Policy.layered(two, three),
            Policy.layered(three, one),
            Policy.layered(three, plain),
        )
    ]
    assert [{"r": 3}, {"r": 2}, {}] == [
        policy.approval_attempts
        for policy in (three, Policy.layered(three, two), Policy.layered(three, plain))
    ]


# --- after ---------------------------------------------------------------------------------------


def past(
    *calls: tuple[str, Document], outcome: Outcome | None = Outcome.SUCCEEDED, step: int = SECOND
) -> History:
    """A session of calls that were made one after the other, *step* apart; without outcome still in flight."""
    events: list[Event] = [SessionStarted(time=0, session_id="s")]
    for number, (name, arguments) in enumerate(calls):
        call = ToolCall(name, arguments, call_id=f"c{number}")
        events.append(Started(time=number * step, call=call))
        if outcome is not None:
            events.append(Finished(time=number * step, call_id=call.call_id, outcome=outcome))
    return History(events)


def after(kind: str, history: History, arguments: Document, now: int = 0, **parts: Any) -> Effect:
    policy = rule(**{kind: "cancel"}, after={"tool": "look", **parts})
    return decide(policy, history, ToolCall("cancel", arguments, call_id="new"), Facts(now=now)).effect


LOOK = ("look", {"order": "1"})


@pytest.mark.parametrize(
    ("outcome", "allowed", "denied"),
    [
        (Outcome.SUCCEEDED, True, True),
        (Outcome.FAILED, False, True),
        (Outcome.CANCELLED, False, True),
        (Outcome.UNFINISHED, False, True),
        (None, False, True),
    ],
    ids=str,
)
def test_an_allow_wants_success_and_a_deny_a_start(outcome: Outcome | None, *, allowed: bool, denied: bool):
    """What failed is no evidence, and may have done harm all the same."""
    history = past(LOOK, outcome=outcome)

    assert (allowed, denied) == (
        after("allow", history, {}) == Effect.ALLOW,
        after("deny", history, {}) == Effect.DENY,
    )
    assert (Effect.DENY, Effect.ALLOW) == (after("allow", past(), {}), after("deny", past(), {}))


def test_values_that_must_be_the_same_are_named_as_a_list_or_in_pairs():
    """A list where both calls use one name."""
    history = past(("look", {"order": "1", "shop": "a"}))

    for same in (["order"], {"order": "order"}, {"id": "order"}, {"id": "order", "place": "shop"}):
        arguments = {"order": "1", "id": "1", "place": "a"}
        assert Effect.ALLOW == after("allow", history, arguments, same=same)
        assert Effect.DENY == after("allow", history, dict.fromkeys(arguments, "2"), same=same)
        assert Effect.DENY == after("deny", history, arguments, same=same)
        assert Effect.ALLOW == after("deny", history, dict.fromkeys(arguments, "2"), same=same)


@pytest.mark.parametrize(
    "arguments", [{}, {"order": None}, {"order": object()}], ids=["absent", "null", "live"]
)
def test_a_value_that_is_not_there_correlates_with_nothing_and_everything(arguments: Document):
    """It unlocks nothing, and a deny takes it for the worst."""
    assert Effect.DENY == after("allow", past(LOOK), arguments, same=["order"])
    assert Effect.DENY == after("deny", past(LOOK), arguments, same=["order"])


@pytest.mark.parametrize(("now", "within"), [(0, True), (10, True), (11, False)])
def test_within_a_time_the_end_counts_as_in_it(now: int, *, within: bool):
    """Ten seconds are ten seconds."""
    effects = [after(kind, past(LOOK), {}, now * SECOND, within="10s") for kind in ("allow", "deny")]

    assert [within, within] == [effects[0] == Effect.ALLOW, effects[1] == Effect.DENY]


@pytest.mark.parametrize(("others", "within"), [(0, True), (1, True), (2, False)])
def test_within_some_calls_the_call_itself_is_counted(others: int, *, within: bool):
    """`{calls: 2}` are the two calls before this one."""
    history = past(LOOK, *[("other", {})] * others)
    effects = [after(kind, history, {}, within={"calls": 2}) for kind in ("allow", "deny")]

    assert [within, within] == [effects[0] == Effect.ALLOW, effects[1] == Effect.DENY]


def test_the_arguments_of_the_earlier_call_can_be_asked_for():
    """Only what is known of it counts for an allow."""
    deep: Document = {"depth": {"minimum": 3}}
    pasts = [past(("look", {"depth": value})) for value in (3, 2, "3")]

    assert [Effect.ALLOW, Effect.DENY, Effect.DENY] == [
        after("allow", events, {}, args=deep) for events in pasts
    ]
    assert [Effect.DENY, Effect.ALLOW, Effect.DENY] == [
        after("deny", events, {}, args=deep) for events in pasts
    ]


def test_outside_of_a_session_nothing_came_before_for_sure():
    """An allow is not granted, and a deny hits."""
    effects = [after(kind, History(), {}) for kind in ("allow", "ask", "deny")]

    assert [Effect.DENY, Effect.ASK, Effect.DENY] == effects


# --- limits --------------------------------------------------------------------------------------


def proposed(policy: Policy, count: int, name: str = "a") -> list[tuple[Effect, bool]]:
    """The decisions on so many proposals, one after the other, none of them entered; and who ends the session."""
    history = History([SessionStarted(session_id="s")])
    decisions: list[tuple[Effect, bool]] = []
    for number in range(count):
        call = ToolCall(name, {}, call_id=f"c{number}")
        history = advance(history, Proposed(call=call, message=f"m{number}"))
        decision = decide(policy, history, call, moment=Moment.PROPOSAL)
        history = advance(history, Decided(call_id=call.call_id, moment=Moment.PROPOSAL, decision=decision))
        decisions.append((decision.effect, decision.stop))
    return decisions


def test_a_limited_deny_ends_a_session_that_keeps_asking():
    """Two refusals are answered; with the third the run is over, for every tool."""
    policy = Policy(
        rules=[{"allow": "b"}, {"id": "r", "deny": "a", "limit": {"proposals": 2, "then": "stop"}}]
    )
    history = History([SessionStarted(session_id="s")])
    told: list[tuple[str, Effect, bool, str]] = []
    for number, name in enumerate("abaab"):
        call = ToolCall(name, {}, call_id=f"c{number}")
        history = advance(history, Proposed(call=call, message=f"m{number}"))
        decision = decide(policy, history, call, moment=Moment.PROPOSAL)
        history = advance(history, Decided(call_id=call.call_id, moment=Moment.PROPOSAL, decision=decision))
        told.append((name, decision.effect, decision.stop, decision.reason))

    assert [
        ("a", Effect.DENY, False, "a rule denies it"),
        ("b", Effect.ALLOW, False, "allowed"),
        ("a", Effect.DENY, False, "a rule denies it"),
        ("a", Effect.DENY, True, "its limit of 2 proposals is spent"),
        ("b", Effect.DENY, False, "the session has been stopped"),
    ] == told


@pytest.mark.parametrize("kind", ["allow", "ask"])
def test_a_limit_of_proposals_counts_what_was_put_forward(kind: str):
    """Whether it ran or not; without `then: stop` the session goes on, denied."""
    effect_ = Effect(kind)
    plain = rule(**{kind: "a"}, limit={"proposals": 2})
    stopping = rule(**{kind: "a"}, limit={"proposals": 2, "then": "stop"})

    assert [(effect_, False)] * 2 + [(Effect.DENY, False)] * 2 == proposed(plain, 4)
    assert [(effect_, False)] * 2 + [(Effect.DENY, True), (Effect.DENY, False)] == proposed(stopping, 4)


@pytest.mark.parametrize(
    ("unit", "allowed"), [("executions", [True, True, False]), ("calls", [True, True, True])]
)
def test_executions_count_attempts_and_calls_do_not(unit: str, *, allowed: list[bool]):
    """Three attempts of one call, and a limit of two."""
    policy = rule(allow="a", limit={unit: 2})
    history = History([SessionStarted(session_id="s")])
    seen: list[bool] = []
    for _ in range(3):
        effect_, history = entered(history, policy, "same")
        seen.append(effect_ == Effect.ALLOW)

    assert allowed == seen


def test_each_key_has_a_budget_of_its_own():
    """By value as JSON: 1 and 1.0 are one, 1 and "1" are two."""
    policy = rule(allow="a", limit={"executions": 1, "key": ["order"]})
    history = History([SessionStarted(session_id="s")])
    seen: list[Effect] = []
    for number, order in enumerate([1, 2, 1.0, "1", True]):
        effect_, history = entered(history, policy, f"c{number}", {"order": order})
        seen.append(effect_)

    assert [Effect.ALLOW, Effect.ALLOW, Effect.DENY, Effect.ALLOW, Effect.ALLOW] == seen


@pytest.mark.parametrize(
    "arguments", [{}, {"order": None}, {"order": object()}], ids=["absent", "null", "live"]
)
def test_a_limit_whose_key_is_missing_denies(arguments: Document):
    """Nobody can say whose budget it is."""
    policy = rule(allow="a", limit={"executions": 5, "key": ["order"]})

    assert Effect.DENY == effect(policy, "a", arguments)


def test_a_limit_outside_of_a_session_denies():
    """There is nothing to count in."""
    assert Effect.DENY == decide(rule(allow="a", limit={"executions": 5}), History(), ToolCall("a")).effect


@pytest.mark.parametrize(("principal", "undecidable"), [(None, False), ("user:1", True)])
def test_a_limit_per_principal_needs_one_and_the_count_of_all_sessions(
    principal: str | None, *, undecidable: bool
):
    """Without a principal it denies; without the count, the record is what lacks."""
    policy = rule(allow="a", limit={"executions": 5, "per": "principal"})
    history = History([SessionStarted(session_id="s", principal=principal)])
    decision = decide(policy, history, ToolCall("a"))

    assert (Effect.DENY, undecidable) == (decision.effect, bool(decision.undecidable))


def test_a_limit_per_principal_counts_what_other_sessions_use():
    """The count is a fact that is given with the call."""
    policy = rule(allow="a", limit={"executions": 5, "per": "principal"})
    history = History([SessionStarted(session_id="s", principal="user:1")])
    [budget] = decide(policy, history, ToolCall("a")).budgets

    assert budget.wide
    assert [Effect.ALLOW, Effect.DENY] == [
        decide(policy, history, ToolCall("a"), Facts(budgets={budget.limit: used})).effect for used in (4, 5)
    ]


@pytest.mark.parametrize(("now", "allowed"), [(9, False), (10, True)])
def test_a_unit_is_free_again_when_its_window_has_passed(now: int, *, allowed: bool):
    """Ten seconds after it was used."""
    policy = rule(allow="a", limit={"executions": 1, "window": "10s"})
    history = History([SessionStarted(time=0, session_id="s")])
    first = ToolCall("a", {}, call_id="first")
    budgets = decide(policy, history, first, Facts(now=0)).budgets
    history = advance(history, Started(time=0, call=first, budgets=budgets))

    assert (
        allowed == decide(policy, history, ToolCall("a", call_id="second"), Facts(now=now * SECOND)).allowed
    )


def test_a_limit_denies_whatever_else_allows_the_call():
    """It acts as a deny of its own."""
    policy = Policy(
        rules=[{"id": "few", "allow": "a", "limit": {"executions": 0}}, {"id": "all", "allow": "*"}]
    )
    decision = decide(policy, History([SessionStarted(session_id="s")]), ToolCall("a"))

    assert (Effect.DENY, ("few",), "its limit of 0 executions is spent") == (
        decision.effect,
        decision.rules,
        decision.reason,
    )
