"""Events to spans and back: nothing is lost, and what is damaged is told."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.canonical import Json, canonical_text, is_marked
from gatescore.model import (
    Abandoned,
    Action,
    Approved,
    AttributesChanged,
    Budget,
    Decided,
    Decision,
    Effect,
    Event,
    Executor,
    Facts,
    Finished,
    Join,
    Mode,
    Moment,
    Origin,
    Outcome,
    Position,
    Proposed,
    Rejected,
    SessionEnded,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.semconv import DamagedSpanError, SpanData, decode, encode, encode_finished

# Lone surrogates are among the texts, also two side by side; and texts that look like escaped ones.
TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(["\0", "\0ff", "\ud83d\ude00"])
# In JSON two lone surrogates side by side are one character.
JSON_TEXT = TEXT.map(lambda text: str(json.loads(json.dumps(text))))
NAME = TEXT.filter(bool)
KEY = st.text(max_size=5)
MAYBE = st.none() | TEXT
INT64 = st.integers(0, 2**63 - 1)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
)
LEAF: st.SearchStrategy[Any] = (
    SCALAR | JSON_TEXT | st.just({"$python": "socket"}) | st.just({"$withheld": {"size": 3}})
)
VALUE: st.SearchStrategy[Any] = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(KEY, VALUE, max_size=4)


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    invalid = draw(MAYBE)
    arguments: dict[str, Json] = {} if invalid is not None else draw(OBJECT)
    return ToolCall.recorded(
        draw(NAME),
        arguments,
        server=draw(MAYBE),
        call_id=draw(TEXT),
        host_call_id=draw(MAYBE),
        invalid=invalid,
        opaque=is_marked(arguments),
        withheld=draw(st.booleans()),
        digest=draw(st.none() | st.just("hmac-sha256:01234567:" + "0" * 64)),
        raw=draw(MAYBE),
    )


BUDGETS = st.lists(
    st.builds(Budget, TEXT, st.sampled_from(["executions", "calls"]), st.just(""), st.booleans()), max_size=2
).map(tuple)
DECISIONS = st.builds(
    Decision,
    st.sampled_from(Effect),
    st.lists(TEXT, max_size=2).map(tuple),
    TEXT,
    KEY,
    st.lists(TEXT, max_size=2).map(tuple),
    BUDGETS,
    st.just(()),
    MAYBE,
    st.booleans(),
)
FACTS = st.builds(
    Facts, now=st.none() | INT64, budgets=st.dictionaries(JSON_TEXT, st.integers(0, 9), max_size=2)
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[Event], ToolCall]:
    """The events of one span, and their call."""
    time = draw(st.none() | INT64)
    sequence = draw(st.integers(0, 2**40))
    place: dict[str, Any] = {"time": time, "sequence": sequence}
    call = draw(calls())
    given = call.call_id
    decided = Decided(
        time=time,
        sequence=sequence,
        call_id=given,
        moment=Moment.ENTRY,
        decision=draw(DECISIONS),
        call=call,
        facts=draw(FACTS),
        action=draw(st.none() | st.sampled_from(Action)),
    )
    kind = draw(st.integers(0, 8))
    if kind == 0:
        proposed = Proposed(
            **place,
            call=call,
            message=draw(MAYBE),
            origin=draw(st.sampled_from(Origin)),
            parent=draw(MAYBE),
            edited_from=draw(MAYBE),
            selected=draw(st.booleans()),
        )
        at_proposal = Decided(
            time=time,
            sequence=sequence + 1,
            call_id=given,
            moment=Moment.PROPOSAL,
            decision=decided.decision,
            facts=decided.facts,
            action=decided.action,
        )
        return [proposed, at_proposal], call
    if kind == 1:
        return [decided], call
    if kind == 2:
        attempt = draw(st.integers(1, 9))
        begun = Started(
            time=time,
            sequence=sequence + 1,
            call=call,
            budgets=decided.decision.budgets,
            attempt=attempt,
            executor=draw(st.sampled_from(Executor)),
            join=draw(st.none() | st.sampled_from(Join)),
        )
        finished = Finished(
            time=draw(st.none() | INT64),
            sequence=draw(INT64),
            call_id=given,
            outcome=draw(st.sampled_from(Outcome)),
            attempt=attempt,
            error_type=draw(MAYBE),
        )
        return [decided, begun, *draw(st.sampled_from([[], [finished]]))], call
    others: dict[int, st.SearchStrategy[Event]] = {
        3: st.builds(
            Approved,
            call_id=st.just(given),
            arguments=st.just(call.digest),
            policy_digest=st.none() | KEY,
            by=MAYBE,
            expires=st.none() | INT64,
            attempts=st.integers(1, 9),
            **{key: st.just(value) for key, value in place.items()},
        ),
        4: st.builds(
            Rejected,
            call_id=st.just(given),
            by=MAYBE,
            expired=st.booleans(),
            error=MAYBE,
            **{key: st.just(value) for key, value in place.items()},
        ),
        5: st.builds(
            SessionStarted,
            session_id=st.just("s\ud800"),
            principal=MAYBE,
            attributes=OBJECT,
            observed=st.booleans(),
            withheld=st.booleans(),
            lone=st.booleans(),
            mode=st.none() | st.sampled_from(Mode),
            policy_name=MAYBE,
            policy_version=MAYBE,
            policy_digest=MAYBE,
            catalog=st.none() | st.frozensets(TEXT, max_size=3),
            continues=st.none() | st.builds(Position, writer=KEY, sequence=INT64),
            **{key: st.just(value) for key, value in place.items()},
        ),
        6: st.builds(
            AttributesChanged,
            attributes=OBJECT,
            withheld=st.booleans(),
            **{key: st.just(value) for key, value in place.items()},
        ),
        7: st.just(Abandoned(**place, call_id=given)),
        8: st.just(SessionEnded(**place)),
    }
    return [draw(others[kind])], call


def span_of(events: Sequence[Event], call: ToolCall | None = None) -> SpanData:
    """What a guard makes of *events*: the end of an execution comes later."""
    ends = [event for event in events if isinstance(event, Finished)]
    made = encode(
        [event for event in events if not isinstance(event, Finished)],
        session_id="s\ud800",
        writer="w",
        agent_name="agent",
        call=call,
    )
    for end in ends:
        made.attributes.update(encode_finished(end))
    return made


@given(steps())
def test_what_is_encoded_comes_back(step: tuple[list[Event], ToolCall]):
    events, call = step
    made = span_of(events, call)
    read = decode(made.attributes)
    assert read is not None
    assert ("s\ud800", "w", events) == (read.session_id, read.writer, read.events)


@given(steps())
def test_every_attribute_is_one_that_a_span_can_have(step: tuple[list[Event], ToolCall]):
    made = span_of(*step)
    made.name.encode()
    for key, value in made.attributes.items():
        items = value if isinstance(value, list) else [value]
        for item in cast("list[object]", items):
            assert isinstance(item, (str, bool, int, float)), key
            if isinstance(item, str):
                item.encode()
            elif isinstance(item, int):
                assert -(2**63) <= item < 2**63, key


@given(steps(), st.data())
def test_a_span_without_one_of_its_attributes_is_read_or_refused(
    step: tuple[list[Event], ToolCall], data: st.DataObject
):
    attributes: dict[str, Any] = dict(span_of(*step).attributes)
    key = data.draw(st.sampled_from(sorted(attributes)))
    if data.draw(st.booleans()):
        del attributes[key]
    else:
        attributes[key] = data.draw(st.none() | st.integers() | st.just("x") | st.just([]))
    # Nothing else is raised.
    with contextlib.suppress(DamagedSpanError):
        decode(attributes)


CALL = ToolCall("refund", {"amount": 2**70, "to": "ä"}, server="shop", call_id="c1", host_call_id="h1")
DECISION = Decision(Effect.DENY, ("r1",), "too much", "sha256:0", budgets=(Budget("main/r1", "calls", ""),))
PROPOSED = Proposed(time=5, sequence=3, call=CALL)
VERDICT = Decided(
    time=5,
    sequence=4,
    call_id="c1",
    moment=Moment.PROPOSAL,
    decision=DECISION,
    facts=Facts(now=5),
    action=Action.BLOCK,
)
ENTRY = Decided(
    time=6, sequence=5, call_id="c1", moment=Moment.ENTRY, decision=DECISION, call=CALL, facts=Facts(now=6)
)


def test_a_proposal_is_a_guardrail_and_no_execution():
    made = encode([PROPOSED, VERDICT], session_id="s", writer="w", agent_name="a")
    assert "propose_tool refund" == made.name
    expected = {
        "gen_ai.operation.name": "propose_tool",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.id": "h1",
        "gen_ai.agent.name": "a",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.call.arguments": canonical_text(CALL.arguments),
        "openinference.span.kind": "GUARDRAIL",
        "langfuse.observation.type": "guardrail",
        "gatescore.schema": 1,
        "gatescore.stream": "proposed",
        "gatescore.session.id": "s",
        "gatescore.writer": "w",
        "gatescore.call.id": "c1",
        "gatescore.sequence": 3,
        "gatescore.time": 5,
        "gatescore.decision": "deny",
        "gatescore.action": "block",
        "gatescore.rule.ids": ["r1"],
        "gatescore.reason": "too much",
        "gatescore.server": "shop",
        "gatescore.facts": '{"now":5}',
    }
    assert expected == {key: made.attributes.get(key) for key in expected}


def test_an_execution_is_a_tool():
    begun = Started(time=6, sequence=6, call=CALL, budgets=DECISION.budgets)
    made = encode([ENTRY, begun], session_id="s", writer="w")
    assert "execute_tool refund" == made.name
    assert ("TOOL", "tool", "execute_tool", "executed") == tuple(
        made.attributes[key]
        for key in (
            "openinference.span.kind",
            "langfuse.observation.type",
            "gen_ai.operation.name",
            "gatescore.stream",
        )
    )
    assert "gen_ai.agent.name" not in made.attributes


def test_a_denial_at_entry_is_no_execution():
    made = encode([ENTRY], session_id="s", writer="w")
    assert ("propose_tool refund", "proposed") == (made.name, made.attributes["gatescore.stream"])


@pytest.mark.parametrize("answer", [Approved(sequence=1, call_id="c1"), Rejected(sequence=1, call_id="c1")])
def test_an_answer_is_named_by_the_tool(answer: Event):
    made = encode([answer], session_id="s", writer="w", call=CALL)
    assert "propose_tool refund" == made.name
    assert "gen_ai.tool.call.arguments" not in made.attributes


@pytest.mark.parametrize("host_id", [None, ""])
def test_an_id_that_nobody_gave_is_no_attribute(host_id: str | None):
    call = ToolCall("x", call_id="c1", host_call_id=host_id)
    made = encode([Proposed(sequence=0, call=call), VERDICT], session_id="s", writer="w")
    assert "gen_ai.tool.call.id" not in made.attributes


def test_withheld_arguments_are_not_given_as_the_arguments():
    call = ToolCall.recorded("x", {"$withheld": {}}, withheld=True)
    made = encode([Proposed(sequence=0, call=call), VERDICT], session_id="s", writer="w")
    assert "gen_ai.tool.call.arguments" not in made.attributes
    assert '{"$withheld":{}}' == made.attributes["gatescore.args.shape"]


def test_a_session_names_its_span():
    made = encode([SessionEnded(sequence=1)], session_id="s", writer="w")
    assert ("session s", "session") == (made.name, made.attributes["gatescore.stream"])


@pytest.mark.parametrize("attributes", [{}, {"gen_ai.operation.name": "execute_tool"}])
def test_the_span_of_somebody_else_is_none_of_ours(attributes: dict[str, Any]):
    assert decode(attributes) is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("gatescore.schema", 2, "schema `2` is not one that this version reads"),
        ("gatescore.time", "5", "`gatescore.time` is not a whole number"),
        ("gatescore.sequence", True, "`gatescore.sequence` is not a whole number"),
        ("gatescore.reason", 5, "`gatescore.reason` is not text"),
        ("gatescore.origin", "mars", "mars"),
        ("gatescore.events", ["Sung"], ""),
        ("gatescore.events", None, ""),
        ("gen_ai.tool.call.arguments", '{"amount":', ""),
        ("gen_ai.tool.call.arguments", "[]", ""),
        ("gatescore.budgets", "[1]", ""),
    ],
)
def test_damage_is_told(key: str, value: object, problem: str):
    attributes: dict[str, Any] = dict(encode([PROPOSED, VERDICT], session_id="s", writer="w").attributes)
    attributes[key] = value
    with pytest.raises(DamagedSpanError) as caught:
        decode(attributes)
    assert problem in str(caught.value)
