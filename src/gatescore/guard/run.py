"""
One session of a guard: what it decides, in which order, and what it records.

Reading the history, deciding, reserving and appending are one critical section; no lock is held
while a tool, an approver or any other code of the user's runs.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from gatescore.canonical import Json, canonical, equal
from gatescore.decide import decide
from gatescore.guard.approval import Asked
from gatescore.guard.context import FRAME, Frame, leave
from gatescore.guard.tickets import Entry, GuardError, Ticket, with_ids
from gatescore.model import (
    Action,
    Approved,
    AttributesChanged,
    Decided,
    Decision,
    Effect,
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
from gatescore.recording import session_of
from gatescore.score import PermissionCard, score_permissions

if TYPE_CHECKING:
    from gatescore.guard.guard import Guard
    from gatescore.guard.proposals import ProposedCall

P = ParamSpec("P")
R = TypeVar("R")

_DENY: Final = Effect.DENY
_ASK: Final = Effect.ASK
_SECOND: Final = 1_000_000_000


class Run:
    """
    One session: made by `Guard.session`, open inside its ``with`` block.

    Attributes:
        guard: Its guard.
        id: Its id.
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
        self._ordinals: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._by_host: dict[tuple[str, str | None, str], list[Ticket]] = {}
        self._waiting: dict[tuple[str | None, str], list[Ticket]] = {}
        guard.watch(self)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {len(self._ledger.history)} events>"

    # What users call

    @property
    def attributes(self) -> dict[str, Json]:
        """What is known about the session: a copy. Change it by `update`."""
        return canonical(self._attributes)

    def update(self, **attributes: object) -> None:
        """Set some of the session's attributes: an event, which later decisions see."""
        changed = canonical({**self._attributes, **attributes})
        with self._lock:
            begun = self._begin()
            self._attributes = changed
            event = AttributesChanged(
                time=self._ledger.now(), sequence=self._ledger.sequence, attributes=changed
            )
            self._ledger.append(event)
        self._write([*begun, event])

    def propose(self, calls: Iterable[object], *, message: str | None = None) -> list[ProposedCall]:
        """
        Put forward the tool calls of one message of a model, judged in their order, before any of them runs.

        Args:
            calls: Mappings with `name`, `arguments` (a mapping, or JSON text) and, if the provider gave
                one, `id`; OpenAI's nesting in `function` is read too. Calls whose arguments are not
                valid are on the record as invalid, and denied.
            message: The id of the message; calls of one message are siblings.

        Returns:
            One proposed call for each, with its verdict; `ProposedCall.run` enters it.

        Raises:
            GuardError: The session is not open, or *calls* is no list of mappings.
        """
        from gatescore.guard.proposals import propose  # noqa: PLC0415 - what it makes can run tools

        if not self._opens:
            raise GuardError(f"session `{self.id}` is not open: propose inside its `with` block")
        return propose(self, calls, message or uuid.uuid4().hex)

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Make *function* run in this session wherever it is called: in a raw thread, or an executor."""
        frame = FRAME.get()

        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> R:
            token = FRAME.set(frame if frame is not None and frame.run is self else Frame(self, None, frame))
            try:
                return function(*args, **kwargs)
            finally:
                leave(token)

        return bound

    def score(self, **options: Any) -> PermissionCard:
        """
        Both checks and the reconciliation, from what this process recorded; complete once the session is over.

        Args:
            options: As in `gatescore.score.score_permissions`: `threshold`, `strict`, `checks`.
        """
        return score_permissions(self.session(), self.guard.policy, **options)

    def session(self) -> Any:
        """What was recorded, as a `gatescore.Session`."""
        with self._lock:
            record = self._ledger.record()
        return session_of(record, source=f"session {self.id}")

    # Opening and closing

    def open(self) -> Token[Frame | None]:
        """Hold the session open, and make it the current one."""
        with self._lock:
            self._opens += 1
            events = self._begin()
        self._write(events)
        return FRAME.set(Frame(self, None, FRAME.get()))

    def close(self, token: Token[Frame | None]) -> None:
        """Hold it open no longer; the last one to do so ends it."""
        leave(token)
        with self._lock:
            self._opens -= 1
            events = self._end()
        self._write(events)

    def _begin(self) -> list[Any]:
        """Append that the session begins or goes on, where it has not begun or is over."""
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

    def _end(self) -> list[Any]:
        """Append that it is over, if nobody holds it open any more."""
        if self._opens or self._loose or not self._began:
            return []
        ledger = self._ledger
        event = SessionEnded(time=ledger.now(), sequence=ledger.sequence)
        ledger.append(event)
        self._began = False
        self._waiting.clear()
        self.guard.over(self, ledger.writer)
        return [event]

    def forked(self) -> None:
        """Called in a new process: a lock may be held by a thread that is not here, and the writer is another one."""
        self._lock = self.guard.lock or threading.Lock()
        if len(self._ledger.history):
            self._before = self._ledger.forked()
            self._began = False

    # One call

    def submit(
        self,
        call: ToolCall,
        *,
        origin: Origin,
        parent: str | None = None,
        message: str | None = None,
        edited_from: str | None = None,
        unfit: bool = False,
        waits: bool = False,
    ) -> Ticket:
        """Put a call forward: record it, judge it, and reserve what it will need."""
        digest = self.guard.capture.digest(call.raw if call.invalid is not None else call.arguments)
        ledger = self._ledger
        with self._lock:
            loose = not self._opens
            self._loose += loose
            begun = self._begin()
            call = self._identified(call, parent, digest)
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
            ticket = Ticket(call, decision, loose=loose, unfit=unfit)
            self.stopped = self.stopped or decision.stop
            self._take(decision, call, Moment.PROPOSAL, now)
            if decision.effect is _DENY and self.guard.enforces:
                ticket.deny(decision, Moment.PROPOSAL)
            self._remember(ticket, waits=waits)
        self._write(begun)
        ticket.span = self.guard.spans.write([proposed, decided], session_id=self.id, writer=ledger.writer)
        return ticket

    def enter(self, ticket: Ticket, call: ToolCall | None, join: Join) -> Entry | None:
        """
        Judge a call that is about to be entered, with its arguments as they are now.

        Args:
            ticket: The call.
            call: What it is entered with; None where that is what was proposed, this very moment.
            join: How the ticket was found.

        Returns:
            The entry; or None, where a person must be asked first, or the ticket says that it is denied.
        """
        proposed = ticket.call
        if call is None:
            call = proposed
        else:
            digest = self.guard.capture.digest(call.raw if call.invalid is not None else call.arguments)
            call = with_ids(call, proposed.call_id, call.host_call_id or proposed.host_call_id, digest)
        ledger, enforces = self._ledger, self.guard.enforces
        with self._lock:
            begun = self._begin()
            if ticket.denied is not None:
                return None
            now, sequence = ledger.now(), ledger.sequence
            decision, facts = self._decide(call, Moment.ENTRY, now)
            denied = enforces and decision.effect is _DENY
            if not denied and enforces and _ASK in (decision.effect, ticket.decision.effect):
                agreed = ticket.approved == call.digest and ticket.entries_left > 0 and now < ticket.expires
                if not agreed:
                    return None
                ticket.entries_left -= 1
            decided = Decided(
                time=now,
                sequence=sequence,
                call_id=call.call_id,
                moment=Moment.ENTRY,
                decision=decision,
                call=call,
                facts=facts,
                action=Action.BLOCK if denied else Action.EXECUTE,
            )
            ledger.append(decided)
            if denied:
                ticket.deny(decision, Moment.ENTRY)
                self._release(call)
                entry = started = None
            else:
                ticket.attempts += 1
                entry = Entry(ticket, call, ticket.attempts)
                started = Started(
                    time=now,
                    sequence=sequence + 1,
                    call=call,
                    budgets=decision.budgets,
                    attempt=entry.attempt,
                    join=join,
                )
                ledger.append(started)
                self._take(decision, call, Moment.ENTRY, now, first=entry.attempt == 1)
        self._write(begun)
        if entry is None or started is None:
            self._write([decided])
            return None
        entry.span = self.guard.spans.begin(
            [decided, started], session_id=self.id, writer=ledger.writer, proposal=ticket.span
        )
        return entry

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

    def let_go(self, ticket: Ticket) -> None:
        """Say that nothing of a call is under way any more: a session that it alone kept open is over."""
        if not ticket.loose:
            return
        ticket.loose = False
        with self._lock:
            self._loose -= 1
            events = self._end()
        self._write(events)

    def approve(self, ticket: Ticket, call: ToolCall, decision: Decision, by: str | None) -> None:
        """Record a yes to *call*: to these arguments, under this policy, for a while."""
        policy = self.guard.policy
        attempts = min((policy.approval_attempts.get(rule, 1) for rule in decision.rules), default=1)
        digest = call.digest or self.guard.capture.digest(call.arguments)
        ledger = self._ledger
        with self._lock:
            now = ledger.now()
            ticket.approved, ticket.entries_left = digest, attempts
            ticket.expires = now + int(self.guard.approval_ttl * _SECOND)
            event = Approved(
                time=now,
                sequence=ledger.sequence,
                call_id=ticket.call.call_id,
                arguments=digest,
                policy_digest=policy.digest,
                by=by,
                expires=ticket.expires,
                attempts=attempts,
            )
            ledger.append(event)
        self._write([event], ticket.call)

    def reject(self, ticket: Ticket, decision: Decision, asked: Asked) -> None:
        """Record that there was no yes: the call is over."""
        ledger = self._ledger
        answer = asked.answer
        why = asked.error or "a person said no"
        with self._lock:
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
            reason = f"{decision.reason.rstrip('.')}, and {why}"
            ticket.deny(Decision(_DENY, decision.rules, reason, decision.policy_digest, errors), Moment.ENTRY)
        self._write([event], ticket.call)

    def waiting(self, call: ToolCall) -> tuple[Ticket, Join] | None:
        """The proposal that a call belongs to, or None: by the provider's id, else by name and arguments."""
        with self._lock:
            if call.host_call_id:
                tickets = self._by_host.get((call.host_call_id, call.server, call.name))
                if not tickets:
                    return None
                return next((t for t in tickets if not t.attempts and t.denied is None), tickets[-1]), Join.ID
            tickets = self._waiting.get((call.server, call.name))
            for ticket in tickets or ():
                same = call.invalid is None and equal(call.arguments, ticket.call.arguments)
                if same and not ticket.attempts:
                    return ticket, Join.INFERRED
        return None

    # Inside the critical section

    def _identified(self, call: ToolCall, parent: str | None, digest: str) -> ToolCall:
        """Give a call its id: of session, scope, the provider's id or else the arguments, and its number among such."""
        own = call.host_call_id or digest
        key = (parent or "", f"{call.server}\n{call.name}\n{own}")
        ordinal = self._ordinals[key]
        self._ordinals[key] = ordinal + 1
        text = "\n".join((self.id, *key, str(ordinal)))
        made = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return with_ids(call, made, call.host_call_id, digest)

    def _decide(self, call: ToolCall, moment: Moment, now: int) -> tuple[Decision, Facts]:
        policy, history = self.guard.policy, self._ledger.history
        facts = Facts(now=now)
        try:
            decision = decide(policy, history, call, facts, moment=moment)
            wide = [budget for budget in decision.budgets if budget.wide] if self.guard.wide else []
            if wide:
                facts = Facts(now=now, budgets=self.guard.elsewhere(wide, self._ledger.writer, now))
                decision = decide(policy, history, call, facts, moment=moment)
        except Exception as error:  # noqa: BLE001 - a failure of the guard is a denial, on the record
            text = f"the guard failed: `{type(error).__name__}`"
            decision = Decision(_DENY, (), text, policy.digest, (text,))
        return decision, facts

    def _action(self, effect: Effect) -> Action:
        if not self.guard.enforces or effect is Effect.ALLOW:
            return Action.EXECUTE
        return Action.PENDING if effect is _ASK else Action.BLOCK

    def _take(
        self, decision: Decision, call: ToolCall, moment: Moment, now: int, *, first: bool = False
    ) -> None:
        if self.guard.wide:
            self.guard.take(decision, self._ledger.writer, call.call_id, moment, now, first=first)

    def _release(self, call: ToolCall) -> None:
        if self.guard.wide:
            self.guard.budgets.release(self._ledger.writer, call.call_id)

    def _remember(self, ticket: Ticket, *, waits: bool) -> None:
        """Keep what another entry may belong to."""
        call = ticket.call
        if call.host_call_id:
            key = (call.host_call_id, call.server, call.name)
            self._by_host.setdefault(key, []).append(ticket)
        if waits:
            self._waiting.setdefault((call.server, call.name), []).append(ticket)

    def _write(self, events: Sequence[Any], call: ToolCall | None = None) -> None:
        for event in events:
            self.guard.spans.write([event], session_id=self.id, writer=self._ledger.writer, call=call)


def new_session_id() -> str:
    """An id for a session that was given none."""
    return uuid.uuid4().hex
