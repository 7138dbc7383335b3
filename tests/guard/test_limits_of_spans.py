"""What the limits of a user's tracer provider do to spans: they fit, or they are damaged and said to be; never a lie."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk import environment_variables as sdk_names
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

from gatescore import Guard, Policy, ToolDenied
from gatescore.errors import InputError
from gatescore.guard import Run
from gatescore.model import Session
from gatescore.record import spans as spans_module
from gatescore.record.spans import limits_of
from gatescore.score import PermissionCard, score_permissions
from gatescore.semconv import Limits
from gatescore.traces import read_sessions

CAPTURES = ["full", "names", "redacted", "none"]
LONG = "ä\N{SNOWMAN}\N{GRINNING FACE}" * 1_200  # more than 10 kB of UTF-8
POLICY = Policy.from_dict(
    {
        "default": "deny",
        "tools": {"order": {"once_per": ["text"]}},
        "rules": [
            {"id": "read", "allow": "read"},
            {"id": "order", "allow": "order", "after": {"tool": "read", "same": ["text"]}},
            {"id": "short", "allow": "send", "args": {"text": {"maxLength": 20}}},
            {"id": "wide", "allow": "pay", "limit": {"executions": 1, "per": "principal"}},
            {"id": "gold", "allow": "gift", "when": "session.attributes.tier == 'gold'"},
            {"id": "no", "deny": "leak", "reason": "No. " * 100 + "Never."},
        ],
    }
)


def ran(
    limits: SpanLimits | None, capture: str = "full", session_id: str = "s", **arguments: Any
) -> tuple[Guard, Run, InMemorySpanExporter]:
    """A session of allowed and of denied calls, with long arguments, under the limits of a provider."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=limits)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(POLICY, tracer_provider=provider, capture=capture)
    for name in ("read", "order", "send", "pay", "gift", "leak"):
        guard.wrap(lambda **more: None, name=name)
    arguments = arguments or {"text": LONG}
    with guard.session(session_id, principal="user:1", attributes={"tier": "gold", "note": LONG}) as run:
        for name in ("order", "read", "order", "order", "send", "pay", "pay", "gift", "leak", "unknown"):
            with contextlib.suppress(ToolDenied):
                guard.call(name, arguments)
        run.propose([{"id": "m1", "name": "read", "arguments": LONG}])
        run.update(tier="silver")
    return guard, run, exporter


def texts(attributes: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for value in attributes.values():
        found.extend([value] if isinstance(value, str) else value if isinstance(value, tuple) else ())
    return found


def read(exporter: InMemorySpanExporter) -> list[Session]:
    return list(read_sessions(exporter))


def missing(session: Session) -> tuple[str, ...]:
    assert session.record is not None
    return session.record.missing


def counts(card: PermissionCard) -> list[Any]:
    return [
        (check.status, check.authorized, check.total, check.passed, [u.call_id for u in check.unauthorized])
        for check in (card.planner, card.execution)
    ]


# --- a limit of length that everything fits in -----------------------------------------------------


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("length", [128, 100, 300])
def test_spans_fit_a_limit_and_score_as_the_live_run_does(capture: str, length: int):
    guard, run, exporter = ran(SpanLimits(max_span_attribute_length=length), capture)
    for span in exporter.get_finished_spans():
        assert all(len(text) <= length for text in texts(span.attributes or {})), span.attributes
    [session] = read(exporter)
    assert () == missing(session)
    assert counts(run.score()) == counts(score_permissions(session, POLICY))
    assert (0, len(exporter.get_finished_spans())) == (guard.spans.failed, guard.spans.written)


def test_arguments_that_do_not_fit_are_told_by_their_size_and_digest():
    _, run, exporter = ran(SpanLimits(max_span_attribute_length=128))
    spans = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    first = next(span for span in spans if span["gatescore.events"] == ("Proposed", "Decided"))
    size = len(json.dumps({"text": LONG}, separators=(",", ":")))
    assert json.dumps({"$withheld": {"size": size}}, separators=(",", ":")) == first["gatescore.args.shape"]
    assert "gen_ai.tool.call.arguments" not in first
    [live] = run.session().proposed[:1]  # type: ignore[index]
    assert live.call.digest == first["gatescore.args.digest"]
    begun = next(span for span in spans if span["gatescore.events"] == ("SessionStarted",))
    assert {"$withheld"} == json.loads(str(begun["gatescore.attributes"])).keys()
    assert begun["gatescore.attributes.withheld"] is True
    raw = next(span for span in spans if "gatescore.args.raw" in span)
    assert f'{{"$withheld":{{"size":{len(LONG)}}}}}' == raw["gatescore.args.raw"]


def test_arguments_that_fit_are_told():
    _, _, exporter = ran(SpanLimits(max_span_attribute_length=128), text="x" * 100)
    told = [
        span.attributes["gen_ai.tool.call.arguments"]
        for span in exporter.get_finished_spans()
        if span.attributes and "gen_ai.tool.call.arguments" in span.attributes
    ]
    invalid = "{}"  # of the call that the model put forward with what is no JSON
    assert {json.dumps({"text": "x" * 100}, separators=(",", ":")), invalid} == set(told)


def test_a_reason_is_shortened_for_people():
    _, run, exporter = ran(SpanLimits(max_span_attribute_length=128))
    reasons = [
        str(span.attributes["gatescore.reason"])
        for span in exporter.get_finished_spans()
        if span.attributes and span.attributes.get("gatescore.rule.ids") == ("no",)
    ]
    assert [("No. " * 100)[:127] + "\N{HORIZONTAL ELLIPSIS}"] == reasons
    live = [found.reason for found in run.score().planner.unauthorized if found.rules == ("no",)]
    assert ["No. " * 100 + "Never."] == live


def test_facts_that_do_not_fit_are_left_out_and_the_recorded_verdict_counts():
    """A limit that sessions share, whose name alone fits: what it knew of other sessions does not."""
    name = "r" * 75
    policy = Policy(
        rules=[{"id": name, "allow": "pay", "limit": {"executions": 1, "per": "principal"}}], default="deny"
    )
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=110))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(policy, tracer_provider=provider, capture="full")
    pay = guard.wrap(lambda: "paid", name="pay")
    with guard.session("first", principal="p"):
        assert "paid" == pay()
    with guard.session("second", principal="p") as run, pytest.raises(ToolDenied):
        pay()
    assert 0 == guard.spans.failed
    attributes = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    facts = [json.loads(str(found["gatescore.facts"])) for found in attributes if "gatescore.facts" in found]
    assert [["now"]] * 3 == [list(told) for told in facts]
    assert 3 == len([found for found in attributes if "gatescore.facts.withheld" in found])
    session = next(session for session in read(exporter) if session.id == "second")
    assert () == missing(session)
    card = score_permissions(session, policy)
    assert counts(run.score()) == counts(card)
    assert (1, []) == (card.planner.recorded, [finding.kind.value for finding in card.reconciliation])


# --- limits that not everything fits in ----------------------------------------------------------

TIGHT = [
    SpanLimits(max_span_attribute_length=20),
    SpanLimits(max_span_attribute_length=40),
    SpanLimits(max_attribute_length=64),
    SpanLimits(max_span_attributes=10),
    SpanLimits(max_span_attributes=25),
    SpanLimits(max_attributes=3),
]


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("number", range(len(TIGHT)))
def test_what_does_not_fit_makes_the_session_incomplete(
    number: int, capture: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, "gatescore"):
        guard, run, exporter = ran(TIGHT[number], capture)
    assert [0, 1] == [run.score().execution.recorded, guard.spans.failed > 0]
    assert 1 == len([record for record in caplog.records if record.name == "gatescore"])
    sessions = read(exporter)
    assert sessions
    for session in sessions:
        assert missing(session)
        card = score_permissions(session, POLICY)
        assert ["incomplete", "incomplete"] == [card.planner.status.value, card.execution.status.value]
        assert not card.passed


@pytest.mark.parametrize(
    "limits", [SpanLimits(max_span_attributes=0), SpanLimits(max_span_attribute_length=0)]
)
def test_where_nothing_fits_there_is_nothing_to_score(limits: SpanLimits):
    guard, _, exporter = ran(limits)
    assert guard.spans.failed == guard.spans.written == len(exporter.get_finished_spans())
    with pytest.raises(InputError, match="no span of a guard"):
        read(exporter)


def test_an_id_that_does_not_fit_damages_its_session_alone():
    """Two ids that were cut would be one."""
    short, long = "s" * 128, "s" * 129
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=128))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(POLICY, tracer_provider=provider)
    tool = guard.wrap(lambda: None, name="read")
    for session_id in (short, long):
        with guard.session(session_id):
            tool()
    whole, damaged = read(exporter)
    assert (short, ()) == (whole.id, missing(whole))
    assert missing(damaged)
    assert 4 == guard.spans.failed


def test_attributes_of_the_tool_that_evict_ours_damage_the_span():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=35))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(POLICY, tracer_provider=provider)

    def body() -> None:
        trace.get_current_span().set_attributes({f"app.{number}": number for number in range(20)})

    tool = guard.wrap(body, name="read")
    with guard.session():
        tool()
    [session] = read(exporter)
    assert "a span lost attributes" in missing(session)[0]


# --- limits that nobody sees ---------------------------------------------------------------------


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("length", [8, 16, 20, 31, 40, 64, 84, 128])
def test_what_is_cut_on_its_way_is_damaged(length: int, capture: str, monkeypatch: pytest.MonkeyPatch):
    """As by a collector, or by a provider that does not say that it has a limit."""
    monkeypatch.setattr(spans_module, "limits_of", lambda *_: Limits(None, None))
    _, _, exporter = ran(SpanLimits(max_span_attribute_length=length), capture)
    for session in read(exporter):
        assert missing(session)
        assert not score_permissions(session, POLICY).passed


# --- which limits are in force -------------------------------------------------------------------


def test_the_limits_are_those_of_the_provider():
    assert Limits(None, None) == limits_of(TracerProvider(), {})
    asked = SpanLimits(max_span_attribute_length=50, max_span_attributes=30)
    assert Limits(50, 30) == limits_of(TracerProvider(span_limits=asked), {"OTEL_ATTRIBUTE_COUNT_LIMIT": "5"})
    unset = SpanLimits(max_span_attribute_length=SpanLimits.UNSET, max_span_attributes=SpanLimits.UNSET)
    assert Limits(None, None) == limits_of(TracerProvider(span_limits=unset), {})


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Limits(None, None)),
        ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "50"}, Limits(50, None)),
        (
            {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "50", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": " 60 "},
            Limits(60, None),
        ),
        (
            {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "50", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": ""},
            Limits(None, None),
        ),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "20"}, Limits(None, 20)),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "20", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1000"}, Limits(None, None)),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"}, Limits(None, None)),
    ],
)
def test_a_provider_that_does_not_tell_has_the_limits_of_the_environment(
    environment: dict[str, str], expected: Limits, monkeypatch: pytest.MonkeyPatch
):
    assert expected == limits_of(NoOpTracerProvider(), environment)
    if "many" not in environment.values():  # the SDK refuses such a one
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert expected == limits_of(TracerProvider(), {})


def test_the_names_are_those_of_the_installed_sdk():
    """Private ones among them: where they change, limits are no longer seen, and spans are cut."""
    limits = SpanLimits(max_span_attribute_length=77, max_span_attributes=7)
    assert limits is TracerProvider(span_limits=limits)._span_limits
    assert (77, 7) == (limits.max_span_attribute_length, limits.max_span_attributes)
    names = [*spans_module._LENGTH_LIMITS, *spans_module._COUNT_LIMITS]
    assert names == [getattr(sdk_names, name) for name in names]
    assert spans_module._COUNT == SpanLimits().max_span_attributes


PROGRAM = """
    import json, logging, sys
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from gatescore import Guard, Policy, ToolDenied
    from gatescore.score import score_permissions
    from gatescore.traces import read_sessions

    said = []
    class Listening(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
    logging.getLogger("gatescore").addHandler(Listening())
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    policy = Policy(rules=[{"id": "r", "allow": "read", "args": {"text": {"maxLength": 5000}}}], default="deny")
    guard = Guard(policy, capture="full")
    read = guard.wrap(lambda text: len(text), name="read")
    with guard.session("s") as run:
        read("\\N{SNOWMAN}" * 3500)
        try:
            read("\\N{SNOWMAN}" * 10500)
        except ToolDenied:
            pass
    [session] = list(read_sessions(exporter))
    live, card = run.score(), score_permissions(session, policy)
    print(json.dumps({
        "same": [live.planner.authorized, live.planner.total, live.execution.authorized, live.execution.total]
            == [card.planner.authorized, card.planner.total, card.execution.authorized, card.execution.total],
        "status": [card.planner.status.value, card.execution.status.value],
        "missing": len(session.record.missing),
        "failed": guard.spans.failed,
        "said": len(said),
        "longest": max(
            len(text)
            for span in exporter.get_finished_spans()
            for value in span.attributes.values()
            for text in (value if isinstance(value, tuple) else [value])
            if isinstance(text, str)
        ),
    }))
"""


def in_a_process(**environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "name", ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"]
)
def test_a_limit_of_the_environment_is_kept_to(name: str):
    found = in_a_process(**{name: "128"})
    assert {"same": True, "status": ["complete", "complete"], "missing": 0, "failed": 0, "said": 0} == {
        key: value for key, value in found.items() if key != "longest"
    }
    assert 64 < found["longest"] <= 128


@pytest.mark.parametrize(
    "environment",
    [{"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "20"}, {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "10"}],
)
def test_a_limit_of_the_environment_that_is_too_tight_is_told(environment: dict[str, str]):
    found = in_a_process(**environment)
    assert (["incomplete", "incomplete"], False, 1) == (found["status"], found["same"], found["said"])
    assert found["missing"] > 0
    assert found["failed"] > 0
