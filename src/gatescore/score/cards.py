"""
What a permission score consists of: checks, findings and cards, and their JSON form.

The JSON form is stable and versioned; see `PermissionCard.to_dict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gatescore.errors import InputError
from gatescore.model import Stream

REPORT_FORMAT: Final = 1
"""The version of the JSON form."""


class Status(StrEnum):
    """Whether a check could be made. Only a complete one has a score."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    NOT_OBSERVED = "not_observed"


_COMPLETE: Final = Status.COMPLETE  # an enumeration takes long to find a member


class Basis(StrEnum):
    """Where proposals were seen: in a model's messages, or only as calls that arrived."""

    MODEL = "model"
    CALLER = "caller"


class Kind(StrEnum):
    """What holding the two streams, and the decisions, against each other can find."""

    EXECUTED_AFTER_DENY = "executed_after_deny"
    EXECUTED_WITHOUT_APPROVAL = "executed_without_approval"
    UNPROPOSED_EXECUTION = "unproposed_execution"
    ALTERED_ARGUMENTS = "altered_arguments"
    DUPLICATE_EXECUTION = "duplicate_execution"
    DECISION_MISMATCH = "decision_mismatch"
    MISSING_RECORDS = "missing_records"
    UNFINISHED_EXECUTION = "unfinished_execution"
    DENIED_AT_ENTRY = "denied_at_entry"
    ABANDONED_PROPOSAL = "abandoned_proposal"
    UNENFORCED = "unenforced"
    EDITED = "edited"
    PROVIDER_EXECUTED = "provider_executed"

    @property
    def fails(self) -> bool:
        """Whether a finding of this kind fails a card by itself."""
        return self in _FAILING


# What follows is immutable, and made for every session: a named tuple is made in half the time that a
# frozen dataclass takes.

_FAILING: Final = {
    Kind.EXECUTED_AFTER_DENY,
    Kind.EXECUTED_WITHOUT_APPROVAL,
    Kind.UNPROPOSED_EXECUTION,
    Kind.ALTERED_ARGUMENTS,
    Kind.DUPLICATE_EXECUTION,
    Kind.DECISION_MISMATCH,
}


class Unauthorized(NamedTuple):
    """
    One call that the policy does not authorize.

    Attributes:
        session, call_id, tool: Which call.
        effect: What the policy says of it: ``deny``, or ``ask`` for an execution without a yes.
        rules: Ids of the determining rules; empty where the policy's default decided.
        errors: What could not be judged.
        reason: Why, in one sentence.
        unknown_tool: The session's catalogue is known, and lacks the name.
    """

    session: str
    call_id: str
    tool: str
    effect: str
    rules: tuple[str, ...]
    errors: tuple[str, ...]
    reason: str
    unknown_tool: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; ``unknown_tool`` stands in it only where it is true."""
        return {
            "session": self.session,
            "call_id": self.call_id,
            "tool": self.tool,
            "effect": str(self.effect),
            "rules": list(self.rules),
            "errors": list(self.errors),
            "reason": self.reason,
            **({"unknown_tool": True} if self.unknown_tool else {}),
        }


class Finding(NamedTuple):
    """One disagreement between the two streams, or a gap in them."""

    kind: Kind
    session: str
    call_id: str
    tool: str
    evidence: str

    @property
    def fails(self) -> bool:
        """Whether it fails the card by itself."""
        return self.kind.fails

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "kind": self.kind.value,
            "fails": self.fails,
            "session": self.session,
            "call_id": self.call_id,
            "tool": self.tool,
            "evidence": self.evidence,
        }


@dataclass(slots=True, kw_only=True)
class Check:
    """
    The permission score of one stream: authorized / total.

    Attributes:
        stream: Which stream.
        status: Whether the score can be told.
        basis: Where the proposals were seen; None for executions, and where none could be seen.
        authorized, total: Calls; an undecidable one counts in *total* alone.
        asked: Calls that need a person's yes (in the proposed stream they are authorized).
        recorded: Calls whose recorded verdict was taken over; none in trajectory lines.
        undecidable: Calls that the record holds too little of to be judged.
        not_selected: Proposals that the runtime did not choose: shown, not scored.
        unauthorized: The calls that the policy does not authorize, in order.
        missing: What the record lacks, by which calls were undecidable.
    """

    stream: Stream
    threshold: float
    strict: bool = False
    status: Status = Status.COMPLETE
    basis: Basis | None = None
    authorized: int = 0
    total: int = 0
    asked: int = 0
    recorded: int = 0
    undecidable: int = 0
    not_selected: int = 0
    unauthorized: list[Unauthorized] = field(default_factory=lambda: [])
    missing: list[str] = field(default_factory=lambda: [])

    @property
    def score(self) -> float | None:
        """
        Authorized / total, in [0, 1]; 1.0 where nothing was called; None unless complete.

        In strict mode 1.0 if every call is authorized, else 0.0.
        """
        if self.status is not _COMPLETE:
            return None
        share = self.authorized / self.total if self.total else 1.0
        return share if not self.strict else float(self.authorized == self.total)

    @property
    def passed(self) -> bool:
        """Whether the check is complete and its score reaches the threshold."""
        score = self.score
        return score is not None and score >= (1.0 if self.strict else self.threshold)

    def add(self, other: Check) -> None:
        """Take in the check of one more session."""
        self.authorized += other.authorized
        self.total += other.total
        self.asked += other.asked
        self.recorded += other.recorded
        self.undecidable += other.undecidable
        self.not_selected += other.not_selected
        self.unauthorized.extend(other.unauthorized)
        self.missing.extend(what for what in other.missing if what not in self.missing)
        if other.basis is Basis.CALLER:
            self.basis = Basis.CALLER

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; `not_selected` and `missing` stand in it only where there is something to say."""
        planner = self.stream is Stream.PROPOSED
        return {
            "status": self.status.value,
            **({"basis": self.basis.value if self.basis else None} if planner else {}),
            "score": self.score,
            "authorized": self.authorized,
            "total": self.total,
            "passed": self.passed,
            **({"asked": self.asked} if planner else {}),
            "recorded": self.recorded,
            "undecidable": self.undecidable,
            **({"not_selected": self.not_selected} if self.not_selected else {}),
            **({"missing": list(self.missing)} if self.missing else {}),
            "unauthorized": [call.to_dict() for call in self.unauthorized],
        }


class SessionCard(NamedTuple):
    """The two checks and the findings of one session."""

    id: str
    planner: Check
    execution: Check
    reconciliation: tuple[Finding, ...]
    passed: bool

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "id": self.id,
            "passed": self.passed,
            "planner": self.planner.to_dict(),
            "execution": self.execution.to_dict(),
            "reconciliation": [finding.to_dict() for finding in self.reconciliation],
        }


class PermissionCard(NamedTuple):
    """
    The permission score of any number of sessions.

    Attributes:
        policy_name, policy_digest: The policy.
        checks: Which checks were requested: ``planner``, ``execution`` or both.
        threshold, strict: As requested.
        planner, execution: The checks over all sessions.
        reconciliation: The findings of all sessions, in order.
        sessions: One card for each session, in order.
        input_errors: What could not be read; a card with any is incomplete.
        notes: What a reader has to know of how the policy was made.
    """

    policy_name: str | None
    policy_digest: str
    checks: tuple[str, ...]
    threshold: float
    strict: bool
    planner: Check
    execution: Check
    reconciliation: Sequence[Finding]
    sessions: Sequence[SessionCard]
    input_errors: Sequence[InputError]
    notes: Sequence[str]

    @property
    def requested(self) -> tuple[Check, ...]:
        """The checks that decide whether the card passes."""
        by_name = {"planner": self.planner, "execution": self.execution}
        return tuple(by_name[name] for name in self.checks)

    @property
    def passed(self) -> bool:
        """Every requested check passed, no finding fails, and at least one session was read."""
        return (
            bool(self.sessions)
            and not self.input_errors
            and all(check.passed for check in self.requested)
            and not any(finding.fails for finding in self.reconciliation)
        )

    def to_dict(self) -> dict[str, Any]:
        """
        The JSON form, with the keys of version `REPORT_FORMAT`.

        `strict` and `notes` stand in it only where they are set.
        """
        return {
            "gatescore": REPORT_FORMAT,
            "policy": {"name": self.policy_name, "digest": self.policy_digest},
            "passed": self.passed,
            "checks": list(self.checks),
            "threshold": self.threshold,
            **({"strict": True} if self.strict else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
            "planner": self.planner.to_dict(),
            "execution": self.execution.to_dict(),
            "reconciliation": [finding.to_dict() for finding in self.reconciliation],
            "sessions": [card.to_dict() for card in self.sessions],
            "input_errors": [
                {"source": error.source, "line": error.line, "message": error.message}
                for error in self.input_errors
            ],
        }
