"""
A recorded run, judged again: the same fold over the same events, decision for decision.

Under the policy that was in force the replay must give what the guard decided; where the record
withholds or lacks what a decision needs, the recorded verdict counts. Under another policy the replay counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gatescore.decide import decide
from gatescore.history import History, advance
from gatescore.model import (
    AttributesChanged,
    Decided,
    Decision,
    Effect,
    Event,
    Facts,
    Moment,
    Proposed,
    Record,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy


class Mismatch(NamedTuple):
    """A recorded decision that its own policy does not give again."""

    call: ToolCall
    recorded: Decision
    replayed: Decision


@dataclass(frozen=True, slots=True)
class Replay:
    """
    What came of judging a record again.

    Attributes:
        proposals, executions: The decisions that count, in the order of the two streams.
        recorded_proposals: For each of *proposals*, whether it was taken over from the record.
        recorded_executions: How many of *executions* were.
        gaps: For each of *executions*, whether events are missing before it: what it lacks may have been there.
        mismatches: Decisions that differ from the recorded ones although the policy is the same.
    """

    proposals: Sequence[Decision]
    executions: Sequence[Decision]
    recorded_proposals: Sequence[bool]
    recorded_executions: int
    gaps: Sequence[bool]
    mismatches: Sequence[Mismatch]


def replay(policy: Policy, record: Record) -> Replay:
    """Judge every decision of *record* again, each after the events before it."""
    history = History()
    calls: dict[str, ToolCall] = {}
    proposals: dict[str, Decision] = {}
    order: list[str] = []
    entries: dict[str, tuple[Decision, bool]] = {}
    executions: list[Decision] = []
    taken_over: dict[str, bool] = {}
    recorded_executions = 0
    before: list[bool] = []
    mismatches: list[Mismatch] = []
    withheld = False  # of this call, or of one before: what is compared with it is not told either
    gaps = _Gaps()
    for position, recorded_event in enumerate(record.events):
        event = recorded_event
        own = position >= record.inherited
        gaps.look_at(event)
        if isinstance(event, (SessionStarted, AttributesChanged)):
            withheld = withheld or event.withheld
        elif isinstance(event, Proposed):
            calls[event.call.call_id] = event.call
            if own:
                order.append(event.call.call_id)
        elif isinstance(event, Decided):
            call = event.call or calls.get(event.call_id)
            if call is not None:
                again = decide(policy, history, call, event.facts, moment=event.moment)
                withheld = withheld or call.withheld
                used, recorded = _used(policy, event.decision, again, withheld=withheld, gap=gaps.found)
                if own and not recorded and _differs(policy, event.decision, again):
                    mismatches.append(Mismatch(call, event.decision, again))
                if event.moment is Moment.PROPOSAL:
                    proposals[event.call_id], taken_over[event.call_id] = used, recorded
                else:
                    entries[event.call_id] = used, recorded
                event = Decided(
                    time=event.time,
                    call_id=event.call_id,
                    moment=event.moment,
                    decision=used,
                    call=event.call,
                )
        elif isinstance(event, Started):
            call = event.call
            judged = entries.pop(call.call_id, None)
            if judged is None:
                judged = decide(policy, history, call, Facts(now=event.time)), False
            if own:
                executions.append(judged[0])
                recorded_executions += judged[1]
                before.append(gaps.found)
            event = Started(time=event.time, call=call, budgets=judged[0].budgets, attempt=event.attempt)
        history = advance(history, event)
    lacking = Decision(
        Effect.DENY,
        (),
        "the record lacks its verdict",
        policy.digest,
        undecidable=("the verdict of a proposal",),
    )
    return Replay(
        [proposals.get(call_id, lacking) for call_id in order],
        executions,
        [taken_over.get(call_id, False) for call_id in order],
        recorded_executions,
        before,
        mismatches,
    )


class _Gaps:
    """Whether events are missing before a point of the record, by their numbers."""

    __slots__ = ("_last", "found")

    def __init__(self) -> None:
        self.found = False
        self._last: int | None = -1

    def look_at(self, event: Event) -> None:
        """Take in the next event. One without a number tells nothing."""
        number, last = event.sequence, self._last
        if isinstance(event, SessionStarted) and event.continues is not None:
            # Another writer counts from 0 again; what it goes on from must stand right before.
            self.found = self.found or last != event.continues.sequence
        elif number is not None and last is not None and number != last + 1:
            self.found = True
        self._last = number


def _used(
    policy: Policy, recorded: Decision, again: Decision, *, withheld: bool, gap: bool
) -> tuple[Decision, bool]:
    """
    The decision that counts, and whether it is the recorded one.

    Where something is withheld the verdict may be certain, and the rules and budgets that go with it
    not: then the recorded ones do. After a gap the replay knows less than the guard did: that it
    differs says nothing against the record.
    """
    if recorded.policy_digest != policy.digest:
        return again, False
    unsure = gap or (withheld and again.effect is recorded.effect)
    unsure = unsure and _compared(again) != _compared(recorded)
    if not again.undecidable and not unsure:
        return again, False
    named = {(budget.limit, budget.unit) for budget in recorded.budgets}
    taken = (budget for budget in again.budgets if (budget.limit, budget.unit) in named)
    budgets = tuple(replace(budget, unsure=False) for budget in taken)  # the guard knew
    return Decision(
        recorded.effect,
        recorded.rules,
        recorded.reason,
        recorded.policy_digest,
        recorded.errors,
        budgets,
        (),
        recorded.invalid,
        recorded.stop,
    ), True


def _differs(policy: Policy, recorded: Decision, again: Decision) -> bool:
    return recorded.policy_digest == policy.digest and _compared(recorded) != _compared(again)


def _compared(decision: Decision) -> tuple[object, ...]:
    budgets = sorted((budget.limit, budget.unit) for budget in decision.budgets)
    return decision.effect, decision.rules, decision.invalid is None, decision.stop, budgets
