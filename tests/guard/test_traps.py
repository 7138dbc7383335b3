"""What can go wrong around a guard: its spans are lost or raise, the process forks; the tool runs, the record is true."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from gatescore import Guard, Policy
from gatescore.errors import InputError
from gatescore.traces import read_sessions


class Raising(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("end")


def ran_with(provider: TracerProvider) -> Guard:
    guard = Guard(Policy(allowed_tools=["tool"]), tracer_provider=provider)
    tool = guard.wrap(lambda: "ran", name="tool")
    with guard.session() as run:
        assert "ran" == tool()
    assert run.score().passed
    return guard


def test_a_processor_that_raises_never_reaches_the_tool():
    provider = TracerProvider()
    provider.add_span_processor(Raising())
    assert ran_with(provider).spans.failed > 0


def test_spans_that_are_not_sampled_are_counted_and_leave_nothing_to_score():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = ran_with(provider)
    assert (0, True) == (guard.spans.written, guard.spans.dropped > 0)
    with pytest.raises(InputError, match="no span of a guard"):
        list(read_sessions(exporter))


def test_a_span_that_was_lost_is_missed():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ran_with(provider)
    spans = list(exporter.get_finished_spans())
    assert 4 == len(spans)
    for lost in range(4):
        [session] = read_sessions([span for number, span in enumerate(spans) if number != lost])
        assert session.record is not None
        assert session.record.missing


def test_the_body_runs_inside_of_its_span():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(Policy(allowed_tools=["tool"]), tracer_provider=provider)
    inside = guard.wrap(lambda: trace.get_current_span().get_span_context().span_id, name="tool")()
    [span] = [span for span in exporter.get_finished_spans() if span.name == "execute_tool tool"]
    assert span.context is not None
    assert inside == span.context.span_id
    assert trace.INVALID_SPAN is trace.get_current_span()


def test_a_forked_process_goes_on_as_another_writer_and_its_limits_hold():
    program = """
        import os
        from gatescore import Guard, Policy, ToolDenied
        guard = Guard(Policy(rules=[{"id": "two", "allow": "tool", "limit": {"executions": 2}}]))
        tool = guard.wrap(lambda: "ran", name="tool")
        with guard.session("s") as run:
            tool()
            writer = run.session().record.writer
            if os.fork() == 0:
                tool()
                try:
                    tool()
                except ToolDenied:
                    record = run.session().record
                    first = record.events[record.inherited]
                    held = first.continues.writer == writer != record.writer and first.sequence == 0
                    os._exit(7 if held and record.inherited == 6 else 1)
                os._exit(2)
            _, status = os.wait()
            tool()
        raise SystemExit(os.waitstatus_to_exitcode(status))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60, check=False)
    assert 7 == done.returncode
