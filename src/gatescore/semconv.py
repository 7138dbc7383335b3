"""
Span names and attribute keys; events to attributes and back, as one pair.

A span carries the events of one step of a session: a call put forward and judged; a denial at its
entry; a person's answer; an execution; or something that happened to the session itself. Texts are
escaped where they hold what UTF-8 cannot (a lone surrogate), and come back as they were.

Source: DESIGN, "The record"; the OpenTelemetry GenAI conventions for `gen_ai.*`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from gatescore.canonical import Json, canonical_text
from gatescore.errors import GatescoreError
from gatescore.model import (
    Abandoned,
    Action,
    Approved,
    AttributesChanged,
    Budget,
    Decided,
    Decision,
    Effect,
    Event,
    Executor,
    Facts,
    Finished,
    Join,
    Mode,
    Moment,
    Origin,
    Outcome,
    Position,
    Proposed,
    Rejected,
    SessionEnded,
    SessionStarted,
    Started,
    ToolCall,
)

Attributes: TypeAlias = "dict[str, str | bool | int | float | Sequence[str]]"

SCHEMA: Final = 1
"""The version of the `gatescore.*` attributes."""

_G: Final = "gatescore."
_ESCAPED: Final = "\x00"


class DamagedSpanError(GatescoreError, ValueError):
    """A span of gatescore's that lacks some of its attributes, or holds what none of them can be."""


@dataclass(frozen=True, slots=True)
class SpanData:
    """What a span is made of: its name, and all of its attributes."""

    name: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events of one span, and whose they are."""

    session_id: str
    writer: str
    events: list[Event]


def encode(
    events: Sequence[Event],
    *,
    session_id: str,
    writer: str,
    agent_name: str | None = None,
    call: ToolCall | None = None,
) -> SpanData:
    """
    Make a span of the *events* of one step.

    Args:
        events: `Proposed` and `Decided`; `Decided` at an entry, alone or with `Started`; or any other one.
        session_id: The session.
        writer: Who records.
        agent_name: The agent's name, or None.
        call: The call that a person answered, whose tool names the span of the answer.
    """
    first = events[0]
    out: Attributes = {}
    if isinstance(first, Proposed):
        call = first.call
    elif isinstance(first, Decided):
        call = first.call or call
    executed = any(isinstance(event, Started) for event in events)
    name = "session " + session_id
    stream = "session"
    if call is not None and not isinstance(
        first, (SessionStarted, AttributesChanged, SessionEnded, Abandoned)
    ):
        operation = "execute_tool" if executed else "propose_tool"
        name = f"{operation} {call.name}"
        stream = "executed" if executed else "proposed"
        out["gen_ai.operation.name"] = operation
        out["gen_ai.tool.name"] = _text(call.name)
        out["openinference.span.kind"] = "TOOL" if executed else "GUARDRAIL"
        out["langfuse.observation.type"] = "tool" if executed else "guardrail"
        if call.host_call_id:
            out["gen_ai.tool.call.id"] = _text(call.host_call_id)
        if agent_name is not None:
            out["gen_ai.agent.name"] = _text(agent_name)
    out["gen_ai.conversation.id"] = _text(session_id)
    out[_G + "schema"] = SCHEMA
    out[_G + "stream"] = stream
    out[_G + "session.id"] = _text(session_id)
    out[_G + "writer"] = _text(writer)
    out[_G + "events"] = [type(event).__name__ for event in events]
    _put(out, "sequence", first.sequence)
    _put(out, "time", first.time)
    for event in events:
        _ENCODERS[type(event)](out, event)
    return SpanData(_text(name), out)


def encode_finished(event: Finished) -> Attributes:
    """The attributes that an execution's span gets at its end."""
    out: Attributes = {_G + "outcome": event.outcome.value}
    _put(out, "finish.sequence", event.sequence)
    _put(out, "finish.time", event.time)
    if event.error_type is not None:
        out["error.type"] = _text(event.error_type)
    return out


def decode(attributes: Mapping[str, Any]) -> Decoded | None:
    """
    The events of a span by its *attributes*; None where it is not one of gatescore's.

    Raises:
        DamagedSpanError: It is, and cannot be read.
    """
    if _G + "events" not in attributes:
        return None
    read = _Reader(attributes)
    try:
        if read.get("schema") != SCHEMA:
            raise DamagedSpanError(f"schema `{read.get('schema')}` is not one that this version reads")
        names = [str(name) for name in cast("Sequence[object]", attributes[_G + "events"])]
        events = [_DECODERS[name](read, position) for position, name in enumerate(names)]
        if "Started" in names and _G + "outcome" in attributes:
            events.append(_finished(read))
        return Decoded(read.text("session.id"), read.text("writer"), events)
    except DamagedSpanError:
        raise
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedSpanError(f"a span lacks an attribute, or holds a wrong one: {error}") from None


def _put(out: Attributes, key: str, value: str | bool | int | None) -> None:
    if value is not None:
        out[_G + key] = _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """*text* itself where UTF-8 can hold it and it is not taken for an escaped one; else its bytes behind a mark."""
    if not text.startswith(_ESCAPED):
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    # Not as JSON: that reads two lone surrogates side by side as one character.
    return _ESCAPED + text.encode("utf-8", "surrogatepass").hex()


def _untext(text: str) -> str:
    if not text.startswith(_ESCAPED):
        return text
    return bytes.fromhex(text[len(_ESCAPED) :]).decode("utf-8", "surrogatepass")


def _texts(texts: Sequence[str]) -> list[str]:
    return [_text(text) for text in texts]


# Encoding


def _encode_call(out: Attributes, call: ToolCall) -> None:
    out[_G + "call.id"] = _text(call.call_id)
    _put(out, "tool.name", call.name)
    _put(out, "server", call.server)
    _put(out, "host_call.id", call.host_call_id)
    _put(out, "invalid", call.invalid)
    key = _G + "args.shape" if call.withheld else "gen_ai.tool.call.arguments"
    out[key] = canonical_text(call.arguments)
    if call.opaque:
        out[_G + "args.opaque"] = True
    if call.withheld:
        out[_G + "args.withheld"] = True
    _put(out, "args.digest", call.digest)
    _put(out, "args.raw", call.raw)


def _proposed(out: Attributes, event: Proposed) -> None:
    _encode_call(out, event.call)
    out[_G + "origin"] = event.origin.value
    _put(out, "message.id", event.message)
    _put(out, "parent", event.parent)
    _put(out, "edited_from", event.edited_from)
    if not event.selected:
        out[_G + "selected"] = False


def _decided(out: Attributes, event: Decided) -> None:
    decision = event.decision
    if event.call is not None:
        _encode_call(out, event.call)
    out[_G + "call.id"] = _text(event.call_id)
    out[_G + "moment"] = event.moment.value
    out[_G + "decision"] = decision.effect.value
    out[_G + "policy.digest"] = _text(decision.policy_digest)
    out[_G + "rule.ids"] = _texts(decision.rules)
    out[_G + "reason"] = _text(decision.reason)
    if decision.errors:
        out[_G + "errors"] = _texts(decision.errors)
    if decision.budgets:
        budgets = [[b.unit, _text(b.limit), b.wide] for b in decision.budgets]
        out[_G + "budgets"] = json.dumps(budgets)
    if decision.stop:
        out[_G + "stop"] = True
    _put(out, "decision.invalid", decision.invalid)
    if event.action is not None:
        out[_G + "action"] = event.action.value
    facts: dict[str, Json] = {}
    if event.facts.now is not None:
        facts["now"] = event.facts.now
    if event.facts.budgets:
        facts["budgets"] = dict(event.facts.budgets)
    out[_G + "facts"] = canonical_text(facts)


def _started(out: Attributes, event: Started) -> None:
    out[_G + "attempt"] = event.attempt
    out[_G + "executor"] = event.executor.value
    if event.join is not None:
        out[_G + "join"] = event.join.value


def _session_started(out: Attributes, event: SessionStarted) -> None:
    _put(out, "principal", event.principal)
    _attributes(out, event)
    for key, flag in (("unobserved", not event.observed), ("lone", event.lone)):
        if flag:
            out[_G + key] = True
    if event.mode is not None:
        out[_G + "mode"] = event.mode.value
    _put(out, "policy.name", event.policy_name)
    _put(out, "policy.version", event.policy_version)
    _put(out, "policy.digest", event.policy_digest)
    if event.catalog is not None:
        out[_G + "catalog"] = _texts(sorted(event.catalog))
    if event.continues is not None:
        out[_G + "continues.writer"] = _text(event.continues.writer)
        out[_G + "continues.sequence"] = event.continues.sequence


def _attributes(out: Attributes, event: SessionStarted | AttributesChanged) -> None:
    out[_G + "attributes"] = canonical_text(dict(event.attributes))
    if event.withheld:
        out[_G + "attributes.withheld"] = True


def _approved(out: Attributes, event: Approved) -> None:
    out[_G + "call.id"] = _text(event.call_id)
    out[_G + "approval"] = "approved"
    _put(out, "args.digest", event.arguments)
    _put(out, "policy.digest", event.policy_digest)
    _put(out, "approval.by", event.by)
    _put(out, "approval.expires", event.expires)
    out[_G + "approval.attempts"] = event.attempts


def _rejected(out: Attributes, event: Rejected) -> None:
    out[_G + "call.id"] = _text(event.call_id)
    out[_G + "approval"] = "expired" if event.expired else "rejected"
    _put(out, "approval.by", event.by)
    _put(out, "approval.error", event.error)


def _abandoned(out: Attributes, event: Abandoned) -> None:
    out[_G + "call.id"] = _text(event.call_id)


def _nothing(out: Attributes, event: Event) -> None:
    """A session's end has nothing but its place."""


_ENCODERS: Final[Mapping[type[Event], Any]] = {
    Proposed: _proposed,
    Decided: _decided,
    Started: _started,
    SessionStarted: _session_started,
    AttributesChanged: _attributes,
    Approved: _approved,
    Rejected: _rejected,
    Abandoned: _abandoned,
    SessionEnded: _nothing,
}


# Decoding


class _Reader:
    """Attributes by their keys without the prefix."""

    __slots__ = ("attributes",)

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.attributes = attributes

    def get(self, key: str) -> Any:
        return self.attributes.get(_G + key)

    def text(self, key: str) -> str:
        value = self.attributes[_G + key]
        if not isinstance(value, str):
            raise DamagedSpanError(f"`{_G}{key}` is not text")
        return _untext(value)

    def maybe(self, key: str) -> str | None:
        return self.text(key) if _G + key in self.attributes else None

    def whole(self, key: str) -> int | None:
        value = self.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise DamagedSpanError(f"`{_G}{key}` is not a whole number")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(_untext(str(text)) for text in self.get(key) or ())

    def object(self, key: str) -> dict[str, Json]:
        value: Any = json.loads(self.attributes[key])
        if not isinstance(value, dict):
            raise DamagedSpanError(f"`{key}` is not an object")
        return cast("dict[str, Json]", value)

    def place(self, position: int) -> dict[str, int | None]:
        sequence = self.whole("sequence")
        return {"time": self.whole("time"), "sequence": None if sequence is None else sequence + position}

    def call(self) -> ToolCall:
        withheld = self.get("args.withheld") is True
        return ToolCall.recorded(
            self.text("tool.name"),
            self.object(_G + "args.shape" if withheld else "gen_ai.tool.call.arguments"),
            server=self.maybe("server"),
            call_id=self.text("call.id"),
            host_call_id=self.maybe("host_call.id"),
            invalid=self.maybe("invalid"),
            opaque=self.get("args.opaque") is True,
            withheld=withheld,
            digest=self.maybe("args.digest"),
            raw=self.maybe("args.raw"),
        )


def _read_proposed(read: _Reader, position: int) -> Event:
    return Proposed(
        **read.place(position),
        call=read.call(),
        message=read.maybe("message.id"),
        origin=Origin(read.text("origin")),
        parent=read.maybe("parent"),
        edited_from=read.maybe("edited_from"),
        selected=read.get("selected") is not False,
    )


def _read_decided(read: _Reader, position: int) -> Event:
    moment = Moment(read.text("moment"))
    facts = read.object(_G + "facts")
    budgets: Any = json.loads(read.get("budgets") or "[]")
    decision = Decision(
        Effect(read.text("decision")),
        read.texts("rule.ids"),
        read.text("reason"),
        read.text("policy.digest"),
        read.texts("errors"),
        tuple(Budget(_untext(limit), unit, "", wide) for unit, limit, wide in budgets),
        (),
        read.maybe("decision.invalid"),
        read.get("stop") is True,
    )
    action = read.maybe("action")
    return Decided(
        **read.place(position),
        call_id=read.text("call.id"),
        moment=moment,
        decision=decision,
        call=read.call() if moment is Moment.ENTRY else None,
        facts=Facts(
            now=cast("int | None", facts.get("now")), budgets=cast("dict[str, int]", facts.get("budgets", {}))
        ),
        action=None if action is None else Action(action),
    )


def _read_started(read: _Reader, position: int) -> Event:
    join = read.maybe("join")
    budgets: Any = json.loads(read.get("budgets") or "[]")
    return Started(
        **read.place(position),
        call=read.call(),
        budgets=tuple(Budget(_untext(limit), unit, "", wide) for unit, limit, wide in budgets),
        attempt=read.whole("attempt") or 1,
        executor=Executor(read.text("executor")),
        join=None if join is None else Join(join),
    )


def _finished(read: _Reader) -> Event:
    error = read.attributes.get("error.type")
    return Finished(
        time=read.whole("finish.time"),
        sequence=read.whole("finish.sequence"),
        call_id=read.text("call.id"),
        outcome=Outcome(read.text("outcome")),
        attempt=read.whole("attempt") or 1,
        error_type=_untext(error) if isinstance(error, str) else None,
    )


def _read_session_started(read: _Reader, position: int) -> Event:
    mode = read.maybe("mode")
    writer = read.maybe("continues.writer")
    return SessionStarted(
        **read.place(position),
        session_id=read.text("session.id"),
        principal=read.maybe("principal"),
        attributes=read.object(_G + "attributes"),
        observed=read.get("unobserved") is not True,
        withheld=read.get("attributes.withheld") is True,
        lone=read.get("lone") is True,
        mode=None if mode is None else Mode(mode),
        policy_name=read.maybe("policy.name"),
        policy_version=read.maybe("policy.version"),
        policy_digest=read.maybe("policy.digest"),
        catalog=frozenset(read.texts("catalog")) if read.get("catalog") is not None else None,
        continues=None
        if writer is None
        else Position(writer=writer, sequence=cast("int", read.whole("continues.sequence"))),
    )


def _read_attributes(read: _Reader, position: int) -> Event:
    return AttributesChanged(
        **read.place(position),
        attributes=read.object(_G + "attributes"),
        withheld=read.get("attributes.withheld") is True,
    )


def _read_approved(read: _Reader, position: int) -> Event:
    return Approved(
        **read.place(position),
        call_id=read.text("call.id"),
        arguments=read.maybe("args.digest"),
        policy_digest=read.maybe("policy.digest"),
        by=read.maybe("approval.by"),
        expires=read.whole("approval.expires"),
        attempts=read.whole("approval.attempts") or 1,
    )


def _read_rejected(read: _Reader, position: int) -> Event:
    return Rejected(
        **read.place(position),
        call_id=read.text("call.id"),
        by=read.maybe("approval.by"),
        expired=read.text("approval") == "expired",
        error=read.maybe("approval.error"),
    )


def _read_abandoned(read: _Reader, position: int) -> Event:
    return Abandoned(**read.place(position), call_id=read.text("call.id"))


def _read_ended(read: _Reader, position: int) -> Event:
    return SessionEnded(**read.place(position))


_DECODERS: Final[Mapping[str, Any]] = {
    "Proposed": _read_proposed,
    "Decided": _read_decided,
    "Started": _read_started,
    "SessionStarted": _read_session_started,
    "AttributesChanged": _read_attributes,
    "Approved": _read_approved,
    "Rejected": _read_rejected,
    "Abandoned": _read_abandoned,
    "SessionEnded": _read_ended,
}
