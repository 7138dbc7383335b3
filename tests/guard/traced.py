"""A guard whose spans a test can look at, and what is current where the test runs."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Policy
from gatescore.testing import RecordingGuard

POLICY = Policy(allowed_tools=["tool", "inner"])


class Traced:
    """A guard with its spans in memory."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = provider or TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.guard = RecordingGuard(POLICY, tracer_provider=self.provider)
        self.tracer = self.provider.get_tracer("of the user")

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def outcomes(self) -> list[object]:
        return [(span.attributes or {})["gatescore.outcome"] for span in self.spans("execute_tool tool")]


def span_id() -> int:
    return trace.get_current_span().get_span_context().span_id


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if entry.levelname in ("WARNING", "ERROR")]
