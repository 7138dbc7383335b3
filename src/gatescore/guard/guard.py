"""
`Guard`: the policy enforcement point. An object; several can live in one process.

A tool that is wrapped by a guard is entered only after its policy said so. Every failure of the
guard itself is a denial.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Literal, TypeVar

from opentelemetry.trace import TracerProvider

from gatescore.canonical import canonical
from gatescore.errors import did_you_mean
from gatescore.guard.approval import LONGEST, Approver
from gatescore.guard.budgets import WideBudgets
from gatescore.guard.docket import Docket
from gatescore.guard.run import Run, new_session_id
from gatescore.guard.tickets import GuardError
from gatescore.guard.tools import Tool, Tools
from gatescore.model import Budget, Decision, Effect, Mode, Moment
from gatescore.policy import Policy
from gatescore.record.redact import SECRETS, Capture
from gatescore.record.spans import SpanRecorder

F = TypeVar("F", bound=Callable[..., Any])

OnDeny = Literal["raise", "return"]
_ON_DENY: Final = ("raise", "return")
_CAPTURES: Final = ("names", "full", "redacted", "none")
_REMEMBERED: Final = 1_000
_FIXED: Final = frozenset(("policy", "mode", "enforces", "capture", "spans"))

_RUNS: weakref.WeakSet[Run] = weakref.WeakSet()
_GUARDS: weakref.WeakSet[Guard] = weakref.WeakSet()


class Guard:
    """
    Keeps tools from being entered that the policy does not allow, and records what was decided.

    Attributes:
        policy: The policy in force.
        mode: ``enforce``; or ``monitor``, where nothing is blocked, nobody is asked, and the verdicts are
            recorded.
        on_deny: What a refused call gives: ``raise`` a `ToolDenied`, or ``return`` a `Refusal`.
        approver: Who is asked where the policy says ``ask``; without one such calls are denied.
        approval_timeout: How long an answer is waited for, in seconds.
        approval_ttl: How long a yes lasts that covers more than one entry, in seconds.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        mode: Mode | str = Mode.ENFORCE,
        on_deny: OnDeny = "raise",
        approver: Approver | None = None,
        approval_timeout: float = 300.0,
        approval_ttl: float = 900.0,
        tracer_provider: TracerProvider | None = None,
        capture: str = "names",
        key: bytes | str | None = None,
        redact: Sequence[str] | None = None,
        agent_name: str | None = None,
    ) -> None:
        """
        Make a guard.

        Args:
            policy: The policy.
            mode: As the attribute.
            on_deny: As the attribute.
            approver: A function of an `ApprovalRequest`, sync or async. Only `True`, or what the
                request's `approve` makes, is a yes.
            approval_timeout: As the attribute.
            approval_ttl: As the attribute.
            tracer_provider: Where spans go; the global provider where it is left out.
            capture: What the spans tell of arguments: ``names`` (with sizes and digests), ``full``,
                ``redacted`` or ``none``.
            key: The key of the digests; without one, a random one for this process.
            redact: Names of arguments (globs) whose values ``redacted`` leaves out.
            agent_name: The agent's name, for the spans.

        Raises:
            GuardError: An option that does not exist.
        """
        if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers are typed
            kind = type(policy).__name__
            raise GuardError(
                f"the policy is a `{kind}`: pass `Policy.load(path)` or `Policy(allowed_tools=[...])`"
            )
        try:
            self.mode = Mode(mode)
        except ValueError:
            raise GuardError(f"unknown mode `{mode}`: {did_you_mean(mode, tuple(Mode))}") from None
        if on_deny not in _ON_DENY:
            raise GuardError(f"unknown on_deny `{on_deny}`: {did_you_mean(on_deny, _ON_DENY)}")
        if capture not in _CAPTURES:
            raise GuardError(f"unknown capture `{capture}`: {did_you_mean(capture, _CAPTURES)}")
        if approver is not None and not callable(approver):
            raise GuardError("the approver cannot be called: pass a function of one request")
        for option, seconds in (("approval_timeout", approval_timeout), ("approval_ttl", approval_ttl)):
            if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST:
                raise GuardError(
                    f"{option} is `{seconds!r}`: give a number of seconds, more than 0 and at most {LONGEST:,.0f}"
                )
        self.policy = policy
        self.enforces = self.mode is Mode.ENFORCE
        self.on_deny: OnDeny = on_deny
        self.approver = approver
        self.approval_timeout = approval_timeout
        self.approval_ttl = approval_ttl
        secret = key.encode() if isinstance(key, str) else key
        patterns = SECRETS if redact is None else redact
        self.capture = Capture(policy, capture, secret or secrets.token_bytes(32), patterns)
        self.spans = SpanRecorder(tracer_provider, self.capture, agent_name)
        self.tools = Tools()
        self.budgets = WideBudgets()
        self._windows = {
            rule.limit.name: rule.limit.window
            for layer in policy.layers
            for rule in layer.rules
            if rule.limit is not None
        }
        # Sessions that share budgets decide one after the other.
        self.wide = any(
            rule.limit is not None and rule.limit.wide for layer in policy.layers for rule in layer.rules
        )
        self.lock = threading.Lock() if self.wide else None
        self._sessions_lock = threading.Lock()
        self._open: dict[str, Run] = {}
        self._ended: OrderedDict[str, Run] = OrderedDict()
        _GUARDS.add(self)

    def __repr__(self) -> str:
        return f"<Guard {self.mode.value}: {self.policy!r}>"

    def __setattr__(self, name: str, value: object) -> None:
        # What was decided and recorded under one policy must not go on under another.
        if name in _FIXED and name in self.__dict__:
            raise AttributeError(f"the `{name}` of a guard cannot be changed: make another guard")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a guard cannot be pickled: make one in each process, with the same policy")

    # Sessions

    @contextmanager
    def session(
        self,
        session_id: str | None = None,
        *,
        principal: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> Generator[Run, None, None]:
        """
        Open a session: calls inside of the ``with`` block, and in tasks that it starts, belong to it.

        A session that is opened again by its id goes on, with its history and its limits: while it is
        open, by any thread; afterwards, as one of the last 1,000 that ended.

        Args:
            session_id: Its id; a new one where it is left out.
            principal: On whose behalf.
            attributes: What policies may read as ``session.attributes``; copied.

        Raises:
            GuardError: The session is known with another principal.
            ArgumentsError: The attributes hold what JSON cannot.
        """
        run = self._run(session_id, principal, attributes)
        frame = run.open()
        try:
            yield run
        finally:
            run.close(frame)

    def _run(
        self, session_id: str | None, principal: str | None, attributes: Mapping[str, object] | None
    ) -> Run:
        made = canonical({} if attributes is None else attributes)
        if session_id is None:
            return self._made(Run(self, new_session_id(), principal, made))
        with self._sessions_lock:
            run = self._open.get(session_id) or self._ended.get(session_id)
            if run is None:
                run = self._open[session_id] = self._made(Run(self, session_id, principal, made))
        if principal is not None and principal != run.principal:
            raise GuardError(f"session `{session_id}` has another principal: give it an id of its own")
        if attributes is not None and made != run.attributes:
            # What is not named any more does not hold any more.
            run.describe(made, keep=False)
        return run

    def _made(self, run: Run) -> Run:
        _RUNS.add(run)  # a forked process has to know them
        self.watch(run)
        return run

    def lone(self) -> Run:
        """The record of one call outside of any session."""
        return self._made(Run(self, new_session_id(), None, {}, lone=True))

    def opened(self, run: Docket) -> None:
        """Called by a session that is opened: one that had ended, and is remembered, is open again."""
        with self._sessions_lock:
            again = self._ended.pop(run.id, None)
            if again is not None:
                self._open[run.id] = again

    def over(self, run: Docket) -> None:
        """Called by a session that ends: it may be opened again for a while, if it was given an id."""
        with self._sessions_lock:
            ended = self._open.get(run.id)
            if ended is not run:
                forgotten = [] if run.id in self._ended else [run]
            else:
                self._ended[run.id] = self._open.pop(run.id)
                many = len(self._ended) - _REMEMBERED
                forgotten = [self._ended.popitem(last=False)[1] for _ in range(many)]
        if self.wide:
            self.budgets.release_all(run.key)
            for gone in forgotten:
                self.budgets.forget(gone.key)

    def watch(self, run: Run) -> None:
        """Called with every session that is made: does nothing, for those who want to know of them."""

    # Tools

    def wrap(self, function: F, *, name: str | None = None, server: str = "") -> F:
        """
        Guard a callable of any kind: what `guarded_tool` does, as a function.

        Args:
            function: A function, method, coroutine function, generator function, partial or object
                that can be called.
            name: The tool's name; the callable's own where it is left out.
            server: The server that offers it; ``""`` for a local tool.
        """
        from gatescore.guard.wrap import guarded_tool  # noqa: PLC0415 - the two know each other

        return guarded_tool(function, guard=self, name=name, server=server)

    def call(self, name: str, arguments: object = None, *, call_id: str | None = None) -> Any:
        """
        Call a guarded tool by its name, as a model asked for it.

        Args:
            name: The name that the tool was wrapped with; behind ``mcp:SERVER/`` where several servers
                have it.
            arguments: A mapping, or JSON text; None for no arguments.
            call_id: The id that the model's provider gave to the call. Calls with one id are attempts of
                one call.

        Returns:
            What the tool returns: of an async tool, an awaitable. A refusal is raised, or returned, as
            `on_deny` says; so is one of a call whose arguments are not valid, or do not fit the tool.
        """
        from gatescore.guard.wrap import call_by_name  # noqa: PLC0415 - the two know each other

        return call_by_name(self, name, arguments, call_id, None)

    def register(self, tool: Tool) -> None:
        """Make *tool* known by its name. Raises `GuardError` where another tool has it."""
        self.tools.add(tool)

    # Budgets that sessions share

    def elsewhere(self, budgets: Iterable[Budget], owner: str, now: int) -> dict[str, int]:
        """How many units other sessions use of each of *budgets*, by limit."""
        return {
            budget.limit: self.budgets.elsewhere(budget, owner, self._windows[budget.limit], now)
            for budget in budgets
        }

    def take(
        self, decision: Decision, owner: str, call_id: str, moment: Moment, now: int, *, first: bool
    ) -> None:
        """Book the units of a decision, as a session's history books its own."""
        held = [budget for budget in decision.budgets if budget.wide and budget.unit != "proposals"]
        if moment is Moment.ENTRY:
            self.budgets.release(owner, call_id)
            taken = [budget for budget in held if budget.unit == "executions" or first]
        else:
            if decision.effect is Effect.ALLOW:
                self.budgets.reserve(held, owner, call_id)
            taken = [budget for budget in decision.budgets if budget.wide and budget.unit == "proposals"]
        for budget in taken:
            self.budgets.use(budget, owner, now, windowed=self._windows[budget.limit] is not None)

    def forked(self) -> None:
        """Called in a new process: a lock may be held by a thread that is not here."""
        self.lock = threading.Lock() if self.wide else None
        self._sessions_lock = threading.Lock()


def _after_fork() -> None:
    for guard in list(_GUARDS):
        guard.forked()
    for run in list(_RUNS):
        run.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_used: list[Guard | None] = [None]


@contextmanager
def _using(before: Guard | None) -> Generator[None, None, None]:
    try:
        yield
    finally:
        _used[0] = before


def use(guard: Guard | None) -> AbstractContextManager[None]:
    """
    Make *guard* the one of this process, for tools that name none; None for none.

    Returns:
        A context manager, for those who want the one before back at the end of a ``with`` block.
    """
    before = _used[0]
    _used[0] = guard
    return _using(before)


def used() -> Guard | None:
    """The guard of this process, or None."""
    return _used[0]
