"""Spans of a guard to sessions: from an exporter, and from OTLP JSON in whatever shape a file has."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.proto_json.trace.v1.trace import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Guard, Policy, ToolDenied, guarded_tool
from gatescore.errors import InputError
from gatescore.model import Event, Finished, Position, Session, SessionEnded, SessionStarted
from gatescore.record.otlp import ExporterError, OTLPFileExporter, to_otlp
from gatescore.score import score_permissions
from gatescore.semconv import encode
from gatescore.traces import read_sessions

POLICY = Policy(allowed_tools=["get_order"])
TRAJECTORY = '{"id": "s1", "proposed": [{"name": "get_order"}], "executed": []}\n'
REMEDY = "no span of a guard in it: record with `Guard(policy, tracer_provider=...)`"


def record(*exporters: SpanExporter, sessions: int = 1, capture: str = "full") -> None:
    """Record sessions of two calls, of which one is denied."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    for exporter in exporters:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(POLICY, tracer_provider=provider, capture=capture, key=b"k" * 32)

    @guarded_tool(guard=guard)
    def get_order(order_id: str, amount: float = 1.5) -> str:
        return order_id

    @guarded_tool(guard=guard)
    def delete_account(user: str) -> None:
        raise AssertionError("never entered")

    for number in range(sessions):
        with guard.session(f"conv-{number}"):
            get_order("ä\N{SNOWMAN}", 2**70)
            with pytest.raises(ToolDenied):
                delete_account("42")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """An exporter with one recorded session."""
    made = InMemorySpanExporter()
    record(made)
    return made


def only(*inputs: object, form: str | None = None) -> Session:
    (session,) = read_sessions(*inputs, format=form)
    return session


def told(*inputs: object, form: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        list(read_sessions(*inputs, format=form))
    return str(caught.value)


def missing(session: Session) -> tuple[str, ...]:
    assert session.record is not None
    return session.record.missing


def events(session: Session) -> list[Event]:
    assert session.record is not None
    return list(session.record.events)


def written(tmp_path: Path, text: str | bytes, name: str = "spans.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def lines(spans: Any) -> str:
    """One line for each span."""
    return "".join(json.dumps(to_otlp([span])) + "\n" for span in spans)


def span(*events: Event, session_id: str = "s", writer: str = "w", **more: Any) -> SimpleNamespace:
    data = encode(events, session_id=session_id, writer=writer)
    return SimpleNamespace(name=data.name, attributes={**data.attributes, **more})


def started(sequence: int = 0, continues: Position | None = None) -> SessionStarted:
    return SessionStarted(time=1, sequence=sequence, session_id="s", continues=continues)


def ended(sequence: int) -> SessionEnded:
    return SessionEnded(time=2, sequence=sequence)


# --- where spans are read from -------------------------------------------------------------------


def test_an_exporter_and_its_spans_read_alike(exporter: InMemorySpanExporter):
    session = only(exporter)
    spans = exporter.get_finished_spans()
    assert ("conv-0", ()) == (session.id, missing(session))
    assert session == only(list(spans)) == only(spans) == only(span for span in spans)
    assert ["get_order", "delete_account"] == [p.call.name for p in session.proposed or ()]
    assert ["get_order"] == [e.call.name for e in session.executed or ()]


@pytest.mark.parametrize("capture", ["full", "names", "redacted", "none"])
def test_a_file_holds_what_the_exporter_holds(tmp_path: Path, capture: str):
    memory, path = InMemorySpanExporter(), tmp_path / "spans.jsonl"
    record(memory, OTLPFileExporter(path), sessions=2, capture=capture)
    from_file, from_memory = list(read_sessions(path)), list(read_sessions(memory))
    assert [events(session) for session in from_memory] == [events(session) for session in from_file]
    assert [(), ()] == [missing(session) for session in from_file]
    assert {str(path)} == {session.source for session in from_file}
    assert score_permissions(from_file, POLICY).to_dict() == score_permissions(from_memory, POLICY).to_dict()


def test_the_official_file_exporter_reads_alike(tmp_path: Path):
    memory, path = InMemorySpanExporter(), tmp_path / "official.jsonl"
    record(memory, FileSpanExporter(path))
    assert events(only(memory)) == events(only(path))


def test_the_official_reader_takes_what_we_write(tmp_path: Path):
    memory, path = InMemorySpanExporter(), tmp_path / "spans.jsonl"
    record(memory, OTLPFileExporter(path))
    names = [
        read.name
        for line in path.read_text().splitlines()
        for resource in TracesData.from_json(line).resource_spans
        for scope in resource.scope_spans
        for read in scope.spans
    ]
    assert [span.name for span in memory.get_finished_spans()] == names


Shape = Callable[[dict[str, Any]], str | bytes]


def _compact(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _more_fields(document: dict[str, Any]) -> str:
    """Unknown fields, ids in capitals, 64-bit integers as numbers, and a signal of another kind."""

    def change(value: Any) -> Any:
        if isinstance(value, list):
            return [change(item) for item in value]
        if not isinstance(value, dict):
            return value
        out = {key: change(item) for key, item in value.items()}
        for key in ("traceId", "spanId"):
            if key in out:
                out[key] = out[key].upper()
        if "intValue" in out:
            out["intValue"] = int(out["intValue"])
        if "traceId" in out:
            out["new"] = {"of": ["later"]}
        return out

    return _compact(change(document)) + '\n{"resourceLogs":[]}\n{"resourceMetrics":[{}]}\n'


SHAPES: dict[str, Shape] = {
    "one line": lambda document: _compact(document) + "\n",
    "no line end": _compact,
    "a byte order mark": lambda document: b"\xef\xbb\xbf" + _compact(document).encode(),
    "pretty": lambda document: json.dumps(document, indent=2),
    "pretty, with blank lines and a mark": lambda document: (
        b"\xef\xbb\xbf\n\n" + json.dumps(document, indent=2).encode()
    ),
    "pretty, not ASCII": lambda document: json.dumps(document, indent=1, ensure_ascii=False),
    "two pretty ones": lambda document: (
        json.dumps(document, indent=2) + "\n" + json.dumps(document, indent=2)
    ),
    "a break after some of it": lambda document: _compact(document).replace("[{", "[{\n", 1),
    "unknown fields": _more_fields,
    "an old name": lambda document: _compact(document).replace("scopeSpans", "instrumentationLibrarySpans"),
    "exported twice": lambda document: (_compact(document) + "\n") * 2,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("form", [None, "otlp"])
def test_otlp_json_in_every_shape(
    exporter: InMemorySpanExporter, tmp_path: Path, shape: Shape, form: str | None
):
    path = written(tmp_path, shape(to_otlp(exporter.get_finished_spans())), "spans.json")
    session = only(path, form=form)
    assert (events(only(exporter)), ()) == (events(session), missing(session))


def test_a_compressed_file(exporter: InMemorySpanExporter, tmp_path: Path):
    path = written(tmp_path, gzip.compress(lines(exporter.get_finished_spans()).encode()), "a.jsonl.gz")
    assert events(only(exporter)) == events(only(path))


def test_a_session_goes_over_files(exporter: InMemorySpanExporter, tmp_path: Path):
    spans = exporter.get_finished_spans()
    written(tmp_path, lines(spans[2:]), "spans.jsonl")
    written(tmp_path, lines(spans[:2]), "spans.jsonl.1")
    session = only(tmp_path)
    assert (events(only(exporter)), ()) == (events(session), missing(session))


def test_spans_and_trajectories_in_one_file(exporter: InMemorySpanExporter, tmp_path: Path):
    path = written(tmp_path, lines(exporter.get_finished_spans()) + TRAJECTORY)
    assert ["s1", "conv-0"] == [session.id for session in read_sessions(path)]


def test_progress_counts_every_byte_of_a_document(exporter: InMemorySpanExporter, tmp_path: Path):
    path = written(tmp_path, json.dumps(to_otlp(exporter.get_finished_spans()), indent=2))
    read: list[int] = []
    list(read_sessions(path, progress=read.append))
    assert path.stat().st_size == sum(read)


# --- what is no recording ------------------------------------------------------------------------


def foreign() -> InMemorySpanExporter:
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    with provider.get_tracer("other").start_as_current_span("execute_tool x"):
        pass
    return made


def test_spans_of_others_alone_are_refused(tmp_path: Path):
    path = written(tmp_path, lines(foreign().get_finished_spans()))
    assert f"{path}: OTLP, but {REMEDY}" == told(path)
    assert f"spans: {REMEDY}" == told(foreign())
    assert f"spans: {REMEDY}" == told(InMemorySpanExporter())
    assert f"spans: {REMEDY}" == told([])


def test_another_signal_alone_is_refused(tmp_path: Path):
    path = written(tmp_path, '{"resourceLogs": []}\n')
    assert f"{path}: OTLP, but {REMEDY}" == told(path)


def test_something_else_than_spans_is_refused():
    assert "read_sessions: a `list` is no input: name a file, or pass an exporter" == told([1])


def test_the_other_format_is_refused(exporter: InMemorySpanExporter, tmp_path: Path):
    spans = written(tmp_path, lines(exporter.get_finished_spans()), "spans.jsonl")
    trajectory = written(tmp_path, TRAJECTORY, "runs.jsonl")
    assert (
        f"{spans}:1: no session in it: JSON, but not a trajectory line: an object with `proposed` or "
        "`executed`, one session a line"
    ) == told(spans, form="trajectory")
    assert (
        f"{trajectory}:1: no session in it: JSON, but not OTLP: pass what an OTLP JSON exporter wrote, "
        "an object with `resourceSpans`"
    ) == told(trajectory, form="otlp")


def test_a_line_that_is_cut_is_an_error_and_the_others_are_read(
    exporter: InMemorySpanExporter, tmp_path: Path
):
    text = lines(exporter.get_finished_spans())
    error, session = read_sessions(written(tmp_path, text[:-30]))
    assert error.error is not None
    assert "cut short" in str(error.error)
    assert ("conv-0", ("the end of the session is missing",)) == (session.id, missing(session))


def test_the_first_line_can_be_the_one_that_is_cut(exporter: InMemorySpanExporter, tmp_path: Path):
    first, *others = lines(exporter.get_finished_spans()).splitlines(keepends=True)
    error, session = read_sessions(written(tmp_path, first[:40] + "\n" + "".join(others)))
    assert error.error is not None
    assert ("event 0 is missing", "the beginning of the session is missing") == missing(session)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("resourceSpans", {}, "`resourceSpans` is not a list"),
        ("scopeSpans", [1], "`scopeSpans` holds something that is not an object"),
        ("spans", "x", "`spans` is not a list"),
    ],
)
def test_a_line_of_the_wrong_form_is_an_error(
    exporter: InMemorySpanExporter, tmp_path: Path, key: str, value: object, problem: str
):
    data: Any = to_otlp(exporter.get_finished_spans())
    holder = {"resourceSpans": data, "scopeSpans": data["resourceSpans"][0]}.get(key)
    (holder or data["resourceSpans"][0]["scopeSpans"][0])[key] = value
    text = lines(exporter.get_finished_spans()) + json.dumps(data) + "\n"
    error, session = read_sessions(written(tmp_path, text))
    assert error.error is not None
    assert f"OTLP, but {problem}: write it with an OTLP JSON exporter" == error.error.message
    assert ("conv-0", ()) == (session.id, missing(session))


# --- what a record lacks -------------------------------------------------------------------------


def test_gaps_are_named():
    session = only([span(started()), span(ended(2)), span(ended(6))])
    assert ("event 1 is missing", "events 3 to 5 are missing") == missing(session)


def test_the_order_of_the_spans_does_not_matter(exporter: InMemorySpanExporter):
    session = only(tuple(reversed(exporter.get_finished_spans())))
    assert (events(only(exporter)), ()) == (events(session), missing(session))


def test_a_beginning_and_an_end_must_be_there():
    assert ("the end of the session is missing",) == missing(only([span(started())]))
    session = only([span(ended(1))])
    assert "s" == session.id
    assert ("event 0 is missing", "the beginning of the session is missing") == missing(session)


def test_an_execution_may_end_after_the_session(exporter: InMemorySpanExporter):
    late: list[dict[str, Any]] = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    last = next(attributes for attributes in late if "SessionEnded" in attributes["gatescore.events"])
    run = next(attributes for attributes in late if "gatescore.outcome" in attributes)
    finish, end = run["gatescore.finish.sequence"], last["gatescore.sequence"]
    for attributes in late:
        if attributes["gatescore.sequence"] > finish:
            attributes["gatescore.sequence"] -= 1
    run["gatescore.finish.sequence"] = end
    session = only([SimpleNamespace(name="x", attributes=attributes) for attributes in late])
    assert isinstance(events(session)[-1], Finished)
    assert () == missing(session)


def test_two_events_with_one_number_are_damage():
    session = only([span(started()), span(ended(1)), span(SessionEnded(time=3, sequence=1))])
    assert ("two different events have the number 1",) == missing(session)


def test_a_damaged_span_is_named_and_leaves_a_gap(exporter: InMemorySpanExporter):
    spans = [
        SimpleNamespace(name=s.name, attributes=dict(s.attributes or {}))
        for s in exporter.get_finished_spans()
    ]
    broken = next(span for span in spans if "Proposed" in span.attributes["gatescore.events"])
    del broken.attributes["gatescore.origin"]
    lacks = missing(only(spans))
    assert "gatescore.origin" in lacks[0]
    assert "events 1 to 2 are missing" == lacks[1]


def test_the_damage_is_that_of_its_session_whatever_its_id_is():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(POLICY, tracer_provider=provider)
    with guard.session("s\ud800"), pytest.raises(ToolDenied):
        guard.call("unknown")
    spans = [
        SimpleNamespace(name=s.name, attributes=dict(s.attributes or {}))
        for s in exporter.get_finished_spans()
    ]
    del spans[0].attributes["gatescore.time"]
    session = only(spans)
    assert "s\ud800" == session.id
    assert missing(session)


def test_a_span_that_lost_attributes_is_damaged():
    lossy = span(started())
    lossy.dropped_attributes = 2
    lacks = missing(only([lossy, span(ended(1))]))
    assert "a span lost attributes: raise the limit, as `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`" == lacks[0]


def test_a_span_that_lost_attributes_is_damaged_in_a_file(exporter: InMemorySpanExporter, tmp_path: Path):
    data: Any = to_otlp(exporter.get_finished_spans())
    data["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["droppedAttributesCount"] = 1
    assert "a span lost attributes" in missing(only(written(tmp_path, json.dumps(data))))[0]


def test_an_attribute_that_cannot_be_read_damages_its_span(exporter: InMemorySpanExporter, tmp_path: Path):
    data: Any = to_otlp(exporter.get_finished_spans())
    pairs = data["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    next(pair for pair in pairs if pair["key"] == "gatescore.session.id")["value"] = {"intValue": "no"}
    sessions = list(read_sessions(written(tmp_path, json.dumps(data))))
    assert any("gatescore.session.id" in missing(session)[0] for session in sessions if missing(session))


# --- several writers -----------------------------------------------------------------------------


def test_a_writer_that_goes_on_inherits_what_was_before():
    first = [span(started(), writer="a"), span(ended(1), writer="a")]
    second = [
        span(started(0, Position(writer="a", sequence=0)), writer="b"),
        span(ended(1), writer="b"),
    ]
    third = [
        span(started(0, Position(writer="b", sequence=0)), writer="c"),
        span(ended(1), writer="c"),
    ]
    sessions = list(read_sessions([*first, *second, *third]))
    assert ["a", "b", "c"] == [session.record.writer for session in sessions if session.record]
    assert [0, 1, 2] == [session.record.inherited for session in sessions if session.record]
    assert [2, 3, 4] == [len(events(session)) for session in sessions]
    assert [(), (), ()] == [missing(session) for session in sessions]


def test_a_writer_before_must_be_there():
    lost = [span(started(0, Position(writer="a", sequence=3))), span(ended(1))]
    assert ("what another process recorded of the session before is missing",) == missing(only(lost))
    short = [span(started(), writer="a"), *lost]
    sessions = list(read_sessions(short))
    assert "before it went on: the events up to 3 are missing" in missing(sessions[1])


def test_writers_in_a_circle_end():
    circle = [
        span(started(0, Position(writer="b", sequence=0)), writer="a"),
        span(started(0, Position(writer="a", sequence=0)), writer="b"),
    ]
    assert 2 == len(list(read_sessions(circle)))


# --- the exporter --------------------------------------------------------------------------------


def test_every_kind_of_attribute_is_written():
    values: dict[str, Any] = {
        "text": "a\ud800", "yes": True, "whole": 2**63 - 1, "large": 2**63, "float": 1.5,
        "nan": float("nan"), "infinite": float("-inf"), "bytes": b"\0", "none": None,
        "list": [1, ["x", None], {"k": b"v"}], "other": {1: 2.5}, "set": frozenset({1}),
    }  # fmt: skip
    made = ReadableSpan("n", attributes=values, start_time=1, end_time=2)
    data = json.loads(json.dumps(to_otlp([made]), allow_nan=False))
    (read,) = data["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {
        "text": {"stringValue": "a?"},
        "yes": {"boolValue": True},
        "whole": {"intValue": "9223372036854775807"},
        "large": {"stringValue": "9223372036854775808"},
        "float": {"doubleValue": 1.5},
        "nan": {"doubleValue": "NaN"},
        "infinite": {"doubleValue": "-Infinity"},
        "bytes": {"bytesValue": "AA=="},
        "none": {},
        "list": {
            "arrayValue": {
                "values": [
                    {"intValue": "1"},
                    {"arrayValue": {"values": [{"stringValue": "x"}, {}]}},
                    {"kvlistValue": {"values": [{"key": "k", "value": {"bytesValue": "dg=="}}]}},
                ]
            }
        },
        "other": {"kvlistValue": {"values": [{"key": "1", "value": {"doubleValue": 2.5}}]}},
        "set": {"stringValue": "frozenset({1})"},
    } == {pair["key"]: pair["value"] for pair in read["attributes"]}
    assert ("1", "2", 1) == (read["startTimeUnixNano"], read["endTimeUnixNano"], read["kind"])


def test_ids_links_and_parents_are_written(tmp_path: Path, exporter: InMemorySpanExporter):
    spans = {made.name: made for made in exporter.get_finished_spans()}
    data = to_otlp(list(spans.values()))
    read = {each["name"]: each for each in data["resourceSpans"][0]["scopeSpans"][0]["spans"]}
    run, proposal = read["execute_tool get_order"], read["propose_tool get_order"]
    assert 32 == len(run["traceId"])
    assert proposal["spanId"] == run["links"][0]["spanId"]
    assert {"key": "service.name", "value": {"stringValue": "shop"}} in data["resourceSpans"][0]["resource"][
        "attributes"
    ]


def test_a_batch_is_one_write(
    tmp_path: Path, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
):
    writes: list[bytes] = []
    made = OTLPFileExporter(tmp_path / "spans.jsonl")

    def write(file: int, data: bytes) -> int:
        writes.append(data)
        return len(data)

    monkeypatch.setattr(os, "write", write)
    assert SpanExportResult.SUCCESS is made.export(exporter.get_finished_spans())
    assert SpanExportResult.SUCCESS is made.export([])
    assert [1] == [data.count(b"\n") for data in writes]


def test_a_disk_that_is_full_is_told_and_not_raised(
    tmp_path: Path,
    exporter: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    path = tmp_path / "spans.jsonl"
    made = OTLPFileExporter(path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    spans = exporter.get_finished_spans()
    assert [SpanExportResult.FAILURE] * 2 == [made.export(spans), made.export(spans)]
    assert 1 == len(caplog.records)
    monkeypatch.setattr(os, "write", real)
    assert SpanExportResult.SUCCESS is made.export(spans)
    sessions = list(read_sessions(path))
    assert [()] == [missing(session) for session in sessions if session.error is None]


def test_after_the_end_nothing_is_written(tmp_path: Path, exporter: InMemorySpanExporter):
    made = OTLPFileExporter(tmp_path / "spans.jsonl")
    made.shutdown()
    made.shutdown()
    assert SpanExportResult.FAILURE is made.export(exporter.get_finished_spans())
    assert made.force_flush()


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path):
    with pytest.raises(ExporterError) as caught:
        OTLPFileExporter(tmp_path)
    assert f"`{tmp_path}` cannot be opened for writing: is a directory" == str(caught.value)
