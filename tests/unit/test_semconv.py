"""Events to spans and back: nothing is lost, and what is damaged is told."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

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
from gatescore.semconv import (
    LOST,
    Attributes,
    DamagedSpanError,
    Limits,
    SpanData,
    decode,
    encode,
    encode_finished,
    encoding,
    fit,
    json_text,
    parsed,
)
from gatescore.semconv.texts import ARGUMENTS, EVENTS, OWN

# Lone surrogates are among the texts, also two side by side; and texts that look like escaped ones.
ODD = [
    "",
    "\0",
    "\0ff",
    "\ud800",
    "\ud83d\ude00",
    "\N{GRINNING FACE}",
    "escaped:",
    "escaped:\\ud800",
    "escaped:\\\\",
    "\\ud83d\\ude00",
    '{"a":1}',
]
TEXT = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(ODD)
NAMED = r"`[a-z_.]+`"
MAYBE = st.none() | TEXT
DIGEST = "hmac-sha256:01234567:" + "0" * 64
INT64 = st.integers(0, 2**63 - 1)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
)
LEAF: st.SearchStrategy[Any] = (
    SCALAR | TEXT | st.just({"$python": "socket"}) | st.just({"$withheld": {"size": 3}})
)
VALUE: st.SearchStrategy[Any] = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=4)


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    invalid = draw(MAYBE)
    arguments: dict[str, Json] = {} if invalid is not None else draw(OBJECT)
    return ToolCall.recorded(
        draw(TEXT),
        arguments,
        server=draw(MAYBE),
        call_id=draw(TEXT),
        host_call_id=draw(MAYBE),
        invalid=invalid,
        opaque=is_marked(arguments),
        withheld=draw(st.booleans()),
        digest=draw(st.sampled_from([None, "", DIGEST])),
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
    TEXT,
    st.lists(TEXT, max_size=2).map(tuple),
    BUDGETS,
    st.just(()),
    MAYBE,
    st.booleans(),
)
FACTS = st.builds(Facts, now=st.none() | INT64, budgets=st.dictionaries(TEXT, st.integers(0, 9), max_size=2))


class Step(NamedTuple):
    """The events of one span, and what goes with them."""

    events: list[Event]
    call: ToolCall | None
    session_id: str
    writer: str
    agent_name: str | None


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """The events of one span, as a guard can write them, and what goes with them."""
    session_id = draw(TEXT)
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
        return Step([proposed, at_proposal], call, session_id, draw(TEXT), draw(MAYBE))
    if kind == 1:
        return Step([decided], call, session_id, draw(TEXT), draw(MAYBE))
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
        end = draw(st.sampled_from([[], [finished]]))
        return Step([decided, begun, *end], call, session_id, draw(TEXT), draw(MAYBE))
    others: dict[int, st.SearchStrategy[Event]] = {
        3: st.builds(
            Approved,
            call_id=st.just(given),
            arguments=st.just(call.digest),
            policy_digest=MAYBE,
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
            session_id=st.just(session_id),
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
            continues=st.none() | st.builds(Position, writer=TEXT, sequence=INT64),
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
    return Step(
        [draw(others[kind])], draw(st.sampled_from([None, call])), session_id, draw(TEXT), draw(MAYBE)
    )


def span_of(step: Step, limits: Limits = Limits(None, None)) -> SpanData:  # noqa: B008 - it is a value
    """What a guard makes of a step: the end of an execution comes later."""
    ends = [event for event in step.events if isinstance(event, Finished)]
    made = encode(
        [event for event in step.events if not isinstance(event, Finished)],
        session_id=step.session_id,
        writer=step.writer,
        agent_name=step.agent_name,
        call=step.call,
    )
    fitted = fit(made.attributes, limits, reserved=4 * len(ends))
    for end in ends:
        fitted.update(fit(encode_finished(end), limits))
    return SpanData(made.name, fitted)


@given(steps())
def test_what_is_encoded_comes_back(step: Step):
    """Every text in every place, whatever is in it."""
    read = decode(span_of(step).attributes)
    assert read is not None
    assert (step.session_id, step.writer, step.events) == (read.session_id, read.writer, read.events)


@given(steps())
def test_sequences_may_be_lists_as_they_are_in_files(step: Step):
    made = span_of(step).attributes
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in made.items()}
    assert decode(made) == decode(lists)


@given(steps())
def test_every_attribute_is_one_that_a_span_can_have(step: Step):
    made = span_of(step)
    made.name.encode()
    assert len(made.attributes) < 60, "a limit of 64 attributes is none to the recorder"
    for key, value in made.attributes.items():
        items = value if isinstance(value, tuple) else [value]
        for item in cast("Sequence[object]", items):
            assert isinstance(item, (str, bool, int)), key
            if isinstance(item, str):
                item.encode()
                assert "\0" not in item
            elif isinstance(item, int):
                assert -(2**63) <= item < 2**63, key


@given(steps())
def test_every_attribute_that_is_read_is_known_to_be_ours(step: Step):
    for key in span_of(step).attributes:
        assert (key in OWN) is (key.startswith("gatescore.") or key == ARGUMENTS)


def ours(attributes: Attributes) -> list[str]:
    """What a span must have as it was written; its end is written later, and tells less."""
    late = {"gatescore.outcome", "gatescore.finish.sequence", "gatescore.finish.time"}
    return sorted(key for key in attributes if key in OWN and key not in late)


@given(steps(), st.data())
def test_a_span_without_one_of_its_attributes_is_damaged(step: Step, data: st.DataObject):
    attributes: dict[str, Any] = dict(span_of(step).attributes)
    key = data.draw(st.sampled_from([key for key in ours(attributes) if key != "gatescore.events"]))
    del attributes[key]
    with pytest.raises(DamagedSpanError, match=NAMED):
        decode(attributes)


@given(steps(), st.data())
def test_a_text_that_was_cut_is_never_taken_for_whole(step: Step, data: st.DataObject):
    attributes: dict[str, Any] = dict(span_of(step).attributes)
    place = data.draw(st.sampled_from(ours(attributes)))
    limit = data.draw(st.integers(0, 20))
    value = attributes[place]
    cut = tuple(text[:limit] for text in value) if isinstance(value, tuple) else value
    attributes[place] = value[:limit] if isinstance(value, str) else cut
    if attributes[place] != value:
        with pytest.raises(DamagedSpanError, match=NAMED):
            decode(attributes)


@given(steps(), st.data())
def test_an_attribute_that_is_no_more_what_it_was_is_damaged(step: Step, data: st.DataObject):
    """But for those that can be anything: another number or text in their place is as good."""
    attributes: dict[str, Any] = dict(span_of(step).attributes)
    key = data.draw(st.sampled_from(ours(attributes)))
    was = attributes[key]
    for wrong in (None, 1.5, [], {}, b"", [None], ["x", 1], object()):
        if wrong != was and not (wrong == [] and was == ()):
            attributes[key] = wrong
            with pytest.raises(DamagedSpanError, match=NAMED):
                decode(attributes)
    attributes[key] = not was if isinstance(was, bool) else bool(was)
    with pytest.raises(DamagedSpanError, match=NAMED):
        decode(attributes)


@given(steps(), st.dictionaries(st.sampled_from(sorted(OWN)), st.none() | st.integers() | TEXT | OBJECT))
def test_nothing_but_damage_is_raised(step: Step, other: dict[str, Any]):
    with contextlib.suppress(DamagedSpanError):
        decode({**span_of(step).attributes, **other})


@given(steps(), steps())
def test_attributes_of_another_step_have_no_meaning(step: Step, other: Step):
    """What is read is what was written: two spans in one are neither."""
    mine, theirs = span_of(step).attributes, span_of(other).attributes
    more = {key: value for key, value in theirs.items() if key in OWN and key not in mine}
    if more.keys() - {ARGUMENTS} and "gatescore.outcome" not in more:
        with pytest.raises(DamagedSpanError):
            decode({**mine, **more})


@given(VALUE)
def test_json_that_canonical_text_can_hold_is_that(value: Any):
    text = json_text(value)
    assert text == canonical_text(value) or text.startswith("escaped:")
    assert value == parsed(text)


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
        "gatescore.rule.ids": ("r1",),
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


EXECUTION: list[Event] = [
    ENTRY,
    Started(time=6, sequence=6, call=CALL, budgets=DECISION.budgets, attempt=2),
    Finished(time=7, sequence=9, call_id="c1", outcome=Outcome.FAILED, attempt=2, error_type="ValueError"),
]
BEGUN = SessionStarted(
    time=1,
    sequence=0,
    session_id="s",
    catalog=frozenset({"b", "a"}),
    continues=Position(writer="v", sequence=7),
)
SPANS: dict[str, Step] = {
    "proposal": Step([PROPOSED, VERDICT], None, "s", "w", "a"),
    "execution": Step(EXECUTION, None, "s", "w", "a"),
    "session": Step([BEGUN], None, "s", "w", None),
    "answer": Step([Approved(sequence=3, call_id="c1", attempts=2)], CALL, "s", "w", None),
    "rejection": Step([Rejected(sequence=3, call_id="c1", error="none")], CALL, "s", "w", None),
}
NOT_JSON = "is not JSON as a guard writes it"


@pytest.mark.parametrize(
    ("span", "key", "value", "problem"),
    [
        ("proposal", "gatescore.schema", 2, "`gatescore.schema` is `2`: not one that this version reads"),
        (
            "proposal",
            "gatescore.schema",
            None,
            "`gatescore.schema` is `None`: not one that this version reads",
        ),
        ("proposal", "gatescore.time", "5", "`gatescore.time` is not a whole number"),
        ("proposal", "gatescore.sequence", True, "`gatescore.sequence` is not a whole number"),
        ("proposal", "gatescore.sequence", 3.0, "`gatescore.sequence` is not a whole number"),
        ("proposal", "gatescore.sequence", -1, "`gatescore.sequence` is not a number from 0"),
        ("proposal", "gatescore.sequence", 2**63, "`gatescore.sequence` is not a number from 0"),
        ("proposal", "gatescore.reason", 5, "`gatescore.reason` is not text"),
        ("proposal", "gatescore.origin", "mars", "`gatescore.origin` is `mars`: there is no such value"),
        ("proposal", "gatescore.moment", "entry", "`gatescore.moment` is not `proposal`"),
        ("proposal", "gatescore.call.id", "\ud800", "`gatescore.call.id` is not what a guard writes"),
        ("proposal", "gatescore.call.id", "escaped:c1", "`gatescore.call.id` is not what a guard writes"),
        ("proposal", "gatescore.call.id", "escaped:\\ud8", "`gatescore.call.id` is not what a guard writes"),
        (
            "proposal",
            "gatescore.call.id",
            "escaped:\\uD800",
            "`gatescore.call.id` is not what a guard writes",
        ),
        ("proposal", "gatescore.events", ["Sung"], "`gatescore.events` is none that one span can carry"),
        ("proposal", "gatescore.events", None, "`gatescore.events` is not a sequence of texts"),
        ("proposal", "gatescore.events", "Decided", "`gatescore.events` is not a sequence of texts"),
        ("proposal", "gatescore.events", [], "`gatescore.events` is none that one span can carry"),
        ("proposal", "gatescore.events", ["Proposed"], "`gatescore.events` is none that one span can carry"),
        (
            "proposal",
            "gatescore.events",
            ["Proposed"] * 2,
            "`gatescore.events` is none that one span can carry",
        ),
        ("proposal", "gatescore.events", ["Decided", "Started"], "`gatescore.moment` is not `entry`"),
        ("proposal", "gatescore.events", ["SessionEnded"], "`gatescore.stream` is not what a guard writes"),
        ("proposal", "gen_ai.tool.call.arguments", '{"amount":', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", "[]", "`gen_ai.tool.call.arguments` is not an object"),
        ("proposal", "gen_ai.tool.call.arguments", '{"a":NaN}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"a":Infinity}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"a":1e999}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"a":1,"a":2}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"b":1,"a":2}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"a": 1}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"a":"\u00e4"}', NOT_JSON),
        ("proposal", "gen_ai.tool.call.arguments", '{"a":' * 5000 + "1" + "}" * 5000, NOT_JSON),
        (
            "proposal",
            "gen_ai.tool.call.arguments",
            '{"a":' * 65 + "1" + "}" * 65,
            "`gen_ai.tool.call.arguments` is nested deeper than 64 levels",
        ),
        ("proposal", "gatescore.args.opaque", True, "`gatescore.args.opaque` is not what the arguments say"),
        ("proposal", "gatescore.args.digest", "hmac-sha256:01234567:00", "`gatescore.args.digest` was cut"),
        ("proposal", "gatescore.facts", '{"now":"x"}', "`gatescore.facts` holds a `now` that is not a whole"),
        (
            "proposal",
            "gatescore.facts",
            '{"now":true}',
            "`gatescore.facts` holds a `now` that is not a whole",
        ),
        ("proposal", "gatescore.facts", '{"now":-1}', "`gatescore.facts` holds a `now` that is not a whole"),
        ("proposal", "gatescore.facts", '{"now":5,"x":1}', "`gatescore.facts` is not what a guard writes"),
        ("proposal", "gatescore.facts", '{"budgets":{}}', "`gatescore.facts` is not what a guard writes"),
        ("proposal", "gatescore.facts", '{"budgets":{"r":true}}', "`gatescore.facts` holds `budgets`"),
        ("proposal", "gatescore.facts", '{"budgets":{"r":-1}}', "`gatescore.facts` holds `budgets`"),
        ("proposal", "gatescore.facts", '{"budgets":{"r":1.0}}', "`gatescore.facts` holds `budgets`"),
        ("proposal", "gatescore.facts", '{"budgets":[1]}', "`gatescore.facts` holds `budgets`"),
        ("proposal", "gatescore.facts.withheld", 1, "`gatescore.size` is not what a guard writes"),
        ("proposal", "gatescore.budgets", "[1]", "`gatescore.budgets` is not a sequence of texts"),
        ("proposal", "gatescore.budgets", ["[1]"], "`gatescore.budgets` holds something other than a unit"),
        ("proposal", "gatescore.budgets", ['["calls",1,false]'], "`gatescore.budgets` holds something other"),
        ("proposal", "gatescore.budgets", ['["calls","r",0]'], "`gatescore.budgets` holds something other"),
        ("proposal", "gatescore.budgets", ["x"], f"`gatescore.budgets` {NOT_JSON}"),
        ("proposal", "gatescore.rule.ids", "r1", "`gatescore.rule.ids` is not a sequence of texts"),
        ("proposal", "gatescore.rule.ids", [1], "`gatescore.rule.ids` is not a sequence of texts"),
        ("proposal", "gatescore.errors", {"r1": 1}, "`gatescore.errors` is not a sequence of texts"),
        ("proposal", "gatescore.stop", False, "`gatescore.stop` is not what a guard writes"),
        ("proposal", "gatescore.outcome", "failed", "`gatescore.outcome` has no meaning beside the other"),
        ("proposal", "gatescore.finish.sequence", 9, "`gatescore.finish.sequence` has no meaning beside"),
        ("proposal", "gatescore.lost", 2, "a span lost attributes to a limit, says `gatescore.lost`"),
        ("execution", "gatescore.attempt", 0, "`gatescore.attempt` is not a number from 1"),
        ("execution", "gatescore.outcome", "fine", "`gatescore.outcome` is `fine`: there is no such value"),
        ("execution", "gatescore.outcome", None, "`gatescore.outcome` is not text"),
        ("execution", "gatescore.finish.time", "7", "`gatescore.finish.time` is not a whole number"),
        ("execution", "error.type", 7, "`error.type` is not text"),
        ("session", "gatescore.catalog", "ab", "`gatescore.catalog` is not a sequence of texts"),
        ("session", "gatescore.catalog", ["b", "a"], "`gatescore.catalog` is not what a guard writes"),
        ("session", "gatescore.continues.sequence", None, "`gatescore.continues.sequence` is not a whole"),
        ("session", "gatescore.attributes", '{"a":1,"a":1}', NOT_JSON),
        ("session", "gatescore.mode", "loud", "`gatescore.mode` is `loud`: there is no such value"),
        ("answer", "gatescore.approval.attempts", 0, "`gatescore.approval.attempts` is not a number from 1"),
        ("answer", "gatescore.approval", "rejected", "`gatescore.approval` is not what a guard writes"),
        ("rejection", "gatescore.approval", "approved", "`gatescore.approval` is not what a guard writes"),
        ("rejection", "gatescore.stream", "session", "`gatescore.size` is not what a guard writes"),
    ],
)
def test_damage_is_told(span: str, key: str, value: object, problem: str):
    attributes: dict[str, Any] = dict(span_of(SPANS[span]).attributes)
    assert decode(attributes) is not None
    attributes[key] = value
    with pytest.raises(DamagedSpanError) as caught:
        decode(attributes)
    message = str(caught.value)
    assert problem in message
    assert message[0].islower() or message[0] == "`"
    assert not message.endswith(".")


@pytest.mark.parametrize(
    ("span", "key"),
    [
        ("proposal", "gatescore.call.id"),
        ("execution", "gatescore.call.id"),
        ("execution", "gatescore.attempt"),
        ("session", "gatescore.continues.sequence"),
        ("session", "gatescore.session.id"),
        ("rejection", "gatescore.call.id"),
    ],
)
def test_what_is_not_there_is_named(span: str, key: str):
    attributes = dict(span_of(SPANS[span]).attributes)
    del attributes[key]
    with pytest.raises(DamagedSpanError) as caught:
        decode(attributes)
    assert f"a span lacks the attribute `{key}`" == str(caught.value)


def test_the_end_of_an_execution_needs_its_outcome():
    attributes = dict(span_of(SPANS["execution"]).attributes)
    del attributes["gatescore.outcome"]
    with pytest.raises(DamagedSpanError, match=r"`gatescore\.finish\.sequence` has no meaning beside"):
        decode(attributes)


def test_an_execution_without_an_end_is_unfinished():
    attributes = encode(EXECUTION[:2], session_id="s", writer="w").attributes
    read = decode({**attributes, "error.type": "set by the tool"})
    assert read is not None
    assert EXECUTION[:2] == read.events


def test_what_others_add_is_passed_over():
    """Also the arguments, where they are withheld, and what a later version may write."""
    call = ToolCall.recorded("x", {"$withheld": {}}, call_id="c1", withheld=True)
    made = encode([Proposed(sequence=3, call=call), VERDICT], session_id="s", writer="w").attributes
    others = {
        "gen_ai.tool.call.arguments": "{}",
        "gatescore.proposal.trace_id": "0",
        "gatescore.new": 1,
        "x": b"",
    }
    assert decode(made) == decode({**made, **others})


@pytest.mark.parametrize(
    "events",
    [
        [PROPOSED],
        [PROPOSED, VERDICT, VERDICT],
        [PROPOSED, PROPOSED],
        [VERDICT],
        [ENTRY, *EXECUTION],
        [ENTRY, VERDICT],
        [ENTRY, Started(time=6, sequence=6, call=ToolCall("another", call_id="c1"))],
        [BEGUN, BEGUN],
        [EXECUTION[2]],
    ],
)
def test_what_no_span_carries_is_not_encoded(events: list[Event]):
    with pytest.raises(ValueError):
        encode(events, session_id="s", writer="w")


def test_names_of_any_length_are_encoded():
    """What is the same for many spans is kept for a while; made-up names are not."""
    before = encoding._kept.cache_info().currsize
    for name in ("y" * 1_000_000, "z" * 200):
        call = ToolCall(name, call_id="c1")
        made = encode([Proposed(sequence=3, call=call), VERDICT], session_id="s", writer="w")
        assert (f"propose_tool {name}", name) == (made.name, made.attributes["gatescore.tool.name"])
    assert before == encoding._kept.cache_info().currsize
    assert encoding._kept.cache_info().maxsize == 1024


class Text(str):
    """A text of a type of its own, as an enumeration has."""

    __slots__ = ()


@pytest.mark.parametrize("text", [Text("a"), Text("\ud800"), Text("escaped:")])
def test_texts_of_other_types_are_texts(text: Text):
    begun = SessionStarted(sequence=0, session_id=text, principal=text, catalog=frozenset({text}))
    read = decode(encode([begun], session_id=text, writer=text).attributes)
    assert read is not None
    assert (text, text, [begun]) == (read.session_id, read.writer, read.events)


def test_spans_share_nothing_that_can_be_changed():
    first = encode([PROPOSED, VERDICT], session_id="s", writer="w")
    first.attributes.clear()
    assert encode([PROPOSED, VERDICT], session_id="s", writer="w").attributes


# Limits


@given(steps(), st.integers(0, 120), st.none() | st.integers(0, 50))
def test_what_is_made_to_fit_fits_and_is_read_or_damaged(step: Step, length: int, count: int | None):
    """And what is read has all that is judged by."""
    made = span_of(step, Limits(length, count)).attributes
    texts = [
        text for value in made.values() for text in ([value] if isinstance(value, str) else listed(value))
    ]
    assert not [text for text in texts if len(text) > length]
    assert count is None or len(made) <= max(count, 5 + 4)
    if LOST in made or EVENTS not in made:
        with contextlib.suppress(DamagedSpanError):
            assert decode(made) is None
        return
    read = decode(made)
    assert read is not None
    assert (step.session_id, step.writer) == (read.session_id, read.writer)
    for mine, theirs in zip(step.events, read.events, strict=True):
        assert judged_by(mine) == judged_by(theirs)


def listed(value: object) -> Sequence[str]:
    return cast("tuple[str, ...]", value) if isinstance(value, tuple) else ()


def judged_by(event: Event) -> Event:
    """*event* without what is for people, and without facts that can be left out."""
    if isinstance(event, Decided):
        d = event.decision
        invalid = None if d.invalid is None else ""
        decision = Decision(d.effect, d.rules, "", d.policy_digest, (), d.budgets, (), invalid, d.stop)
        call = None if event.call is None else untold(event.call)
        return replace(event, decision=decision, call=call, facts=Facts(now=event.facts.now))
    if isinstance(event, (Proposed, Started)):
        return replace(event, call=untold(event.call))
    if isinstance(event, Rejected):
        return replace(event, error=None)
    if isinstance(event, Finished):
        return replace(event, error_type=None)
    return (
        replace(event, policy_name=None, policy_version=None) if isinstance(event, SessionStarted) else event
    )


def untold(call: ToolCall) -> ToolCall:
    told = {
        key: getattr(call, key)
        for key in ("server", "call_id", "host_call_id", "opaque", "withheld", "digest", "raw")
    }
    invalid = None if call.invalid is None else ""
    return ToolCall.recorded(call.name, call.arguments, invalid=invalid, **told)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 49 + "\N{HORIZONTAL ELLIPSIS}"),
        ("\ud800" * 7, "escaped:" + "\\ud800" * 7),
        ("\ud800" * 8, "escaped:" + "\\ud800" * 6 + "\N{HORIZONTAL ELLIPSIS}"),
    ],
)
def test_a_text_for_people_is_shortened_where_it_must_be(reason: str, shown: str):
    decision = Decision(Effect.DENY, (), reason, "sha256:0", (reason,))
    verdict = replace(VERDICT, decision=decision)
    made = encode([PROPOSED, verdict], session_id="s", writer="w").attributes
    fitted = fit(made, Limits(50, None))
    assert (shown, (shown,)) == (fitted["gatescore.reason"], fitted["gatescore.errors"])
    assert decode(fitted) is not None


def test_a_span_that_is_to_get_more_attributes_leaves_them_their_place():
    made = encode([ENTRY, EXECUTION[1]], session_id="s", writer="w").attributes
    many = len(made)
    assert made == fit(made, Limits(None, many + 4), reserved=4)
    fitted = fit(made, Limits(None, many + 3), reserved=4)
    assert ["gatescore.lost", "gatescore.schema", "gatescore.writer", "gatescore.session.id", EVENTS] == list(
        fitted
    )
    assert many - 4 == fitted[LOST]
