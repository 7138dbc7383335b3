"""
Events to attributes.

This runs for every call, twice: what is the same for all calls of a tool is made once, and nothing is
written as JSON that is JSON text already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gatescore.canonical import Json
from gatescore.model import (
    Approved,
    Budget,
    Decided,
    Event,
    Facts,
    Finished,
    Proposed,
    Rejected,
    Started,
    ToolCall,
)
from gatescore.semconv.sessions import ENCODERS
from gatescore.semconv.texts import (
    ARGUMENTS,
    EVENTS,
    SCHEMA,
    SHAPE,
    SIZE,
    Attributes,
    SpanData,
    escaped,
    json_text,
    measured,
    put,
    sealed,
)

_LONG_NAME: Final = 200
"""Names that are longer are kept nowhere: a model may make up any."""


_UNFIT: Final = "no span carries these events"


class Written(NamedTuple):
    """
    What is written of a call besides its name and ids.

    Attributes:
        arguments: The arguments, or what is told of them, as `json_text` writes it.
        withheld, digest, raw: As those of `gatescore.model.ToolCall`.
    """

    arguments: str
    withheld: bool
    digest: str | None
    raw: str | None


def encode(
    events: Sequence[Event],
    *,
    session_id: str,
    writer: str,
    agent_name: str | None = None,
    call: ToolCall | None = None,
    written: Written | None = None,
) -> SpanData:
    """
    Make a span of the *events* of one step.

    Args:
        events: `Proposed` and `Decided`; `Decided` at an entry, alone or with `Started`; or any other one.
        session_id: The session.
        writer: Who records.
        agent_name: The agent's name, or None.
        call: The call that a person answered, whose tool names the span of the answer.
        written: What is written of the call that the events hold; None for all of it.
    """
    first = events[0]
    own: Attributes = {}
    if first.sequence is not None:
        own["gatescore.sequence"] = first.sequence
    if first.time is not None:
        own["gatescore.time"] = first.time
    if isinstance(first, (Proposed, Decided)):
        step, call, decided = _step(own, events, first, written)
        made = _kept if len(call.name) < _LONG_NAME else _call_base
        base = made(step, call.name, call.server, decided.decision.policy_digest, agent_name)
    else:
        kind = type(first).__name__
        if len(events) > 1 or type(first) not in ENCODERS:
            raise ValueError(_UNFIT)
        ENCODERS[type(first)](own, first)
        if call is not None and isinstance(first, (Approved, Rejected)):
            base = _call_base(kind, call.name, None, None, agent_name)
        else:
            base, call = _session_base(kind), None
    # What is set last is evicted last: by these a span is found, and its damage told.
    own["gatescore.writer"] = writer
    own["gatescore.session.id"] = session_id
    own[SIZE] = base.size + sealed(own)
    own[EVENTS] = base.events
    session = own["gatescore.session.id"]
    out: Attributes = {**base.shared, "gen_ai.conversation.id": session}
    if call is not None and call.host_call_id:
        out["gen_ai.tool.call.id"] = escaped(call.host_call_id)
    out.update(own)
    return SpanData(base.name or f"session {session}", out)


def encode_finished(event: Finished) -> Attributes:
    """The attributes that an execution's span gets at its end."""
    out: Attributes = {"gatescore.outcome": event.outcome.value}
    put(out, "gatescore.finish.sequence", event.sequence)
    put(out, "gatescore.finish.time", event.time)
    if event.error_type is not None:
        out["error.type"] = escaped(event.error_type)
    return out


# What is the same for many spans

_STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "propose": ("Proposed", "Decided"),
    "refuse": ("Decided",),
    "execute": ("Decided", "Started"),
}


class _Base(NamedTuple):
    """
    What is the same for many spans.

    Attributes:
        name: The name; empty where it is that of the session.
        events: The names of the events.
        shared: Attributes.
        size: Of these and of the events (see `measured`).
    """

    name: str
    events: tuple[str, ...]
    shared: Attributes
    size: int


def _call_base(step: str, tool: str, server: str | None, digest: str | None, agent: str | None) -> _Base:
    executed = step == "execute"
    name, operation = escaped(tool), "execute_tool" if executed else "propose_tool"
    own: Attributes = {
        "gatescore.schema": SCHEMA,
        "gatescore.stream": "executed" if executed else "proposed",
    }
    if digest is not None:
        own["gatescore.tool.name"] = name
        own["gatescore.policy.digest"] = escaped(digest)
        if server is not None:
            own["gatescore.server"] = escaped(server)
    events = _STEPS.get(step) or (step,)
    shared: Attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.tool.name": name,
        # Without these two, backends show a blocked call as a tool that ran.
        "openinference.span.kind": "TOOL" if executed else "GUARDRAIL",
        "langfuse.observation.type": "tool" if executed else "guardrail",
        **own,
    }
    if agent is not None:
        shared["gen_ai.agent.name"] = escaped(agent)
    return _Base(f"{operation} {name}", events, shared, measured({**own, EVENTS: events}))


_kept: Final = lru_cache(maxsize=1024)(_call_base)


@lru_cache(maxsize=16)
def _session_base(kind: str) -> _Base:
    shared: Attributes = {"gatescore.schema": SCHEMA, "gatescore.stream": "session"}
    return _Base("", (kind,), shared, measured({**shared, EVENTS: (kind,)}))


# Events about a call


def _step(
    own: Attributes, events: Sequence[Event], first: Proposed | Decided, written: Written | None
) -> tuple[str, ToolCall, Decided]:
    """Put what the events of one call say; which step it is, the call, and the verdict."""
    decided: Event
    call: ToolCall | None
    if isinstance(first, Proposed):
        _, decided = events
        step, call = "propose", first.call
        _proposed(own, first)
    else:
        step, decided, call = "refuse", first, first.call
        if len(events) > 1:
            _, started = events
            if type(started) is not Started or (started.call is not call and started.call != call):
                raise ValueError(_UNFIT)
            step = "execute"
            _started(own, started)
    if call is None or type(decided) is not Decided:
        raise ValueError(_UNFIT)
    if written is None:
        written = Written(json_text(call.arguments), call.withheld, call.digest, call.raw)
    _call(own, call, written)
    _decided(own, decided)
    return step, call, decided


def _call(own: Attributes, call: ToolCall, written: Written) -> None:
    own["gatescore.call.id"] = call.call_id
    if written.withheld:
        own[SHAPE] = written.arguments
        own["gatescore.args.withheld"] = True
    else:
        own[ARGUMENTS] = written.arguments
    if written.digest is not None:
        own["gatescore.args.digest"] = written.digest
    if call.host_call_id is not None:
        own["gatescore.host_call.id"] = call.host_call_id
    if call.opaque:
        own["gatescore.args.opaque"] = True
    if call.invalid is not None:
        own["gatescore.invalid"] = call.invalid
    if written.raw is not None:
        own["gatescore.args.raw"] = written.raw


def _proposed(own: Attributes, event: Proposed) -> None:
    own["gatescore.origin"] = str(event.origin)
    if event.message is not None:
        own["gatescore.message.id"] = event.message
    if event.parent is not None:
        own["gatescore.parent"] = event.parent
    if event.edited_from is not None:
        own["gatescore.edited_from"] = event.edited_from
    if not event.selected:
        own["gatescore.selected"] = False


def _decided(own: Attributes, event: Decided) -> None:
    decision = event.decision
    own["gatescore.moment"] = str(event.moment)
    own["gatescore.decision"] = str(decision.effect)
    own["gatescore.rule.ids"] = decision.rules
    own["gatescore.reason"] = decision.reason
    if decision.errors:
        own["gatescore.errors"] = decision.errors
    if decision.budgets:
        own["gatescore.budgets"] = tuple(_budget(budget) for budget in decision.budgets)
    if decision.stop:
        own["gatescore.stop"] = True
    if decision.invalid is not None:
        own["gatescore.decision.invalid"] = decision.invalid
    if event.action is not None:
        own["gatescore.action"] = str(event.action)
    own["gatescore.facts"] = facts_text(event.facts)


def _budget(budget: Budget) -> str:
    """A unit without its key, which holds values of arguments."""
    return json_text([budget.unit, budget.limit, budget.wide])


def facts_text(facts: Facts) -> str:
    """Facts as the text of an attribute."""
    now, budgets = facts.now, facts.budgets
    if not budgets:
        # The same text, without the price of a writer of JSON.
        return "{}" if now is None else f'{{"now":{now:d}}}'
    told: dict[str, Json] = {"budgets": dict(budgets)}
    if now is not None:
        told["now"] = now
    return json_text(told)


def _started(own: Attributes, event: Started) -> None:
    own["gatescore.attempt"] = event.attempt
    own["gatescore.executor"] = str(event.executor)
    if event.join is not None:
        own["gatescore.join"] = str(event.join)
