"""
Span names and attribute keys; events to attributes and back, as one pair.

A span carries the events of one step of a session: a call put forward and judged; a denial at its
entry; a person's answer; an execution; or something that happened to the session itself. What is
read is what was written, or the span is damaged: never a part of it.

Source: DESIGN, "The record"; the OpenTelemetry GenAI conventions for `gen_ai.*`.
"""

from gatescore.semconv.decoding import decode
from gatescore.semconv.encoding import Written, encode, encode_finished
from gatescore.semconv.limits import Limits, fit
from gatescore.semconv.texts import (
    LOST,
    SCHEMA,
    Attributes,
    DamagedSpanError,
    Decoded,
    SpanData,
    escaped,
    json_text,
    parsed,
    unescaped,
)

__all__ = [
    "LOST",
    "SCHEMA",
    "Attributes",
    "DamagedSpanError",
    "Decoded",
    "Limits",
    "SpanData",
    "Written",
    "decode",
    "encode",
    "encode_finished",
    "escaped",
    "fit",
    "json_text",
    "parsed",
    "unescaped",
]
