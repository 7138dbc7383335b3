"""
The values that every other part speaks in: calls, decisions, events and recorded streams.

Nobody changes them: type checkers refuse it. Times are integer nanoseconds since 1970-01-01 UTC, or
None where the record does not hold them. Nothing here defaults to allow.
"""

from __future__ import annotations

from gatescore.model.calls import (
    NO_FACTS,
    Action,
    Budget,
    Decision,
    Effect,
    End,
    Executor,
    Facts,
    Join,
    Mode,
    Moment,
    Origin,
    Outcome,
    Stream,
    ToolCall,
)
from gatescore.model.events import (
    Abandoned,
    Approved,
    AttributesChanged,
    Decided,
    Event,
    Finished,
    Position,
    Proposed,
    Rejected,
    SessionEnded,
    SessionStarted,
    Started,
)
from gatescore.model.sessions import (
    Execution,
    Proposal,
    Record,
    Session,
)

__all__ = [
    "Action",
    "Budget",
    "Decision",
    "Effect",
    "End",
    "Executor",
    "Facts",
    "Join",
    "Mode",
    "Moment",
    "NO_FACTS",
    "Origin",
    "Outcome",
    "Stream",
    "ToolCall",
    "Abandoned",
    "Approved",
    "AttributesChanged",
    "Decided",
    "Event",
    "Finished",
    "Position",
    "Proposed",
    "Rejected",
    "SessionEnded",
    "SessionStarted",
    "Started",
    "Execution",
    "Proposal",
    "Record",
    "Session",
]
