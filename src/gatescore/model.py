"""
The values that every other part speaks in: calls, decisions, recorded streams and events.

All are frozen. Times are integer nanoseconds since 1970-01-01 UTC, or None where the record does
not hold them. Nothing here defaults to allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gatescore.canonical import Json, canonical, is_marked
from gatescore.errors import ArgumentsError, InputError


class Effect(StrEnum):
    """What a policy says about a call, the strictest last."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Stream(StrEnum):
    """Which of the two recorded streams; they are never merged, and neither is inferred from the other."""

    PROPOSED = "proposed"
    EXECUTED = "executed"


class Moment(StrEnum):
    """When a call is judged: as it is put forward, and again as its body is about to be entered."""

    PROPOSAL = "proposal"
    ENTRY = "entry"


class Outcome(StrEnum):
    """How an execution ended. `UNFINISHED`: it began, and nothing tells of its end; it may have run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNFINISHED = "unfinished"


class Origin(StrEnum):
    """Where a proposal came from: a model's message, a plain caller, or the body of another tool."""

    MODEL = "model"
    CALLER = "caller"
    NESTED = "nested"


class Executor(StrEnum):
    """Who ran the body: this process, or the model's provider (which nothing here can block)."""

    LOCAL = "local"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True, init=False)
class ToolCall:
    """
    A tool call: which tool, with which arguments.

    Attributes:
        name: The tool's raw name, as called.
        server: The server that offers the tool, ``""`` for a local tool, None where the record
            does not say.
        arguments: The canonical arguments (see `gatescore.canonical.canonical`); ``{}`` if invalid.
        call_id: Our own id of the logical call, unique in its session.
        host_call_id: The id that the model's provider gave: may be missing, empty or repeated.
        invalid: Why the arguments cannot be judged, or None. An invalid call is denied.
        opaque: Some value in the arguments is one that JSON cannot hold.
        identity: Server and name: which tool.
    """

    name: str
    server: str | None
    arguments: dict[str, Json]
    call_id: str
    host_call_id: str | None
    invalid: str | None
    opaque: bool
    identity: tuple[str | None, str]

    def __init__(
        self,
        name: str,
        arguments: object = None,
        *,
        server: str | None = None,
        call_id: str = "",
        host_call_id: str | None = None,
    ) -> None:
        """
        Take the call apart: canonical arguments, or the reason why there are none.

        Args:
            name: The raw name; a call with an empty one is invalid.
            arguments: Whatever the tool was called with: a mapping, JSON text, or None.
            server: As the attribute.
            call_id: As the attribute.
            host_call_id: As the attribute.
        """
        invalid: str | None = None
        try:
            values = canonical(arguments)
        except ArgumentsError as error:
            invalid, values = str(error), {}
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers are typed
            invalid, name = "the name of the call is not text", ""
        elif not name:
            invalid = "the call has no name"
        put = object.__setattr__
        put(self, "name", name)
        put(self, "server", server)
        put(self, "arguments", values)
        put(self, "call_id", call_id)
        put(self, "host_call_id", host_call_id)
        put(self, "invalid", invalid)
        put(self, "opaque", is_marked(values))
        put(self, "identity", (server, name))

    @property
    def tool(self) -> str:
        """The tool as a person writes it: the raw name, behind ``mcp:SERVER/`` where it has a server."""
        return f"mcp:{self.server}/{self.name}" if self.server else self.name


@dataclass(frozen=True, slots=True)
class Budget:
    """
    One unit of a limit's budget, taken by one call.

    Attributes:
        limit: Which limit: the policy layer and the rule's id.
        unit: What is counted: ``executions``, ``calls`` or ``proposals``.
        key: Whose budget: scope and key values as one text; equal texts share a budget.
        wide: The budget is wider than one session, so that a session's history holds a part of it.
    """

    limit: str
    unit: str
    key: str
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    What a decision needs to know of the world, found just before it and recorded with it.

    Attributes:
        now: The time of the decision, or None where the record does not hold it.
        budgets: Units in use outside this session, by ``Budget.key``, for budgets that are wider.
    """

    now: int | None = None
    budgets: Mapping[str, int] = field(default_factory=dict[str, int])


NO_FACTS: Final = Facts()


class Decision:
    """
    The verdict of a policy on one call, with what made it.

    Attributes:
        effect: allow, ask or deny. Deny where the verdict is undecidable.
        rules: Ids of the determining rules, in the order of the policy; empty where `default` decided.
        errors: What could not be judged, one line each; never empty where an indeterminate
            condition made the verdict.
        reason: One public sentence.
        invalid: Why the call is invalid, or None.
        undecidable: What the record lacks: it holds too little to say which verdict it was.
        budgets: The units that the call takes if it goes ahead, one for each limited rule that may match.
        stop: The call ends its session (a spent `proposals` limit with ``then: stop``).
        policy_digest: The digest of the policy.
    """

    # Not a dataclass: `decide` hands out one shared object for all calls that nothing but the name
    # decides, and where it must make one, a frozen dataclass would cost more than the judging.
    __slots__ = (
        "budgets",
        "effect",
        "errors",
        "invalid",
        "policy_digest",
        "reason",
        "rules",
        "stop",
        "undecidable",
    )

    effect: Effect
    rules: tuple[str, ...]
    errors: tuple[str, ...]
    reason: str
    invalid: str | None
    undecidable: tuple[str, ...]
    budgets: tuple[Budget, ...]
    stop: bool
    policy_digest: str

    def __init__(
        self,
        effect: Effect,
        rules: tuple[str, ...],
        reason: str,
        policy_digest: str,
        errors: tuple[str, ...] = (),
        budgets: tuple[Budget, ...] = (),
        undecidable: tuple[str, ...] = (),
        invalid: str | None = None,
        stop: bool = False,
    ) -> None:
        put = object.__setattr__
        put(self, "effect", effect)
        put(self, "rules", rules)
        put(self, "reason", reason)
        put(self, "policy_digest", policy_digest)
        put(self, "errors", errors)
        put(self, "budgets", budgets)
        put(self, "undecidable", undecidable)
        put(self, "invalid", invalid)
        put(self, "stop", stop)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a decision cannot be changed: `{name}`")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a decision cannot be changed: `{name}`")

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Decision) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[object, ...]:
        """Copied, and sent to other processes, by its parts: they cannot be set one by one."""
        made_of = (
            self.effect,
            self.rules,
            self.reason,
            self.policy_digest,
            self.errors,
            self.budgets,
            self.undecidable,
            self.invalid,
            self.stop,
        )
        return Decision, made_of

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in ("effect", "rules", "reason", "errors")
        )
        return f"Decision({shown})"

    @property
    def allowed(self) -> bool:
        """Whether the call may go ahead without asking anybody."""
        return self.effect is Effect.ALLOW


# Recorded streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """
    A tool call put forward; one per logical call.

    Attributes:
        call: The call. Its `call_id` is unique in the session.
        origin: Where it came from.
        turn: Which turn of the conversation: proposals of one turn are siblings, judged against
            what had been executed in earlier turns.
        time: When, or None.
        approved: Somebody said yes to it.
        selected: False where the runtime took another candidate: shown, and not scored.
        refused: The runtime refused it before the body.
    """

    call: ToolCall
    origin: Origin = Origin.MODEL
    turn: int = 0
    time: int | None = None
    approved: bool = False
    selected: bool = True
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """
    One entry into a tool's body, with the arguments at entry.

    Attributes:
        call: The call as entered. Its `call_id` is that of the proposal it joins.
        proposed: Whether a proposal joins it.
        turn: The turn of its proposal; without one, that of the execution before it.
        attempt: Which physical attempt of the logical call, from 1; None where the record does not say.
        executor: Who ran it.
        outcome: How it ended.
        time: When the body was entered, or None.
        approved: Somebody said yes to this entry.
    """

    call: ToolCall
    proposed: bool = False
    turn: int = 0
    attempt: int | None = None
    executor: Executor = Executor.LOCAL
    outcome: Outcome = Outcome.SUCCEEDED
    time: int | None = None
    approved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """
    One recorded run or conversation.

    Attributes:
        id: Its id, as recorded.
        principal: On whose behalf, or None.
        attributes: What was known about it.
        catalog: The names of the tools that were offered; None where no name is unknown.
        proposed: The proposed stream, oldest first; None where it was not observed.
        executed: The executed stream, oldest first; None where it was not observed.
        source: Where it was read: file and line.
        error: Why it could not be read, or None. A session with an error holds no streams; it is
            passed on, so that what could not be read is never mistaken for what was not there.
    """

    id: str
    principal: str | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    catalog: frozenset[str] | None = None
    proposed: Sequence[Proposal] | None = None
    executed: Sequence[Execution] | None = None
    source: str | None = None
    error: InputError | None = None


# Events: what a session's history is folded from


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened at one time in a session."""

    time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    """
    A session began.

    Attributes:
        session_id: Its id.
        principal: On whose behalf, or None.
        attributes: Its attributes, a JSON object.
        observed: False where the executed stream is not in the record: what ran before is unknown.
    """

    session_id: str
    principal: str | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    observed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributesChanged(Event):
    """The session's attributes are now *attributes* (all of them, not a difference)."""

    attributes: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed(Event):
    """A call was put forward; calls with one `message` are siblings."""

    call: ToolCall
    message: str | None = None
    origin: Origin = Origin.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """
    A call was judged.

    At the proposal, an allowed call reserves its decision's budgets, and any call uses those that
    count proposals.
    """

    call_id: str
    moment: Moment
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved(Event):
    """Somebody said yes to a call."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Event):
    """Somebody said no to a call, or nobody answered in time; what it had reserved is free again."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """
    A body is about to be entered.

    Attributes:
        call: The call as entered.
        budgets: The units used up by it (`Decision.budgets` of the entry).
        attempt: Which physical attempt, from 1.
    """

    call: ToolCall
    budgets: tuple[Budget, ...] = ()
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """An execution ended."""

    call_id: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned(Event):
    """A call will not be entered any more; what it had reserved is free again."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded(Event):
    """The session is over; nothing reserved remains."""
