"""Trajectory lines: what each key means, how the two streams are joined, and what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.canonical import parse_json
from gatescore.errors import InputError
from gatescore.model import Executor, Origin, Outcome, Session
from gatescore.traces import read_session
from gatescore.traces.joining import LineError
from gatescore.traces.trajectory import parse_call

Call = dict[str, Any]

NOON = 1_796_040_000_000_000_000
"""2026-11-30T12:00:00Z in nanoseconds since 1970."""


def read(**line: Any) -> Session:
    """The session of a line that was written as JSON and read again, as from a file."""
    return read_session(parse_json(json.dumps(line)))


def call(name: str = "get_order", **keys: Any) -> Call:
    return {"name": name, **keys}


def told(text: str) -> str:
    with pytest.raises(InputError) as caught:
        read_session(parse_json(text))
    assert "s" == caught.value.source
    return caught.value.message


def told_of_call(stream: str, **keys: Any) -> str:
    """What is said of a wrong second call of a stream."""
    return told(json.dumps({"id": "s", stream: [call(), {"name": "refund", **keys}]}))


def joined(session: Session) -> list[tuple[str, bool]]:
    """Each execution by the id of its call, and whether a proposal joins it."""
    return [(execution.call.call_id, execution.proposed) for execution in session.executed or ()]


def proposed_ids(session: Session) -> list[str]:
    return [proposal.call.call_id for proposal in session.proposed or ()]


# --- the two streams -----------------------------------------------------------------------------


@pytest.mark.parametrize("absent", [{}, {"proposed": None}])
def test_a_proposed_stream_that_is_absent_or_null_was_not_observed(absent: dict[str, Any]):
    """It is not empty: nothing is known of it, and nothing may be scored."""
    session = read(executed=[call(id="a")], **absent)

    assert session.proposed is None
    assert [("a", False)] == joined(session)


@pytest.mark.parametrize("absent", [{}, {"executed": None}])
def test_an_executed_stream_that_is_absent_or_null_was_not_observed(absent: dict[str, Any]):
    session = read(proposed=[call(id="a")], **absent)

    assert session.executed is None
    assert ["a"] == proposed_ids(session)


def test_an_empty_stream_was_observed():
    session = read(proposed=[], executed=[])

    assert ([], []) == (session.proposed, session.executed)


def test_neither_stream_is_filled_in_from_the_other():
    """What ran was not thereby proposed, and what was proposed did not thereby run."""
    session = read(proposed=[call("get_order", id="a")], executed=[call("refund", id="b")])

    assert ["get_order"] == [proposal.call.name for proposal in session.proposed or ()]
    assert ["refund"] == [execution.call.name for execution in session.executed or ()]


def test_each_stream_keeps_its_own_arguments():
    """A runtime may change a call on its way: both versions are evidence."""
    session = read(
        proposed=[call(id="a", arguments={"order_id": "814"})],
        executed=[call(id="a", arguments={"order_id": "841"})],
    )

    assert session.proposed is not None
    assert session.executed is not None
    assert {"order_id": "814"} == session.proposed[0].call.arguments
    assert {"order_id": "841"} == session.executed[0].call.arguments
    assert [("a", True)] == joined(session)


def test_each_stream_keeps_its_own_order():
    session = read(
        proposed=[call(seq=1), call("refund", seq=0)],
        executed=[call("refund", seq=0), call(seq=1)],
    )

    assert ["get_order", "refund"] == [proposal.call.name for proposal in session.proposed or ()]
    assert ["refund", "get_order"] == [execution.call.name for execution in session.executed or ()]


# --- joining -------------------------------------------------------------------------------------


def test_seq_joins_whatever_the_ids_say():
    session = read(
        proposed=[call(seq=0, id="a"), call(seq=1, id="a"), call(seq=2, id="b")],
        executed=[call(seq=2, id="a"), call(seq=1, id="x"), call(seq=0)],
    )

    assert [("b", True), ("a#2", True), ("a", True)] == joined(session)


def test_a_seq_that_no_proposal_has_joins_nothing():
    """An id in common would be a guess, once the record says by number what belongs together."""
    session = read(proposed=[call(seq=0, id="a")], executed=[call(seq=7, id="a")])

    assert [("a#2", False)] == joined(session)


def test_a_seq_joins_no_call_of_another_tool():
    session = read(proposed=[call("get_order", seq=0)], executed=[call("delete_account", seq=0)])

    assert [False] == [proposed for _, proposed in joined(session)]


def test_where_no_proposal_has_a_seq_the_id_joins():
    session = read(proposed=[call(id="a"), call(id="b")], executed=[call(seq=0, id="b")])

    assert [("b", True)] == joined(session)


def test_an_execution_without_a_seq_is_joined_by_its_id():
    session = read(proposed=[call(seq=0, id="a"), call(seq=1, id="b")], executed=[call(id="b")])

    assert [("b", True)] == joined(session)


def test_ids_that_repeat_are_joined_first_in_first_out():
    """Some providers number the calls of each message from 0 again."""
    session = read(
        proposed=[call(id="0", arguments={"n": 1}), call(id="0", arguments={"n": 2})],
        executed=[call(id="0", arguments={"n": 1}), call(id="0", arguments={"n": 2})],
    )

    assert ["0", "0#2"] == proposed_ids(session)
    assert [("0", True), ("0#2", True)] == joined(session)


def test_an_entry_more_than_there_are_proposals_of_an_id_joins_the_last():
    """So that it is seen to be a second entry for one proposal, and not an unknown call."""
    session = read(proposed=[call(id="a")], executed=[call(id="a"), call(id="a")])

    assert [("a", True), ("a", True)] == joined(session)


def test_a_proposal_that_a_seq_has_joined_is_not_taken_again_by_its_id():
    session = read(
        proposed=[call(seq=0, id="a"), call(seq=1, id="a")],
        executed=[call(seq=0, id="a"), call(id="a")],
    )

    assert [("a", True), ("a#2", True)] == joined(session)


def test_an_id_joins_no_call_of_another_tool():
    session = read(proposed=[call("get_order", id="a")], executed=[call("refund", id="a")])

    assert [("a#2", False)] == joined(session)


@pytest.mark.parametrize("by", [{"seq": 0}, {"id": "a"}, {}])
def test_a_call_of_another_server_is_not_the_one_that_was_proposed(by: Call):
    session = read(
        proposed=[call("search", server="kb", **by)], executed=[call("search", server="web", **by)]
    )

    assert [False] == [proposed for _, proposed in joined(session)]


@pytest.mark.parametrize("by", [{"seq": 0}, {"id": "a"}, {}])
@pytest.mark.parametrize("servers", [({"server": "kb"}, {}), ({}, {"server": "kb"})])
def test_one_stream_may_leave_the_server_out(by: Call, servers: tuple[Call, Call]):
    session = read(
        proposed=[call("search", **by, **servers[0])], executed=[call("search", **by, **servers[1])]
    )

    assert [True] == [proposed for _, proposed in joined(session)]


def test_the_call_of_the_same_server_is_found_among_equal_ids():
    session = read(
        proposed=[call("search", server="kb", id="0"), call("search", server="web", id="0")],
        executed=[call("search", server="web", id="0"), call("search", server="kb", id="0")],
    )

    assert [("0#2", True), ("0", True)] == joined(session)


def test_equal_ids_of_one_server_are_joined_one_to_one():
    session = read(
        proposed=[call("search", server=server, id="0") for server in ("kb", "web", "web")],
        executed=[call("search", server="web", id="0"), call("search", server="web", id="0")],
    )

    assert [("0#2", True), ("0#3", True)] == joined(session)


@pytest.mark.parametrize("nothing", [{}, {"id": None}, {"id": ""}])
def test_without_ids_the_name_and_the_arguments_join(nothing: Call):
    session = read(
        proposed=[
            call(arguments={"order_id": "1"}, **nothing),
            call(arguments={"order_id": "2"}, **nothing),
            call("refund", arguments={"order_id": "2"}, **nothing),
        ],
        executed=[
            call("refund", arguments={"order_id": "2"}, **nothing),
            call(arguments={"order_id": "2"}, **nothing),
            call(arguments={"order_id": "3"}, **nothing),
        ],
    )

    assert [("#2", True), ("#1", True), ("#2#2", False)] == joined(session)


def test_an_id_in_one_stream_alone_is_no_obstacle():
    session = read(proposed=[call(arguments={"n": 1})], executed=[call(id="a", arguments={"n": 1})])

    assert [("#0", True)] == joined(session)


def test_two_ids_that_differ_are_two_calls_though_all_else_is_equal():
    session = read(proposed=[call(id="a", arguments={})], executed=[call(id="b", arguments={})])

    assert [("b", False)] == joined(session)


def test_equal_calls_without_ids_are_joined_one_to_one():
    session = read(proposed=[call(), call()], executed=[call(), call(), call()])

    assert [("#0", True), ("#1", True), ("#2", False)] == joined(session)


def test_arguments_are_equal_as_json_values():
    """1 is 1.0; true is not 1; text is not a number."""
    session = read(
        proposed=[call(arguments={"n": 1})],
        executed=[call(arguments={"n": True}), call(arguments={"n": "1"}), call(arguments={"n": 1.0})],
    )

    assert [False, False, True] == [proposed for _, proposed in joined(session)]


def test_arguments_that_cannot_be_read_join_nothing():
    """Two broken texts are both empty once read: that does not make them equal."""
    session = read(proposed=[call(arguments="{broken")], executed=[call(arguments="{other")])

    assert [False] == [proposed for _, proposed in joined(session)]


def test_host_ids_are_kept_as_recorded_beside_ids_of_our_own():
    session = read(proposed=[call(id="a"), call(id="a"), call(id=7), call(), call(id=""), call(seq=9)])

    assert ["a", "a#2", "7", "#3", "#4", "#9"] == proposed_ids(session)
    assert ["a", "a", "7", None, None, None] == [p.call.host_call_id for p in session.proposed or ()]


calls = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b"])},
        optional={
            "seq": st.integers(0, 3),
            "id": st.sampled_from(["", "x", "y", None]),
            "arguments": st.sampled_from([{}, {"n": 1}, "{"]),
            "turn": st.integers(0, 2),
            "message": st.sampled_from(["m", "n"]),
            "server": st.sampled_from(["", "kb"]),
            "invoked": st.booleans(),
        },
    ),
    max_size=5,
)


def numbered_once(proposed: list[Call]) -> bool:
    numbers = [entry["seq"] for entry in proposed if "seq" in entry]
    return len(numbers) == len({*numbers})


@given(proposed=calls.filter(numbered_once), executed=calls)
def test_no_call_is_lost_or_made_up_however_the_streams_are_numbered(
    proposed: list[Call], executed: list[Call]
):
    """Ids of our own tell the calls of a session apart, and a joined execution is of the proposed tool."""
    session = read(proposed=proposed, executed=executed)
    ids = proposed_ids(session)
    entered = [entry for entry in executed if entry.get("invoked") is not False]
    unjoined = [call_id for call_id, proposed in joined(session) if not proposed]

    assert [entry["name"] for entry in entered] == [e.call.name for e in session.executed or ()]
    assert [entry["name"] for entry in proposed] == [
        p.call.name for p in (session.proposed or ())[: len(proposed)]
    ]
    assert len({*ids, *unjoined}) == len(ids) + len(unjoined)
    names = {proposal.call.call_id: proposal.call.name for proposal in session.proposed or ()}
    for execution in session.executed or ():
        assert not execution.proposed or execution.call.name == names[execution.call.call_id]


# --- what the runtime refused --------------------------------------------------------------------


def test_a_call_that_was_not_invoked_is_a_proposal_and_no_execution():
    session = read(
        proposed=[call(id="a"), call("refund", id="b")],
        executed=[call(id="a"), call("refund", id="b", invoked=False, error="refused")],
    )

    assert [("a", True)] == joined(session)
    assert [False, True] == [proposal.refused for proposal in session.proposed or ()]


def test_a_refused_call_that_no_proposal_joins_is_a_proposal_of_its_own():
    """The runtime's refusal is the only trace of it, and it must lower the planner check."""
    session = read(
        proposed=[call(id="a", turn=3)],
        executed=[call(id="a"), call("refund", id="b", arguments={"amount": 9}, invoked=False)],
    )

    assert [("a", True)] == joined(session)
    assert session.proposed is not None
    assert ["a", "b"] == proposed_ids(session)
    assert ("refund", {"amount": 9}, True, 3) == (
        session.proposed[1].call.name,
        session.proposed[1].call.arguments,
        session.proposed[1].refused,
        session.proposed[1].turn,
    )


def test_a_refused_call_does_not_make_an_unobserved_stream_observed():
    session = read(executed=[call(invoked=False), call("refund")])

    assert session.proposed is None
    assert ["refund"] == [execution.call.name for execution in session.executed or ()]


def test_a_refusal_takes_the_first_proposal_of_its_id():
    session = read(
        proposed=[call(id="0"), call(id="0")], executed=[call(id="0", invoked=False), call(id="0")]
    )

    assert [True, False] == [proposal.refused for proposal in session.proposed or ()]
    assert [("0#2", True)] == joined(session)


@pytest.mark.parametrize("invoked", [{}, {"invoked": None}, {"invoked": True}])
def test_a_call_was_invoked_unless_the_record_says_otherwise(invoked: Call):
    assert [("a", True)] == joined(read(proposed=[call(id="a")], executed=[call(id="a", **invoked)]))


@pytest.mark.parametrize("outcome", ["denied", "rejected", "expired", "invalid"])
def test_a_proposal_may_say_itself_that_it_was_refused(outcome: str):
    session = read(proposed=[call(outcome=outcome)], executed=[])

    assert session.proposed is not None
    assert session.proposed[0].refused


# --- turns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proposed", "turns"),
    [
        ([{"turn": 4}, {"turn": 2}, {"turn": 4}], [4, 2, 4]),
        ([{"turn": -1}, {"turn": 0}], [-1, 0]),
        ([{}, {}, {}], [0, 1, 2]),
        ([{"message": "m"}, {"message": "m"}, {"message": "n"}], [0, 0, 1]),
        ([{"message": 1}, {"message": 1}, {"message": "1"}], [0, 0, 1]),
        ([{"message": "m"}, {}, {"message": "m"}], [0, 1, 0]),
        ([{"message": None}, {"message": None}, {"message": ""}, {"message": ""}], [0, 1, 2, 3]),
        ([{"turn": 3, "message": "m"}, {"turn": 5, "message": "m"}], [3, 5]),
        ([{"turn": 3}, {"message": "m"}, {}, {"turn": 3}, {"message": "m"}], [0, 1, 2, 0, 1]),
    ],
)
def test_a_turn_is_as_recorded_else_the_message_else_one_for_each(proposed: list[Call], turns: list[int]):
    """Proposals of one turn are siblings; without any mark, none is taken for a sibling."""
    session = read(proposed=[call(**keys) for keys in proposed])

    assert turns == [proposal.turn for proposal in session.proposed or ()]


def test_an_execution_is_of_the_turn_of_its_proposal():
    session = read(
        proposed=[call(id="a", turn=5), call(id="b", turn=1)],
        executed=[call(id="b", turn=9), call(id="a")],
    )

    assert [1, 5] == [execution.turn for execution in session.executed or ()]


def test_an_execution_without_a_proposal_is_of_the_turn_that_it_says_else_of_the_one_before():
    session = read(
        proposed=[call(id="a", turn=5)],
        executed=[call("x"), call(id="a"), call("y"), call("z", turn=7), call("z2")],
    )

    assert [4, 5, 5, 7, 7] == [execution.turn for execution in session.executed or ()]


def test_an_execution_without_a_proposal_can_be_of_a_message():
    """Turns that were counted here are found again by what they were counted from."""
    session = read(
        proposed=[call(message="m"), call(message="n"), call(turn=40)],
        executed=[call("x", message="n"), call("y", turn=40), call("z", message="other")],
    )

    assert [1, 2, 2] == [execution.turn for execution in session.executed or ()]


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "arguments"),
    [
        ({}, {}),
        ({"arguments": None}, {}),
        ({"arguments": ""}, {}),
        ({"arguments": "null"}, {}),
        ({"arguments": {}}, {}),
        (
            {"arguments": '{"order_id": "814", "n": 10000000000000000000001}'},
            {"order_id": "814", "n": 10**22 + 1},
        ),
        ({"input_parameters": {"a": None}}, {"a": None}),
        ({"arguments": None, "input_parameters": {"a": 1}}, {"a": 1}),
        ({"arguments": {"a": 1}, "input_parameters": None}, {"a": 1}),
    ],
)
def test_arguments_are_an_object_or_the_text_of_one(keys: Call, arguments: dict[str, Any]):
    session = read(proposed=[call(**keys)], executed=[call(**keys)])

    made = [p.call for p in session.proposed or ()] + [e.call for e in session.executed or ()]
    assert 2 == len(made)
    for entry in made:
        assert (arguments, None) == (entry.arguments, entry.invalid)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('"{\\"order_id\\": "', "arguments are not JSON"),
        ('"{} {}"', "arguments are not JSON"),
        ('"{\\"a\\": 1, \\"a\\": 2}"', "key `a` stands twice"),
        ('{"a": 1, "a": 2}', "key `a` stands twice"),
        ('{"a": {"b": 1, "b": 2}}', "key `b` stands twice"),
        ('"[1]"', "not an object but an array"),
        ("[1]", "not an object but an array"),
        ("7", "not an object but a number"),
        ("true", "not an object but a truth value"),
        ('{"a": NaN}', "not finite"),
        ('{"a": 1e999}', "not finite"),
        ('{"\\ud800": 1}', "lone surrogate"),
        ('{"a": ' + "[" * 70 + "]" * 70 + "}", "nested deeper than 64"),
    ],
)
def test_arguments_that_cannot_be_judged_make_the_call_invalid_and_not_the_line(arguments: str, why: str):
    """An invalid proposal is on the record, and denied; its neighbours are scored as ever."""
    text = (
        f'{{"proposed": [{{"name": "refund", "arguments": {arguments}}}, {{"name": "b"}}], "executed": []}}'
    )
    session = read_session(parse_json(text))

    assert session.proposed is not None
    first, second = session.proposed
    assert first.call.invalid is not None
    assert why in first.call.invalid
    assert {} == first.call.arguments
    assert second.call.invalid is None


# --- names and servers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "name", "server", "tool"),
    [
        ({"name": "search"}, "search", None, "search"),
        ({"name": "search", "server": None}, "search", None, "search"),
        ({"name": "search", "server": ""}, "search", "", "search"),
        ({"name": "search", "server": "kb"}, "search", "kb", "mcp:kb/search"),
        ({"name": "mcp:kb/search"}, "search", "kb", "mcp:kb/search"),
        ({"name": "mcp:kb/a/b"}, "a/b", "kb", "mcp:kb/a/b"),
        ({"name": "mcp:kb"}, "mcp:kb", None, "mcp:kb"),
        ({"name": "mcp__kb__search"}, "mcp__kb__search", None, "mcp__kb__search"),
        ({"name": "MCP:kb/search"}, "MCP:kb/search", None, "MCP:kb/search"),
    ],
)
def test_a_name_is_taken_as_recorded_with_the_server_apart(
    keys: Call, name: str, server: str | None, tool: str
):
    """A server that is missing is unknown, and an empty one says that the tool is local."""
    session = read(proposed=[keys])

    assert session.proposed is not None
    made = session.proposed[0].call
    assert (name, server, tool) == (made.name, made.server, made.tool)


def test_a_call_with_an_empty_name_is_invalid():
    session = read(proposed=[call("")])

    assert session.proposed is not None
    assert "the call has no name" == session.proposed[0].call.invalid


# --- the other keys of a call --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        (NOON, NOON),
        (0, 0),
        (-5, -5),
        (None, None),
        ("2026-11-30T12:00:00Z", NOON),
        ("2026-11-30T13:00:00+01:00", NOON),
        ("2026-11-30 12:00:00.000001+00:00", NOON + 1_000),
        ("1969-12-31T23:59:59Z", -1_000_000_000),
    ],
)
def test_a_time_is_integer_nanoseconds_or_iso_8601(time: object, nanoseconds: int | None):
    session = read(proposed=[call(time=time)], executed=[call(time=time)])

    assert session.proposed is not None
    assert session.executed is not None
    assert (nanoseconds, nanoseconds) == (session.proposed[0].time, session.executed[0].time)


@pytest.mark.parametrize(
    "approval", [{"by": "ann"}, {"by": "ann", "time": None}, {"by": "ann", "time": NOON}]
)
def test_an_approval_says_who_agreed(approval: Call):
    session = read(proposed=[call(approval=approval)], executed=[call(approval=approval)])

    assert session.proposed is not None
    assert session.executed is not None
    assert (True, True) == (session.proposed[0].approved, session.executed[0].approved)


@pytest.mark.parametrize("approval", [{}, {"approval": None}])
def test_without_an_approval_nobody_agreed(approval: Call):
    session = read(proposed=[call(**approval)], executed=[call(**approval)])

    assert session.proposed is not None
    assert session.executed is not None
    assert (False, False) == (session.proposed[0].approved, session.executed[0].approved)


@pytest.mark.parametrize(("given", "counts"), [(-1, True), (0, True), (1, False)])
def test_an_approval_later_than_its_execution_is_no_yes(given: int, *, counts: bool):
    session = read(executed=[call(time=NOON, approval={"by": "ann", "time": NOON + given})])

    assert session.executed is not None
    assert counts == session.executed[0].approved


def test_an_approval_may_be_later_than_the_proposal_that_it_is_about():
    """A person is asked after the model has spoken."""
    session = read(proposed=[call(time=NOON, approval={"by": "ann", "time": NOON + 5})])

    assert session.proposed is not None
    assert session.proposed[0].approved


@pytest.mark.parametrize(("given", "counts"), [(4, True), (5, True), (6, False)])
def test_the_approval_of_a_proposal_is_no_yes_if_it_came_after_the_entry(given: int, *, counts: bool):
    session = read(
        proposed=[call(id="a", time=NOON, approval={"by": "ann", "time": NOON + given})],
        executed=[call(id="a", time=NOON + 5)],
    )

    assert session.proposed is not None
    assert counts == session.proposed[0].approved


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ({}, Outcome.SUCCEEDED),
        ({"error": None}, Outcome.SUCCEEDED),
        ({"error": "timeout"}, Outcome.FAILED),
        ({"error": ""}, Outcome.FAILED),
        ({"error": {"code": 5}}, Outcome.FAILED),
        ({"outcome": "succeeded"}, Outcome.SUCCEEDED),
        ({"outcome": "failed"}, Outcome.FAILED),
        ({"outcome": "cancelled"}, Outcome.CANCELLED),
        ({"outcome": "unfinished"}, Outcome.UNFINISHED),
        ({"outcome": None, "error": "x"}, Outcome.FAILED),
        ({"outcome": "cancelled", "error": "x"}, Outcome.CANCELLED),
    ],
)
def test_an_execution_succeeded_only_if_nothing_in_the_record_speaks_against_it(keys: Call, outcome: Outcome):
    """A later call may be allowed because this one succeeded."""
    session = read(executed=[call(**keys)])

    assert session.executed is not None
    assert outcome is session.executed[0].outcome


def test_an_error_beside_a_success_is_refused():
    """Either of the two would decide something: what may follow, or what may be repeated."""
    with pytest.raises(InputError, match="keep the one that is true"):
        read(executed=[call(outcome="succeeded", error="x")])


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_count_from_one(attempt: int):
    with pytest.raises(InputError, match="a number from 1"):
        read(executed=[call(attempt=attempt)])


@pytest.mark.parametrize(("given", "valid"), [(5, False), (10, True), (15, True), (25, False)])
def test_a_yes_comes_between_the_proposal_and_the_entry(given: int, valid: bool):
    """Nobody can agree to a call that does not exist yet, and after the entry it is no gate."""
    yes = {"by": "ann", "time": given}
    for proposed, executed in (
        (call(id="1", time=10, approval=yes), call(id="1", time=20)),
        (call(id="1", time=10), call(id="1", time=20, approval=yes)),
    ):
        session = read(proposed=[proposed], executed=[executed])

        assert session.proposed is not None
        assert session.executed is not None
        assert valid == (session.proposed[0].approved or session.executed[0].approved)


@pytest.mark.parametrize(
    ("keys", "origin"),
    [({}, Origin.MODEL), ({"origin": None}, Origin.MODEL), *(({"origin": o.value}, o) for o in Origin)],
)
def test_a_proposal_came_from_a_model_unless_it_says_otherwise(keys: Call, origin: Origin):
    session = read(proposed=[call(**keys)])

    assert session.proposed is not None
    assert origin is session.proposed[0].origin


@pytest.mark.parametrize(
    ("keys", "executor"),
    [
        ({}, Executor.LOCAL),
        ({"executor": None}, Executor.LOCAL),
        ({"executor": "provider"}, Executor.PROVIDER),
    ],
)
def test_an_execution_was_local_unless_it_says_otherwise(keys: Call, executor: Executor):
    session = read(executed=[call(**keys)])

    assert session.executed is not None
    assert executor is session.executed[0].executor


@pytest.mark.parametrize(("keys", "attempt"), [({}, None), ({"attempt": None}, None), ({"attempt": 2}, 2)])
def test_an_attempt_is_known_only_where_it_is_recorded(keys: Call, attempt: int | None):
    session = read(executed=[call(**keys)])

    assert session.executed is not None
    assert attempt == session.executed[0].attempt


@pytest.mark.parametrize(
    ("outcome", "selected"),
    [("not_selected", False), ("executed", True), ("abandoned", True), ("succeeded", True), (None, True)],
)
def test_a_proposal_counts_unless_the_runtime_took_another(outcome: str | None, *, selected: bool):
    session = read(proposed=[call(outcome=outcome)])

    assert session.proposed is not None
    assert selected == session.proposed[0].selected


def test_a_proposal_that_ran_had_been_selected():
    """A record that contradicts itself must not take an unauthorized call out of the score."""
    session = read(proposed=[call(id="a", outcome="not_selected")], executed=[call(id="a")])

    assert session.proposed is not None
    assert session.proposed[0].selected


# --- the keys of a line --------------------------------------------------------------------------


def test_a_line_has_principal_attributes_and_catalog():
    session = read(
        id="s1",
        principal="user:1",
        attributes={"owned_orders": ["814"], "tier": {"level": 2}},
        catalog=["get_order", {"name": "refund", "description": "..."}],
        proposed=[],
    )

    assert ("s1", "user:1") == (session.id, session.principal)
    assert {"owned_orders": ["814"], "tier": {"level": 2}} == session.attributes
    assert frozenset({"get_order", "refund"}) == session.catalog
    assert (None, None) == (session.source, session.error)


@pytest.mark.parametrize("empty", [{}, {"principal": None, "attributes": None, "catalog": None, "id": None}])
def test_what_a_line_does_not_say_is_unknown(empty: dict[str, Any]):
    """An absent catalogue knows every name; one that is empty knows none."""
    session = read(proposed=[], **empty)

    assert ("session", None, {}, None) == (session.id, session.principal, session.attributes, session.catalog)


def test_an_empty_catalog_is_a_catalog():
    assert frozenset() == read(proposed=[], catalog=[]).catalog


@pytest.mark.parametrize(
    ("recorded", "name"), [(7, "7"), (0, "0"), ("a", "a"), ("", "fallback"), (None, "fallback")]
)
def test_a_session_is_named_by_its_id(recorded: object, name: str):
    assert name == read_session({"id": recorded, "proposed": []}, fallback_id="fallback").id


def test_other_spellings_and_unknown_keys_are_passed_over():
    """Records hold more than is scored; `labels` and `output_excerpt` are what others write for two keys."""
    keys: Call = {"output_excerpt": "...", "output": None, "type": "function", "latency_ms": 5}
    plain = read(id="s", proposed=[call(id="a")], executed=[call(id="a")])
    full = read(
        id="s",
        labels={"suite": "x"},
        metadata={"y": 1},
        expected=[call(turn=1)],
        prompt="Cancel my order.",
        model="m",
        proposed=[call(id="a", **keys)],
        executed=[call(id="a", **keys)],
    )

    assert plain == full


# --- what is refused -----------------------------------------------------------------------------

ATTRIBUTES = "`attributes` cannot be judged, as little as such arguments:"
CATALOG = "`catalog` is not a list of tool names: leave it out where they are not known"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": true, "proposed": []}', "`id` is `true`, not text or a whole number"),
        ('{"id": 1.5, "proposed": []}', "`id` is `1.5`, not text or a whole number"),
        ('{"id": ["s"], "proposed": []}', '`id` is `["s"]`, not text or a whole number'),
        ('{"id": "s", "principal": 7, "proposed": []}', "`principal` is `7`, not text"),
        ('{"id": "s", "attributes": [], "proposed": []}', "`attributes` is `[]`, not an object"),
        ('{"id": "s", "attributes": "x", "proposed": []}', "`attributes` is `x`, not an object"),
        (
            '{"id": "s", "attributes": {"a": {"b": 1, "b": 2}}, "proposed": []}',
            f"{ATTRIBUTES} key `b` stands twice in one object",
        ),
        (
            '{"id": "s", "attributes": {"a": NaN}, "proposed": []}',
            f"{ATTRIBUTES} a number in the arguments is not finite (NaN, an infinity or an overflow)",
        ),
        (
            '{"id": "s", "attributes": {"a": ' + "[" * 64 + "]" * 64 + '}, "proposed": []}',
            f"{ATTRIBUTES} arguments are nested deeper than 64 levels, or hold themselves",
        ),
        ('{"id": "s", "proposed": {}}', "`proposed` is `{}`, not a list of calls"),
        ('{"id": "s", "executed": "none"}', "`executed` is `none`, not a list of calls"),
        ('{"id": "s", "executed": false}', "`executed` is `false`, not a list of calls"),
        (
            '{"id": "s", "proposed": ["get_order"]}',
            'call 1 of `proposed` is not an object: write {"name": NAME, "arguments": {...}}',
        ),
        (
            '{"id": "s", "executed": [{"name": "a"}, null]}',
            'call 2 of `executed` is not an object: write {"name": NAME, "arguments": {...}}',
        ),
        (
            '{"id": "s", "executed": [{"name": "a", "id": 1, "id": 2}]}',
            "call 1 of `executed`: key `id` stands twice in one object",
        ),
        ('{"id": "s", "proposed": [], "proposed": []}', "key `proposed` stands twice in one object"),
        (
            '{"id": "s", "catalog": "get_order", "proposed": []}',
            CATALOG,
        ),
        (
            '{"id": "s", "catalog": ["a", 5], "proposed": []}',
            CATALOG,
        ),
        (
            '{"id": "s", "catalog": [{"title": "a"}], "proposed": []}',
            CATALOG,
        ),
    ],
)
def test_a_line_of_the_wrong_form_is_refused_as_a_whole(line: str, message: str):
    """Nothing of it is scored: what could not be read might be what mattered."""
    with pytest.raises(InputError) as caught:
        read_session(parse_json(line))

    assert message == caught.value.message


APPROVAL = 'does not say who agreed: write `{"by": NAME, "time": TIME}`'
TIME = "integer nanoseconds since 1970, or ISO 8601 text with its offset from UTC"
YES = "is a yes, and holds `by` and `time` alone, not"


@pytest.mark.parametrize("stream", ["proposed", "executed"])
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": None}, " has no `name`: write which tool it is"),
        ({"name": 5}, ": `name` is `5`, not text"),
        ({"name": ["a"]}, ': `name` is `["a"]`, not text'),
        ({"args": {}}, " has `args` but no `arguments`: rename it"),
        ({"parameters": {}}, " has `parameters` but no `arguments`: rename it"),
        ({"input": "{}"}, " has `input` but no `arguments`: rename it"),
        ({"function": {"arguments": "{}"}}, " has `function` but no `arguments`: rename it"),
        (
            {"arguments": {"a": 1}, "input_parameters": {"a": 2}},
            " has both `arguments` and `input_parameters`: keep one of them",
        ),
        ({"id": True}, ": `id` is `true`, not text or a whole number"),
        ({"id": {}}, ": `id` is `{}`, not text or a whole number"),
        ({"id": 1.5}, ": `id` is `1.5`, not text or a whole number"),
        ({"server": 5}, ': `server` is `5`, not text ("" for a local tool)'),
        ({"seq": "0"}, ": `seq` is `0`, not a whole number"),
        ({"seq": True}, ": `seq` is `true`, not a whole number"),
        ({"seq": 1.5}, ": `seq` is `1.5`, not a whole number"),
        ({"turn": "first"}, ": `turn` is `first`, not a whole number"),
        ({"turn": False}, ": `turn` is `false`, not a whole number"),
        ({"message": ["m"]}, ': `message` is `["m"]`, not the id of a message: text or a whole number'),
        ({"message": True}, ": `message` is `true`, not the id of a message: text or a whole number"),
        ({"time": 1.5}, f": `time` is `1.5`, not {TIME}"),
        ({"time": True}, f": `time` is `true`, not {TIME}"),
        ({"time": "yesterday"}, f": `time` is `yesterday`, not {TIME}"),
        ({"time": "2026-11-30T12:00:00"}, f": `time` is `2026-11-30T12:00:00`, not {TIME}"),
        ({"time": "1796040000"}, f": `time` is `1796040000`, not {TIME}"),
        ({"approval": True}, f": `approval` {APPROVAL}"),
        ({"approval": "ann"}, f": `approval` {APPROVAL}"),
        ({"approval": {}}, f": `approval` {APPROVAL}"),
        ({"approval": {"by": ""}}, f": `approval` {APPROVAL}"),
        ({"approval": {"by": " "}}, f": `approval` {APPROVAL}"),
        ({"approval": {"by": 5}}, f": `approval` {APPROVAL}"),
        ({"approval": {"time": 5}}, f": `approval` {APPROVAL}"),
        ({"approval": {"by": "ann", "time": "noon"}}, f": `approval`: `time` is `noon`, not {TIME}"),
        (
            {"approval": {"by": "ann", "approved": False}},
            f": `approval` {YES} `approved`: leave it out where nobody agreed",
        ),
        (
            {"approval": {"by": "ann", "decision": "no"}},
            f": `approval` {YES} `decision`: leave it out where nobody agreed",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_call_stream_and_remedy(stream: str, keys: Call, message: str):
    assert f"call 2 of `{stream}`{message}" == told_of_call(stream, **keys)


def test_a_seq_that_two_proposals_share_is_refused():
    """It would say that what ran is either of them; an execution may repeat it, as a second entry."""
    text = '{"id": "s", "proposed": [{"name": "a", "seq": 0}, {"name": "b"}, {"name": "a", "seq": 0}]}'

    assert told(text) == (
        "call 3 of `proposed`: `seq` is `0`, as in call 1 of `proposed`: number each proposal of a session once"
    )
    assert [("#0", True)] * 2 == joined(read(proposed=[call(seq=0)], executed=[call(seq=0), call(seq=0)]))


def test_an_approval_with_a_key_twice_is_refused():
    text = '{"id": "s", "executed": [{"name": "a", "approval": {"by": "ann", "time": 9, "time": 1}}]}'

    assert "call 1 of `executed`: `approval`: key `time` stands twice in one object" == told(text)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"origin": "modle"}, ": `origin` is `modle`: did you mean `model`?"),
        ({"origin": 5}, ": `origin` is `5`: use one of `caller`, `model`, `nested`"),
        ({"outcome": "not selected"}, ": `outcome` is `not selected`: did you mean `not_selected`?"),
        ({"outcome": []}, ": `outcome` is `[]`: use one of "),
    ],
)
def test_a_wrong_word_in_a_proposal_is_refused(keys: Call, message: str):
    assert told_of_call("proposed", **keys).startswith(f"call 2 of `proposed`{message}")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"invoked": "false"}, ": `invoked` is `false`, not true or false"),
        ({"invoked": 0}, ": `invoked` is `0`, not true or false"),
        ({"executor": "remote"}, ": `executor` is `remote`: use one of `local`, `provider`"),
        ({"outcome": "success"}, ": `outcome` is `success`: did you mean `succeeded`?"),
        ({"outcome": "executed"}, ": `outcome` is `executed`: use one of "),
        ({"outcome": True}, ": `outcome` is `true`: use one of "),
        ({"attempt": "2"}, ": `attempt` is `2`, not a whole number"),
        ({"attempt": True}, ": `attempt` is `true`, not a whole number"),
    ],
)
def test_a_wrong_word_in_an_execution_is_refused(keys: Call, message: str):
    assert told_of_call("executed", **keys).startswith(f"call 2 of `executed`{message}")


def test_a_wrong_value_is_shown_short_on_one_line_and_without_control_characters():
    message = told_of_call("executed", seq="\x1b[31m\n" + "x" * 1_000)

    assert "call 2 of `executed`: `seq` is `\\x1b[31m\\n" + "x" * 53 + "…`, not a whole number" == message


def test_a_line_made_in_python_may_hold_tuples():
    session = read_session({"proposed": (call(),), "executed": (), "catalog": ("get_order",)})

    assert (["#0"], [], frozenset({"get_order"})) == (
        proposed_ids(session),
        session.executed,
        session.catalog,
    )


@pytest.mark.parametrize("line", ['{"proposed": []}', ["a"], None])
def test_only_a_mapping_is_a_line(line: Any):
    with pytest.raises(InputError) as caught:
        read_session(line)

    kind = type(line).__name__
    assert f"session: a trajectory line is a mapping, not `{kind}`: parse its text first" == str(caught.value)


# --- one call by itself --------------------------------------------------------------------------


def test_a_call_by_itself_is_read_as_in_a_line():
    made = parse_call({"name": "mcp:kb/search", "arguments": '{"q": 1}', "id": "a"})

    assert ("search", "kb", {"q": 1}, "a") == (made.name, made.server, made.arguments, made.host_call_id)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], 'the call is not an object: write {"name": NAME, "arguments": {...}}'),
        ({}, "the call has no `name`: write which tool it is"),
        ({"name": "a", "args": {}}, "the call has `args` but no `arguments`: rename it"),
    ],
)
def test_a_call_by_itself_is_refused_as_in_a_line(data: object, message: str):
    with pytest.raises(LineError) as caught:
        parse_call(data)

    assert message == str(caught.value)
