"""
The two streams held against each other: what ran without being proposed, ran otherwise, or ran twice.

Trajectory lines record no mode, so `executed_after_deny` is not raised for them: the execution
check says it. Source: DESIGN, "Reconciliation".
"""

from __future__ import annotations

from collections.abc import Sequence

from gatescore.canonical import equal
from gatescore.correlation import joined, values_of
from gatescore.model import Decision, Effect, Execution, Executor, Outcome, Proposal, Session
from gatescore.policy import Policy
from gatescore.policy.rules import Tool
from gatescore.score.cards import Finding, Kind


def reconcile(
    policy: Policy, session: Session, proposal_decisions: Sequence[Decision]
) -> tuple[Finding, ...]:
    """The findings of one session, in the order of its executions, then of its proposals."""
    executed = session.executed
    if executed is None:
        return ()
    findings: list[Finding] = []
    proposals = {proposal.call.call_id: proposal for proposal in session.proposed or ()}
    entered: dict[str, int] = {}
    effects: dict[tuple[Tool, str], str] = {}
    once = any(tool.once_per for layer in policy.layers for tool in layer.tools)
    for execution in executed:
        call_id = execution.call.call_id
        entered[call_id] = entered.get(call_id, 0) + 1
        if session.proposed is not None:
            _against_proposal(session, execution, proposals.get(call_id), entered[call_id], findings)
        if once:
            _against_effects(policy, session, execution, effects, findings)
        if execution.outcome is Outcome.UNFINISHED:
            _found(
                Kind.UNFINISHED_EXECUTION,
                session,
                execution,
                "it started, and nothing tells of its end",
                findings,
            )
        if execution.executor is Executor.PROVIDER:
            _found(
                Kind.PROVIDER_EXECUTED,
                session,
                execution,
                "the model's provider ran it: no guard could",
                findings,
            )
    for proposal, decision in zip(session.proposed or (), proposal_decisions, strict=True):
        gone = proposal.call.call_id not in entered and not proposal.refused and proposal.selected
        if gone and decision.effect is not Effect.DENY:
            evidence = (
                "authorized, but never entered"
                if decision.allowed
                else "waiting for a yes, and never entered"
            )
            _found(Kind.ABANDONED_PROPOSAL, session, proposal, evidence, findings)
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
    if not execution.proposed or proposal is None:
        _found(Kind.UNPROPOSED_EXECUTION, session, execution, "no proposal joins it", findings)
        return
    entered, bound = execution.call, proposal.call
    if entered.invalid != bound.invalid or not equal(entered.arguments, bound.arguments):
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
