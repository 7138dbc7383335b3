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
from gatescore.model import Budget, Decided, Decision, Effect, Moment, SessionStarted
from gatescore.record.redact import Capture

POLICY = Policy(
    rules=[
        {"id": "login", "allow": "login", "limit": {"executions": 5, "per": "principal", "key": ["user"]}},
        {"id": "no", "deny": "leak"},
    ]
)
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
    large = captured("full", arguments, max_size=50)
    assert large.withheld
    assert ["$withheld"] == list(large.arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "p"),
        ("API_KEY", {"deep": "p"}),
        ("note", "Bearer abcdefgh"),
        ("note", "key sk-abcdefgh12345678"),
        ("note", "ghp_abcdefghijklmnop1234"),
        ("list", ["AKIAABCDEFGHIJKLMNOP"]),
        ("pem", "-----BEGIN RSA PRIVATE KEY-----"),
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
