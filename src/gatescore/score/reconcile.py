"""
The two streams held against each other: what ran without being proposed, ran otherwise, or ran twice.

Trajectory lines record no mode, so `executed_after_deny` is not raised for them: the execution
check says it. Source: DESIGN, "Reconciliation".
"""

from __future__ import annotations

from collections.abc import Sequence
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
    entered: dict[str, Proposal] = {}
    again: dict[str, int] = {}
    effects: dict[tuple[Tool, str], str] = {}
    once = policy.has_once_per
    observed = session.proposed is not None
    for execution in executed:
        if observed:
            call_id = execution.call.call_id
            proposal = waiting.pop(call_id, None) if execution.proposed else None
            if proposal is not None:
                entered[call_id] = proposal
            if proposal is None or not _same(execution.call, proposal.call):
                entry = 1
                if proposal is None and execution.proposed and call_id in entered:
                    proposal = entered[call_id]
                    entry = again[call_id] = again.get(call_id, 1) + 1
                _against_proposal(session, execution, proposal, entry, findings)
        if once:
            _against_effects(policy, session, execution, effects, findings)
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


def _found(
    kind: Kind, session: Session, what: Execution | Proposal, evidence: str, findings: list[Finding]
) -> None:
    call = what.call
    findings.append(
        Finding(kind=kind, session=session.id, call_id=call.call_id, tool=call.tool, evidence=evidence)
    )


def _against_proposal(
    session: Session, execution: Execution, proposal: Proposal | None, entry: int, findings: list[Finding]
) -> None:
    """Say what is wrong with an execution that is the *entry*-th of its *proposal*."""
    if proposal is None:
        _found(Kind.UNPROPOSED_EXECUTION, session, execution, "no proposal joins it", findings)
        return
    entered, bound = execution.call, proposal.call
    if not _same(entered, bound):
        names = sorted(entered.arguments.keys() | bound.arguments.keys())
        changed = [
            name
            for name in names
            if (name in entered.arguments) != (name in bound.arguments)
            or not equal(entered.arguments.get(name), bound.arguments.get(name))
        ]
        evidence = "changed since the proposal: " + (", ".join(f"`{name}`" for name in changed) or "all")
        _found(Kind.ALTERED_ARGUMENTS, session, execution, evidence, findings)
    if entry > 1 and not (execution.attempt is not None and execution.attempt > 1):
        evidence = f"entry {entry} for one proposal, and not recorded as another attempt"
        _found(Kind.DUPLICATE_EXECUTION, session, execution, evidence, findings)


def _same(entered: ToolCall, bound: ToolCall) -> bool:
    return equal(entered.arguments, bound.arguments) and entered.invalid == bound.invalid


def _against_effects(
    policy: Policy,
    session: Session,
    execution: Execution,
    effects: dict[tuple[Tool, str], str],
    findings: list[Finding],
) -> None:
    call = execution.call
    for layer in policy.layers:
        tool = layer.tool(call.server, call.name)
        key = joined(values_of(call, tool.once_per)) if tool is not None and tool.once_per else None
        if tool is None or key is None:
            continue
        earlier = effects.get((tool, key))
        if earlier is not None and earlier != call.call_id:
            named = ", ".join(f"`{name}`" for name in tool.once_per)
            evidence = f"the same {named} as in call `{earlier}`"
            _found(Kind.DUPLICATE_EXECUTION, session, execution, evidence, findings)
        elif execution.outcome not in tool.safe_to_repeat:
            effects[tool, key] = call.call_id
