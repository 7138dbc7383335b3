"""
Events: what a session's history is folded from, and what a record of it consists of.

A live guard appends them, spans carry them, and a scorer folds the same events again. Nobody
changes them. `sequence` counts the events of one session and writer from 0, without a gap; `time` is
integer nanoseconds since 1970-01-01 UTC and never goes back within a session. Both are None where
the record does not hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gatescore.canonical import Json
from gatescore.model.calls import (
    NO_FACTS,
    Action,
    Budget,
    Decision,
    Executor,
    Facts,
    Join,
    Mode,
    Moment,
    Origin,
    Outcome,
    ToolCall,
)
from gatescore.model.values import value


@value
class Event:
    """What happened at one time in a session."""

    time: int | None = None
    sequence: int | None = None


@value
class Position:
    """A place in what one writer recorded of a session: the event with this sequence number."""

    writer: str
    sequence: int


@value
class SessionStarted(Event):
    """
    A session began, or goes on.

    Attributes:
        session_id: Its id.
        principal: On whose behalf, or None.
        attributes: Its attributes, a JSON object.
        observed: False where the executed stream is not in the record: what ran before is unknown.
        withheld: The record does not tell the values of the attributes.
        lone: Not a session that somebody opened, but the record of one call outside of any: nothing
            is known of what happened before.
        mode: Whether denials were enforced; None where that is not recorded.
        policy_name, policy_version, policy_digest: The policy in force, or None.
        catalog: The names of the tools that were offered; None where no name is unknown.
        continues: The last event before this one, where the session had begun earlier.
    """

    session_id: str
    principal: str | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    observed: bool = True
    withheld: bool = False
    lone: bool = False
    mode: Mode | None = None
    policy_name: str | None = None
    policy_version: str | None = None
    policy_digest: str | None = None
    catalog: frozenset[str] | None = None
    continues: Position | None = None


@value
class AttributesChanged(Event):
    """The session's attributes are now *attributes* (all of them, not a difference)."""

    attributes: Mapping[str, Json]
    withheld: bool = False


@value
class Proposed(Event):
    """
    A call was put forward.

    Attributes:
        call: The call.
        message: Calls with one message are siblings.
        origin: Where it came from.
        parent: The `call_id` of the call in whose body it was made (origin `nested`), or None.
        edited_from: The `call_id` of the proposal that a person changed into this one, or None.
        selected: False where the runtime took another candidate.
    """

    call: ToolCall
    message: str | None = None
    origin: Origin = Origin.MODEL
    parent: str | None = None
    edited_from: str | None = None
    selected: bool = True


@value
class Decided(Event):
    """
    A call was judged.

    At the proposal, an allowed call reserves its decision's budgets, and any call uses those that
    count proposals.

    Attributes:
        call_id: Which call.
        moment: At which moment.
        decision: The verdict.
        call: The call as it was judged at entry; None at the proposal, which is judged as proposed.
        facts: What the decision knew of the world.
        action: What was done about it; None where that is not recorded.
    """

    call_id: str
    moment: Moment
    decision: Decision
    call: ToolCall | None = None
    facts: Facts = NO_FACTS
    action: Action | None = None


@value
class Approved(Event):
    """
    Somebody said yes to a call.

    Attributes:
        call_id: Which call.
        arguments: The digest of the arguments that were agreed to (`ToolCall.digest`), or None.
        policy_digest: The policy under which the question arose, or None.
        by: Who, or None.
        expires: When the yes ends; None for never.
        attempts: How many entries it covers.
    """

    call_id: str
    arguments: str | None = None
    policy_digest: str | None = None
    by: str | None = None
    expires: int | None = None
    attempts: int = 1


@value
class Rejected(Event):
    """
    Somebody said no to a call, or nobody answered in time; what it had reserved is free again.

    Attributes:
        call_id: Which call.
        by: Who, or None.
        expired: Nobody answered in time.
        error: Why there was no answer, or None: no approver, one that raised, an answer that is none.
    """

    call_id: str
    by: str | None = None
    expired: bool = False
    error: str | None = None


@value
class Started(Event):
    """
    A body is about to be entered.

    Attributes:
        call: The call as entered.
        budgets: The units used up by it (`Decision.budgets` of the entry).
        attempt: Which physical attempt, from 1.
        executor: Who runs it.
        join: How it was found to belong to its proposal; None where that is not recorded.
    """

    call: ToolCall
    budgets: tuple[Budget, ...] = ()
    attempt: int = 1
    executor: Executor = Executor.LOCAL
    join: Join | None = None


@value
class Finished(Event):
    """
    An execution ended.

    Attributes:
        call_id: Which call.
        outcome: How. `UNFINISHED`: it ended without telling whether it took effect, as by a time-out.
        attempt: Which attempt.
        error_type: The name of the exception's type, or None.
    """

    call_id: str
    outcome: Outcome
    attempt: int = 1
    error_type: str | None = None


@value
class Abandoned(Event):
    """A call will not be entered any more; what it had reserved is free again."""

    call_id: str


@value
class SessionEnded(Event):
    """The session is over; nothing reserved remains. Its own `sequence` is the last one."""
