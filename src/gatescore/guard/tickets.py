"""One logical call inside of a session, and one entry of it."""

from __future__ import annotations

from typing import NamedTuple

from opentelemetry.trace import Span, SpanContext

from gatescore.errors import GatescoreError
from gatescore.model import Decision, Moment, Origin, ToolCall


class GuardError(GatescoreError, ValueError):
    """A guard, or a session of one, that is used in a way that has no meaning."""


class Ticket:
    """
    One logical call: its proposal, and what has become of it.

    Attributes:
        call: As proposed.
        origin, parent: Where it came from (see `gatescore.model.Proposed`).
        decision: The verdict at the proposal.
        claimed: A call in progress enters it, or has entered it: another one is another attempt.
        question: The verdict that asks a person, where one must be asked.
        attempts: How many times its body was entered.
        denied: The verdict that ended it, or None; with the moment.
        approved: The digest of the arguments that a person agreed to, or None.
        expires, entries_left: How long, and how often, that yes lasts.
        span: The context of the proposal's span, or None.
        unfit: Its arguments do not fit the tool's parameters.
    """

    __slots__ = (
        "approved",
        "attempts",
        "call",
        "claimed",
        "decision",
        "denied",
        "entries_left",
        "expires",
        "moment",
        "origin",
        "parent",
        "question",
        "span",
        "unfit",
    )

    def __init__(
        self,
        call: ToolCall,
        decision: Decision,
        origin: Origin,
        parent: str | None,
        unfit: bool,
        claimed: bool,
    ) -> None:
        self.call = call
        self.origin = origin
        self.parent = parent
        self.claimed = claimed
        self.question = decision
        self.decision = decision
        self.attempts = 0
        self.denied: Decision | None = None
        self.moment = Moment.PROPOSAL
        self.approved: str | None = None
        self.expires = 0
        self.entries_left = 0
        self.span: SpanContext | None = None
        self.unfit = unfit

    def deny(self, decision: Decision, moment: Moment) -> None:
        """End it: it will not be entered any more."""
        self.denied = decision
        self.moment = moment


class Yes(NamedTuple):
    """A person's yes: to this call, under this verdict, by this person, if they gave a name."""

    call: ToolCall
    decision: Decision
    by: str | None


class Hold:
    """What keeps a session going for one call, where nobody else holds it open: taken once, and given back."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = False


class Entry:
    """One entry into a body: the call as entered, which attempt it is, and its span, if there is one."""

    __slots__ = ("attempt", "call", "span")

    def __init__(self, call: ToolCall, attempt: int) -> None:
        self.call = call
        self.attempt = attempt
        self.span: Span | None = None
