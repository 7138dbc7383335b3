"""
Spans: the record as OpenTelemetry sees it, through the user's own tracer provider.

A projection that never raises into a tool: what goes wrong in a sampler, a processor or an encoder
is counted, and logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, ProxyTracerProvider, Span, SpanContext, SpanKind, Tracer, TracerProvider

from gatescore.model import Event, Finished, ToolCall
from gatescore.record.redact import Capture
from gatescore.semconv import encode, encode_finished

_LOG: Final = logging.getLogger("gatescore")
_SCOPE: Final = "gatescore"


class SpanRecorder:
    """
    Writes events as spans.

    Attributes:
        written: Spans that were handed to the provider and are recorded by it.
        dropped: Spans that it does not record: not sampled, switched off.
        failed: Spans that something went wrong with.
    """

    __slots__ = ("_agent", "_capture", "_given", "_tracer", "_tracer_of", "dropped", "failed", "written")

    def __init__(self, provider: TracerProvider | None, capture: Capture, agent_name: str | None) -> None:
        self._given = provider
        self._capture = capture
        self._agent = agent_name
        self._tracer: Tracer | None = None
        self._tracer_of: TracerProvider | None = None
        self.written = self.dropped = self.failed = 0

    def tracer(self) -> Tracer | None:
        """The tracer of the provider in force; None where there is none, so that no span is worth its making."""
        provider = self._given or trace.get_tracer_provider()
        if provider is not self._tracer_of:
            nobody = isinstance(provider, (ProxyTracerProvider, trace.NoOpTracerProvider))
            self._tracer = None if nobody else provider.get_tracer(_SCOPE)
            self._tracer_of = provider
        return self._tracer

    def write(
        self,
        events: Sequence[Event],
        *,
        session_id: str,
        writer: str,
        call: ToolCall | None = None,
        context: Context | None = None,
    ) -> SpanContext | None:
        """One span for *events*, ended at once; its context, or None where there is no span."""
        span = self.begin(events, session_id=session_id, writer=writer, call=call, context=context)
        if span is None:
            return None
        self._end(span)
        return span.get_span_context()

    def begin(
        self,
        events: Sequence[Event],
        *,
        session_id: str,
        writer: str,
        call: ToolCall | None = None,
        proposal: SpanContext | None = None,
        context: Context | None = None,
    ) -> Span | None:
        """One span for *events*, still open, with a link to that of its *proposal*."""
        try:
            tracer = self.tracer()
            if tracer is None:
                return None
            captured = [self._capture.event(event) for event in events]
            if call is not None:
                call = self._capture.call(call)
            data = encode(captured, session_id=session_id, writer=writer, agent_name=self._agent, call=call)
            attributes = data.attributes
            links: list[Link] | None = None
            if proposal is not None:
                attributes["gatescore.proposal.trace_id"] = format(proposal.trace_id, "032x")
                attributes["gatescore.proposal.span_id"] = format(proposal.span_id, "016x")
                links = [Link(proposal, {"gatescore.link": "proposal"})]
            span = tracer.start_span(
                data.name,
                context,
                SpanKind.INTERNAL,
                attributes,
                links,
                record_exception=False,
                set_status_on_exception=False,
            )
        except Exception as error:  # noqa: BLE001 - a span is never worth a tool
            self._fail(error)
            return None
        if span.is_recording():
            self.written += 1
        else:
            self.dropped += 1
        return span

    def finish(self, span: Span, event: Finished) -> None:
        """End the span of an execution."""
        try:
            span.set_attributes(encode_finished(event))
            if event.error_type is not None:
                span.set_status(trace.StatusCode.ERROR)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        self._end(span)

    def _end(self, span: Span) -> None:
        try:
            span.end()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failed += 1
        if self.failed == 1:
            _LOG.warning(
                "a span could not be recorded (%s); further ones are only counted", type(error).__name__
            )
