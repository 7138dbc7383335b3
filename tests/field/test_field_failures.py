"""
Inputs that other systems of the field let pass, each in our own terms.

They were found by running those systems; the number in the name of a test is that of the finding.
Their common causes: unknown syntax, a missing value or another type is taken for "no match" in a
deny; and the arguments that are judged are not those that run.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from gatescore.decide import decide
from gatescore.errors import PolicyError
from gatescore.history import History, advance
from gatescore.model import (
    Decision,
    Effect,
    Event,
    Facts,
    Finished,
    Moment,
    Outcome,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy
from gatescore.score import score_permissions
from gatescore.traces import read_session

Document = dict[str, Any]

IN_SESSION = History([SessionStarted(session_id="s")])


def judged(policy: Document, name: str, arguments: object = None) -> Decision:
    return decide(Policy.from_dict(policy), IN_SESSION, ToolCall(name, arguments))


def effect(policy: Document, name: str, arguments: object = None) -> Effect:
    return judged(policy, name, arguments).effect


def effects(policy: Document, arguments: dict[str, Any]) -> dict[str, Effect]:
    """The effect on `pay` for each of several arguments, by what they are called."""
    made = Policy.from_dict(policy)
    return {
        word: decide(made, IN_SESSION, ToolCall("pay", given)).effect for word, given in arguments.items()
    }


OVER_100: dict[str, Document] = {
    "args": {"args": {"amount": {"exclusiveMinimum": 100}}},
    "when": {"when": "args.amount > 100"},
    "when not": {"when": "!(args.amount <= 100)"},
}
UP_TO_100: dict[str, Document] = {
    "args": {"args": {"amount": {"maximum": 100}}},
    "args not": {"args": {"amount": {"not": {"exclusiveMinimum": 100}}}},
    "when": {"when": "args.amount <= 100"},
    "when not": {"when": "!(args.amount > 100)"},
}

NO_AMOUNTS: dict[str, Any] = {
    "missing": {},
    "another spelling": {"Amount": 50},
    "null": {"amount": None},
    "true": {"amount": True},
    "false": {"amount": False},
    "digits": {"amount": "50"},
    "currency": {"amount": "$50"},
    "exponent": {"amount": "5e1"},
    "other digits": {"amount": "\u0665\u0660"},
    "nothing": {"amount": ""},
    "list": {"amount": [50]},
    "empty list": {"amount": []},
    "object": {"amount": {"value": 50}},
    "nan": {"amount": float("nan")},
    "infinity": {"amount": float("inf")},
    "minus infinity": {"amount": float("-inf")},
    "decimal nan": {"amount": Decimal("NaN")},
    "json nan": '{"amount": NaN}',
    "json overflow": '{"amount": 1e999}',
    "twice": '{"amount": 50, "amount": 5000}',
    "live": {"amount": object()},
}
"""What is no amount that anybody could compare with 100."""


# --- row 1: `deny amount > 100`, and the argument does not arrive where the rule looks -----------


@pytest.mark.parametrize("form", OVER_100)
def test_row_01_a_deny_over_100_hits_5000_however_it_was_passed(form: str):
    """By keyword it is read; passed in any other way it is missing for the rule, and that denies."""
    policy = {"default": "allow", "rules": [{"deny": "pay", **OVER_100[form]}]}
    passed = {
        "keyword": {"amount": 5000},
        "json": '{"amount": 5000}',
        "just over": {"amount": 100.01},
        "decimal": {"amount": Decimal("100.01")},
        "position": [5000],
        "alone": 5000,
        "wrapped": {"value": 5000},
        "keywords wrapped": {"kwargs": {"amount": 5000}},
        "value wrapped": {"amount": {"value": 5000}},
        "positions wrapped": {"args": [5000]},
        "both": {"args": [5000], "kwargs": {}},
        "nothing": None,
    }

    assert dict.fromkeys(passed, Effect.DENY) == effects(policy, passed)
    assert Effect.ALLOW == effect(policy, "pay", {"amount": 100})


# --- row 2: `deny to == "evil@x.com"`, written and called in ways that the parser does not expect ---

EVIL: dict[str, Document] = {
    "const": {"args": {"to": {"const": "evil@x.com"}}},
    "enum": {"args": {"to": {"enum": ["evil@x.com", "worse@x.com"]}}},
    "when": {"when": "args.to == 'evil@x.com'"},
    "in brackets": {"when": "(args.to == 'evil@x.com')"},
    "in many brackets": {"when": "((((args.to) == ('evil@x.com'))))"},
    "the other way round": {"when": "'evil@x.com' == args.to"},
    "with an index": {"when": "args['to'] == \"evil@x.com\""},
    "in a list": {"when": "args.to in ['evil@x.com']"},
    "with another": {"when": "args.to == 'evil@x.com' || args.to == 'worse@x.com'"},
    "over lines": {"when": "args.to ==\n  'evil@x.com'"},
}
DECLARED = {"pay": {"schema": {"properties": {"to": {"type": "string"}}}}}


@pytest.mark.parametrize("form", EVIL)
def test_row_02_a_deny_of_one_receiver_hits_however_it_is_written_and_called(form: str):
    """Where the argument is missing or of another type, too."""
    policy = {"default": "allow", "tools": DECLARED, "rules": [{"deny": "pay", **EVIL[form]}]}
    passed = {
        "keyword": {"to": "evil@x.com"},
        "position": ["evil@x.com"],
        "wrapped": {"value": "evil@x.com"},
        "list": {"to": ["evil@x.com"]},
        "object": {"to": {"address": "evil@x.com"}},
        "null": {"to": None},
        "missing": {},
    }

    assert dict.fromkeys(passed, Effect.DENY) == effects(policy, passed)
    assert Effect.ALLOW == effect(policy, "pay", {"to": "ann@x.com"})


INJECTIONS = [
    "x' or '1'=='1",
    "evil@x.com' or 'a",
    "' || true || '",
    "'; drop table orders; --",
    '" or "1"=="1',
    ") or (true",
    "ann@x.com' && args.amount < 0 && '",
    "{{ true }}",
    "${true}",
    "%s",
    "\\",
    "ann@x.com\nevil@x.com",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_row_02_a_value_is_never_read_as_a_part_of_the_condition(text: str):
    """Quotes and operators in a text are a text."""
    only_ann = {"rules": [{"allow": "pay", "when": "(args.to == 'ann@x.com')"}]}
    never_evil = {"default": "allow", "rules": [{"deny": "pay", "when": f"args.to == {json.dumps(text)}"}]}

    assert Effect.DENY == effect(only_ann, "pay", {"to": text})
    assert Effect.DENY == effect(never_evil, "pay", {"to": text})
    assert Effect.ALLOW == effect(never_evil, "pay", {"to": f"{text}."})


@pytest.mark.parametrize(
    "form",
    [
        "args.to = 'evil@x.com'",
        "args.to === 'evil@x.com'",
        "to == 'evil@x.com'",
        "args.to is 'evil@x.com'",
        "args.to == 'evil@x.com' or true",
        "args.to == 'evil@x.com",
    ],
)
def test_row_02_syntax_that_is_not_known_refuses_the_policy(form: str):
    """A condition that nobody could parse is not a condition that is false."""
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict({"default": "allow", "rules": [{"deny": "pay", "when": form}]})

    assert ("rules", 0, "when") == caught.value.path


# --- row 6: a cap, and something that is no amount -----------------------------------------------


@pytest.mark.parametrize("form", UP_TO_100)
def test_row_06_a_cap_allows_nothing_that_is_no_amount(form: str):
    """Neither a text with a currency, nor a list, nor nothing, nor what is not a number."""
    policy = {"rules": [{"allow": "pay", **UP_TO_100[form]}]}

    assert dict.fromkeys(NO_AMOUNTS, Effect.DENY) == effects(policy, NO_AMOUNTS)
    assert Effect.ALLOW == effect(policy, "pay", {"amount": 50})


@pytest.mark.parametrize("form", OVER_100)
def test_row_06_a_deny_over_the_cap_hits_all_that_is_no_amount(form: str):
    """The same cap, written as what is forbidden, over a default that allows."""
    policy = {"default": "allow", "rules": [{"deny": "pay", **OVER_100[form]}]}

    assert dict.fromkeys(NO_AMOUNTS, Effect.DENY) == effects(policy, NO_AMOUNTS)


@pytest.mark.parametrize("form", OVER_100)
def test_row_06_a_question_over_the_cap_is_asked_about_all_that_is_no_amount(form: str):
    """What is invalid cannot be agreed to, and is denied."""
    policy = {"default": "allow", "rules": [{"ask": "pay", **OVER_100[form]}]}
    invalid = {word for word, given in NO_AMOUNTS.items() if ToolCall("pay", given).invalid is not None}

    assert {
        "nan",
        "infinity",
        "minus infinity",
        "decimal nan",
        "json nan",
        "json overflow",
        "twice",
    } == invalid
    assert {word: Effect.DENY if word in invalid else Effect.ASK for word in NO_AMOUNTS} == effects(
        policy, NO_AMOUNTS
    )


# --- row 9: an operator that does not exist ------------------------------------------------------

OPERATORS = ["gt", "gte", "ge", "lt", "lte", "le", "eq", "ne", "neq", "not_in", "nin", "min", "max", "above", "greater_than", "$gt", ">", ">=", "between", "range", "contains_any", "startswith", "regex", "matches", "in", "equals", "x-gt"]  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
def test_row_09_an_unknown_operator_is_refused_when_the_policy_is_loaded(operator: str, kind: str):
    """It would load without a word, and never hit."""
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict({"default": "allow", "rules": [{kind: "pay", "args": {"amount": {operator: 100}}}]})

    assert ("rules", 0, "args", "amount", operator) == caught.value.path
    assert f"`{operator}`" in caught.value.message
    assert ": " in caught.value.message


@pytest.mark.parametrize("around", ["not", "items", "contains", "additionalProperties"])
def test_row_09_an_unknown_operator_is_refused_at_every_depth(around: str):
    """Deep inside a condition as much as at its top."""
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict({"rules": [{"allow": "pay", "args": {"amount": {around: {"gt": 100}}}}]})

    assert ("rules", 0, "args", "amount", around, "gt") == caught.value.path


# --- row 10: a name that begins like another -----------------------------------------------------

NEAR_ADD = ["addition", "add_user", "add-user", "ad", "adds", "add2", "re_add_all", "add user", "addadd"]


@pytest.mark.parametrize("kind", ["allow", "ask", "deny"])
def test_row_10_add_never_means_addition(kind: str):
    """A name is the whole name: whoever agrees to `add` has not agreed to `add_user`."""
    policy = {"default": "deny" if kind == "allow" else "allow", "rules": [{kind: "add"}]}

    assert dict.fromkeys(NEAR_ADD, policy["default"]) == {name: effect(policy, name) for name in NEAR_ADD}
    assert kind == effect(policy, "add")


def test_row_10_an_agreement_to_add_is_none_to_addition():
    """Scored: a yes stands beside one call, and covers that call."""
    policy = Policy.from_dict({"rules": [{"ask": ["add", "addition"]}]})
    yes = {"approval": {"by": "ann"}}
    line = {
        "id": "s",
        "proposed": [{"id": "a", "name": "add", **yes}, {"id": "b", "name": "addition"}],
        "executed": [{"id": "a", "name": "add"}, {"id": "b", "name": "addition"}],
    }
    card = score_permissions(read_session(line), policy)

    assert (1, 2) == (card.execution.authorized, card.execution.total)
    assert ["addition"] == [told.tool for told in card.execution.unauthorized]


@pytest.mark.parametrize(
    ("glob", "meant"), [("add*", {"add", "addition", "add_user"}), ("add_*", {"add_user"})]
)
def test_row_10_only_a_star_means_more_than_one_name(glob: str, meant: set[str]):
    """And it says so in the policy."""
    names = ["add", "addition", "add_user", "readd", "ADD"]
    policy = {"rules": [{"allow": glob}]}

    assert meant == {name for name in names if effect(policy, name) == Effect.ALLOW}


# --- row 15: permit everything, forbid over 100 --------------------------------------------------


@pytest.mark.parametrize("form", OVER_100)
@pytest.mark.parametrize("permit", ["*", "**", "pay"])
def test_row_15_a_forbid_that_errs_is_not_skipped_for_the_permit_of_everything(form: str, permit: str):
    """The error is listed, and it denies; skipping it would leave the permit alone."""
    policy = {"rules": [{"id": "permit", "allow": permit}, {"id": "forbid", "deny": "pay", **OVER_100[form]}]}
    erring = {word: NO_AMOUNTS[word] for word in ("digits", "true", "list", "object", "null", "missing")}

    for arguments in erring.values():
        decision = judged(policy, "pay", arguments)
        assert (Effect.DENY, ("forbid",), 1) == (decision.effect, decision.rules, len(decision.errors))


@pytest.mark.parametrize("form", OVER_100)
def test_row_15_numbers_of_every_kind_are_compared(form: str):
    """Integers, floats and decimals are numbers, and a float does not fail the request."""
    policy = {"rules": [{"allow": "*"}, {"deny": "pay", **OVER_100[form]}]}
    under = [0, -1, 100, 100.0, 99.99, -0.0, Decimal(100), Decimal("99.9"), 1e-300]
    over = [101, 100.5, 1e300, Decimal("100.1"), 2**60]

    assert [Effect.ALLOW] * len(under) == [effect(policy, "pay", {"amount": amount}) for amount in under]
    assert [Effect.DENY] * len(over) == [effect(policy, "pay", {"amount": amount}) for amount in over]


# --- row 16: an order across types ---------------------------------------------------------------


@pytest.mark.parametrize("form", UP_TO_100)
def test_row_16_null_and_true_are_not_less_than_100(form: str):
    """There is no order across types in which an absent amount would be a small one."""
    policy = {"rules": [{"allow": "pay", **UP_TO_100[form]}]}
    arguments = {
        word: NO_AMOUNTS[word] for word in ("null", "true", "false", "missing", "nothing", "empty list")
    }

    assert dict.fromkeys(arguments, Effect.DENY) == effects(policy, arguments)


# --- row 17: not a number ------------------------------------------------------------------------

NOT_FINITE: dict[str, Callable[[], object]] = {
    "nan": lambda: {"amount": float("nan")},
    "minus nan": lambda: {"amount": -float("nan")},
    "infinity": lambda: {"amount": float("inf")},
    "decimal": lambda: {"amount": Decimal("NaN")},
    "signalling": lambda: {"amount": Decimal("sNaN")},
    "text": lambda: '{"amount": NaN}',
    "overflow": lambda: '{"amount": 1e400}',
    "minus overflow": lambda: '{"amount": -1e400}',
    "deep": lambda: {"amount": 1, "lines": [{"price": float("nan")}]},
    "elsewhere": lambda: {"amount": 1, "tip": float("nan")},
}


@pytest.mark.parametrize("word", NOT_FINITE)
@pytest.mark.parametrize(
    "policy",
    [
        {"rules": [{"allow": "pay", "args": {"amount": {"maximum": 100}}}]},
        {"rules": [{"allow": "pay", "args": {"amount": {"minimum": 1}}}]},
        {"rules": [{"allow": "pay", "args": {"amount": {"not": {"exclusiveMinimum": 100}}}}]},
        {"rules": [{"allow": "pay", "args": {"amount": {"multipleOf": 1}}}]},
        {"rules": [{"allow": "pay", "when": "args.amount <= 100"}]},
        {"rules": [{"allow": "pay", "when": "!(args.amount > 100)"}]},
        {"rules": [{"allow": "pay"}]},
        {"default": "allow", "rules": [{"deny": "pay", "args": {"amount": {"exclusiveMinimum": 100}}}]},
        {"default": "allow", "rules": [{"ask": "pay"}]},
    ],
    ids=["maximum", "minimum", "not over", "multiple", "when", "when not", "no condition", "deny", "ask"],
)  # fmt: skip
def test_row_17_what_is_not_a_number_is_invalid_under_every_rule(word: str, policy: Document):
    """Every comparison with it is false, so half of all conditions would let it pass."""
    decision = judged(policy, "pay", NOT_FINITE[word]())

    assert (Effect.DENY, True) == (decision.effect, decision.invalid is not None)
    assert "not finite" in decision.reason


@pytest.mark.parametrize("text", ["NaN", "1e400", "Infinity"])
def test_row_17_what_is_not_a_number_is_on_record_as_proposed(text: str):
    """It lowers the planner check; a call is not lost because its arguments cannot be judged."""
    policy = Policy.from_dict({"rules": [{"allow": "pay"}]})
    call = {"id": "a", "name": "pay", "arguments": f'{{"amount": {text}}}'}
    card = score_permissions(read_session({"id": "s", "proposed": [call], "executed": []}), policy)

    assert (0.0, 0, 1) == (card.planner.score, card.planner.authorized, card.planner.total)
    assert (1.0, 0, 0) == (card.execution.score, card.execution.authorized, card.execution.total)


# --- row 19: a long past -------------------------------------------------------------------------

AFTER: dict[str, Document] = {
    "any": {"after": {"tool": "get_order"}},
    "the same order": {"after": {"tool": "get_order", "same": ["order_id"]}},
    "two arguments": {"after": {"tool": "get_order", "same": {"order_id": "order_id", "shop": "shop"}}},
    "small": {"after": {"tool": "get_order", "args": {"amount": {"maximum": 5}}}},
    "recent": {"after": {"tool": "get_order", "same": ["order_id"], "within": "1d"}},
    "near": {"after": {"tool": "get_order", "same": ["order_id"], "within": {"calls": 100_000}}},
}


def past(length: int, name: str = "get_order", outcome: Outcome = Outcome.SUCCEEDED) -> History:
    """A session in which *length* orders were looked up, the first of them number 0."""
    events: list[Event] = [SessionStarted(time=0, session_id="s")]
    for number in range(length):
        arguments = {"order_id": f"{number}", "shop": "a", "amount": number}
        call = ToolCall(name, arguments, call_id=f"c{number}")
        events.append(Started(time=number, call=call))
        events.append(Finished(time=number, call_id=call.call_id, outcome=outcome))
    return History(events)


@pytest.mark.parametrize("length", [1, 10, 1_000])
@pytest.mark.parametrize("form", AFTER)
def test_row_19_a_past_of_any_length_is_looked_through_to_its_first_call(form: str, length: int):
    """The only call that an `after` asks for may be the one before all others."""
    policy = Policy.from_dict({"rules": [{"allow": "cancel_order", **AFTER[form]}]})
    call = ToolCall("cancel_order", {"order_id": "0", "shop": "a"}, call_id="new")
    facts = Facts(now=length)

    assert Effect.ALLOW == decide(policy, past(length), call, facts).effect
    assert Effect.ALLOW == decide(policy, past(length), call, facts, moment=Moment.PROPOSAL).effect
    assert Effect.DENY == decide(policy, past(length, "other"), call, facts).effect
    assert Effect.DENY == decide(policy, past(length, outcome=Outcome.FAILED), call, facts).effect


@pytest.mark.parametrize("length", [10, 1_000])
def test_row_19_a_past_that_lacks_the_call_does_not_allow_however_long_it_is(length: int):
    """Nine hundred look-ups of other orders unlock none."""
    policy = Policy.from_dict({"rules": [{"allow": "cancel_order", **AFTER["the same order"]}]})

    assert (
        Effect.DENY == decide(policy, past(length), ToolCall("cancel_order", {"order_id": "999999"})).effect
    )


@pytest.mark.parametrize("length", [10, 1_000])
def test_row_19_a_deny_that_looks_back_finds_the_first_of_many(length: int):
    """The same for what must not have been before, and there a failure counts as well."""
    policy = Policy.from_dict(
        {
            "default": "allow",
            "rules": [{"deny": "send", "after": {"tool": "get_order", "args": {"amount": {"maximum": 0}}}}],
        }
    )
    call = ToolCall("send", {})

    assert Effect.DENY == decide(policy, past(length), call).effect
    assert Effect.DENY == decide(policy, past(length, outcome=Outcome.FAILED), call).effect
    assert Effect.ALLOW == decide(policy, past(length, "other"), call).effect


@pytest.mark.parametrize("length", [10, 1_000])
def test_row_19_every_call_of_a_long_run_is_judged_as_it_comes(length: int):
    """Event by event, each cancellation after its own look-up and none before it."""
    policy = Policy.from_dict(
        {"rules": [{"allow": "get_order"}, {"allow": "cancel_order", **AFTER["the same order"]}]}
    )
    history = IN_SESSION
    verdicts: list[tuple[Effect, Effect]] = []
    for number in range(length):
        arguments = {"order_id": f"{number}"}
        cancel = ToolCall("cancel_order", arguments, call_id=f"cancel {number}")
        before = decide(policy, history, cancel).effect
        look = ToolCall("get_order", arguments, call_id=f"look {number}")
        history = advance(history, Started(call=look))
        history = advance(history, Finished(call_id=look.call_id, outcome=Outcome.SUCCEEDED))
        verdicts.append((before, decide(policy, history, cancel).effect))

    assert [(Effect.DENY, Effect.ALLOW)] * length == verdicts


@pytest.mark.parametrize("length", [10, 1_000])
def test_row_19_a_long_recording_is_scored_call_by_call(length: int):
    """Both checks, both streams: every second cancellation lacks its look-up."""
    policy = Policy.from_dict(
        {"rules": [{"allow": "get_order"}, {"allow": "cancel_order", **AFTER["the same order"]}]}
    )
    calls: list[Document] = []
    for number in range(length // 2):
        arguments = {"order_id": f"{number}"}
        calls.append(
            {
                "id": f"a{number}",
                "name": "get_order" if number % 2 else "cancel_order",
                "arguments": arguments,
            }
        )
        calls.append(
            {
                "id": f"b{number}",
                "name": "cancel_order" if number % 2 else "get_order",
                "arguments": arguments,
            }
        )
    card = score_permissions(read_session({"id": "s", "proposed": calls, "executed": calls}), policy)
    unauthorized = -(-(length // 2) // 2)

    assert (length - unauthorized, length) == (card.planner.authorized, card.planner.total)
    assert (length - unauthorized, length) == (card.execution.authorized, card.execution.total)
