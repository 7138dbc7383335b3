"""
The findings in a session that a guard recorded: both streams and the recorded verdicts, held against each other.

Source: DESIGN, "Reconciliation".
"""

from __future__ import annotations

from gatescore.canonical import equal
from gatescore.model import (
    Approved,
    Decided,
    Effect,
    End,
    Execution,
    Executor,
    Mode,
    Moment,
    Outcome,
    Proposal,
    Proposed,
    Record,
    Rejected,
    Session,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy
from gatescore.policy.rules import Tool
from gatescore.recording import session_of
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
    proposals = {event.call.call_id: event for event in record.events if isinstance(event, Proposed)}
    effects, attempts = _before(policy, session, record)
    entered = zip(session.executed or (), verdicts, replayed.gaps, strict=True)
    for execution, (mode, verdict), gap in entered:
        _against_verdict(findings, session, execution, mode, verdict, gap=gap)
        _against_proposal(findings, session, execution, proposals.get(execution.call.call_id), gap=gap)
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
    denied, denied_at_entry = _denied(record)
    for proposal in session.proposed or ():
        call_id = proposal.call.call_id
        _of_proposal(
            findings, session, proposal, denied.get(call_id), at_entry=denied_at_entry.get(call_id, False)
        )
    return tuple(findings)


def _rules(rules: tuple[str, ...]) -> str:
    return ", ".join(f"`{rule}`" for rule in rules) or "the default"


def _add(findings: list[Finding], kind: Kind, session: Session, call: ToolCall, evidence: str) -> None:
    findings.append(Finding(kind, session.id, call.call_id, call.tool, evidence))


def _before(
    policy: Policy, session: Session, record: Record
) -> tuple[dict[tuple[Tool, str], str], set[tuple[str, int | None]]]:
    """The once-only effects and the attempts of what an earlier writer recorded: nothing to report, but to repeat."""
    effects: dict[tuple[Tool, str], str] = {}
    attempts: set[tuple[str, int | None]] = set()
    if record.inherited:
        earlier = session_of(Record(events=record.events[: record.inherited]))
        for execution in earlier.executed or ():
            attempts.add((execution.call.call_id, execution.attempt))
            if policy.has_once_per:
                against_effects(policy, session, execution, effects, [])
    return effects, attempts


def _denied(record: Record) -> tuple[dict[str, bool], dict[str, bool]]:
    """Of each call with a recorded verdict, whether that is a denial: when proposed, and the last one at the entry."""
    proposals: dict[str, bool] = {}
    entries: dict[str, bool] = {}
    for event in record.events:
        if isinstance(event, Decided):
            where = proposals if event.moment is Moment.PROPOSAL else entries
            where[event.call_id] = event.decision.effect is Effect.DENY
    return proposals, entries


def _verdicts(record: Record) -> list[tuple[Mode | None, Effect | None]]:
    """
    For each start: the mode, and the strictest recorded verdict before it.

    No verdict at the entry takes back a denial at the proposal; and a rejection, which is a denial
    too, is taken back by a yes alone.
    """
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
        elif isinstance(event, Approved):
            rejected.discard(event.call_id)
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
    findings: list[Finding],
    session: Session,
    execution: Execution,
    mode: Mode | None,
    verdict: Effect | None,
    *,
    gap: bool,
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
        elif unanswered and not gap:  # what is missing may be the answer
            _add(findings, Kind.EXECUTED_WITHOUT_APPROVAL, session, call, "no valid yes is recorded")


def _against_proposal(
    findings: list[Finding], session: Session, execution: Execution, proposal: Proposed | None, *, gap: bool
) -> None:
    call = execution.call
    if proposal is None:
        if gap:
            return  # what is missing may be the proposal
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
        altered(session, execution, bound, findings)


def _of_proposal(
    findings: list[Finding], session: Session, proposal: Proposal, denied: bool | None, *, at_entry: bool
) -> None:
    call = proposal.call
    if proposal.edited_from is not None:
        _add(findings, Kind.EDITED, session, call, f"a person changed call `{proposal.edited_from}` into it")
    if denied:
        return  # what was let through and came to nothing is told here
    if proposal.end is End.DENIED and at_entry and denied is False:
        _add(findings, Kind.DENIED_AT_ENTRY, session, call, "let through when proposed, denied at the entry")
    elif proposal.end is End.ABANDONED:
        _add(findings, Kind.ABANDONED_PROPOSAL, session, call, "not refused, and never entered")
