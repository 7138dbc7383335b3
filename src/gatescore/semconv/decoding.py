"""
Attributes to events.

A span is read if it is one that `encode` makes of what is read from it, attribute by attribute; so
nothing that was cut, left out or changed on its way is taken for what a guard wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from gatescore.model import (
    Abandoned,
    Approved,
    AttributesChanged,
    Event,
    Executor,
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
from gatescore.semconv.encoding import Written, encode, encode_finished
from gatescore.semconv.reading import Reader
from gatescore.semconv.texts import (
    ARGUMENTS,
    EVENTS,
    FACTS_WITHHELD,
    LOST,
    OWN,
    SCHEMA,
    SIZE,
    DamagedSpanError,
    Decoded,
)

_ANSWERED: Final = ToolCall("answered")
"""Any call: the span of an answer is in the stream of the call that it names, where that was at hand."""


def decode(attributes: Mapping[str, Any]) -> Decoded | None:
    """
    The events of a span by its *attributes*; None where it is not one of gatescore's.

    Attributes of others are passed over, and so are those under `gatescore.` that this version does
    not know.

    Raises:
        DamagedSpanError: It is, and a guard has not written it like this.
    """
    if EVENTS not in attributes:
        return None
    attributes = dict(attributes)  # a span's own mapping is slow to ask
    read = Reader(attributes)
    schema = attributes.get("gatescore.schema")
    if schema != SCHEMA:
        shown = str(schema)[:100]
        raise DamagedSpanError(f"`gatescore.schema` is `{shown}`: not one that this version reads")
    if LOST in attributes:
        raise DamagedSpanError(
            f"a span lost attributes to a limit, says `{LOST}`: raise"
            " `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` or `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`"
        )
    decoder = _DECODERS.get(read.texts(EVENTS))
    if decoder is None:
        raise DamagedSpanError(f"`{EVENTS}` is none that one span can carry")
    events = decoder(read)
    decoded = Decoded(read.text("gatescore.session.id"), read.text("gatescore.writer"), events)
    _compare(decoded, attributes, read.written)
    return decoded


def _compare(decoded: Decoded, attributes: Mapping[str, Any], written: Written | None) -> None:
    """Raise where *attributes* are not what a guard writes of what was read from them."""
    events, last = decoded.events, decoded.events[-1]
    if isinstance(last, Finished):
        events = events[:-1]
    answered = _ANSWERED if attributes.get("gatescore.stream") == "proposed" else None
    expected = encode(
        events, session_id=decoded.session_id, writer=decoded.writer, call=answered, written=written
    ).attributes
    if isinstance(last, Finished):
        expected.update(encode_finished(last))
    if FACTS_WITHHELD in attributes:
        expected[FACTS_WITHHELD] = True
        expected[SIZE] = cast("int", expected[SIZE]) + 1
    for key, known in expected.items():
        value = attributes.get(key)
        if isinstance(value, list):
            value = tuple(cast("list[object]", value))
        if (type(value) is not type(known) or value != known) and key in OWN:
            if key not in attributes:
                raise DamagedSpanError(f"a span lacks the attribute `{key}`")
            raise DamagedSpanError(f"`{key}` is not what a guard writes: it was cut or changed on its way")
    for key in attributes:
        # Others may tell the arguments that a guard withholds.
        if key not in expected and key in OWN and key != ARGUMENTS:
            raise DamagedSpanError(f"`{key}` has no meaning beside the other attributes of its span")


def _proposal(read: Reader) -> list[Event]:
    proposed = Proposed(
        **read.place(),
        call=read.call(),
        message=read.maybe("gatescore.message.id"),
        origin=read.one_of(Origin, "gatescore.origin"),
        parent=read.maybe("gatescore.parent"),
        edited_from=read.maybe("gatescore.edited_from"),
        selected=not read.flag("gatescore.selected"),
    )
    return [proposed, read.decided(Moment.PROPOSAL, None, 1)]


def _refusal(read: Reader) -> list[Event]:
    return [read.decided(Moment.ENTRY, read.call())]


def _execution(read: Reader) -> list[Event]:
    decided = read.decided(Moment.ENTRY, read.call())
    started = Started(
        **read.place(1),
        call=read.call(),
        budgets=decided.decision.budgets,
        attempt=read.whole("gatescore.attempt", 1),
        executor=read.one_of(Executor, "gatescore.executor"),
        join=read.one_of(Join, "gatescore.join") if "gatescore.join" in read.attributes else None,
    )
    if "gatescore.outcome" not in read.attributes:
        return [decided, started]
    finished = Finished(
        time=read.number("gatescore.finish.time"),
        sequence=read.number("gatescore.finish.sequence"),
        call_id=decided.call_id,
        outcome=read.one_of(Outcome, "gatescore.outcome"),
        attempt=started.attempt,
        error_type=read.maybe("error.type"),
    )
    return [decided, started, finished]


def _session_started(read: Reader) -> list[Event]:
    given = read.attributes
    writer = read.maybe("gatescore.continues.writer")
    before = (
        None
        if writer is None
        else Position(writer=writer, sequence=read.whole("gatescore.continues.sequence"))
    )
    return [
        SessionStarted(
            **read.place(),
            session_id=read.text("gatescore.session.id"),
            principal=read.maybe("gatescore.principal"),
            attributes=read.object("gatescore.attributes"),
            observed=not read.flag("gatescore.unobserved"),
            withheld=read.flag("gatescore.attributes.withheld"),
            lone=read.flag("gatescore.lone"),
            mode=read.one_of(Mode, "gatescore.mode") if "gatescore.mode" in given else None,
            policy_name=read.maybe("gatescore.policy.name"),
            policy_version=read.maybe("gatescore.policy.version"),
            policy_digest=read.maybe("gatescore.policy.digest"),
            catalog=frozenset(read.texts("gatescore.catalog")) if "gatescore.catalog" in given else None,
            continues=before,
        )
    ]


def _attributes_changed(read: Reader) -> list[Event]:
    return [
        AttributesChanged(
            **read.place(),
            attributes=read.object("gatescore.attributes"),
            withheld=read.flag("gatescore.attributes.withheld"),
        )
    ]


def _approved(read: Reader) -> list[Event]:
    return [
        Approved(
            **read.place(),
            call_id=read.text("gatescore.call.id"),
            arguments=read.digest("gatescore.args.digest"),
            policy_digest=read.maybe("gatescore.policy.digest"),
            by=read.maybe("gatescore.approval.by"),
            expires=read.number("gatescore.approval.expires"),
            attempts=read.whole("gatescore.approval.attempts", 1),
        )
    ]


def _rejected(read: Reader) -> list[Event]:
    return [
        Rejected(
            **read.place(),
            call_id=read.text("gatescore.call.id"),
            by=read.maybe("gatescore.approval.by"),
            expired=read.text("gatescore.approval") == "expired",
            error=read.maybe("gatescore.approval.error"),
        )
    ]


def _abandoned(read: Reader) -> list[Event]:
    return [Abandoned(**read.place(), call_id=read.text("gatescore.call.id"))]


def _ended(read: Reader) -> list[Event]:
    return [SessionEnded(**read.place())]


_DECODERS: Final[Mapping[tuple[str, ...], Callable[[Reader], list[Event]]]] = {
    ("Proposed", "Decided"): _proposal,
    ("Decided",): _refusal,
    ("Decided", "Started"): _execution,
    ("SessionStarted",): _session_started,
    ("AttributesChanged",): _attributes_changed,
    ("Approved",): _approved,
    ("Rejected",): _rejected,
    ("Abandoned",): _abandoned,
    ("SessionEnded",): _ended,
}
