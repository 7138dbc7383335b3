"""What leaves the process: nothing that the capture holds back, in any span, exception or log."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Guard, Policy, ToolCall, ToolDenied
from gatescore.canonical import canonical_text
from gatescore.model import (
    Budget,
    Decided,
    Decision,
    Effect,
    Event,
    Moment,
    Proposed,
    SessionStarted,
    Started,
)
from gatescore.record.redact import Capture
from gatescore.record.spans import SpanRecorder
from gatescore.semconv import Written, decode, json_text

POLICY = Policy(
    rules=[
        {"id": "login", "allow": "login", "limit": {"executions": 5, "per": "principal", "key": ["user"]}},
        {"id": "no", "deny": "leak"},
    ]
)
LENGTH = len(canonical_text({"user": "u", "text": "x" * 100}))
SECRETS = ["hunter2", "abc-def", "u-42", "gold-tier"]


def captured(mode: str, arguments: dict[str, Any], **options: Any) -> ToolCall:
    return Capture(POLICY, mode, b"key", **options).call(ToolCall("login", arguments))


@pytest.mark.parametrize("capture", ["names", "none"])
def test_no_value_stands_in_any_span_exception_or_log(capture: str, caplog: pytest.LogCaptureFixture):
    """Case G14: neither the arguments, nor the session's attributes, nor the keys of budgets."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(POLICY, tracer_provider=provider, capture=capture)
    seen: list[Any] = []
    guard.wrap(lambda user, password, headers: seen.append(password), name="login")
    guard.wrap(lambda **more: None, name="leak")
    secret = {"user": "u-42", "password": "hunter2", "headers": {"Authorization": "Bearer abc-def"}}
    with caplog.at_level(logging.DEBUG), guard.session(principal="p", attributes={"tier": "gold-tier"}):
        guard.call("login", secret)
        with pytest.raises(ToolDenied) as caught:
            guard.call("leak", secret)
    assert ["hunter2"] == seen
    text = json.dumps(
        [
            [span.name, dict(span.attributes or {}), [str(event.attributes) for event in span.events]]
            for span in exporter.get_finished_spans()
        ]
    )
    for value in SECRETS:
        assert value not in text
        assert value not in str(caught.value)
        assert value not in caplog.text
    assert ("headers" in text) is (capture == "names")


def test_names_keep_sizes_and_digests_of_what_rules_compare_and_null():
    call = captured("names", {"user": "u", "other": [1, 2], "none": None, "live": object()})
    marker: Any = call.arguments["user"]
    assert {"size", "digest"} == marker["$withheld"].keys()
    assert marker["$withheld"]["digest"].startswith("hmac-sha256:")
    assert {"$withheld": {"size": 5}} == call.arguments["other"]
    assert call.arguments["none"] is None
    assert {"size": len('{"$python":"object"}'), "opaque": True} == call.arguments["live"]["$withheld"]  # type: ignore[index,call-overload]
    assert call.withheld


def test_equal_values_have_equal_digests_and_another_key_has_others():
    one, other = Capture(POLICY, "names", b"one"), Capture(POLICY, "names", b"two")
    assert one.digest({"a": 1}) == one.digest({"a": 1.0})
    assert one.digest({"a": 1}) != one.digest({"a": True})
    assert one.digest({"a": 1}) != other.digest({"a": 1})


def test_full_keeps_everything_but_what_is_too_large():
    arguments = {"user": "u", "text": "x" * 100}
    assert arguments == captured("full", arguments).arguments
    assert not captured("full", arguments).withheld
    assert arguments == captured("full", arguments, max_size=LENGTH).arguments
    large = captured("full", arguments, max_size=LENGTH - 1)
    assert ({"$withheld": {"size": LENGTH}}, True) == (large.arguments, large.withheld)


@pytest.mark.parametrize("mode", ["full", "names", "redacted"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"n" * 1_000_000: 1},
        {f"name{number}": number for number in range(10_000)},
        {"user": "u", "text": [{"deep" * 10_000: "x"}] * 3, "password": None},
    ],
    ids=["one long name", "many names", "long keys at depth"],
)
def test_arguments_of_any_size_become_one_small_marker(mode: str, arguments: dict[str, Any]):
    """Names can be as long as anything, and a model may make up any."""
    call = captured(mode, arguments, max_size=200)
    size = len(canonical_text(arguments))
    deep = mode == "names" and "text" in arguments
    shown = {"user", "text", "password"} if deep else {"$withheld"}
    assert (shown, True) == (set(call.arguments), call.withheld)
    assert deep or call.arguments == {"$withheld": {"size": size}}
    assert len(canonical_text(call.arguments)) <= 200


def test_the_size_of_the_marker_is_that_of_the_arguments_in_every_mode():
    arguments: dict[str, Any] = {"user": "u" * 100, "password": "hunter2"}
    told = [captured(mode, arguments, max_size=50).arguments for mode in ("full", "names", "redacted")]
    assert [{"$withheld": {"size": len(canonical_text(arguments))}}] * 3 == told


@pytest.mark.parametrize("raw", ["x" * 51, "\ud800" * 8])
def test_a_text_of_the_model_that_is_too_long_is_told_by_its_size(raw: str):
    """Never a part of it, which could be taken for the whole."""
    call = ToolCall("login", {}, raw=raw)
    capture = Capture(POLICY, "full", b"key", max_size=50)
    assert f'{{"$withheld":{{"size":{len(raw)}}}}}' == capture.call(call).raw
    assert "x" * 50 == capture.call(ToolCall("login", {}, raw="x" * 50)).raw
    assert [None] * 3 == [
        Capture(POLICY, mode, b"key", max_size=50).call(call).raw for mode in ("names", "redacted", "none")
    ]


@pytest.mark.parametrize("mode", ["full", "names", "redacted", "none"])
def test_what_is_written_is_the_text_of_the_call_as_it_is_written(mode: str):
    arguments = {
        "user": "u\N{SNOWMAN}\ud83d\ude00",
        "z": [1.5, True],
        "a": None,
        "live": object(),
        "password": "p",
    }
    call, capture = ToolCall("login", arguments, raw="{}"), Capture(POLICY, mode, b"key")
    written, shown = capture.written(call), capture.call(call)
    assert json_text(shown.arguments) == written.arguments
    assert (shown.withheld, shown.digest, shown.raw) == (written.withheld, written.digest, written.raw)


def test_a_limit_of_the_provider_counts_where_it_is_the_smaller_one():
    call, capture = ToolCall("login", {"user": "u" * 100}), Capture(POLICY, "full", b"key", max_size=150)
    whole = canonical_text(call.arguments)
    assert [whole, '{"$withheld":{"size":111}}', whole] == [
        capture.written(call, limit).arguments for limit in (None, 110, 1_000)
    ]
    assert 111 == len(whole)
    small = Capture(POLICY, "full", b"key", max_size=50)
    assert '{"$withheld":{"size":111}}' == small.written(call, 1_000).arguments


def test_session_attributes_that_are_too_large_are_told_by_their_size():
    held = {"note": "x" * 100}
    for mode in ("full", "redacted"):
        capture = Capture(POLICY, mode, b"key", max_size=LENGTH)
        assert (held, False) == capture.attributes(held)
        marker: Any = ({"$withheld": {"size": 111}}, True)
        assert marker == capture.attributes(held, 100)
        assert marker == Capture(POLICY, mode, b"key", max_size=110).attributes(held)


def test_no_pattern_redacts_nothing_by_name():
    call = captured("redacted", {"password": "p", "token": "t"}, redact=())
    assert ({"password": "p", "token": "t"}, False) == (call.arguments, call.withheld)


@pytest.mark.parametrize("events", ["proposal", "refusal", "execution"])
def test_a_call_is_captured_once_for_a_span(events: str, monkeypatch: pytest.MonkeyPatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    capture = Capture(POLICY, "full", b"key")
    recorder = SpanRecorder(provider, capture, None)
    call = ToolCall.recorded("login", {"user": "u"}, call_id="c")
    decision = Decision(Effect.ALLOW, (), "allowed", "sha256:0")
    entry = Decided(sequence=1, call_id="c", moment=Moment.ENTRY, decision=decision, call=call)
    steps: dict[str, list[Event]] = {
        "proposal": [
            Proposed(sequence=0, call=call),
            Decided(sequence=1, call_id="c", moment=Moment.PROPOSAL, decision=decision),
        ],
        "refusal": [entry],
        "execution": [entry, Started(sequence=2, call=call)],
    }
    seen: list[ToolCall] = []
    written = Capture.written

    def counted(self: Capture, call: ToolCall, limit: int | None = None) -> Written:
        seen.append(call)
        return written(self, call, limit)

    monkeypatch.setattr(Capture, "written", counted)
    assert recorder.write(steps[events], session_id="s", writer="w") is not None
    assert [call] == seen
    [span] = exporter.get_finished_spans()
    read = decode(span.attributes or {})
    assert read is not None
    assert steps[events] == read.events


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "p"),
        ("API_KEY", {"deep": "p"}),
        ("note", "Bearer abcdefgh"),
        ("note", "key sk-abcdefgh12345678"),
        ("note", "ghp_abcdefghijklmnop1234"),
        ("list", ["AKIAABCDEFGHIJKLMNOP"]),
        ("list", ["ASIAABCDEFGHIJKLMNOP"]),
        ("pem", "-----BEGIN RSA PRIVATE KEY-----"),
        ("header", "basic YWJjZGVmZ2g6YWJjZGVmZ2g="),
        ("note", "github_pat_abcdefghijklmnop1234"),
        ("note", "xoxb-abcdefgh-1234"),
        ("note", "eyJabcdefgh1234.eyJabcdefgh1234.abcdefgh"),
    ],
)
def test_redacted_leaves_out_secrets_by_name_and_by_look_at_any_depth(name: str, value: Any):
    call = captured("redacted", {"user": "ann", "outer": [{name: value}]})
    assert "ann" == call.arguments["user"]
    assert call.withheld
    shown = json.dumps(call.arguments["outer"])
    assert '{"$withheld": {"redacted": true}}' in shown
    for text in ("deep", "abcdefgh", "AKIA", "RSA", '"p"'):
        assert text not in shown


def test_redacted_leaves_the_rest_as_it_is():
    call = captured("redacted", {"user": "ann", "amount": 5, "password": None})
    assert ({"user": "ann", "amount": 5, "password": None}, False) == (call.arguments, call.withheld)


@pytest.mark.parametrize("mode", ["names", "full", "redacted", "none"])
def test_the_keys_of_budgets_are_never_written(mode: str):
    budget = Budget("limit", "executions", '["limit","p","[u-42]"]', wide=True)
    decision = Decision(Effect.ALLOW, (), "allowed", "sha256:0", budgets=(budget,))
    event = Capture(POLICY, mode, b"key").event(
        Decided(call_id="c", moment=Moment.PROPOSAL, decision=decision)
    )
    assert isinstance(event, Decided)
    assert [("limit", "executions", "", True)] == [
        (b.limit, b.unit, b.key, b.wide) for b in event.decision.budgets
    ]


def test_attributes_are_withheld_with_the_arguments():
    started = SessionStarted(session_id="s", attributes={"token": "t", "tier": "gold"})
    shown = {}
    for mode in ("names", "none", "redacted", "full"):
        event = Capture(POLICY, mode, b"key").event(started)
        assert isinstance(event, SessionStarted)
        shown[mode] = (event.attributes, event.withheld)
    nothing: Any = ({"$withheld": {}}, True)
    assert (nothing, nothing) == (shown["names"], shown["none"])
    assert ({"token": {"$withheld": {"redacted": True}}, "tier": "gold"}, True) == shown["redacted"]
    assert ({"token": "t", "tier": "gold"}, False) == shown["full"]
