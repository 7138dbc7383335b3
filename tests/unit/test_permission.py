"""The permission score: what counts in which check, what is undecidable, and what the two streams say of each other."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gatescore.errors import InputError, PolicyError, ScoreError
from gatescore.model import Execution, Proposal, Session, ToolCall
from gatescore.policy import Policy
from gatescore.score import PermissionCard, Status, score_permissions
from gatescore.score import permission as permission_module
from gatescore.traces import read_session, trajectory

Call = dict[str, Any]
Rule = dict[str, Any]

SECOND = 1_000_000_000
LOOK_UP = Policy(allowed_tools=["get_order"])


def call(name: str, *, id: str | None = None, **keys: Any) -> Call:  # noqa: A002 - the key of a line
    """A call of a line: what is no key of it is an argument."""
    known = (
        "seq",
        "turn",
        "message",
        "time",
        "approval",
        "outcome",
        "error",
        "invoked",
        "origin",
        "executor",
        "server",
        "attempt",
    )
    own = {key: value for key, value in keys.items() if key in known}
    arguments = {key: value for key, value in keys.items() if key not in known}
    return {"name": name, "id": id, "arguments": arguments, **own}


def session(
    proposed: Sequence[Call] | None = None, executed: Sequence[Call] | None = None, **keys: Any
) -> Session:
    return read_session({"id": "s", "proposed": proposed, "executed": executed, **keys})


def ran(*calls: Call, **keys: Any) -> Session:
    """A session in which all that was proposed ran, one call after the other."""
    return session(calls, calls, **keys)


def rules(*written: Rule, **keys: Any) -> Policy:
    return Policy(rules=written, default="deny", **keys)


def planner_denied(card: PermissionCard) -> list[str]:
    return [entry.call_id for entry in card.planner.unauthorized]


def execution_denied(card: PermissionCard) -> list[str]:
    return [entry.call_id for entry in card.execution.unauthorized]


def counts(card: PermissionCard) -> tuple[tuple[int, int], tuple[int, int]]:
    return (
        (card.planner.authorized, card.planner.total),
        (card.execution.authorized, card.execution.total),
    )


def found(card: PermissionCard) -> list[tuple[str, str, bool]]:
    return [(finding.kind.value, finding.call_id, finding.fails) for finding in card.reconciliation]


# --- the two checks ------------------------------------------------------------------------------


def test_a_blocked_call_fails_the_planner_check_and_not_the_execution_check():
    """The model asked for what it must not have, and the runtime did its work: two different facts."""
    policy = Policy(allowed_tools=["get_order", "cancel_order"], denied_tools=["delete_account"])
    card = score_permissions(
        session(
            [call("get_order", id="a"), call("delete_account", id="b")],
            [call("get_order", id="a"), call("delete_account", id="b", invoked=False, error="refused")],
        ),
        policy,
    )

    assert ((1, 2), (1, 1)) == counts(card)
    assert (0.5, 1.0) == (card.planner.score, card.execution.score)
    assert (False, True) == (card.planner.passed, card.execution.passed)
    assert [] == card.reconciliation
    assert not card.passed
    (denied,) = card.planner.unauthorized
    assert ("s", "b", "delete_account", "deny", ("denied_tools",), (), False) == (
        denied.session,
        denied.call_id,
        denied.tool,
        denied.effect,
        denied.rules,
        denied.errors,
        denied.unknown_tool,
    )


def test_what_ran_does_not_touch_the_planner_check():
    card = score_permissions(session([call("get_order", id="a")], [call("drop_table", id="b")]), LOOK_UP)

    assert (1.0, 0.0) == (card.planner.score, card.execution.score)


def test_a_stream_in_which_nothing_was_called_scores_one():
    """No boundary could be crossed; the counts say how little that means."""
    card = score_permissions(session([], []), LOOK_UP)

    assert (1.0, 1.0) == (card.planner.score, card.execution.score)
    assert ((0, 0), (0, 0)) == counts(card)
    assert card.passed


def test_every_proposal_counts_once_whatever_its_origin_and_end():
    card = score_permissions(
        session(
            [
                call("x", origin="model"),
                call("x", origin="caller"),
                call("x", origin="nested"),
                call("x", outcome="denied"),
                call("x", outcome="abandoned"),
                call("x", outcome="not_selected"),
            ],
            [],
        ),
        LOOK_UP,
    )

    assert (0, 5, 1) == (card.planner.authorized, card.planner.total, card.planner.not_selected)
    assert 5 == len(card.planner.unauthorized)


def test_every_entry_counts_also_a_failed_one_and_one_of_the_provider():
    card = score_permissions(
        session(
            executed=[
                call("x"),
                call("x", error="timeout"),
                call("x", executor="provider"),
                call("get_order", outcome="cancelled"),
            ]
        ),
        LOOK_UP,
        checks="execution",
    )

    assert (1, 4) == (card.execution.authorized, card.execution.total)


def test_an_invalid_call_is_unauthorized_and_says_why():
    """What cannot be read cannot be allowed, also where everything is."""
    line = {"name": "get_order", "arguments": '{"order_id": '}
    card = score_permissions(session([line], [line]), Policy(denied_tools=["x"], default="allow"))

    assert ((0, 1), (0, 1)) == counts(card)
    (denied,) = card.planner.unauthorized
    assert "deny" == denied.effect
    assert denied.reason.startswith("its arguments are not valid: arguments are not JSON: ")
    assert 1 == len(denied.errors)


@pytest.mark.parametrize(
    ("catalog", "name", "unknown"),
    [
        (None, "refund", False),
        (["get_order"], "refund", True),
        ([], "refund", True),
        (["refund"], "refund", False),
        (["Refund"], "refund", True),
        (["mcp:kb/search"], "mcp:kb/search", False),
        (["search"], "mcp:kb/search", False),
        (["mcp:web/search"], "mcp:kb/search", True),
    ],
)
def test_a_name_that_the_catalog_lacks_is_flagged_and_judged_as_written(
    catalog: list[str] | None, name: str, *, unknown: bool
):
    """A flag, never a mapping to a near name; and without a catalogue no name is unknown."""
    card = score_permissions(session([call(name)], [], catalog=catalog), LOOK_UP)

    assert [unknown] == [entry.unknown_tool for entry in card.planner.unauthorized]


def test_the_basis_is_the_model_unless_a_call_says_that_it_came_from_a_caller():
    from_model = session([call("get_order"), call("get_order", origin="nested")], [])
    from_caller = session([call("get_order"), call("get_order", origin="caller")], [])

    assert "model" == score_permissions(from_model, LOOK_UP).planner.to_dict()["basis"]
    assert "caller" == score_permissions(from_caller, LOOK_UP).planner.to_dict()["basis"]
    assert "caller" == score_permissions([from_caller, from_model], LOOK_UP).planner.to_dict()["basis"]


# --- status --------------------------------------------------------------------------------------


def test_a_stream_that_was_not_observed_has_no_score():
    """And is no pass: nothing is known of it."""
    card = score_permissions(session([call("get_order")]), LOOK_UP)

    assert (Status.COMPLETE, Status.NOT_OBSERVED) == (card.planner.status, card.execution.status)
    assert (1.0, None) == (card.planner.score, card.execution.score)
    assert (True, False, False) == (card.planner.passed, card.execution.passed, card.passed)


def test_proposals_that_were_not_observed_have_no_basis():
    card = score_permissions(session(executed=[call("get_order")]), LOOK_UP)

    assert (Status.NOT_OBSERVED, None) == (card.planner.status, card.planner.basis)
    assert card.sessions[0].planner.basis is None


def test_an_execution_without_an_end_makes_its_check_incomplete():
    """It may have run, or still run: what it did is not known."""
    calls = [call("get_order", id="a"), call("get_order", id="b", outcome="unfinished")]
    card = score_permissions(session([call("get_order", id="a"), call("get_order", id="b")], calls), LOOK_UP)

    assert (Status.COMPLETE, Status.INCOMPLETE) == (card.planner.status, card.execution.status)
    assert (None, 2, 2) == (card.execution.score, card.execution.authorized, card.execution.total)
    assert [("unfinished_execution", "b", False)] == found(card)
    assert not card.passed


# --- threshold, strict, checks -------------------------------------------------------------------

HALF = session([call("get_order", id="a"), call("x", id="b")], [call("get_order", id="a")])


@pytest.mark.parametrize(
    ("threshold", "passed"), [(0, True), (0.49, True), (0.5, True), (0.51, False), (1, False), (1.0, False)]
)
def test_a_check_passes_where_its_score_reaches_the_threshold(threshold: float, *, passed: bool):
    card = score_permissions(HALF, LOOK_UP, threshold=threshold)

    assert (passed, passed) == (card.planner.passed, card.passed)
    assert (0.5, threshold) == (card.planner.score, card.threshold)


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_strict_makes_a_score_zero_or_one_and_asks_for_one(threshold: float):
    """Whatever the threshold: one unauthorized call fails."""
    card = score_permissions(HALF, LOOK_UP, threshold=threshold, strict=True)

    assert (0.0, 1.0) == (card.planner.score, card.execution.score)
    assert (False, True, False) == (card.planner.passed, card.execution.passed, card.passed)
    assert (1, 2) == (card.planner.authorized, card.planner.total)


@pytest.mark.parametrize("threshold", [float("nan"), 1.5, -0.1, True, False, "1", None, float("inf")])
def test_a_threshold_is_a_number_from_0_to_1(threshold: Any):
    """Of NaN every comparison is false, and True is 1: neither is what anybody meant."""
    with pytest.raises(ScoreError) as caught:
        score_permissions(HALF, LOOK_UP, threshold=threshold)

    assert f"threshold `{threshold}` is not a number from 0 to 1" == str(caught.value)


@pytest.mark.parametrize(
    ("checks", "requested", "passed"),
    [
        (None, ("planner", "execution"), False),
        ("both", ("planner", "execution"), False),
        (["both"], ("planner", "execution"), False),
        (["execution", "planner"], ("planner", "execution"), False),
        ("planner", ("planner",), False),
        ("execution", ("execution",), True),
        (("execution",), ("execution",), True),
    ],
)
def test_only_the_requested_checks_decide(
    checks: str | Sequence[str] | None, requested: tuple[str, ...], *, passed: bool
):
    card = score_permissions(HALF, LOOK_UP, checks=checks)

    assert (requested, passed) == (card.checks, card.passed)
    assert passed == card.sessions[0].passed
    assert 0.5 == card.planner.score, "a check that was not requested is made all the same"


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("planer", "unknown check `planer`: did you mean `planner`?"),
        (["planner", "x"], "unknown check `x`: use one of `both`, `execution`, `planner`"),
        (["both", "planner"], "unknown check `both`: did you mean `both`?"),
        ([], "no check requested: name `planner`, `execution` or `both`"),
    ],
)
def test_unknown_checks_and_none_are_refused(checks: str | Sequence[str], message: str):
    with pytest.raises(ScoreError) as caught:
        score_permissions(HALF, LOOK_UP, checks=checks)

    assert message == str(caught.value)


def test_a_failing_finding_fails_the_card_whatever_was_requested():
    card = score_permissions(session([], [call("get_order")]), LOOK_UP, checks="planner")

    assert (True, False) == (card.planner.passed, card.passed)


# --- which policy --------------------------------------------------------------------------------


def test_lists_of_names_are_a_policy():
    card = score_permissions([call("a"), call("b"), call("c")], allowed_tools=["a", "b"], denied_tools=["b"])

    assert (1, 3) == (card.planner.authorized, card.planner.total)
    assert [("denied_tools",), ()] == [entry.rules for entry in card.planner.unauthorized]
    assert () == tuple(card.notes)


def test_denied_tools_alone_allow_the_rest_and_the_card_says_so():
    card = score_permissions([call("a"), call("b")], denied_tools=["b"])

    assert (1, 2) == (card.planner.authorized, card.planner.total)
    assert ("only `denied_tools` was given, so every other tool is allowed",) == tuple(card.notes)


def test_an_empty_list_of_allowed_tools_allows_nothing():
    """Empty and absent are two states, and neither means allow."""
    assert 0.0 == score_permissions([call("a")], allowed_tools=[]).planner.score
    assert 0.0 == score_permissions([call("a")], allowed_tools=[], denied_tools=[]).planner.score


def test_an_empty_list_of_denied_tools_denies_nothing():
    assert 1.0 == score_permissions([call("a")], denied_tools=[]).planner.score


@pytest.mark.parametrize("lists", [{"allowed_tools": "get_order"}, {"denied_tools": "get_order"}])
def test_a_text_is_no_list_of_names(lists: dict[str, Any]):
    """Its letters would be taken for nine tools."""
    with pytest.raises(PolicyError) as caught:
        score_permissions([call("a")], **lists)

    assert "the text `get_order` instead of a list of tool names" in str(caught.value)


def test_without_any_policy_there_is_no_score():
    with pytest.raises(ScoreError) as caught:
        score_permissions([call("a")])

    assert "no policy: pass one, or `allowed_tools` or `denied_tools`" == str(caught.value)


@pytest.mark.parametrize("lists", [{"allowed_tools": ["a"]}, {"denied_tools": []}])
def test_a_policy_and_lists_together_are_refused(lists: dict[str, Any]):
    with pytest.raises(ScoreError) as caught:
        score_permissions([call("a")], LOOK_UP, **lists)

    assert "a policy and lists of tools: pass one of them, or `Policy.layered`" == str(caught.value)


@pytest.mark.parametrize("policy", ["policy.yaml", ["get_order"], {"allowed_tools": []}])
def test_what_is_no_policy_is_refused(policy: Any):
    with pytest.raises(ScoreError) as caught:
        score_permissions([call("a")], policy)

    kind = type(policy).__name__
    assert f"the policy is a `{kind}`: pass `Policy.load(path)`, or the lists by their names" == str(
        caught.value
    )


def test_the_semantics_of_other_scorers_are_not_here():
    with pytest.raises(ScoreError) as caught:
        score_permissions([call("a")], LOOK_UP, compat="deepeval")  # type: ignore[arg-type]

    assert "compat `deepeval` is unknown: leave it out" == str(caught.value)


# --- what is scored ------------------------------------------------------------------------------


def test_one_session_a_list_and_an_iterator_give_the_same():
    one = score_permissions(HALF, LOOK_UP).to_dict()

    assert one == score_permissions([HALF], LOOK_UP).to_dict()
    assert one == score_permissions((HALF,), LOOK_UP).to_dict()
    assert one == score_permissions(iter([HALF]), LOOK_UP).to_dict()
    assert one == score_permissions((session for session in [HALF]), LOOK_UP).to_dict()


def test_a_list_of_calls_is_the_proposed_stream_unless_said_otherwise():
    """The other stream was not observed, and is not requested."""
    card = score_permissions([{"name": "get_order"}, {"name": "x"}], LOOK_UP)

    assert (("planner",), 0.5) == (card.checks, card.planner.score)
    assert Status.NOT_OBSERVED is card.execution.status

    card = score_permissions([{"name": "get_order"}], LOOK_UP, stream="executed")

    assert (("execution",), 1.0, True) == (card.checks, card.execution.score, card.passed)
    assert Status.NOT_OBSERVED is card.planner.status
    assert ["calls"] == [entry.id for entry in card.sessions]


def test_an_empty_list_of_calls_is_one_in_which_nothing_was_called():
    """Nothing was called: no boundary could be crossed."""
    for card in (
        score_permissions([], allowed_tools=["a"]),
        score_permissions([], LOOK_UP, stream="proposed"),
    ):
        assert (1.0, 0, True) == (card.planner.score, card.planner.total, card.passed)


def test_an_empty_list_under_a_policy_is_no_sessions():
    """A filter that found no session must not look like a run in which all was well."""
    card = score_permissions([], LOOK_UP)

    assert (None, False, []) == (card.planner.score, card.passed, list(card.sessions))


@pytest.mark.parametrize(
    "called",
    [{"name": "Read"}, {"name": "read\u200b"}, {"name": "mcp__d__read"}, {"name": "read", "server": "d"}],
)
def test_taint_and_once_only_effects_are_not_lost_by_a_spelling(called: dict[str, Any]):
    """They restrict, so that names are read as a deny reads them."""
    taint = Policy.from_dict(
        {
            "default": "allow",
            "tools": {"read": {"labels": ["untrusted"]}, "send": {"labels": ["external"]}},
            "rules": [{"deny": "send", "when": 'session.labels.exists(l, l == "untrusted")'}],
        }
    )
    calls: list[dict[str, Any]] = [{"id": "1", **called}, {"id": "2", "name": "send"}]
    card = score_permissions(read_session({"proposed": calls, "executed": calls}), taint)
    assert ["send"] == [call.tool for call in card.execution.unauthorized]

    once = Policy.from_dict({"default": "allow", "tools": {"read": {"once_per": ["o"]}}, "rules": []})
    calls = [{"id": "1", "name": "read", "arguments": {"o": 1}}, {"id": "2", **called, "arguments": {"o": 1}}]
    card = score_permissions(read_session({"proposed": calls, "executed": calls}), once)
    assert ["2"] == [call.call_id for call in card.execution.unauthorized]
    assert ["duplicate_execution"] == [finding.kind for finding in card.reconciliation]


def test_another_entry_with_the_same_attempt_is_a_duplicate():
    call = {"id": "1", "name": "a"}
    line = {"proposed": [call], "executed": [{**call, "attempt": 2}, {**call, "attempt": 2}]}
    card = score_permissions(read_session(line), allowed_tools=["a"])

    assert ["duplicate_execution"] == [finding.kind for finding in card.reconciliation]


@pytest.mark.parametrize("server", ["", "other"])
@pytest.mark.parametrize("name", ["mcp:kb/x", "mcp__kb__x"])
def test_what_a_name_says_of_its_server_counts_against_it(name: str, server: str):
    policy = Policy(denied_tools=["mcp:kb/x"], default="allow")

    assert 1 == len(score_permissions([{"name": name, "server": server}], policy).planner.unauthorized)


def test_a_check_of_the_other_stream_of_a_list_of_calls_fails():
    card = score_permissions([{"name": "get_order"}], LOOK_UP, checks="both")

    assert (True, False, False) == (card.planner.passed, card.execution.passed, card.passed)


def test_the_calls_of_a_list_follow_each_other():
    """Each is a turn of its own, and none ran before: what depends on that cannot be told."""
    policy = rules({"allow": "a", "limit": {"executions": 1}})
    card = score_permissions([call("a"), call("a")], policy, stream="executed")

    assert ["#1"] == execution_denied(card)


@pytest.mark.parametrize(
    ("keys", "authorized"),
    [
        ({"name": "get_order", "arguments": {"n": 1}}, True),
        ({"name": "get_order", "arguments": '{"n": 1}'}, True),
        ({"name": "get_order", "input_parameters": {"n": 1}}, True),
        ({"name": "get_order", "arguments": None, "input_parameters": {"n": 1}}, True),
        ({"name": "get_order", "arguments": {"n": 1}, "output": "x", "type": "function", "id": "a"}, True),
        ({"name": "get_order", "arguments": {"n": 2}}, False),
        ({"name": "get_order", "arguments": '{"n": '}, False),
        ({"name": "get_order"}, False),
        ({"name": "", "arguments": {"n": 1}}, False),
        ({"name": "get_order", "arguments": {"n": 1}, "server": "kb"}, False),
        ({"name": "get_order", "arguments": {"n": 1}, "server": ""}, True),
    ],
)
def test_a_call_of_a_list_is_read_as_in_a_trajectory(keys: Call, *, authorized: bool):
    policy = rules({"allow": "get_order", "args": {"n": {"const": 1}}})

    assert authorized == score_permissions([keys], policy).passed


@pytest.mark.parametrize("keys", [{"name": "mcp:kb/search"}, {"name": "search", "server": "kb"}])
def test_a_call_of_a_list_may_say_its_server_in_its_name(keys: Call):
    card = score_permissions([keys], allowed_tools=["mcp:kb/search"])

    assert card.passed


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([5], "call 1 is not a mapping with a `name`"),
        (["get_order"], "call 1 is not a mapping with a `name`"),
        ([{"name": "a"}, {}], "call 2 has no `name`"),
        ([{"name": None}], "call 1 has no `name`"),
        ([{"name": "a", "args": {}}], "call 1 has `args` but no `arguments`: rename it"),
        ([{"name": "a", "input": {}}], "call 1 has `input` but no `arguments`: rename it"),
        (
            [{"name": "a", "arguments": {}, "input_parameters": {}}],
            "call 1 has both `arguments` and `input_parameters`: keep one of them",
        ),
        ([{"name": "a", "server": 5}], 'call 1: `server` is not text ("" for a local tool)'),
        (
            [{"id": "s", "proposed": []}],
            "this is a trajectory line, not a call: read it with `gatescore.traces.read_session`",
        ),
    ],
)
def test_what_is_no_list_of_calls_is_refused(calls: list[Any], message: str):
    with pytest.raises(ScoreError) as caught:
        score_permissions(calls, LOOK_UP)

    assert message == str(caught.value)


def test_a_call_that_spells_its_arguments_otherwise_is_refused_as_in_a_trajectory():
    """The two readers may not import each other, and must not drift apart."""
    assert trajectory.MISSPELT == permission_module.MISSPELT


MIXED = (
    "the input mixes sessions with something else, or is an iterator of calls: "
    "pass sessions alone, or a list of calls"
)
NOT_LIST = "pass sessions, or a list of calls; `gatescore.traces.read_session` reads one trajectory line"
PATH = "a path is no recording: read it with `gatescore.traces.read_sessions`"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([HALF, call("a")], MIXED),
        ([call("a"), HALF], MIXED),
        ("runs.jsonl", PATH),
        (b"runs", PATH),
        (Path("runs.jsonl"), PATH),
        ({"id": "s", "proposed": []}, NOT_LIST),
        (5, NOT_LIST),
        (None, NOT_LIST),
    ],
)
def test_what_is_neither_sessions_nor_calls_is_refused(source: Any, message: str):
    with pytest.raises(ScoreError) as caught:
        score_permissions(source, LOOK_UP)

    assert message == str(caught.value)


@pytest.mark.parametrize("items", [[HALF, 5], [call("a")]], ids=["mixed", "calls"])
def test_an_iterator_gives_sessions_alone(items: list[Any]):
    """Whether it holds calls can only be told by using it up."""
    with pytest.raises(ScoreError) as caught:
        score_permissions(iter(items), LOOK_UP)

    assert MIXED == str(caught.value)


def test_an_unknown_stream_is_refused():
    with pytest.raises(ScoreError) as caught:
        score_permissions([call("a")], LOOK_UP, stream="execute")

    assert "unknown stream `execute`: did you mean `executed`?" == str(caught.value)


# --- asking a person -----------------------------------------------------------------------------

ANN = {"by": "ann"}
BIG_REFUND = rules(
    {
        "id": "big-refund",
        "ask": "refund",
        "args": {"amount": {"exclusiveMinimum": 100}},
        "reason": "Refunds over 100 need a person.",
    },
    {"id": "small-refund", "allow": "refund", "args": {"amount": {"maximum": 100}}},
    {"id": "twice", "ask": "send", "approval": {"attempts": 2}},
)


def test_an_ask_is_authorized_in_the_planner_check_and_counted_apart():
    """To ask is what the policy wants of the model."""
    card = score_permissions(ran(call("refund", amount=50), call("refund", amount=500)), BIG_REFUND)

    assert (2, 2, 1, 1.0) == (
        card.planner.authorized,
        card.planner.total,
        card.planner.asked,
        card.planner.score,
    )


def test_an_execution_without_a_yes_is_unauthorized():
    card = score_permissions(ran(call("refund", id="a", amount=500)), BIG_REFUND)
    (entry,) = card.execution.unauthorized

    assert ("a", "ask", ("big-refund",), "no valid yes is recorded: Refunds over 100 need a person.") == (
        entry.call_id,
        entry.effect,
        entry.rules,
        entry.reason,
    )
    assert not card.passed


@pytest.mark.parametrize(
    ("proposed", "executed"),
    [
        (call("refund", id="a", amount=500), call("refund", id="a", amount=500, approval=ANN)),
        (call("refund", id="a", amount=500, approval=ANN), call("refund", id="a", amount=500)),
        (call("refund", id="a", amount=500, approval=ANN), call("refund", id="a", amount=500.0)),
    ],
)
def test_a_yes_stands_at_the_execution_or_at_its_proposal(proposed: Call, executed: Call):
    card = score_permissions(session([proposed], [executed]), BIG_REFUND)

    assert (1, 1, 1, True) == (
        card.execution.authorized,
        card.execution.total,
        card.execution.asked,
        card.passed,
    )


def test_a_yes_to_a_proposal_covers_one_entry():
    """Two payments are not what somebody agreed to."""
    card = score_permissions(
        session(
            [call("refund", id="a", amount=500, approval=ANN)],
            [call("refund", id="a", amount=500), call("refund", id="a", amount=500, attempt=2)],
        ),
        BIG_REFUND,
    )

    assert (1, 2) == (card.execution.authorized, card.execution.total)


@pytest.mark.parametrize(("entries", "authorized"), [(1, 1), (2, 2), (3, 2)])
def test_a_rule_can_let_a_yes_cover_more_attempts(entries: int, authorized: int):
    card = score_permissions(
        session(
            [call("send", id="a", approval=ANN)],
            [call("send", id="a", attempt=number + 1) for number in range(entries)],
        ),
        BIG_REFUND,
    )

    assert (authorized, entries) == (card.execution.authorized, card.execution.total)


def test_where_the_default_asks_a_yes_covers_one_entry_too():
    calls = [call("x", id="a", attempt=n) for n in (1, 2)]
    card = score_permissions(
        session([call("x", id="a", approval=ANN)], calls), Policy(denied_tools=["y"], default="ask")
    )

    assert (1, 2) == (card.execution.authorized, card.execution.total)


def test_an_execution_that_no_proposal_joins_has_no_yes_of_a_proposal():
    made = ToolCall("refund", {"amount": 500}, call_id="a")
    both = Session(
        id="s", proposed=[Proposal(call=made, approved=True)], executed=[Execution(call=made, proposed=False)]
    )

    assert ["a"] == execution_denied(score_permissions(both, BIG_REFUND))


def test_each_entry_can_have_a_yes_of_its_own():
    calls = [call("refund", id="a", amount=500, approval=ANN, attempt=n) for n in (1, 2)]
    card = score_permissions(session([call("refund", id="a", amount=500)], calls), BIG_REFUND)

    assert (2, 2) == (card.execution.authorized, card.execution.total)


def test_a_yes_is_about_the_arguments_that_it_was_given_to():
    """Approved were 500; 5,000 were paid."""
    card = score_permissions(
        session(
            [call("refund", id="a", amount=500, approval=ANN)],
            [call("refund", id="a", amount=5_000)],
        ),
        BIG_REFUND,
    )

    assert ["a"] == execution_denied(card)
    assert [("altered_arguments", "a", True)] == found(card)


def test_a_yes_to_another_call_does_not_count():
    card = score_permissions(
        session(
            [call("refund", id="a", amount=500, approval=ANN), call("refund", id="b", amount=500)],
            [call("refund", id="b", amount=500)],
        ),
        BIG_REFUND,
    )

    assert ["b"] == execution_denied(card)


def test_a_yes_that_came_after_the_entry_does_not_count():
    card = score_permissions(
        session(
            [
                call("refund", id="a", amount=500),
                call("refund", id="b", amount=500, approval={**ANN, "time": 9}),
            ],
            [
                call("refund", id="a", amount=500, time=5, approval={**ANN, "time": 6}),
                call("refund", id="b", amount=500, time=8),
            ],
        ),
        BIG_REFUND,
    )

    assert ["a", "b"] == execution_denied(card)


def test_a_yes_does_not_lift_a_denial():
    card = score_permissions(ran(call("delete_account", id="a", approval=ANN)), BIG_REFUND)

    assert (["a"], ["a"]) == (planner_denied(card), execution_denied(card))


# --- what the record does not hold ---------------------------------------------------------------

RECENT = rules(
    {"allow": "get_order"},
    {"id": "recent", "allow": "cancel", "after": {"tool": "get_order", "within": "10m"}},
)
OF_ORDER = rules({"allow": "get_order"}, {"allow": "cancel", "after": {"tool": "get_order"}})
PER_PRINCIPAL = rules({"id": "daily", "allow": "refund", "limit": {"executions": 2, "per": "principal"}})
HOURLY = rules({"allow": "refund", "limit": {"executions": 1, "window": "1h"}})
NOW = rules({"allow": "refund", "when": "now > 5"})
TAINT = rules(
    {"allow": ["read_ticket", "send_mail"]},
    {
        "id": "taint",
        "deny": {"labels": ["external"]},
        "when": 'session.labels.exists(l, l == "untrusted")',
        "reason": "Nothing leaves after a ticket was read.",
    },
    tools={"read_ticket": {"labels": ["untrusted"]}, "send_mail": {"labels": ["external"]}},
)


@pytest.mark.parametrize(
    ("policy", "made", "check", "why"),
    [
        (RECENT, ran(call("get_order"), call("cancel")), "both", "the time of a call is not recorded"),
        (
            RECENT,
            ran(call("get_order", time=0), call("cancel")),
            "both",
            "the time of a call is not recorded",
        ),
        (
            RECENT,
            ran(call("get_order"), call("cancel", time=0)),
            "both",
            "the time of a call is not recorded",
        ),
        (NOW, ran(call("refund")), "both", "the time of a call is not recorded"),
        (HOURLY, ran(call("refund"), call("refund")), "both", "the time of a call is not recorded"),
        (
            PER_PRINCIPAL,
            ran(call("refund"), principal="user:1"),
            "both",
            "units of `daily` used outside of the session",
        ),
        (OF_ORDER, session([call("cancel")]), "planner", "what was executed before was not observed"),
        (
            TAINT,
            session([call("send_mail")]),
            "planner",
            "what was executed before was not observed",
        ),
        (
            rules({"allow": "a", "limit": {"executions": 1}}),
            session([call("a")]),
            "planner",
            "what was executed before was not observed",
        ),
        (
            rules({"allow": "a"}, tools={"a": {"once_per": ["n"]}}),
            session([call("a", n=1)]),
            "planner",
            "what was executed before was not observed",
        ),
    ],
)
def test_what_the_record_lacks_makes_a_check_incomplete(policy: Policy, made: Session, check: str, why: str):
    """The call is not called unauthorized, for nobody knows; and it is never a pass."""
    card = score_permissions(made, policy)
    concerned = [card.planner, card.execution] if check == "both" else [card.planner]

    for part in concerned:
        assert Status.INCOMPLETE is part.status
        assert (None, False, 1, []) == (part.score, part.passed, part.undecidable, part.unauthorized)
        assert part.total == part.authorized + 1
        assert [why] == part.missing
    assert not card.passed


@pytest.mark.parametrize("strict", [False, True])
def test_no_threshold_makes_an_undecidable_call_a_pass(*, strict: bool):
    card = score_permissions(ran(call("get_order"), call("cancel")), RECENT, threshold=0.0, strict=strict)

    assert (False, False, False) == (card.planner.passed, card.execution.passed, card.passed)


@pytest.mark.parametrize(("elapsed", "passed"), [(0, True), (600, True), (601, False)])
def test_with_times_the_same_is_decided(elapsed: int, *, passed: bool):
    card = score_permissions(ran(call("get_order", time=0), call("cancel", time=elapsed * SECOND)), RECENT)

    assert (Status.COMPLETE, passed) == (card.planner.status, card.passed)
    assert (Status.COMPLETE, passed) == (card.execution.status, card.execution.passed)


@pytest.mark.parametrize(("elapsed", "passed"), [(3_599, False), (3_601, True)])
def test_a_window_gives_its_units_back(elapsed: int, *, passed: bool):
    card = score_permissions(ran(call("refund", time=0), call("refund", time=elapsed * SECOND)), HOURLY)

    assert (passed, passed) == (card.planner.passed, card.execution.passed)


def test_a_budget_that_the_session_itself_spent_is_decided():
    """Whatever other sessions used, there is no unit left."""
    card = score_permissions(
        ran(*(call("refund", id=str(n)) for n in range(3)), principal="user:1"), PER_PRINCIPAL
    )

    assert ["2"] == execution_denied(card) == planner_denied(card)
    assert (2, 2) == (card.execution.undecidable, card.planner.undecidable)


def test_what_is_denied_in_any_case_needs_no_record():
    """One false part decides, and so does one deny."""
    policy = rules(
        {"allow": "cancel", "after": {"tool": "get_order"}, "args": {"order_id": {"const": "1"}}},
        {"id": "never", "deny": "drop_table"},
        {"allow": "drop_table", "after": {"tool": "get_order"}},
    )
    card = score_permissions(
        session(
            [
                call("cancel", id="a", order_id="2"),
                call("drop_table", id="b"),
                call("cancel", id="c", order_id="1"),
            ]
        ),
        policy,
    )

    assert (["a", "b"], 1) == (planner_denied(card), card.planner.undecidable)


def test_what_is_missing_in_the_call_is_no_gap_of_the_record():
    """An argument that was not given was seen not to be given: that restricts, and is decided."""
    card = score_permissions(
        ran(call("refund", id="a")), rules({"allow": "refund", "args": {"amount": {"maximum": 100}}})
    )

    assert (Status.COMPLETE, ["a"]) == (card.planner.status, planner_denied(card))
    assert 1 == len(card.planner.unauthorized[0].errors)


# --- policies that look back ---------------------------------------------------------------------

SAME = rules(
    {"allow": "get_order"}, {"allow": "cancel", "after": {"tool": "get_order", "same": ["order_id"]}}
)


def test_a_call_is_allowed_after_another_of_an_earlier_turn():
    card = score_permissions(
        ran(call("get_order", turn=0, order_id="1"), call("cancel", turn=1, order_id="1")), SAME
    )

    assert card.passed


def test_a_sibling_never_satisfies_what_must_come_before():
    """Both stood in one message: the model had not seen the order when it asked to cancel it."""
    card = score_permissions(
        ran(call("get_order", id="a", turn=0, order_id="1"), call("cancel", id="b", turn=0, order_id="1")),
        SAME,
    )

    assert ["b"] == planner_denied(card)
    assert [] == execution_denied(card), "when it ran, the order had been looked up"


@pytest.mark.parametrize("grouping", [{"message": "m"}, {"turn": 7}])
def test_siblings_are_told_by_turn_or_message(grouping: Call):
    card = score_permissions(
        ran(
            call("get_order", id="a", order_id="1", **grouping),
            call("cancel", id="b", order_id="1", **grouping),
        ),
        SAME,
    )

    assert ["b"] == planner_denied(card)


def test_without_turns_each_proposal_is_a_turn_of_its_own():
    card = score_permissions(ran(call("get_order", order_id="1"), call("cancel", order_id="1")), SAME)

    assert card.passed


def test_turns_count_and_not_the_order_of_the_lists():
    card = score_permissions(
        session(
            [call("cancel", seq=1, turn=1, order_id="1"), call("get_order", seq=0, turn=0, order_id="1")],
            [call("get_order", seq=0, order_id="1"), call("cancel", seq=1, order_id="1")],
        ),
        SAME,
    )

    assert card.passed


def test_the_execution_check_goes_by_the_order_of_the_executed_list():
    """Each entry is judged against the entries before it, whatever turn they belong to."""
    card = score_permissions(
        session(
            [call("get_order", seq=0, turn=0, order_id="1"), call("cancel", seq=1, turn=1, order_id="1")],
            [call("cancel", seq=1, order_id="1"), call("get_order", seq=0, order_id="1")],
        ),
        SAME,
    )

    assert ([], ["#1"]) == (planner_denied(card), execution_denied(card))


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ({"order_id": "1"}, {"order_id": "2"}),
        ({"order_id": "1"}, {"order_id": 1}),
        ({"order_id": "1"}, {"order_id": None}),
        ({}, {"order_id": "1"}),
        ({"order_id": "1"}, {}),
        ({"order_id": "1", "error": "not found"}, {"order_id": "1"}),
        ({"order_id": "1", "outcome": "cancelled"}, {"order_id": "1"}),
        ({"order_id": "1", "invoked": False}, {"order_id": "1"}),
    ],
)
def test_only_a_success_with_the_same_value_is_what_must_come_before(earlier: Call, now: Call):
    proposed = [call("get_order", id="a", **{k: v for k, v in earlier.items() if k == "order_id"})]
    card = score_permissions(
        session(
            [*proposed, call("cancel", id="b", **now)],
            [call("get_order", id="a", **earlier), call("cancel", id="b", **now)],
        ),
        SAME,
    )

    assert (["b"], ["b"]) == (planner_denied(card), execution_denied(card))


def test_a_proposal_that_never_ran_is_not_what_must_come_before():
    card = score_permissions(
        session([call("get_order", id="a", order_id="1"), call("cancel", id="b", order_id="1")], []), SAME
    )

    assert ["b"] == planner_denied(card)


def test_a_deny_looks_back_at_what_started_whatever_came_of_it():
    """A read that failed may have shown something all the same."""
    policy = rules({"allow": ["read", "send"]}, {"id": "leak", "deny": "send", "after": {"tool": "read"}})
    card = score_permissions(
        session(
            [call("read", id="a"), call("send", id="b")],
            [call("read", id="a", error="timeout"), call("send", id="b")],
        ),
        policy,
    )

    assert (["b"], ["b"]) == (planner_denied(card), execution_denied(card))


ONE_EACH = rules(
    {
        "id": "refund",
        "allow": "refund",
        "args": {"amount": {"maximum": 100}},
        "limit": {"executions": 1, "key": ["order_id"]},
    }
)


def test_siblings_reserve_in_the_order_of_their_message():
    """Parallel calls must not overshoot a limit: the second of a message finds it taken."""
    card = score_permissions(
        ran(
            call("refund", id="a", turn=0, amount=10, order_id="1"),
            call("refund", id="b", turn=0, amount=10, order_id="1"),
            call("refund", id="c", turn=0, amount=10, order_id="2"),
        ),
        ONE_EACH,
    )

    assert (["b"], ["b"]) == (planner_denied(card), execution_denied(card))
    assert ("refund",) == card.planner.unauthorized[0].rules
    assert "its limit of 1 execution is spent" == card.planner.unauthorized[0].reason


def test_a_denied_sibling_takes_nothing_of_a_limit():
    card = score_permissions(
        session(
            [
                call("refund", id="a", turn=0, amount=5_000, order_id="1"),
                call("refund", id="b", turn=0, amount=10, order_id="1"),
            ],
            [call("refund", id="b", amount=10, order_id="1")],
        ),
        ONE_EACH,
    )

    assert (["a"], []) == (planner_denied(card), execution_denied(card))


def test_a_proposal_that_was_not_selected_takes_nothing_of_a_limit():
    """The runtime took another candidate; the one that it took has the whole budget."""
    card = score_permissions(
        session(
            [
                call("refund", id="a", turn=0, amount=10, order_id="1", outcome="not_selected"),
                call("refund", id="b", turn=0, amount=20, order_id="1"),
            ],
            [call("refund", id="b", amount=20, order_id="1")],
        ),
        ONE_EACH,
    )

    assert ([], []) == (planner_denied(card), execution_denied(card))


def test_what_was_reserved_and_never_ran_is_free_in_the_next_turn():
    card = score_permissions(
        session(
            [
                call("refund", id="a", turn=0, amount=10, order_id="1"),
                call("refund", id="b", turn=1, amount=20, order_id="1"),
            ],
            [call("refund", id="b", amount=20, order_id="1")],
        ),
        ONE_EACH,
    )

    assert ([], []) == (planner_denied(card), execution_denied(card))


def test_what_ran_in_an_earlier_turn_has_used_its_unit():
    card = score_permissions(
        ran(
            call("refund", id="a", turn=0, amount=10, order_id="1"),
            call("refund", id="b", turn=1, amount=20, order_id="1"),
        ),
        ONE_EACH,
    )

    assert (["b"], ["b"]) == (planner_denied(card), execution_denied(card))


def test_the_execution_check_counts_the_entries_before_in_the_list():
    """Also those that were not authorized: they ran."""
    policy = rules({"allow": "refund", "limit": {"executions": 2}})
    card = score_permissions(
        session(executed=[call("refund", id=str(number)) for number in range(4)]), policy, checks="execution"
    )

    assert ["2", "3"] == execution_denied(card)


def test_executions_count_attempts_and_calls_count_logical_calls():
    attempts = [call("pay", id="a", attempt=number, error="timeout") for number in (1, 2)]
    made = session([call("pay", id="a")], attempts)

    assert ["a"] == execution_denied(
        score_permissions(made, rules({"allow": "pay", "limit": {"executions": 1}}))
    )
    assert [] == execution_denied(score_permissions(made, rules({"allow": "pay", "limit": {"calls": 1}})))


def test_a_limit_of_proposals_counts_what_was_only_asked_for():
    policy = rules({"allow": "search", "limit": {"proposals": 2}})
    card = score_permissions(session([call("search", id=str(n)) for n in range(4)], []), policy)

    assert ["2", "3"] == planner_denied(card)


def test_too_many_refusals_stop_a_session():
    """Whatever is proposed after that is denied, allowed tools too."""
    policy = rules(
        {"allow": "search"},
        {"id": "probing", "deny": "drop_table", "limit": {"proposals": 2, "then": "stop"}},
    )
    names = ["search", "drop_table", "drop_table", "search", "drop_table", "search"]
    calls = [call(name, id=str(n)) for n, name in enumerate(names)]
    card = score_permissions(session(calls, [calls[0], calls[3], calls[5]]), policy)

    assert ["1", "2", "4", "5"] == planner_denied(card)
    assert "the session has been stopped" == card.planner.unauthorized[-1].reason
    assert ["5"] == execution_denied(card)


def test_a_limit_is_of_one_session():
    policy = rules({"allow": "a", "limit": {"executions": 1}})

    assert score_permissions([ran(call("a")), ran(call("a"))], policy).passed


ONCE = rules(
    {"allow": ["cancel_order", "x"]},
    tools={"cancel_order": {"once_per": ["order_id"], "safe_to_repeat": ["cancelled"]}},
)


def test_an_effect_that_was_had_is_not_proposed_again():
    card = score_permissions(
        ran(
            call("cancel_order", id="a", order_id="1"),
            call("cancel_order", id="b", order_id="2"),
            call("cancel_order", id="c", order_id="1"),
        ),
        ONCE,
    )

    assert (["c"], ["c"]) == (planner_denied(card), execution_denied(card))
    assert ("once_per:cancel_order",) == card.execution.unauthorized[0].rules
    assert [("duplicate_execution", "c", True)] == found(card)
    assert "the same `order_id` as in call `a`" == card.reconciliation[0].evidence


@pytest.mark.parametrize(
    ("first", "repeatable"),
    [("failed", False), ("unfinished", False), ("succeeded", False), ("cancelled", True)],
)
def test_an_effect_may_be_tried_again_only_after_an_outcome_that_is_safe(first: str, *, repeatable: bool):
    """After a time-out nobody knows whether the order was cancelled."""
    plain = [call("cancel_order", id=name, order_id="1") for name in ("a", "b")]
    card = score_permissions(session(plain, [{**plain[0], "outcome": first}, plain[1]]), ONCE)

    assert repeatable == ([] == planner_denied(card))
    assert repeatable == ([] == execution_denied(card))
    assert repeatable == all(kind != "duplicate_execution" for kind, _, _ in found(card))


def test_another_attempt_of_the_same_call_is_no_second_effect():
    card = score_permissions(
        session(
            [call("cancel_order", id="a", order_id="1")],
            [call("cancel_order", id="a", order_id="1", attempt=n, error="timeout") for n in (1, 2)],
        ),
        ONCE,
    )

    assert ([], []) == (execution_denied(card), found(card))


def test_a_session_is_tainted_by_what_was_executed_in_earlier_turns():
    card = score_permissions(ran(call("read_ticket", turn=0), call("send_mail", id="b", turn=1)), TAINT)

    assert (["b"], ["b"]) == (planner_denied(card), execution_denied(card))
    assert "Nothing leaves after a ticket was read." == card.planner.unauthorized[0].reason


def test_a_sibling_has_not_yet_tainted_the_session_when_the_model_speaks():
    """But when the second is entered, the first has run."""
    card = score_permissions(ran(call("read_ticket", turn=0), call("send_mail", id="b", turn=0)), TAINT)

    assert ([], ["b"]) == (planner_denied(card), execution_denied(card))


def test_a_call_that_never_ran_taints_nothing():
    card = score_permissions(
        session([call("read_ticket", turn=0), call("send_mail", turn=1)], [call("send_mail")]), TAINT
    )

    assert card.planner.passed
    assert card.execution.passed


OWN = rules({"allow": "cancel", "when": "args.order_id in session.attributes.owned_orders"})


@pytest.mark.parametrize(
    ("attributes", "authorized"),
    [
        ({"owned_orders": ["1", "2"]}, True),
        ({"owned_orders": ["2"]}, False),
        ({"owned_orders": []}, False),
        ({"owned_orders": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_rule_reads_the_attributes_of_the_session(
    attributes: Mapping[str, Any] | None, *, authorized: bool
):
    """Attributes that were not recorded grant nothing."""
    card = score_permissions(ran(call("cancel", order_id="1"), attributes=attributes), OWN)

    assert (authorized, authorized) == (card.planner.passed, card.execution.passed)
    assert Status.COMPLETE is card.planner.status


@pytest.mark.parametrize(("principal", "authorized"), [("user:1", True), ("user:2", False), (None, False)])
def test_a_rule_reads_the_principal_of_the_session(principal: str | None, *, authorized: bool):
    policy = rules({"allow": "cancel", "when": 'session.principal == "user:1"'})
    card = score_permissions(ran(call("cancel"), principal=principal), policy)

    assert authorized == card.passed


# --- the streams against each other --------------------------------------------------------------

ALL = Policy(denied_tools=["delete_account"], default="allow")


def test_what_ran_without_being_proposed_is_found():
    card = score_permissions(session([call("a", id="1")], [call("a", id="1"), call("a", id="2")]), ALL)

    assert [("unproposed_execution", "2", True)] == found(card)
    assert "no proposal joins it" == card.reconciliation[0].evidence
    assert (True, True, False) == (card.planner.passed, card.execution.passed, card.passed)


def test_it_is_not_looked_for_where_proposals_were_not_observed():
    assert [] == found(score_permissions(session(executed=[call("a", id="1")]), ALL))


@pytest.mark.parametrize(
    ("executed", "evidence"),
    [
        ({"order_id": "841", "n": 1}, "changed since the proposal: `order_id`"),
        ({"order_id": "814"}, "changed since the proposal: `n`"),
        ({"order_id": "814", "n": 1, "x": None}, "changed since the proposal: `x`"),
        ({"order_id": 814, "n": True}, "changed since the proposal: `n`, `order_id`"),
        ({"order_id": "814", "n": 1.0}, None),
        ({"n": 1, "order_id": "814"}, None),
    ],
)
def test_arguments_that_changed_on_their_way_are_found(executed: Call, evidence: str | None):
    """As JSON compares: 1 is 1.0 and true is not 1; the names of what changed are told, not the values."""
    card = score_permissions(
        session([call("a", id="1", order_id="814", n=1)], [call("a", id="1", **executed)]), ALL
    )

    assert ([evidence] if evidence else []) == [finding.evidence for finding in card.reconciliation]
    assert ([("altered_arguments", "1", True)] if evidence else []) == found(card)
    assert (evidence is None) == card.passed


def test_arguments_that_became_unreadable_have_changed():
    broken = {"name": "a", "id": "1", "arguments": "{"}
    card = score_permissions(session([call("a", id="1")], [broken]), ALL)

    assert [("altered_arguments", "1", True)] == found(card)
    assert "changed since the proposal: all" == card.reconciliation[0].evidence


@pytest.mark.parametrize(
    ("second", "duplicate"), [({}, True), ({"attempt": 1}, True), ({"attempt": 2}, False)]
)
def test_a_second_entry_for_one_proposal_is_found_unless_it_is_another_attempt(
    second: Call, *, duplicate: bool
):
    card = score_permissions(
        session([call("a", id="1")], [call("a", id="1"), call("a", id="1", **second)]), ALL
    )

    assert ([("duplicate_execution", "1", True)] if duplicate else []) == found(card)
    assert duplicate != card.passed
    if duplicate:
        evidence = "entry 2 for one proposal, and not recorded as another attempt"
        assert evidence == card.reconciliation[0].evidence


def test_an_execution_without_an_end_is_found_and_makes_the_check_incomplete():
    card = score_permissions(session([call("a", id="1")], [call("a", id="1", outcome="unfinished")]), ALL)

    assert [("unfinished_execution", "1", False)] == found(card)
    assert "it started, and nothing tells of its end" == card.reconciliation[0].evidence
    assert Status.INCOMPLETE is card.execution.status


def test_what_a_provider_ran_is_found_and_does_not_fail():
    card = score_permissions(session([call("a", id="1")], [call("a", id="1", executor="provider")]), ALL)

    assert [("provider_executed", "1", False)] == found(card)
    assert "the model's provider ran it: no guard could" == card.reconciliation[0].evidence
    assert card.passed


@pytest.mark.parametrize(
    ("proposed", "evidence"),
    [
        (call("a", id="1"), "authorized, but never entered"),
        (call("b", id="1"), "waiting for a yes, and never entered"),
        (call("delete_account", id="1"), None),
        (call("a", id="1", outcome="not_selected"), None),
        (call("a", id="1", outcome="rejected"), None),
    ],
)
def test_a_proposal_that_was_authorized_and_never_entered_is_found_and_does_not_fail(
    proposed: Call, evidence: str | None
):
    policy = rules({"allow": "a"}, {"ask": "b"}, {"deny": "delete_account"})
    card = score_permissions(session([proposed], []), policy)

    assert ([("abandoned_proposal", "1", False)] if evidence else []) == found(card)
    assert ([evidence] if evidence else []) == [finding.evidence for finding in card.reconciliation]


def test_a_proposal_that_the_runtime_refused_was_not_abandoned():
    card = score_permissions(session([call("a", id="1")], [call("a", id="1", invoked=False)]), ALL)

    assert [] == found(card)


def test_nothing_was_abandoned_where_executions_were_not_observed():
    assert [] == found(score_permissions(session([call("a")]), ALL))


def test_that_a_denied_call_ran_is_said_by_the_execution_check_alone():
    """Trajectory lines record no mode: whether anything was to be blocked is not known."""
    card = score_permissions(ran(call("delete_account", id="1")), ALL)

    assert (["1"], []) == (execution_denied(card), found(card))


def test_findings_name_their_session_and_tool():
    other = read_session({"id": "t", "proposed": [], "executed": [call("mcp:kb/search", id="1")]})
    card = score_permissions([ran(call("a")), other], ALL)

    assert {
        "kind": "unproposed_execution",
        "fails": True,
        "session": "t",
        "call_id": "1",
        "tool": "mcp:kb/search",
        "evidence": "no proposal joins it",
    } == card.reconciliation[0].to_dict()


# --- many sessions -------------------------------------------------------------------------------


def test_counts_of_sessions_add_up():
    """Calls are counted, not sessions: a long bad run weighs more than a short good one."""
    sessions = [
        ran(call("get_order", id="a")),
        session([call("x", id=str(n)) for n in range(3)], []),
        session([call("get_order", id="a", outcome="not_selected")], [call("x", id="b")]),
    ]
    card = score_permissions(sessions, LOOK_UP)

    assert ((1, 4), (1, 2)) == counts(card)
    assert (0.25, 0.5, 1) == (card.planner.score, card.execution.score, card.planner.not_selected)
    for check in ("planner", "execution"):
        parts = [getattr(entry, check) for entry in card.sessions]
        for count in ("authorized", "total", "asked", "undecidable", "not_selected"):
            assert getattr(getattr(card, check), count) == sum(getattr(part, count) for part in parts)
        every = [entry for part in parts for entry in part.unauthorized]
        assert getattr(card, check).unauthorized == every
    assert [True, False, False] == [entry.passed for entry in card.sessions]


def test_findings_of_sessions_are_put_together_in_order():
    sessions = [session([], [call("a", id=str(n))]) for n in range(3)]
    card = score_permissions(sessions, ALL)

    assert ["0", "1", "2"] == [finding.call_id for finding in card.reconciliation]
    assert [1, 1, 1] == [len(entry.reconciliation) for entry in card.sessions]


def test_one_incomplete_session_makes_the_card_incomplete():
    good = ran(call("get_order", time=0), call("cancel", time=1))
    bad = ran(call("get_order"), call("cancel"))
    card = score_permissions([good, bad, bad], RECENT)

    assert (Status.INCOMPLETE, None) == (card.planner.status, card.planner.score)
    assert (Status.INCOMPLETE, None) == (card.execution.status, card.execution.score)
    assert ["the time of a call is not recorded"] == card.planner.missing
    assert [True, False, False] == [entry.passed for entry in card.sessions]
    assert not card.passed


def test_a_stream_that_was_observed_in_some_sessions_is_incomplete():
    card = score_permissions([session([], []), session([], None)], LOOK_UP)

    assert (Status.COMPLETE, Status.INCOMPLETE) == (card.planner.status, card.execution.status)


def test_a_session_that_could_not_be_read_makes_the_card_incomplete():
    error = InputError("not JSON", source="runs.jsonl", line=2)
    card = score_permissions([session([], []), Session(id="runs.jsonl:2", error=error)], LOOK_UP)

    assert (Status.INCOMPLETE, Status.INCOMPLETE) == (card.planner.status, card.execution.status)
    assert ([error], 1, False) == (card.input_errors, len(card.sessions), card.passed)


def test_a_session_with_an_error_fails_a_card_also_where_its_streams_look_empty():
    error = InputError("cut", source="runs.jsonl")
    card = score_permissions([Session(id="x", proposed=[], executed=[], error=error)], LOOK_UP)

    assert not card.passed


def test_no_session_is_no_pass():
    """A filter that matched nothing, or an empty folder, proves nothing."""

    def none() -> Iterator[Session]:
        yield from ()

    card = score_permissions(none(), LOOK_UP)

    assert (Status.NOT_OBSERVED, Status.NOT_OBSERVED) == (card.planner.status, card.execution.status)
    assert (None, None, False) == (card.planner.score, card.execution.score, card.passed)


def test_a_session_built_in_python_is_scored_like_a_recorded_one():
    made = Session(id="s", proposed=[], executed=[Execution(call=ToolCall("x", {}, call_id="a"))])

    assert ["a"] == execution_denied(score_permissions(made, LOOK_UP))


# --- the JSON form -------------------------------------------------------------------------------

TOP = {
    "gatescore",
    "policy",
    "passed",
    "checks",
    "threshold",
    "planner",
    "execution",
    "reconciliation",
    "sessions",
    "input_errors",
}
CHECK = {"status", "score", "authorized", "total", "passed", "recorded", "undecidable", "unauthorized"}
PLANNER = CHECK | {"basis", "asked"}
UNAUTHORIZED = {"session", "call_id", "tool", "effect", "rules", "errors", "reason"}


def test_a_plain_card_has_exactly_the_keys_of_its_version():
    """People parse it: a key that appears, disappears or changes its meaning is a new version."""
    card = score_permissions(HALF, LOOK_UP)
    form = card.to_dict()
    (entry,) = form["sessions"]

    assert TOP == form.keys()
    assert {"name", "digest"} == form["policy"].keys()
    assert {"id", "passed", "planner", "execution", "reconciliation"} == entry.keys()
    for checks in (form, entry):
        assert (PLANNER, CHECK) == (checks["planner"].keys(), checks["execution"].keys())
        assert [UNAUTHORIZED] == [denied.keys() for denied in checks["planner"]["unauthorized"]]


def test_the_json_form_of_a_small_card_as_a_whole():
    policy = Policy(allowed_tools=["get_order"], name="support", version="7")
    planner = {
        "status": "complete",
        "basis": "model",
        "score": 0.5,
        "authorized": 1,
        "total": 2,
        "passed": False,
        "asked": 0,
        "recorded": 0,
        "undecidable": 0,
        "unauthorized": [
            {
                "session": "s",
                "call_id": "b",
                "tool": "x",
                "effect": "deny",
                "rules": [],
                "errors": [],
                "reason": "no rule allows it",
            }
        ],
    }
    execution = {
        "status": "complete",
        "score": 1.0,
        "authorized": 1,
        "total": 1,
        "passed": True,
        "recorded": 0,
        "undecidable": 0,
        "unauthorized": [],
    }

    assert score_permissions(HALF, policy).to_dict() == {
        "gatescore": 1,
        "policy": {"name": "support", "digest": policy.digest},
        "passed": False,
        "checks": ["planner", "execution"],
        "threshold": 1.0,
        "planner": planner,
        "execution": execution,
        "reconciliation": [],
        "sessions": [
            {
                "id": "s",
                "passed": False,
                "planner": planner,
                "execution": execution,
                "reconciliation": [],
            }
        ],
        "input_errors": [],
    }


def test_other_keys_stand_only_where_there_is_something_to_say():
    error = InputError("not JSON", source="runs.jsonl", line=2)
    sessions = [
        session([call("x"), call("get_order", outcome="not_selected")], [], catalog=[]),
        Session(id="runs.jsonl:2", error=error),
    ]
    form = score_permissions(sessions, denied_tools=["x"], strict=True).to_dict()

    assert TOP | {"strict", "notes"} == form.keys()
    assert form["strict"] is True
    assert ["only `denied_tools` was given, so every other tool is allowed"] == form["notes"]
    assert PLANNER | {"not_selected"} == form["planner"].keys()
    assert form["planner"]["unauthorized"][0]["unknown_tool"] is True
    assert [{"source": "runs.jsonl", "line": 2, "message": "not JSON"}] == form["input_errors"]

    form = score_permissions(ran(call("get_order"), call("cancel")), RECENT).to_dict()

    assert (PLANNER | {"missing"}, CHECK | {"missing"}) == (form["planner"].keys(), form["execution"].keys())
    assert ["the time of a call is not recorded"] == form["execution"]["missing"]


def test_the_json_form_of_streams_that_were_not_observed_holds_nulls():
    form = score_permissions(session(), LOOK_UP).to_dict()

    assert ("not_observed", None, None, False) == tuple(
        form["planner"][key] for key in ("status", "basis", "score", "passed")
    )
    assert ("not_observed", None, False) == tuple(
        form["execution"][key] for key in ("status", "score", "passed")
    )


@pytest.mark.parametrize(
    ("made", "policy"),
    [
        (HALF, LOOK_UP),
        (session(), LOOK_UP),
        (ran(call("get_order"), call("cancel")), RECENT),
        (ran(call("refund", id="\ud800\x1b[31m", amount=500)), BIG_REFUND),
        (session([call("\ud800ü")], [call("x", id="é")]), LOOK_UP),
    ],
)
def test_the_json_form_survives_being_written_and_read(made: Session, policy: Policy):
    form = score_permissions(made, policy).to_dict()

    assert form == json.loads(json.dumps(form))
