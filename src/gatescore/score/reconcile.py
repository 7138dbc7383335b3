"""
The two streams held against each other: what ran without being proposed, ran otherwise, or ran twice.

Trajectory lines record no mode, so `executed_after_deny` is not raised for them: the execution
check says it. Source: DESIGN, "Reconciliation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gatescore.canonical import equal
from gatescore.correlation import joined, values_of
from gatescore.model import Decision, Effect, Execution, Executor, Outcome, Proposal, Session, ToolCall
from gatescore.policy import Policy
from gatescore.policy.rules import Tool
from gatescore.score.cards import Finding, Kind

# An enumeration takes long to find a member, and these are asked for at every call.
_DENY: Final = Effect.DENY
_UNFINISHED: Final = Outcome.UNFINISHED
_PROVIDER: Final = Executor.PROVIDER


def reconcile(
    policy: Policy, session: Session, proposal_decisions: Sequence[Decision]
) -> tuple[Finding, ...]:
    """The findings of one session, in the order of its executions, then of its proposals."""
    executed = session.executed
    if executed is None:
        return ()
    findings: list[Finding] = []
    waiting = {proposal.call.call_id: proposal for proposal in session.proposed or ()}
    entries: dict[str, _Entries] = {}
    effects: dict[tuple[Tool, str], str] = {}
    once = policy.has_once_per
    observed = session.proposed is not None
    for execution in executed:
        if observed:
            call = execution.call
            proposal = waiting.pop(call.call_id, None) if execution.proposed else None
            if proposal is None:
                _without_first_entry(session, execution, entries, findings)
            elif not equal(call.arguments, proposal.call.arguments) or call.invalid != proposal.call.invalid:
                altered(session, execution, proposal.call, findings)
        if once:
            against_effects(policy, session, execution, effects, findings)
        if execution.outcome is _UNFINISHED:
            evidence = "it started, and nothing tells of its end"
            _found(Kind.UNFINISHED_EXECUTION, session, execution, evidence, findings)
        if execution.executor is _PROVIDER:
            evidence = "the model's provider ran it: no guard could"
            _found(Kind.PROVIDER_EXECUTED, session, execution, evidence, findings)
    if waiting:
        for proposal, decision in zip(session.proposed or (), proposal_decisions, strict=True):
            gone = proposal.call.call_id in waiting and not proposal.refused and proposal.selected
            if gone and decision.effect is not _DENY:
                how = "authorized, but" if decision.allowed else "waiting for a yes, and"
                _found(Kind.ABANDONED_PROPOSAL, session, proposal, f"{how} never entered", findings)
    return tuple(findings)


@dataclass(slots=True)
class _Entries:
    """
    The entries of one proposal, of which at least the second was met.

    Attributes:
        proposal: The proposal.
        attempts: By number, the execution that is recorded as this attempt; the first of several.
        count: How many entries were met so far.
    """

    proposal: Proposal
    attempts: dict[int, Execution] = field(default_factory=lambda: {})
    count: int = 1


def _found(
    kind: Kind, session: Session, what: Execution | Proposal, evidence: str, findings: list[Finding]
) -> None:
    call = what.call
    findings.append(
        Finding(kind=kind, session=session.id, call_id=call.call_id, tool=call.tool, evidence=evidence)
    )


def _without_first_entry(
    session: Session, execution: Execution, entries: dict[str, _Entries], findings: list[Finding]
) -> None:
    """Say what an execution is that enters no proposal for the first time; *entries* is filled when it is needed."""
    call = execution.call
    if not entries:
        entries.update({other.call.call_id: _Entries(other) for other in session.proposed or ()})
        for first in session.executed or ():
            if first.call.call_id in entries:
                entries[first.call.call_id].attempts.setdefault(first.attempt or 1, first)
    entered = entries.get(call.call_id) if execution.proposed else None
    if entered is None:
        _found(Kind.UNPROPOSED_EXECUTION, session, execution, "no proposal joins it", findings)
        return
    proposal = entered.proposal
    if not equal(call.arguments, proposal.call.arguments) or call.invalid != proposal.call.invalid:
        altered(session, execution, proposal.call, findings)
    entered.count += 1
    if execution.attempt is None or entered.attempts.get(execution.attempt) is not execution:
        evidence = f"entry {entered.count} for one proposal, and not recorded as another attempt"
        _found(Kind.DUPLICATE_EXECUTION, session, execution, evidence, findings)


def altered(session: Session, execution: Execution, proposed: ToolCall, findings: list[Finding]) -> None:
    """Say which arguments differ from the proposed ones."""
    entered, bound = execution.call.arguments, proposed.arguments
    changed = [
        f"`{name}`"
        for name in sorted(entered.keys() | bound.keys())
        if (name in entered) != (name in bound) or not equal(entered.get(name), bound.get(name))
    ]
    evidence = "changed since the proposal: " + (", ".join(changed) or "all")
    _found(Kind.ALTERED_ARGUMENTS, session, execution, evidence, findings)


def against_effects(
    policy: Policy,
    session: Session,
    execution: Execution,
    effects: dict[tuple[Tool, str], str],
    findings: list[Finding],
) -> None:
    """Say where an execution has a once-only effect again that another call had."""
    call = execution.call
    tools = [tool for layer in policy.layers for tool in layer.restricting_tools(call.server, call.name)]
    for tool in tools:
        key = joined(values_of(call, tool.once_per)) if tool.once_per else None
        if key is None:
            continue
        earlier = effects.get((tool, key))
        if earlier is not None and earlier != call.call_id:
            named = ", ".join(f"`{name}`" for name in tool.once_per)
            evidence = f"the same {named} as in call `{earlier}`"
            _found(Kind.DUPLICATE_EXECUTION, session, execution, evidence, findings)
        elif execution.outcome not in tool.safe_to_repeat:
            effects[tool, key] = call.call_id
