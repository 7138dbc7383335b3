"""What a model's message proposes: read, judged in the order of the message, and run one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from gatescore.canonical import canonical, canonical_text, equal
from gatescore.errors import ArgumentsError
from gatescore.guard.docket import Docket
from gatescore.guard.tickets import GuardError, Hold, Ticket
from gatescore.guard.wrap import by_name, call_by_name
from gatescore.model import Decision, Effect, Origin, ToolCall

if TYPE_CHECKING:
    from gatescore.guard.guard import Guard

_ARGUMENTS: Final = ("arguments", "args", "input", "input_parameters")


class ProposedCall:
    """
    One call of a model's message, judged.

    Attributes:
        id: The provider's id, or None.
        name: The name of the tool.
        decision: The verdict at the proposal.
    """

    def __init__(self, run: Docket, ticket: Ticket, host_id: str | None, arguments: object) -> None:
        self._run = run
        self._ticket = ticket
        self._arguments = arguments
        self.id = host_id
        self.name = ticket.call.tool
        self.decision: Decision = ticket.decision

    def __repr__(self) -> str:
        return f"<ProposedCall {self.name}: {self.decision.effect.value}>"

    @property
    def call(self) -> ToolCall:
        """The call, with its arguments bound to the tool's parameters where the tool is known: a copy."""
        return self._ticket.call.copied()

    @property
    def allowed(self) -> bool:
        """Whether it may be entered without asking anybody, as far as can be said before the entry."""
        return self.decision.effect is Effect.ALLOW

    def run(self) -> Any:
        """Enter it: the tool's result (of an async tool, an awaitable), or a refusal as the guard's `on_deny` says."""
        guard = self._run.guard
        return call_by_name(guard, self.name, self._arguments, self.id, self._ticket, self._run)


def propose(run: Docket, calls: Iterable[object], message: str) -> list[ProposedCall]:
    """Read and submit the *calls* of one message, in their order."""
    return [_propose(run, call, message, number) for number, call in enumerate(calls, 1)]


def _propose(run: Docket, given: object, message: str, number: int) -> ProposedCall:
    if not isinstance(given, Mapping):
        raise GuardError(
            f"call {number} is not a mapping: pass `name`, `arguments` and, if there is one, `id`"
        )
    data = cast("Mapping[str, Any]", given)
    inner: Any = data.get("function")
    body = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else data
    host_id = data.get("id", data.get("call_id"))
    host_id = host_id if isinstance(host_id, str) else None
    key = next((key for key in _ARGUMENTS if key in body), None)
    arguments = body[key] if key is not None else None
    call = _bound(run.guard, body.get("name"), arguments, host_id)
    hold = Hold()
    ticket, _ = run.submit(call, hold, origin=Origin.MODEL, message=message, waits=True)
    run.let_go(hold)
    return ProposedCall(run, ticket, host_id, arguments)


def _bound(guard: Guard, name: Any, arguments: object, host_id: str | None) -> ToolCall:
    """The call as it would be entered: bound to the tool's parameters, defaults filled in, where it is known."""
    found = guard.tools.find(name) if isinstance(name, str) else []
    if len(found) != 1:
        return ToolCall(name, arguments, server="" if not found else None, host_call_id=host_id)
    [(tool, guarded)] = found
    name = tool.name
    try:
        plain = canonical(arguments)
    except ArgumentsError:
        return ToolCall(name, arguments, server=tool.server, host_call_id=host_id)
    parameters = tool.parameters(guarded.__wrapped__, bound=False)
    args, kwargs = parameters.spread(by_name(arguments, plain))
    bound, problem = parameters.bind(args, kwargs)
    if problem is not None:
        invalid = f"its arguments do not fit the tool: {problem}"
        return ToolCall(
            name, plain, server=tool.server, host_call_id=host_id, invalid=invalid, raw=canonical_text(plain)
        )
    call = ToolCall(name, bound, server=tool.server, host_call_id=host_id)
    if equal(call.arguments, plain):
        return call
    return ToolCall(name, bound, server=tool.server, host_call_id=host_id, raw=canonical_text(plain))
