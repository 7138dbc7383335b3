"""`@guarded_tool`: the one way into a tool's body, for every kind of callable."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, overload

from gatescore.canonical import canonical, canonical_text, equal, parse_json
from gatescore.errors import ArgumentsError
from gatescore.guard.admission import Given, refused
from gatescore.guard.context import frame_of
from gatescore.guard.denial import denial
from gatescore.guard.docket import Docket
from gatescore.guard.guard import Guard
from gatescore.guard.guarded import GuardedTool
from gatescore.guard.tickets import GuardError, Hold, Ticket
from gatescore.guard.tools import Tool
from gatescore.model import Decision, Effect, Moment, Origin, ToolCall

F = TypeVar("F", bound=Callable[..., Any])

_METHODS: Final = (classmethod, functools.partialmethod)
"""What cannot be called, and gives what can be when it is read from a class."""


@overload
def guarded_tool(
    function: F, /, *, guard: Guard | None = None, name: str | None = None, server: str = ""
) -> F: ...
@overload
def guarded_tool(
    *, guard: Guard | None = None, name: str | None = None, server: str = ""
) -> Callable[[F], F]: ...
def guarded_tool(
    function: Any = None, /, *, guard: Guard | None = None, name: str | None = None, server: str = ""
) -> Any:
    """
    Guard a tool: its body is entered only after the policy has said so.

    Args:
        function: The tool: a function, coroutine function, generator or async generator function, a
            method of any kind, a partial, or an object that can be called.
        guard: Its guard. Without one, that of the open session, else the one of `gatescore.use`; with
            neither every call is denied.
        name: The tool's name in policies and records; the function's own where it is left out.
        server: The server that offers it; ``""`` for a local tool.

    Returns:
        The tool, with its signature, documentation and types.

    Raises:
        GuardError: Nothing of it can be guarded, or another tool of the guard has its name.
        ToolDenied: By a call of it that is refused (or a `Refusal` is returned, as the guard says).
    """
    if function is None:

        def decorate(decorated: F) -> F:
            return guarded_tool(decorated, guard=guard, name=name, server=server)

        return decorate
    kind = cast("type[object]", type(function))
    if hasattr(kind, "__get__") and not callable(function) and not issubclass(kind, _METHODS):
        raise GuardError(
            f"a `{kind.__name__}` cannot be guarded as a whole: put the decorator below it, on the function"
        )
    tool = Tool(function, name, server)
    guarded = GuardedTool(function, tool, guard)
    if guard is not None:
        guard.register(tool)
    return guarded


def call_by_name(
    guard: Guard,
    name: str,
    arguments: object,
    call_id: str | None,
    ticket: Ticket | None,
    run: Docket | None = None,
) -> Any:
    """Call a tool by its name with the arguments of a model; see `Guard.call`."""
    found = guard.tools.find(name)
    tool, guarded = found[0] if len(found) == 1 else (None, None)
    call = ToolCall(name, arguments, server="" if tool is None else tool.server, host_call_id=call_id)
    problem = call.invalid
    if problem is None and len(found) > 1:
        problem = f"more than one server has a tool `{name}`: write `mcp:SERVER/{name}`"
    elif problem is None and tool is None:
        problem = f"no tool `{name}` is known to this guard: wrap it, or name one that is"
    if tool is None or guarded is None or problem is not None:
        return _unrunnable(guard, call, problem or "", ticket, run)
    parameters = tool.parameters(guarded.__wrapped__, bound=False)
    args, kwargs = parameters.spread(by_name(arguments, call.arguments))
    bound, unfit = parameters.bind(args, kwargs)
    raw = None
    if unfit is not None or not _same(bound, call):
        raw = canonical_text(call.arguments)
    given = Given(call_id, ticket, run, raw)
    return guarded._self_called(guarded.__wrapped__, None, args, kwargs, given)


def by_name(arguments: object, plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a caller by name gave: its own values where they are in a mapping, else those of the record, *plain*."""
    if isinstance(arguments, (str, bytes)) and arguments:
        return cast("dict[str, Any] | None", parse_json(arguments)) or {}
    if isinstance(arguments, Mapping):
        with contextlib.suppress(Exception):  # a mapping of a kind of its own may raise
            return dict(cast("Mapping[str, Any]", arguments))
    return canonical(plain)


def _same(bound: dict[str, Any], call: ToolCall) -> bool:
    try:
        return equal(canonical(bound), call.arguments)
    except ArgumentsError:
        return False  # what is filled in cannot be judged: the call is refused, and on the record


def _unrunnable(guard: Guard, call: ToolCall, problem: str, ticket: Ticket | None, run: Docket | None) -> Any:
    """A call that no body can be entered for: on the record, and refused."""
    if ticket is None:
        frame = frame_of(guard)
        run = run or (frame.run if frame is not None and not frame.run.lone else guard.lone())
        invalid = ToolCall(
            call.name,
            call.arguments,
            server=call.server,
            host_call_id=call.host_call_id,
            invalid=problem,
            raw=call.raw,
        )
        hold = Hold()
        ticket, _ = run.submit(invalid, hold, origin=Origin.CALLER)
        run.let_go(hold)
    decision = ticket.denied or ticket.decision
    if decision.effect is not Effect.DENY:
        decision = Decision(Effect.DENY, (), problem, guard.policy.digest, (problem,), invalid=problem)
    return refused(guard, denial(ticket.call, decision, Moment.PROPOSAL))
