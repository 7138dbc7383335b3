"""What was recorded of a session: its two streams, and the events that they were taken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gatescore.canonical import Json
from gatescore.errors import InputError
from gatescore.model.calls import End, Executor, Join, Origin, Outcome, ToolCall
from gatescore.model.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """
    A tool call put forward; one per logical call.

    Attributes:
        call: The call. Its `call_id` is unique in the session.
        origin: Where it came from.
        turn: Which turn of the conversation: proposals of one turn are siblings, judged against
            what had been executed in earlier turns.
        time: When, or None.
        approved: Somebody said yes to it.
        selected: False where the runtime took another candidate: shown, and not scored.
        refused: The runtime refused it before the body.
        end: How it ended, where events tell; None while it is pending, and in trajectory lines.
        edited_from: The `call_id` of the proposal that a person changed into this one, or None.
    """

    call: ToolCall
    origin: Origin = Origin.MODEL
    turn: int = 0
    time: int | None = None
    approved: bool = False
    selected: bool = True
    refused: bool = False
    end: End | None = None
    edited_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """
    One entry into a tool's body, with the arguments at entry.

    Attributes:
        call: The call as entered. Its `call_id` is that of the proposal it joins.
        proposed: Whether a proposal joins it.
        turn: The turn of its proposal; without one, that of the execution before it.
        attempt: Which physical attempt of the logical call, from 1; None where the record does not say.
        executor: Who ran it.
        outcome: How it ended.
        time: When the body was entered, or None.
        approved: Somebody said yes to this entry.
        join: How it was found to belong to its proposal; None where that is not recorded.
        error_type: The name of the type of the exception that it ended with, or None.
        returned: An `UNFINISHED` one came back, without telling whether it took effect (a time-out):
            the record of it is whole.
    """

    call: ToolCall
    proposed: bool = False
    turn: int = 0
    attempt: int | None = None
    executor: Executor = Executor.LOCAL
    outcome: Outcome = Outcome.SUCCEEDED
    time: int | None = None
    approved: bool = False
    join: Join | None = None
    error_type: str | None = None
    returned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """
    The events that one writer recorded of one session.

    Attributes:
        events: In order. Those of an earlier writer, where this one goes on from it, come first.
        inherited: How many of them are an earlier writer's: history, and no part of this session's
            streams.
        writer: Whose record it is, or None.
        missing: What the record lacks, one line each: events that are not there, an end that is not
            there. Empty where it is whole.
    """

    events: Sequence[Event]
    inherited: int = 0
    writer: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """
    One recorded run or conversation.

    Attributes:
        id: Its id, as recorded.
        principal: On whose behalf, or None.
        attributes: What was known about it.
        catalog: The names of the tools that were offered; None where no name is unknown.
        proposed: The proposed stream, oldest first; None where it was not observed.
        executed: The executed stream, oldest first; None where it was not observed.
        source: Where it was read: file and line.
        error: Why it could not be read, or None. A session with an error holds no streams; it is
            passed on, so that what could not be read is never mistaken for what was not there.
        record: The events that the streams were taken from, where a guard recorded them; None for
            trajectory lines.
    """

    id: str
    principal: str | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    catalog: frozenset[str] | None = None
    proposed: Sequence[Proposal] | None = None
    executed: Sequence[Execution] | None = None
    source: str | None = None
    error: InputError | None = None
    record: Record | None = None
