"""
One session through the engine: every call of both streams judged, each at its own moment.

Proposals are judged against what had been executed in earlier turns, with the budgets that their
siblings reserved; each execution against the executions before it in the list. So the two streams
are folded apart: neither is inferred from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from gatescore.decide import decide, decide_each
from gatescore.history import History, advance
from gatescore.model import (
    NO_FACTS,
    Abandoned,
    Decided,
    Decision,
    Execution,
    Facts,
    Finished,
    Moment,
    Outcome,
    Proposal,
    Proposed,
    Session,
    SessionStarted,
    Started,
)
from gatescore.policy import Policy
from gatescore.score.replay import Replay, replay

# An enumeration takes long to find a member.
_PROPOSAL: Final = Moment.PROPOSAL
_ENTRY: Final = Moment.ENTRY


class Judged(NamedTuple):
    """
    The decisions on the two streams of one session, in the order of each; empty where not observed.

    `replayed` is what they came from, where a guard recorded the session.
    """

    proposals: Sequence[Decision]
    executions: Sequence[Decision]
    replayed: Replay | None = None


def judge_session(policy: Policy, session: Session) -> Judged:
    """Judge every proposal and every execution of *session*; where a guard recorded it, by its events."""
    if session.record is not None:
        replayed = replay(policy, session.record)
        return Judged(replayed.proposals, replayed.executions, replayed)
    proposed, executed = session.proposed or (), session.executed or ()
    if not policy.reads_history:
        return Judged(
            decide_each(policy, proposed, moment=_PROPOSAL), decide_each(policy, executed, moment=_ENTRY)
        )
    start = _begin(session)
    decisions = _judge_proposals(policy, start, proposed, executed)
    _, entries = _judge_executions(policy, start, executed, _stop(proposed, decisions))
    return Judged(decisions, entries)


def history_of(policy: Policy, session: Session) -> History:
    """The history after everything that was executed in *session*."""
    start, executed, proposed = _begin(session), session.executed or (), session.proposed or ()
    stop = (
        _stop(proposed, _judge_proposals(policy, start, proposed, executed)) if policy.reads_history else None
    )
    history, _ = _judge_executions(policy, start, executed, stop)
    return history


def _begin(session: Session) -> History:
    started = SessionStarted(
        session_id=session.id,
        principal=session.principal,
        attributes=session.attributes,
        observed=session.executed is not None,
    )
    return History([started])


def _facts(time: int | None) -> Facts:
    return NO_FACTS if time is None else Facts(now=time)


def _judge_proposals(
    policy: Policy, history: History, proposed: Sequence[Proposal], executed: Sequence[Execution]
) -> list[Decision]:
    """Turn by turn: its proposals, then what was executed in it, then whatever it still reserves is free."""
    decisions: dict[int, Decision] = {}
    entered = sorted(executed, key=lambda execution: execution.turn)  # stable: in the order of the list
    reached = 0
    in_turns = sorted(range(len(proposed)), key=lambda position: proposed[position].turn)
    for turn, positions in groupby(in_turns, key=lambda position: proposed[position].turn):
        while reached < len(entered) and entered[reached].turn < turn:
            history, _ = _enter(policy, history, entered[reached])
            reached += 1
        held: list[str] = []
        for position in positions:
            proposal = proposed[position]
            call = proposal.call
            if not proposal.selected:
                # It is shown with its verdict; as the runtime dropped it, it takes nothing from others.
                decisions[position] = decide(
                    policy, history, call, _facts(proposal.time), moment=Moment.PROPOSAL
                )
                continue
            history = advance(history, Proposed(time=proposal.time, call=call, message=f"turn {turn}"))
            decision = decide(policy, history, call, _facts(proposal.time), moment=Moment.PROPOSAL)
            decisions[position] = decision
            history = advance(
                history,
                Decided(time=proposal.time, call_id=call.call_id, moment=Moment.PROPOSAL, decision=decision),
            )
            held.append(call.call_id)
        while reached < len(entered) and entered[reached].turn <= turn:
            history, _ = _enter(policy, history, entered[reached])
            reached += 1
        for call_id in held:
            history = advance(history, Abandoned(call_id=call_id))
    return [decisions[position] for position in range(len(proposed))]


@dataclass(frozen=True, slots=True)
class _Stop:
    """The end of a session by a spent limit with ``then: stop``."""

    turn: int
    refused: frozenset[str]
    event: Decided

    def precedes(self, execution: Execution) -> bool:
        """Whether the session had been stopped when the call of *execution* was proposed."""
        return execution.turn > self.turn or execution.call.call_id in self.refused


def _stop(proposed: Sequence[Proposal], decisions: Sequence[Decision]) -> _Stop | None:
    """Where the proposals ended the session, or None. Executions cannot end it: they propose nothing."""
    for position, (proposal, decision) in enumerate(zip(proposed, decisions, strict=True)):
        if decision.stop and proposal.selected:
            later = [other for other in proposed[position:] if other.turn == proposal.turn]
            event = Decided(call_id=proposal.call.call_id, moment=Moment.PROPOSAL, decision=decision)
            return _Stop(proposal.turn, frozenset(other.call.call_id for other in later), event)
    return None


def _judge_executions(
    policy: Policy, history: History, executed: Sequence[Execution], stop: _Stop | None
) -> tuple[History, list[Decision]]:
    decisions: list[Decision] = []
    for execution in executed:
        if stop is not None and stop.precedes(execution):
            history, stop = advance(history, stop.event), None
        history, decision = _enter(policy, history, execution)
        decisions.append(decision)
    return history, decisions


def _enter(policy: Policy, history: History, execution: Execution) -> tuple[History, Decision]:
    """Judge one entry, and fold it in: it happened, whatever the policy says of it."""
    call, time, attempt = execution.call, execution.time, execution.attempt or 1
    decision = decide(policy, history, call, _facts(time))
    history = advance(history, Started(time=time, call=call, budgets=decision.budgets, attempt=attempt))
    if execution.outcome is not Outcome.UNFINISHED:
        end = Finished(time=time, call_id=call.call_id, outcome=execution.outcome, attempt=attempt)
        history = advance(history, end)
    return history, decision
