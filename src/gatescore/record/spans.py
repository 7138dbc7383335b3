"""
Spans: the record as OpenTelemetry sees it, through the user's own tracer provider.

A projection that never raises into a tool: what goes wrong in a sampler, a processor or an encoder
is counted, and logged once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, ProxyTracerProvider, Span, SpanContext, SpanKind, Tracer, TracerProvider

from gatescore.model import Decided, Event, Finished, Proposed, Started, ToolCall
from gatescore.record.redact import Capture
from gatescore.semconv import LOST, Attributes, Limits, SpanData, encode, encode_finished, fit

_LOG: Final = logging.getLogger("gatescore")
_SCOPE: Final = "gatescore"

_LENGTH_LIMITS: Final = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")
_COUNT_LIMITS: Final = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")
_COUNT: Final = 128
"""How many attributes a span may have where nobody says otherwise."""

_MOST: Final = 64
"""More attributes than any span of ours has: a limit from here on is none."""

_NO_LIMITS: Final = Limits(None, None)

_AT_END: Final = 4
"""How many attributes the end of an execution adds to its span."""


class SpanRecorder:
    """
    Writes events as spans.

    Attributes:
        written: Spans that were handed to the provider and are recorded by it.
        dropped: Spans that it does not record: not sampled, switched off.
        failed: Spans that something went wrong with, or that a limit of the provider damages.
    """

    __slots__ = (
        "_agent",
        "_capture",
        "_given",
        "_length",
        "_limits",
        "_tracer",
        "_tracer_of",
        "dropped",
        "failed",
        "written",
    )

    def __init__(self, provider: TracerProvider | None, capture: Capture, agent_name: str | None) -> None:
        self._given = provider
        self._capture = capture
        self._agent = agent_name
        self._tracer: Tracer | None = None
        self._tracer_of: TracerProvider | None = None
        self._limits: Limits | None = None
        self._length: int | None = None
        self.written = self.dropped = self.failed = 0

    def tracer(self) -> Tracer | None:
        """The tracer of the provider in force; None where there is none, so that no span is worth its making."""
        provider = self._given or trace.get_tracer_provider()
        if provider is not self._tracer_of:
            nobody = isinstance(provider, (ProxyTracerProvider, trace.NoOpTracerProvider))
            tracer = None if nobody else provider.get_tracer(_SCOPE)
            limits = limits_of(provider, os.environ)
            self._length = limits.length
            self._limits = None if limits == _NO_LIMITS else limits
            self._tracer = tracer
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
            data = self._data(events, session_id, writer, call)
            attributes = data.attributes
            links: list[Link] | None = None
            if proposal is not None:
                attributes["gatescore.proposal.trace_id"] = format(proposal.trace_id, "032x")
                attributes["gatescore.proposal.span_id"] = format(proposal.span_id, "016x")
                links = [Link(proposal, {"gatescore.link": "proposal"})]
            if self._limits is not None:
                reserved = _AT_END if isinstance(events[-1], Started) else 0
                attributes = self._fitted(attributes, self._limits, reserved)
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
            attributes = encode_finished(event)
            if self._limits is not None:
                attributes = fit(attributes, self._limits)  # where this loses any, the beginning did
            span.set_attributes(attributes)
            if event.error_type is not None:
                span.set_status(trace.StatusCode.ERROR)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        self._end(span)

    def _data(self, events: Sequence[Event], session_id: str, writer: str, call: ToolCall | None) -> SpanData:
        first = events[0]
        written = None
        if isinstance(first, (Proposed, Decided)):
            # The events of one step are about one call.
            if first.call is not None:
                written = self._capture.written(first.call, self._length)
        else:
            events = [self._capture.event(event, self._length) for event in events]
        return encode(
            events,
            session_id=session_id,
            writer=writer,
            agent_name=self._agent,
            call=call,
            written=written,
        )

    def _fitted(self, attributes: Attributes, limits: Limits, reserved: int) -> Attributes:
        attributes = fit(attributes, limits, reserved=reserved)
        if LOST in attributes:
            self._count(
                "spans lose attributes to a limit of the tracer provider, which makes sessions incomplete:"
                " raise `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` or `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`"
                " (%s); further ones are only counted",
                f"{limits.length} characters, {limits.count} attributes",
            )
        return attributes

    def _end(self, span: Span) -> None:
        try:
            span.end()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._count("a span could not be recorded (%s); further ones are only counted", type(error).__name__)

    def _count(self, message: str, about: object) -> None:
        self.failed += 1
        if self.failed == 1:
            _LOG.warning(message, about)


def limits_of(provider: TracerProvider, environment: Mapping[str, str]) -> Limits:
    """
    The limits that *provider* puts on the attributes of a span, as far as they can be damage to ours.

    The names are those of the SDK, which has no public ones for a provider's limits; another provider is
    taken to read the same variables of the *environment*.
    """
    own = getattr(provider, "_span_limits", None)
    nothing = object()
    length: object = getattr(own, "max_span_attribute_length", nothing)
    count: object = getattr(own, "max_span_attributes", nothing)
    if length is nothing:
        length = _first(environment, _LENGTH_LIMITS, None)
    if count is nothing:
        count = _first(environment, _COUNT_LIMITS, _COUNT)
    return Limits(
        length if isinstance(length, int) else None,
        count if isinstance(count, int) and count < _MOST else None,
    )


def _first(environment: Mapping[str, str], names: Sequence[str], default: int | None) -> int | None:
    """The first limit that is set; one that is set to nothing, or to no number, is none."""
    for name in names:
        if name in environment:
            text = environment[name].strip()
            return int(text) if text.isdecimal() else None
    return default
