"""
Spans to a file: OTLP JSON lines, one request a line, as the OpenTelemetry collector reads and writes them.

Source: the OTLP specification, "JSON Protobuf Encoding": ids are hexadecimal, enums are numbers, 64-bit
integers are text, names are in lower camel case.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext

from gatescore.errors import GatescoreError

_LOG: Final = logging.getLogger("gatescore")
_INT64: Final = 2**63
_REMOTE_KNOWN: Final = 0x100
_REMOTE: Final = 0x200

_Json = dict[str, Any]


class ExporterError(GatescoreError):
    """A file that spans were to be written to cannot be opened."""


class OTLPFileExporter(SpanExporter):
    """
    Appends spans to a file, as OTLP JSON lines that `gatescore.traces.read_sessions` reads.

    Each batch is one line, and each line one write to a file that is open for appending: processes
    that write to one file, also forked ones, do not mix their lines.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """
        Open the file, and make it where there is none.

        Raises:
            ExporterError: It cannot be opened.
        """
        self.path: Final = os.fsdecode(path)
        self._lock = threading.Lock()
        self._file: int | None = None
        self._broken = False
        self._failed = False
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        try:
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ExporterError(f"`{self.path}` cannot be opened for writing: {reason}") from None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one line for *spans*; what goes wrong is logged once, and never raised."""
        if not spans:
            return SpanExportResult.SUCCESS
        try:
            line = json.dumps(to_otlp(spans), separators=(",", ":"), allow_nan=False).encode() + b"\n"
            with self._lock:
                if self._file is None:
                    return SpanExportResult.FAILURE
                self._write(self._file, line)
        except Exception as error:  # noqa: BLE001 - an exporter never raises into the program
            if not self._failed:
                self._failed = True
                _LOG.warning("spans could not be written to `%s` (%s)", self.path, type(error).__name__)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def _write(self, file: int, line: bytes) -> None:
        # A line that was cut short must not take the next one with it.
        whole = b"\n" + line if self._broken else line
        written = os.write(file, whole)
        self._broken = written != len(whole)
        if self._broken:
            raise OSError("the line was written in part")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the name is given
        """Nothing waits here: a line is handed to the system when `export` returns."""
        return True

    def shutdown(self) -> None:
        """Close the file; later spans are refused."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None


def to_otlp(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """Make one ExportTraceServiceRequest of *spans*, as a JSON object."""
    resources: dict[Resource, dict[InstrumentationScope | None, list[_Json]]] = {}
    for span in spans:
        scopes = resources.setdefault(span.resource, {})
        scopes.setdefault(span.instrumentation_scope, []).append(_span(span))
    return {"resourceSpans": [_resource(resource, scopes) for resource, scopes in resources.items()]}


def _resource(resource: Resource, scopes: Mapping[InstrumentationScope | None, list[_Json]]) -> _Json:
    out: _Json = {
        "resource": {"attributes": _attributes(resource.attributes)},
        "scopeSpans": [_scope(scope, spans) for scope, spans in scopes.items()],
    }
    if resource.schema_url:
        out["schemaUrl"] = resource.schema_url
    return out


def _scope(scope: InstrumentationScope | None, spans: list[_Json]) -> _Json:
    if scope is None:
        return {"scope": {}, "spans": spans}
    inner: _Json = {"name": _clean(scope.name)}
    if scope.version:
        inner["version"] = _clean(scope.version)
    if scope.attributes:
        inner["attributes"] = _attributes(scope.attributes)
    out: _Json = {"scope": inner, "spans": spans}
    if scope.schema_url:
        out["schemaUrl"] = scope.schema_url
    return out


def _span(span: ReadableSpan) -> _Json:
    context = span.get_span_context()
    out: _Json = {} if context is None else _ids(context)
    if span.parent is not None:
        out["parentSpanId"] = format(span.parent.span_id, "016x")
    flags = 0 if context is None else int(context.trace_flags)
    flags |= _REMOTE_KNOWN | (_REMOTE if span.parent is not None and span.parent.is_remote else 0)
    out.update(
        flags=flags,
        name=_clean(span.name),
        kind=span.kind.value + 1,  # OTLP keeps 0 for a kind that nobody told
        startTimeUnixNano=str(span.start_time or 0),
        endTimeUnixNano=str(span.end_time or 0),
        attributes=_attributes(span.attributes),
    )
    if span.events:
        out["events"] = [_event(event) for event in span.events]
    if span.links:
        out["links"] = [_link(link) for link in span.links]
    counts = (
        ("droppedAttributesCount", span.dropped_attributes),
        ("droppedEventsCount", span.dropped_events),
        ("droppedLinksCount", span.dropped_links),
    )
    out.update((key, count) for key, count in counts if count)
    status: _Json = {"code": span.status.status_code.value} if span.status.status_code.value else {}
    if span.status.description:
        status["message"] = _clean(span.status.description)
    out["status"] = status
    return out


def _ids(context: SpanContext) -> _Json:
    out: _Json = {"traceId": format(context.trace_id, "032x"), "spanId": format(context.span_id, "016x")}
    if context.trace_state:
        out["traceState"] = context.trace_state.to_header()
    return out


def _event(event: Event) -> _Json:
    return {
        "timeUnixNano": str(event.timestamp),
        "name": _clean(event.name),
        "attributes": _attributes(event.attributes),
    }


def _link(link: Link) -> _Json:
    return {**_ids(link.context), "attributes": _attributes(link.attributes)}


def _attributes(attributes: Mapping[str, Any] | None) -> list[_Json]:
    return [{"key": _clean(key), "value": _value(value)} for key, value in (attributes or {}).items()]


def _value(value: object) -> _Json:
    """Any value as an AnyValue; one without a form there as text, so that nothing is lost."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": _clean(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -_INT64 <= value < _INT64 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _infinite(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytesValue": base64.b64encode(bytes(cast("bytes", value))).decode("ascii")}
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {"kvlistValue": {"values": [{"key": _clean(str(k)), "value": _value(v)} for k, v in items]}}
    if isinstance(value, Sequence):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": _clean(str(value))}


def _infinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _clean(text: str) -> str:
    """*text* with a mark in place of each lone surrogate, which no reader of OTLP accepts."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
