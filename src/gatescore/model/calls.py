"""Calls, and what is decided of them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, cast

from gatescore.canonical import Json, canonical_and_marked
from gatescore.errors import ArgumentsError
from gatescore.model.values import value


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


class Mode(StrEnum):
    """What a guard does about a denial: keeps the body from being entered, or only records it."""

    ENFORCE = "enforce"
    MONITOR = "monitor"


class Action(StrEnum):
    """What a guard did about a verdict: let the call go on, stopped it, or waits for a person's yes."""

    EXECUTE = "execute"
    BLOCK = "block"
    PENDING = "pending"


class Join(StrEnum):
    """How an execution was found to belong to its proposal."""

    SELF = "self"  # the entry is its own proposal: nothing had been put forward before
    GIVEN = "given"  # the caller said which proposal it enters
    ID = "id"  # by the provider's id
    INFERRED = "inferred"  # by name and arguments, the oldest first


class End(StrEnum):
    """How a proposal ended. One without an end is pending."""

    EXECUTED = "executed"
    DENIED = "denied"
    REJECTED = "rejected"
    EXPIRED = "expired"
    INVALID = "invalid"
    NOT_SELECTED = "not_selected"
    ABANDONED = "abandoned"


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
        withheld: The record does not tell some of the arguments: a marker ``{"$withheld": {...}}``
            stands in their place, or in place of them all. Never true of a live call.
        digest: The keyed digest of all the arguments, where a guard has made one. Equal digests,
            equal arguments.
        raw: What was proposed, as text, where `arguments` are not that: text that is not JSON, or
            the arguments before they were bound to the tool's parameters. None otherwise.
        identity: Server and name: which tool.
    """

    name: str
    server: str | None
    arguments: dict[str, Json]
    call_id: str
    host_call_id: str | None
    invalid: str | None
    opaque: bool
    withheld: bool
    digest: str | None
    raw: str | None
    identity: tuple[str | None, str]

    def __init__(
        self,
        name: str,
        arguments: object = None,
        *,
        server: str | None = None,
        call_id: str = "",
        host_call_id: str | None = None,
        invalid: str | None = None,
        raw: str | None = None,
    ) -> None:
        """
        Take the call apart: canonical arguments, or the reason why there are none.

        Args:
            name: The raw name; a call with an empty one is invalid.
            arguments: Whatever the tool was called with: a mapping, JSON text, or None.
            server: As the attribute.
            call_id: As the attribute.
            host_call_id: As the attribute.
            invalid: Why the call is invalid whatever its arguments are, as where they do not fit the tool.
            raw: As the attribute.
        """
        try:
            values, opaque = canonical_and_marked(arguments)
        except ArgumentsError as error:
            invalid, values, opaque = invalid or str(error), {}, False
            if raw is None and issubclass(type(arguments), str):
                raw = str.__str__(cast("str", arguments))
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
        put(self, "opaque", opaque)
        put(self, "withheld", False)
        put(self, "digest", None)
        put(self, "raw", raw)
        put(self, "identity", (server, name))

    @classmethod
    def recorded(
        cls,
        name: str,
        arguments: dict[str, Json],
        *,
        server: str | None = None,
        call_id: str = "",
        host_call_id: str | None = None,
        invalid: str | None = None,
        opaque: bool = False,
        withheld: bool = False,
        digest: str | None = None,
        raw: str | None = None,
    ) -> ToolCall:
        """A call as a record holds it: *arguments* are canonical already, and are kept as they are."""
        call = cls.__new__(cls)
        put = object.__setattr__
        put(call, "name", name)
        put(call, "server", server)
        put(call, "arguments", arguments)
        put(call, "call_id", call_id)
        put(call, "host_call_id", host_call_id)
        put(call, "invalid", invalid)
        put(call, "opaque", opaque)
        put(call, "withheld", withheld)
        put(call, "digest", digest)
        put(call, "raw", raw)
        put(call, "identity", (server, name))
        return call

    def identify(self, call_id: str, digest: str, host_call_id: str | None) -> None:
        """Give a call its ids, once: for the one who made it, before anybody else sees it."""
        put = object.__setattr__
        put(self, "call_id", call_id)
        put(self, "digest", digest)
        put(self, "host_call_id", host_call_id)

    def copied(self) -> ToolCall:
        """The same call, with arguments of its own: what is done to them changes nothing here."""
        call = copy(self)
        object.__setattr__(call, "arguments", deepcopy(self.arguments))
        return call

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
        unsure: The record does not tell whether the call takes the unit at all. Never of a live call.
    """

    limit: str
    unit: str
    key: str
    wide: bool = False
    unsure: bool = False


@value
class Facts:
    """
    What a decision needs to know of the world, found just before it and recorded with it.

    Attributes:
        now: The time of the decision, or None where the record does not hold it.
        budgets: Units in use outside this session, by the limit's name (`Budget.limit`), for limits
            that are wider; a call takes a unit of one budget of a limit, so the name says which.
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
        may_stop: The record does not tell whether it does. Never of a live call.
        policy_digest: The digest of the policy.
    """

    # Not a dataclass: `decide` hands out one shared object for all calls that nothing but the name
    # decides, and where it must make one, a frozen dataclass would cost more than the judging.
    __slots__ = (
        "budgets",
        "effect",
        "errors",
        "invalid",
        "may_stop",
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
    may_stop: bool
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
        may_stop: bool = False,
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
        put(self, "may_stop", may_stop)

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
            self.may_stop,
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
