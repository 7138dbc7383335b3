"""
The findings in a session that a guard recorded: both streams and the recorded verdicts, held against each other.

Source: DESIGN, "Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterator

from gatescore.canonical import equal
from gatescore.model import (
    Decided,
    Effect,
    End,
    Execution,
    Executor,
    Mode,
    Moment,
    Outcome,
    Proposal,
    Record,
    Rejected,
    Session,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy
from gatescore.policy.rules import Tool
from gatescore.score.cards import Finding, Kind
from gatescore.score.reconcile import against_effects, altered
from gatescore.score.replay import Replay


def reconcile_record(
    policy: Policy, session: Session, record: Record, replayed: Replay
) -> tuple[Finding, ...]:
    """The findings of one recorded session: of its record, of its executions in order, of its proposals."""
    findings = [Finding(Kind.MISSING_RECORDS, session.id, "", "", what) for what in record.missing]
    for call, recorded, again in replayed.mismatches:
        evidence = f"recorded {recorded.effect.value} by {_rules(recorded.rules)}, replayed {again.effect.value} by {_rules(again.rules)}"
        _add(findings, Kind.DECISION_MISMATCH, session, call, evidence)
    verdicts = _verdicts(record)
    proposals = {proposal.call.call_id: proposal for proposal in session.proposed or ()}
    effects: dict[tuple[Tool, str], str] = {}
    attempts: set[tuple[str, int | None]] = set()
    for execution, (mode, verdict) in zip(session.executed or (), verdicts, strict=True):
        _against_verdict(findings, session, execution, mode, verdict)
        _against_proposal(findings, session, execution, proposals.get(execution.call.call_id))
        attempt = execution.call.call_id, execution.attempt
        if attempt in attempts:
            evidence = f"attempt {execution.attempt} stands twice in the record"
            _add(findings, Kind.DUPLICATE_EXECUTION, session, execution.call, evidence)
        attempts.add(attempt)
        if policy.has_once_per:
            against_effects(policy, session, execution, effects, findings)
        if execution.outcome is Outcome.UNFINISHED and not execution.returned:
            evidence = "it started, and nothing tells of its end"
            _add(findings, Kind.UNFINISHED_EXECUTION, session, execution.call, evidence)
        if execution.executor is Executor.PROVIDER:
            evidence = "the model's provider ran it: no guard could"
            _add(findings, Kind.PROVIDER_EXECUTED, session, execution.call, evidence)
    denied = set(_denied_at_entry(record))
    for proposal in session.proposed or ():
        _of_proposal(findings, session, proposal, denied)
    return tuple(findings)


def _rules(rules: tuple[str, ...]) -> str:
    return ", ".join(f"`{rule}`" for rule in rules) or "the default"


def _add(findings: list[Finding], kind: Kind, session: Session, call: ToolCall, evidence: str) -> None:
    findings.append(Finding(kind, session.id, call.call_id, call.tool, evidence))


def _denied_at_entry(record: Record) -> Iterator[str]:
    for event in record.events:
        if not isinstance(event, Decided) or event.moment is not Moment.ENTRY:
            continue
        if event.decision.effect is Effect.DENY:
            yield event.call_id


def _verdicts(record: Record) -> list[tuple[Mode | None, Effect | None]]:
    """For each start: the mode, and the strictest recorded verdict before it; a rejection is a denial."""
    mode: Mode | None = None
    proposal: dict[str, Effect] = {}
    entry: dict[str, Effect] = {}
    rejected: set[str] = set()
    found: list[tuple[Mode | None, Effect | None]] = []
    for position, event in enumerate(record.events):
        if isinstance(event, SessionStarted):
            mode = event.mode
        elif isinstance(event, Decided):
            (proposal if event.moment is Moment.PROPOSAL else entry)[event.call_id] = event.decision.effect
        elif isinstance(event, Rejected):
            rejected.add(event.call_id)
        elif isinstance(event, Started):
            call_id = event.call.call_id
            said = [
                effect for effect in (proposal.get(call_id), entry.pop(call_id, None)) if effect is not None
            ]
            strictest = next(
                (effect for effect in (Effect.DENY, Effect.ASK, Effect.ALLOW) if effect in said), None
            )
            if position >= record.inherited:
                found.append((mode, Effect.DENY if call_id in rejected else strictest))
    return found


def _against_verdict(
    findings: list[Finding], session: Session, execution: Execution, mode: Mode | None, verdict: Effect | None
) -> None:
    call = execution.call
    unanswered = verdict is Effect.ASK and not execution.approved
    if mode is Mode.MONITOR:
        if verdict is Effect.DENY or unanswered:
            what = "denied" if verdict is Effect.DENY else "asked about"
            _add(
                findings,
                Kind.UNENFORCED,
                session,
                call,
                f"it would have been {what}, and ran in monitor mode",
            )
    elif mode is Mode.ENFORCE:
        if verdict is Effect.DENY:
            _add(findings, Kind.EXECUTED_AFTER_DENY, session, call, "the last verdict before it was a denial")
        elif unanswered:
            _add(findings, Kind.EXECUTED_WITHOUT_APPROVAL, session, call, "no valid yes is recorded")


def _against_proposal(
    findings: list[Finding], session: Session, execution: Execution, proposal: Proposal | None
) -> None:
    call = execution.call
    if proposal is None:
        if not execution.proposed:
            _add(findings, Kind.UNPROPOSED_EXECUTION, session, call, "no proposal joins it")
        return
    if proposal.edited_from is not None:
        return
    bound = proposal.call
    if call.withheld or bound.withheld:
        if call.digest is not None and bound.digest is not None and call.digest != bound.digest:
            _add(
                findings,
                Kind.ALTERED_ARGUMENTS,
                session,
                call,
                "changed since the proposal: the digests differ",
            )
    elif not equal(call.arguments, bound.arguments) or call.invalid != bound.invalid:
        altered(session, execution, proposal, findings)


def _of_proposal(findings: list[Finding], session: Session, proposal: Proposal, denied: set[str]) -> None:
    call = proposal.call
    if proposal.edited_from is not None:
        _add(findings, Kind.EDITED, session, call, f"a person changed call `{proposal.edited_from}` into it")
    if proposal.end is End.DENIED and call.call_id in denied:
        _add(findings, Kind.DENIED_AT_ENTRY, session, call, "let through when proposed, denied at the entry")
    elif proposal.end in (None, End.ABANDONED):
        _add(findings, Kind.ABANDONED_PROPOSAL, session, call, "not refused, and never entered")
