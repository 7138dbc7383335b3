"""One call on its way through the guard: put forward, judged at the entry, recorded at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context

from gatescore.guard import context
from gatescore.guard.approval import ApprovalRequest, Asked, ask, ask_async
from gatescore.guard.context import Frame, frame_of, leave
from gatescore.guard.denial import Refusal, ToolDenied, denial
from gatescore.guard.docket import Docket
from gatescore.guard.tickets import Entry, Hold, Ticket, Yes
from gatescore.guard.tools import Tool
from gatescore.model import Decision, Effect, Join, Moment, Origin, Outcome, ToolCall

if TYPE_CHECKING:
    from gatescore.guard.guard import Guard

_LOG: Final = logging.getLogger("gatescore")

PLAIN: Final = (type(None), bool, int, float, str, bytes, list, tuple)
"""Types of results that say nothing about a failure, and hold no work that is still to be done."""


class Given:
    """What a caller by name knows of a call: the proposal it enters, or the provider's id."""

    __slots__ = ("host_call_id", "raw", "run", "ticket")

    def __init__(
        self, host_call_id: str | None, ticket: Ticket | None, run: Docket | None, raw: str | None
    ) -> None:
        self.host_call_id = host_call_id
        self.ticket = ticket
        self.run = run
        self.raw = raw


class Admission:
    """
    One call on its way through the guard.

    `propose` puts it forward, `enter` asks for the entry; the body runs between `step_in` and
    `step_out`, and `close` says how it ended.
    """

    __slots__ = (
        "_asked",
        "_bound",
        "_context",
        "_frame",
        "_fresh",
        "_given",
        "_join",
        "args",
        "entry",
        "guard",
        "hold",
        "kwargs",
        "run",
        "ticket",
        "tool",
        "wrapped",
    )

    def __init__(
        self,
        tool: Tool,
        guard: Guard,
        wrapped: Callable[..., Any],
        bound: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: Given | None,
    ) -> None:
        self.tool = tool
        self.guard = guard
        self.wrapped = wrapped
        self.args = args
        self.kwargs = kwargs
        self._bound = bound
        self._given = given
        self._asked: ToolCall | None = None
        self._frame: Frame | None = None
        self._context: Token[Context] | None = None
        self.entry: Entry | None = None
        self.hold = Hold()
        frame = frame_of(guard)
        run = given.run if given is not None and given.run is not None else frame.run if frame else None
        self.run = guard.lone() if run is None or run.lone else run
        parent = frame.call_id if frame is not None else None
        call, unfit = self._snapshot()
        if given is not None and given.ticket is not None:
            self.ticket, self._join = given.ticket, Join.GIVEN
            given.ticket.claimed = True
        else:
            origin = Origin.CALLER if parent is None else Origin.NESTED
            joins = not self.run.lone
            self.ticket, self._join = self.run.submit(
                call, self.hold, origin=origin, parent=parent, unfit=unfit, joins=joins
            )
        self._fresh = self._join is Join.SELF

    def _snapshot(self) -> tuple[ToolCall, bool]:
        """The call with its arguments as they are now; and whether they do not fit the tool."""
        parameters = self.tool.parameters(self.wrapped, bound=self._bound)
        arguments, problem = parameters.bind(self.args, self.kwargs)
        given = self._given
        return ToolCall(
            self.tool.name,
            arguments,
            server=self.tool.server,
            host_call_id=given.host_call_id if given is not None else None,
            invalid=None if problem is None else f"its arguments do not fit the tool: {problem}",
            raw=given.raw if given is not None else None,
        ), problem is not None

    def enter(self, *, again: bool = False, yes: Yes | None = None) -> ApprovalRequest | None:
        """
        Ask for the entry; with *yes*, where a person has just agreed to it.

        Returns:
            None where it is granted (`entry` is set); or the question that a person must answer first.

        Raises:
            ToolDenied: It is refused.
        """
        ticket = self.ticket
        call = None if self._fresh and not again else self._snapshot()[0]
        self.entry = self.run.enter(ticket, call, self._join, self.hold, yes)
        if self.entry is not None:
            return None
        if ticket.denied is not None:
            raise denial(call or ticket.call, ticket.denied, ticket.moment, unfit=ticket.unfit)
        self._asked = call or ticket.call
        # A copy: whoever is asked cannot change what is on record.
        return ApprovalRequest(self._asked.copied(), ticket.question, self.run.id, self.run.principal)

    def answered(self, request: ApprovalRequest, asked: Asked) -> None:
        """Take a person's answer: enter, or be refused. An answer to other arguments is no yes to these."""
        answer = asked.answer
        if answer is None or not answer.yes:
            self._refuse(request, asked)
        elif answer.arguments is not None:
            self._edit(request, answer.arguments, answer.by)
        else:
            yes = Yes(self._asked or self.ticket.call, request.decision, answer.by)
            if self.enter(again=True, yes=yes) is not None:
                self._refuse(request, Asked(error="the arguments changed while a person was asked"))

    def _refuse(self, request: ApprovalRequest, asked: Asked) -> None:
        self.run.reject(self.ticket, asked, request.decision, self.hold)
        denied = self.ticket.denied or request.decision
        raise denial(self._asked or self.ticket.call, denied, Moment.ENTRY)

    def _edit(self, request: ApprovalRequest, arguments: Mapping[str, Any], by: str | None) -> None:
        """Put the edited call forward in place of the first one; the person who wrote it has agreed to it."""
        first = self.ticket
        self.run.reject(first, Asked(error="edited"), request.decision, self.hold)
        parameters = self.tool.parameters(self.wrapped, bound=self._bound)
        self.args, self.kwargs = parameters.spread(arguments)
        if self._given is not None:
            self._given = Given(self._given.host_call_id, None, self.run, None)
        call, unfit = self._snapshot()
        self.ticket, _ = self.run.submit(
            call,
            self.hold,
            origin=first.origin,
            parent=first.parent,
            edited_from=first.call.call_id,
            unfit=unfit,
        )
        self._join, self._fresh = Join.GIVEN, True
        self._asked = self.ticket.call
        yes = Yes(self.ticket.call, self.ticket.decision, by)
        if self.enter(yes=yes) is not None:
            self._refuse(request, Asked(error="the arguments changed while a person was asked"))

    # Round the body

    def step_in(self) -> None:
        """Make the call, and its span, the current ones."""
        entry = self.entry
        call_id = entry.call.call_id if entry is not None else None
        self._frame = context.enter(self.run, call_id)
        if entry is not None and entry.span is not None:
            self._context = otel_context.attach(trace.set_span_in_context(entry.span))

    def step_out(self) -> None:
        """Go back to what was current before."""
        if self._context is not None:
            _detach(self._context)
            self._context = None
        if self._frame is not None:
            leave(self._frame)
            self._frame = None

    def close(self, outcome: Outcome, error: BaseException | None = None) -> None:
        """Record how the body ended. Nothing that goes wrong here reaches the tool's caller."""
        entry, self.entry = self.entry, None
        if entry is None:
            return
        try:
            self.run.finish(entry, outcome, None if error is None else type(error).__name__)
            self.run.let_go(self.hold)
        except Exception as failure:  # noqa: BLE001 - the tool has run; its record stays unfinished, and says so
            _LOG.warning("the end of a call could not be recorded (%s)", type(failure).__name__)

    def failed(self, error: BaseException) -> None:
        """Record that the body raised."""
        if isinstance(error, TimeoutError):
            outcome = Outcome.UNFINISHED  # what was asked for may have been done nevertheless
        else:
            outcome = Outcome.FAILED if isinstance(error, Exception) else Outcome.CANCELLED
        if isinstance(error, asyncio.CancelledError):
            outcome = Outcome.CANCELLED
        self.close(outcome, error)


def _detach(token: Token[Context]) -> None:
    """Go back to the span that was current; where a body ends in another context than it began in, nothing changes."""
    if type(token) is not Token:
        otel_context.detach(token)
        return
    with suppress(ValueError):  # which OpenTelemetry's own way back would log as an error
        token.var.reset(token)


def outcome_of(result: object) -> Outcome:
    """Whether a result says that the tool failed: an MCP result with `isError`, a message with status ``error``."""
    if isinstance(result, PLAIN):
        return Outcome.SUCCEEDED
    try:
        own: Any = result
        held: Mapping[str, Any] = own if type(result) is dict else object.__getattribute__(result, "__dict__")
        failed = held.get("isError") is True or (
            held.get("status") == "error"
            and any(kind.__name__ == "ToolMessage" for kind in type(own).__mro__)
        )
    except Exception:  # noqa: BLE001 - a result that cannot be looked at says nothing
        return Outcome.SUCCEEDED
    return Outcome.FAILED if failed else Outcome.SUCCEEDED


def refused(guard: Guard, denied: ToolDenied) -> Refusal:
    """What a refused call gives: the refusal raised, or as a value."""
    if guard.on_deny == "raise":
        raise denied
    return Refusal(denied)


def proposed(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Admission | None:
    """Put a call forward. None where the guard fails and may not stand in the way (monitor mode)."""
    try:
        admission = Admission(tool, guard, wrapped, bound, args, kwargs, given)
    except Exception as error:  # noqa: BLE001 - every failure of the guard is a denial
        _broken(tool, guard, error)
        return None
    ticket = admission.ticket
    if ticket.denied is not None:
        admission.run.let_go(admission.hold)
        raise denial(ticket.call, ticket.denied, ticket.moment, unfit=ticket.unfit)
    return admission


def enter(admission: Admission, *, again: bool = False) -> None:
    """
    Ask for the entry, and a person where it must be; raises where it is refused.

    Where it comes back without an `Admission.entry`, the guard failed and may not stand in the way.
    """
    try:
        request = admission.enter(again=again)
        if request is not None:
            guard = admission.guard
            admission.answered(request, ask(guard.approver, request, guard.approval_timeout))
    except BaseException as error:
        _not_entered(admission, error)
        if not isinstance(error, Exception) or isinstance(error, ToolDenied):
            raise


async def enter_async(admission: Admission, *, again: bool = False) -> None:
    """As `enter`, without stopping the event loop."""
    try:
        request = admission.enter(again=again)
        if request is not None:
            guard = admission.guard
            admission.answered(request, await ask_async(guard.approver, request, guard.approval_timeout))
    except BaseException as error:
        _not_entered(admission, error)
        if not isinstance(error, Exception) or isinstance(error, ToolDenied):
            raise


def _not_entered(admission: Admission, error: BaseException) -> None:
    """Hold nothing back any more; a failure of the guard is a denial, and on record as long as anything can be."""
    failure = error if isinstance(error, Exception) and not isinstance(error, ToolDenied) else None
    if failure is not None and admission.guard.enforces:
        ticket, asked = admission.ticket, Asked(error=_failed(failure))
        try:
            admission.run.reject(ticket, asked, ticket.decision, admission.hold)
        except Exception as unrecorded:  # noqa: BLE001 - it is denied all the same
            _LOG.warning("a refusal could not be recorded (%s)", type(unrecorded).__name__)
    admission.run.let_go(admission.hold)
    if failure is not None:
        _broken(admission.tool, admission.guard, failure)


def _failed(error: Exception) -> str:
    return f"the guard failed: `{type(error).__name__}`"


def admitted(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Admission | None:
    """Put a call forward and ask for its entry. None as in `proposed`."""
    admission = proposed(tool, guard, wrapped, bound, args, kwargs, given)
    if admission is not None:
        enter(admission)
    return admission


async def admitted_async(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Admission | None:
    """As `admitted`, without stopping the event loop."""
    admission = proposed(tool, guard, wrapped, bound, args, kwargs, given)
    if admission is not None:
        await enter_async(admission)
    return admission


def _broken(tool: Tool, guard: Guard, error: Exception) -> None:
    """A failure of the guard itself: a denial; in monitor mode, nothing that may stand in the way."""
    if not guard.enforces:
        return
    raise denied_outright(tool.name, tool.server, _failed(error), guard) from error


def denied_outright(name: str, server: str, reason: str, guard: Guard | None) -> ToolDenied:
    """A denial that no policy made: there is no guard, or it failed."""
    digest = guard.policy.digest if guard is not None else ""
    decision = Decision(Effect.DENY, (), reason, digest, (reason,))
    return ToolDenied(ToolCall(name, server=server), decision, Moment.PROPOSAL)
