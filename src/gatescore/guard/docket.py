"""
What is decided in one session, in which order, and the record of it.

Reading the history, deciding, reserving and appending are one critical section; no lock is held
while a tool, an approver or any other code of the user's runs.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from gatescore.canonical import Json
from gatescore.decide import decide, stays
from gatescore.guard.approval import Asked
from gatescore.guard.context import Frame, enter, leave
from gatescore.guard.register import Register
from gatescore.guard.tickets import Entry, Hold, Ticket, Yes
from gatescore.model import (
    Action,
    Approved,
    AttributesChanged,
    Decided,
    Decision,
    Effect,
    Event,
    Facts,
    Finished,
    Join,
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
from gatescore.record.ledger import Ledger

if TYPE_CHECKING:
    from gatescore.guard.guard import Guard

P = ParamSpec("P")
R = TypeVar("R")

_DENY: Final = Effect.DENY
_ASK: Final = Effect.ASK
_SECOND: Final = 1_000_000_000


class Docket:
    """
    The calls of one session, judged one after the other. `Run` is the side of it that users see.

    Attributes:
        guard: Its guard.
        id: Its id.
        key: What no other session of this process has, whatever its id.
        principal: On whose behalf, or None.
        lone: The record of one call outside of any session.
        stopped: A spent limit with ``then: stop`` ended it: every further call is denied.
    """

    def __init__(
        self,
        guard: Guard,
        session_id: str,
        principal: str | None,
        attributes: Mapping[str, Json],
        *,
        lone: bool = False,
    ) -> None:
        self.guard = guard
        self.id = session_id
        self.key = uuid.uuid4().hex
        self.principal = principal
        self.lone = lone
        self.stopped = False
        self._attributes = attributes
        self._lock = guard.lock or threading.Lock()
        self._ledger = Ledger()
        self._before: Position | None = None
        self._began = False
        self._opens = 0
        self._loose = 0
        self._register = Register()

    # Opening and closing

    def open(self) -> Frame:
        """Hold the session open, and make it the current one."""
        with self._lock:
            self._opens += 1
            events = self._begin(Hold())
            self.guard.opened(self)
        self._write(events)
        return enter(self, None)

    def close(self, frame: Frame) -> None:
        """Hold it open no longer; the last one to do so ends it."""
        leave(frame)
        with self._lock:
            self._opens -= 1
            events = self._end()
        self._write(events)

    def let_go(self, hold: Hold) -> None:
        """Say that nothing of a call is under way any more: a session that it alone kept going is over."""
        if not hold.held:
            return
        hold.held = False
        with self._lock:
            self._loose -= 1
            events = self._end()
        self._write(events)

    def _begin(self, hold: Hold) -> list[Event]:
        """
        Append that the session begins or goes on, where it has not begun or is over.

        Where nobody holds it open, *hold* does: as by a call that outlives the session that it began in.
        """
        if not self._opens and not hold.held:
            hold.held = True
            self._loose += 1
        if self._began:
            return []
        ledger, policy = self._ledger, self.guard.policy
        event = SessionStarted(
            time=ledger.now(),
            sequence=ledger.sequence,
            session_id=self.id,
            principal=self.principal,
            attributes=self._attributes,
            lone=self.lone,
            mode=self.guard.mode,
            policy_name=policy.name,
            policy_version=policy.version,
            policy_digest=policy.digest,
            continues=self._before or ledger.last,
        )
        ledger.append(event)
        self._began, self._before = True, None
        return [event]

    def _end(self) -> list[Event]:
        """Append that it is over, if nothing keeps it going any more."""
        if self._opens or self._loose or not self._began:
            return []
        ledger = self._ledger
        event = SessionEnded(time=ledger.now(), sequence=ledger.sequence)
        ledger.append(event)
        self._began = False
        self._register.waiting.clear()
        self.guard.over(self)
        return [event]

    def forked(self) -> None:
        """Called in a new process: a lock may be held by a thread that is not here, and the writer is another one."""
        self._lock = self.guard.lock or threading.Lock()
        if len(self._ledger.history):
            self._before = self._ledger.forked()
            self._began = False

    def describe(self, attributes: Mapping[str, Json], *, keep: bool) -> None:
        """Give the session other attributes, beside those it has where they are to be kept."""
        hold, ledger = Hold(), self._ledger
        with self._lock:
            begun = self._begin(hold)
            self._attributes = {**(self._attributes if keep else {}), **attributes}
            event = AttributesChanged(
                time=ledger.now(), sequence=ledger.sequence, attributes=self._attributes
            )
            ledger.append(event)
        self._write([*begun, event])
        self.let_go(hold)

    # One call

    def submit(
        self,
        call: ToolCall,
        hold: Hold,
        *,
        origin: Origin,
        parent: str | None = None,
        message: str | None = None,
        edited_from: str | None = None,
        unfit: bool = False,
        waits: bool = False,
        joins: bool = False,
    ) -> tuple[Ticket, Join]:
        """
        Put a call forward: record it, judge it, and reserve what it will need.

        With *joins*, only where it does not belong to a proposal that is there already (see
        `Register.claim`): looking for that and putting the call forward are one step.

        Returns:
            Its ticket, and how it was found.
        """
        digest = self.guard.capture.digest(call.raw if call.invalid is not None else call.arguments)
        ledger = self._ledger
        with self._lock:
            found = self._register.claim(call) if joins else None
            if found is not None:
                return found
            begun = self._begin(hold)
            self._register.identify(call, self.id, parent, digest)
            now, sequence = ledger.now(), ledger.sequence
            proposed = Proposed(
                time=now,
                sequence=sequence,
                call=call,
                message=message,
                origin=origin,
                parent=parent,
                edited_from=edited_from,
            )
            ledger.append(proposed)
            decision, facts = self._decide(call, Moment.PROPOSAL, now)
            decided = Decided(
                time=now,
                sequence=sequence + 1,
                call_id=call.call_id,
                moment=Moment.PROPOSAL,
                decision=decision,
                facts=facts,
                action=self._action(decision.effect),
            )
            ledger.append(decided)
            ticket = Ticket(call, decision, origin, parent, unfit, not waits)
            if decision.stop:
                self.stopped = True
            if self.guard.wide:
                self.guard.take(decision, self.key, call.call_id, Moment.PROPOSAL, now, first=False)
            if decision.effect is _DENY and self.guard.enforces:
                ticket.deny(decision, Moment.PROPOSAL)
            if waits or call.host_call_id:
                self._register.remember(ticket, waits=waits)
        if begun:
            self._write(begun)
        ticket.span = self.guard.spans.write([proposed, decided], session_id=self.id, writer=ledger.writer)
        return ticket, Join.SELF

    def enter(
        self, ticket: Ticket, call: ToolCall | None, join: Join, hold: Hold, yes: Yes | None = None
    ) -> Entry | None:
        """
        Judge a call that is about to be entered, with its arguments as they are now.

        Args:
            ticket: The call.
            call: What it is entered with; None where that is what was proposed, this very moment.
            join: How the ticket was found.
            hold: What keeps the session going for this call.
            yes: What a person has just answered. It is recorded and used in one step: no other entry comes between.

        Returns:
            The entry; or None, where a person must be asked first, or the ticket says that it is denied.
        """
        proposed = ticket.call
        if call is None:
            call = proposed
        else:
            digest = self.guard.capture.digest(call.raw if call.invalid is not None else call.arguments)
            call.identify(proposed.call_id, digest, call.host_call_id or proposed.host_call_id)
        ledger, enforces = self._ledger, self.guard.enforces
        events: list[Event] = []
        entry: Entry | None = None
        with self._lock:
            if ticket.denied is not None:
                return None
            begun = self._begin(hold)
            now = ledger.now()
            agreed = [] if yes is None else [self._approve(ticket, yes, now)]
            sequence = ledger.sequence
            if (
                call is proposed
                and ticket.decision.policy_digest == self.guard.policy.digest
                and stays(self.guard.policy, call)
            ):
                decision, facts = ticket.decision, Facts(now=now)  # nothing can have changed
            else:
                decision, facts = self._decide(call, Moment.ENTRY, now)
            denied = enforces and decision.effect is _DENY
            if denied or self._agreed(ticket, call, decision, now):
                events.append(
                    Decided(
                        time=now,
                        sequence=sequence,
                        call_id=call.call_id,
                        moment=Moment.ENTRY,
                        decision=decision,
                        call=call,
                        facts=facts,
                        action=Action.BLOCK if denied else Action.EXECUTE,
                    )
                )
                ledger.append(events[0])
            if denied:
                ticket.deny(decision, Moment.ENTRY)
                self._release(call)
            elif events:
                ticket.attempts += 1
                entry = Entry(call, ticket.attempts)
                events.append(
                    Started(
                        time=now,
                        sequence=sequence + 1,
                        call=call,
                        budgets=decision.budgets,
                        attempt=entry.attempt,
                        join=join,
                    )
                )
                ledger.append(events[1])
                if self.guard.wide:
                    first = entry.attempt == 1
                    self.guard.take(decision, self.key, call.call_id, Moment.ENTRY, now, first=first)
        if begun:
            self._write(begun)
        if agreed:
            self._write(agreed, proposed)
        if entry is None:
            self._write(events)
        else:
            entry.span = self.guard.spans.begin(
                events, session_id=self.id, writer=ledger.writer, proposal=ticket.span
            )
        return entry

    def _agreed(self, ticket: Ticket, call: ToolCall, decision: Decision, now: int) -> bool:
        """Whether a call may go on without asking anybody, or a yes to it lasts; which one entry of it uses up."""
        if not self.guard.enforces or _ASK not in (decision.effect, ticket.decision.effect):
            return True
        if ticket.approved == call.digest and ticket.entries_left > 0 and now < ticket.expires:
            ticket.entries_left -= 1
            return True
        ticket.question = decision if decision.effect is _ASK else ticket.decision
        return False

    def finish(self, entry: Entry, outcome: Outcome, error_type: str | None) -> None:
        """Record how an entry ended."""
        ledger = self._ledger
        with self._lock:
            event = Finished(
                time=ledger.now(),
                sequence=ledger.sequence,
                call_id=entry.call.call_id,
                outcome=outcome,
                attempt=entry.attempt,
                error_type=error_type,
            )
            ledger.append(event)
        if entry.span is not None:
            self.guard.spans.finish(entry.span, event)

    def reject(self, ticket: Ticket, asked: Asked, decision: Decision, hold: Hold) -> None:
        """Record that there was no yes to a call about which *decision* asks, or that the guard failed: it is over."""
        ledger = self._ledger
        answer = asked.answer
        why = asked.error or "a person said no"
        with self._lock:
            begun = self._begin(hold)
            event = Rejected(
                time=ledger.now(),
                sequence=ledger.sequence,
                call_id=ticket.call.call_id,
                by=answer.by if answer is not None else None,
                expired=asked.expired,
                error=asked.error,
            )
            ledger.append(event)
            self._release(ticket.call)
            errors = () if asked.error is None else (asked.error,)
            reason = f"{decision.reason.rstrip('.')}, and {why}" if decision.effect is _ASK else why
            ticket.deny(Decision(_DENY, decision.rules, reason, decision.policy_digest, errors), Moment.ENTRY)
        self._write([*begun, event], ticket.call)

    # Inside the critical section

    def _decide(self, call: ToolCall, moment: Moment, now: int) -> tuple[Decision, Facts]:
        policy, history = self.guard.policy, self._ledger.history
        facts = Facts(now=now)
        try:
            decision = decide(policy, history, call, facts, moment=moment)
            wide = [budget for budget in decision.budgets if budget.wide] if self.guard.wide else []
            if wide:
                facts = Facts(now=now, budgets=self.guard.elsewhere(wide, self.key, now))
                decision = decide(policy, history, call, facts, moment=moment)
        except Exception as error:  # noqa: BLE001 - a failure of the guard is a denial, on the record
            text = f"the guard failed: `{type(error).__name__}`"
            decision = Decision(_DENY, (), text, policy.digest, (text,))
        return decision, facts

    def _approve(self, ticket: Ticket, yes: Yes, now: int) -> Approved:
        """Append a yes: to these arguments, under this policy, for a while."""
        policy, ledger, call = self.guard.policy, self._ledger, yes.call
        attempts = min((policy.approval_attempts.get(rule, 1) for rule in yes.decision.rules), default=1)
        if call.opaque:
            attempts = 1  # what nobody could see may be another value the next time
        ticket.approved, ticket.entries_left = call.digest, attempts
        ticket.expires = now + int(self.guard.approval_ttl * _SECOND)
        event = Approved(
            time=now,
            sequence=ledger.sequence,
            call_id=ticket.call.call_id,
            arguments=call.digest or "",
            policy_digest=policy.digest,
            by=yes.by,
            expires=ticket.expires,
            attempts=attempts,
        )
        ledger.append(event)
        return event

    def _action(self, effect: Effect) -> Action:
        if not self.guard.enforces or effect is Effect.ALLOW:
            return Action.EXECUTE
        return Action.PENDING if effect is _ASK else Action.BLOCK

    def _release(self, call: ToolCall) -> None:
        if self.guard.wide:
            self.guard.budgets.release(self.key, call.call_id)

    def _write(self, events: Sequence[Event], call: ToolCall | None = None) -> None:
        for event in events:
            self.guard.spans.write([event], session_id=self.id, writer=self._ledger.writer, call=call)
