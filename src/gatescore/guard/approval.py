"""
Asking a person: what an approver is given, what counts as a yes, and how long it is waited for.

Only `True` itself, or the answer that this very request made, is a yes. Everything else (None, 1,
"yes", an exception, no answer in time) is a no.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from gatescore.canonical import Json
from gatescore.model import Decision, ToolCall

TIMED_OUT: Final = object()


LONGEST: Final = 366 * 24 * 3600.0
"""The longest time, in seconds, that a person may be waited for, or that a yes may last."""


class Answer:
    """What a person answered to one request; made by `ApprovalRequest.approve`, `reject` and `edit`."""

    __slots__ = ("arguments", "by", "request", "yes")

    def __init__(
        self, request: ApprovalRequest, *, yes: bool, by: str | None, arguments: Mapping[str, Any] | None
    ) -> None:
        self.request = request
        self.yes = yes
        self.by = by
        self.arguments = arguments


@dataclass(frozen=True, slots=True, eq=False)
class ApprovalRequest:
    """
    A question to a person: may this call run, with these arguments?

    Attributes:
        call: The call: a copy. Its arguments are the final ones: what is agreed to is what runs, or nothing.
        decision: Why it is asked.
        session_id: In which session.
        principal: On whose behalf, or None.
    """

    call: ToolCall
    decision: Decision
    session_id: str
    principal: str | None

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.call.tool

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments that would run."""
        return self.call.arguments

    @property
    def reason(self) -> str:
        """The sentence of the rule that asks."""
        return self.decision.reason

    def approve(self, *, by: str | None = None) -> Answer:
        """Yes, to this call with these arguments, once."""
        return Answer(self, yes=True, by=by, arguments=None)

    def reject(self, *, by: str | None = None) -> Answer:
        """No."""
        return Answer(self, yes=False, by=by, arguments=None)

    def edit(self, arguments: Mapping[str, Any], *, by: str | None = None) -> Answer:
        """Not this call, but the same tool with these *arguments*: a new proposal, judged by the policy again."""
        return Answer(self, yes=True, by=by, arguments=dict(arguments))


Approver = Callable[[ApprovalRequest], Any]
"""Answers a request: returns `True`, an `Answer`, or an awaitable of one. Anything else is a no."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking: an answer, or why there was none."""

    answer: Answer | None = None
    error: str | None = None
    expired: bool = False


def read_answer(request: ApprovalRequest, value: object) -> Asked:
    """Take an approver's return value: only the exact yes is a yes."""
    if value is True:
        return Asked(request.approve())
    if value is False:
        return Asked(request.reject())
    # A type of that very name, and a value that is the very one: what only looks like a yes is none.
    answer = value if type(value) is Answer else None
    if answer is not None:
        if answer.request is not request:
            return Asked(error="the answer is one to another request")
        said: tuple[object, object] = answer.yes, answer.by  # whatever their annotations say
        if type(said[0]) is bool and (said[1] is None or type(said[1]) is str):
            return Asked(answer)
        return Asked(error="the answer is none that `approve`, `reject` or `edit` makes with a name as `by`")
    return Asked(
        error=f"the approver returned a `{type(value).__name__}`: return True, or what the request's `approve` makes"
    )


def ask(approver: Approver | None, request: ApprovalRequest, timeout: float) -> Asked:
    """
    Ask from synchronous code, and wait at most *timeout* seconds.

    The approver runs in a thread of its own, with the caller's context: a thread that never answers
    can be left behind.
    """
    if approver is None:
        return _NO_APPROVER
    if _is_async(approver) and _loop_runs():
        return Asked(
            error="the approver is async, and a synchronous tool inside an event loop cannot wait for it: "
            "make the tool async, or the approver synchronous"
        )
    outcome: list[Asked] = []
    context = contextvars.copy_context()

    def answer() -> None:
        try:
            value = context.run(approver, request)
            if inspect.isawaitable(value):
                value = context.run(asyncio.run, _awaited(cast("Awaitable[object]", value)))
            outcome.append(read_answer(request, value))
        except BaseException as error:  # noqa: BLE001 - whatever an approver raises is no yes
            outcome.append(_raised(error))

    thread = threading.Thread(target=answer, name="gatescore-approver", daemon=True)
    thread.start()
    thread.join(timeout)
    return outcome[0] if outcome else _expired(timeout)


async def ask_async(approver: Approver | None, request: ApprovalRequest, timeout: float) -> Asked:  # noqa: ASYNC109 - what it limits is a person
    """Ask from asynchronous code, and wait at most *timeout* seconds; a synchronous approver runs in a thread."""
    if approver is None:
        return _NO_APPROVER
    if not _is_async(approver):
        return await _in_thread(approver, request, timeout)
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            answered = read_answer(request, await approver(request))
    except Exception as error:  # noqa: BLE001 - whatever an approver raises is no yes
        return _expired(timeout) if deadline.expired() else _raised(error)
    # Too late is too late, also for one that stopped the event loop, or went on after its cancellation.
    when = deadline.when()
    late = deadline.expired() or (when is not None and asyncio.get_running_loop().time() >= when)
    return _expired(timeout) if late else answered


async def _in_thread(approver: Approver, request: ApprovalRequest, seconds: float) -> Asked:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Asked] = loop.create_future()

    def tell(outcome: Asked) -> None:
        if not future.done():
            future.set_result(outcome)

    def answer() -> None:
        outcome = ask(approver, request, seconds)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(answer,), name="gatescore-ask", daemon=True).start()
    return await future


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def _is_async(approver: Approver) -> bool:
    call = getattr(type(approver), "__call__", None)  # noqa: B004 - the function is wanted, not whether
    return inspect.iscoroutinefunction(approver) or inspect.iscoroutinefunction(call)


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _raised(error: BaseException) -> Asked:
    return Asked(error=f"the approver raised `{type(error).__name__}`")


def _expired(seconds: float) -> Asked:
    return Asked(error=f"nobody answered within {seconds:g} s", expired=True)


_NO_APPROVER: Final = Asked(error="nobody can be asked: give the guard an `approver`")
