"""Spans that are not sampled, an SDK that is switched off, processes that exit or fork: no record passes for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

from gatescore import ToolDenied
from gatescore.errors import InputError
from gatescore.model import Session
from gatescore.score import score_permissions
from gatescore.traces import read_sessions
from tests.guard.traced import POLICY, Traced


def unsampled_parent() -> Any:
    context = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(0))
    return trace.set_span_in_context(trace.NonRecordingSpan(context))


# A parent that is not sampled


def test_under_a_parent_that_is_not_sampled_spans_are_counted_and_the_live_score_is_right():
    traced = Traced(TracerProvider(sampler=ParentBased(ALWAYS_ON)))
    guard = traced.guard
    tool, denied = guard.wrap(lambda: "ran", name="tool"), guard.wrap(lambda: "ran", name="denied")
    token = otel_context.attach(unsampled_parent())
    try:
        with guard.session() as run:
            assert "ran" == tool()
            with pytest.raises(ToolDenied):
                denied()
    finally:
        otel_context.detach(token)
    card = run.score()
    assert (1, 2, 1, 1) == (
        card.planner.authorized,
        card.planner.total,
        card.execution.authorized,
        card.execution.total,
    )
    # Begin and end of the session, two proposals, one execution.
    assert (0, 5, 0) == (guard.spans.written, guard.spans.dropped, guard.spans.failed)
    assert () == traced.exporter.get_finished_spans()
    with pytest.raises(InputError, match="no span of a guard"):
        list(read_sessions(traced.exporter))


def test_a_denied_call_that_is_not_sampled_leaves_a_gap_that_the_reader_sees():
    """Else the record of the spans would pass, and the live one would not."""
    traced = Traced(TracerProvider(sampler=ParentBased(ALWAYS_ON)))
    guard = traced.guard
    tool, denied = guard.wrap(lambda: "ran", name="tool"), guard.wrap(lambda: "ran", name="denied")
    with guard.session() as run:
        tool()
        token = otel_context.attach(unsampled_parent())
        with pytest.raises(ToolDenied):
            denied()
        otel_context.detach(token)
    assert (False, 1, 2) == (run.score().passed, *counts(run.session()))
    assert (4, 1) == (guard.spans.written, guard.spans.dropped)
    [session] = read_sessions(traced.exporter)
    assert session.record is not None
    assert 1 == len(session.record.missing)
    card = score_permissions(session, POLICY)
    assert (False, "incomplete", None) == (card.passed, card.planner.status, card.planner.score)


def counts(session: Session) -> tuple[int, int]:
    card = score_permissions(session, POLICY)
    return card.planner.authorized, card.planner.total


# Programs of their own


def ran(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


SETUP = """
    import os, sys, threading
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from gatescore import Guard, Policy, ToolDenied
    from gatescore.record.otlp import OTLPFileExporter

    provider = TracerProvider()
    processor = BatchSpanProcessor if "batch" in sys.argv else SimpleSpanProcessor
    provider.add_span_processor(processor(OTLPFileExporter(sys.argv[1])))
    guard = Guard(Policy(allowed_tools=["tool", "inner"]), tracer_provider=provider)
"""


def test_with_the_sdk_switched_off_tools_run_and_the_live_score_is_right(tmp_path: Path):
    path = tmp_path / "spans.jsonl"
    done = ran(
        SETUP
        + """
    import json
    tool, denied = guard.wrap(lambda: "ran", name="tool"), guard.wrap(lambda: "ran", name="denied")
    refused = False
    with guard.session() as run:
        result = tool()
        try:
            denied()
        except ToolDenied:
            refused = True
    card = run.score()
    counts = card.planner.authorized, card.planner.total, card.execution.authorized, card.execution.total
    spans = guard.spans
    print(json.dumps([result, refused, counts, spans.written, spans.dropped, spans.failed]))
    """,
        str(path),
        OTEL_SDK_DISABLED="true",
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert ["ran", True, [1, 2, 1, 1], 0, 5, 0] == json.loads(done.stdout)
    assert b"" == path.read_bytes()
    with pytest.raises(InputError):
        list(read_sessions(path))


BODIES = {
    "function": "tool = guard.wrap(lambda: os._exit(7), name='tool'); enter = tool",
    "coroutine": """
async def body(): os._exit(7)
import asyncio
tool = guard.wrap(body, name='tool')
def enter(): asyncio.run(tool())
""",
    "generator": """
def body():
    yield 1
    os._exit(7)
tool = guard.wrap(body, name='tool')
def enter(): list(tool())
""",
}


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("shape", BODIES)
def test_a_process_that_exits_inside_of_a_body_leaves_a_record_that_never_passes(
    tmp_path: Path, shape: str, before: int
):
    path = tmp_path / "spans.jsonl"
    program = textwrap.dedent(SETUP) + textwrap.dedent(BODIES[shape]).lstrip("\n")
    program += textwrap.dedent(
        f"""
        inner = guard.wrap(lambda: "ran", name="inner")
        with guard.session("s"):
            for _ in range({before}):
                inner()
            enter()
        """
    )
    done = ran(program, str(path))
    assert (7, "") == (done.returncode, done.stderr)
    [session] = read_sessions(path)
    assert ["inner"] * before + ["tool"] == [proposal.call.name for proposal in session.proposed or ()]
    assert session.record is not None
    assert ("the end of the session is missing",) == session.record.missing
    card = score_permissions(session, POLICY)
    assert not card.passed
    assert ("incomplete", None) == (card.execution.status, card.execution.score)
    # The span of a body that was never left is not written: what is there is what had ended.
    assert [("inner", "succeeded")] * before == [
        (execution.call.name, execution.outcome) for execution in session.executed or ()
    ]


def test_a_process_that_exits_between_two_calls_leaves_a_record_without_an_end(tmp_path: Path):
    path = tmp_path / "spans.jsonl"
    done = ran(
        SETUP
        + """
    tool = guard.wrap(lambda: "ran", name="tool")
    with guard.session("s"):
        tool()
        os._exit(7)
    """,
        str(path),
    )
    assert (7, "") == (done.returncode, done.stderr)
    [session] = read_sessions(path)
    card = score_permissions(session, POLICY)
    assert (False, 1, 1) == (card.passed, card.planner.total, card.execution.total)
    assert ("incomplete", "incomplete") == (card.planner.status, card.execution.status)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("processor", ["simple", "batch"])
def test_a_child_that_was_forked_after_the_provider_was_made_writes_spans_of_its_own(
    tmp_path: Path, processor: str
):
    path = tmp_path / "spans.jsonl"
    done = ran(
        SETUP
        + """
    tool = guard.wrap(lambda who: who, name="tool")
    with guard.session("s") as run:
        tool("before")
        if (child := os.fork()) == 0:
            tool("child")
            provider.force_flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tool("after")
    provider.shutdown()
    sys.exit(os.waitstatus_to_exitcode(status))
    """,
        str(path),
        processor,
    )
    assert (0, "") == (done.returncode, done.stderr)
    spans = [
        span
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert len(spans) == len({span["spanId"] for span in spans})
    executed = [span for span in spans if span["name"] == "execute_tool tool"]
    assert 3 == len(executed)
    writers = [value_of(span, "gatescore.writer") for span in spans]
    assert 2 == len(set(writers))
    sessions = sorted(read_sessions(path), key=lambda session: len(session.executed or ()))
    assert ["s", "s"] == [session.id for session in sessions]
    assert [1, 2] == [len(session.executed or ()) for session in sessions]
    child, parent = sessions
    assert parent.record is not None
    assert child.record is not None
    assert () == parent.record.missing
    assert score_permissions(parent, POLICY).passed
    # The child exited without an end of its session.
    assert ("the end of the session is missing",) == child.record.missing
    assert not score_permissions(child, POLICY).passed


def value_of(span: dict[str, Any], key: str) -> Any:
    [value] = [found["value"]["stringValue"] for found in span["attributes"] if found["key"] == key]
    return value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_body_that_forks_is_one_execution_and_its_span_ends_once(tmp_path: Path):
    path = tmp_path / "spans.jsonl"
    done = ran(
        SETUP
        + """
    def body():
        if (child := os.fork()) == 0:
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    tool = guard.wrap(body, name="tool")
    with guard.session("s") as run:
        code = tool()
    sys.exit(code if run.score().passed else 1)
    """,
        str(path),
    )
    assert (5, "") == (done.returncode, done.stderr)
    [session] = read_sessions(path)
    assert ["succeeded"] == [execution.outcome for execution in session.executed or ()]
    assert score_permissions(session, POLICY).passed
