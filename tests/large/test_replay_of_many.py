"""Many random live sessions: what was decided comes back from the spans, and is what happened."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gatescore.canonical import key_text
from gatescore.model import Decided, Effect, Moment, Started
from gatescore.score import PermissionCard, score_permissions
from gatescore.score.replay import replay
from gatescore.traces import read_sessions
from tests.large.live import Live
from tests.large.size import size


def verdicts(card: PermissionCard) -> list[Any]:
    return [
        (
            check.status,
            check.authorized,
            check.total,
            check.undecidable,
            sorted(u.call_id for u in check.unauthorized),
        )
        for check in (card.planner, card.execution)
    ]


def kinds(card: PermissionCard) -> set[str]:
    return {finding.kind.value for finding in card.reconciliation if finding.fails}


@pytest.mark.parametrize(("capture", "sessions"), [("full", size(10_000, 150)), ("names", size(2_500, 50))])
def test_every_decision_of_many_live_sessions_comes_back(capture: str, sessions: int) -> None:
    """
    Under full capture each one is replayed and equals the live one; otherwise replayed or recorded.

    And the record is what happened: as many executions as entries into bodies, with their arguments.
    """
    seen: Counter[str] = Counter()
    for seed in range(sessions):
        live = Live(seed, capture)
        run = live.run(f"s{seed}")
        [session] = read_sessions(live.exporter)
        record = session.record
        assert record is not None, seed
        assert () == record.missing, seed
        again = replay(live.policy, record)
        assert [] == again.mismatches, seed

        decided = [event for event in record.events if isinstance(event, Decided)]
        own = run.session().record
        assert own is not None, seed
        lived = [event for event in own.events if isinstance(event, Decided)]
        assert [told(event) for event in lived] == [told(event) for event in decided], seed
        at_proposal = [event for event in lived if event.moment is Moment.PROPOSAL]
        assert [event.decision.effect for event in at_proposal] == [d.effect for d in again.proposals], seed
        assert [event.decision.rules for event in at_proposal] == [d.rules for d in again.proposals], seed

        card = score_permissions(session, live.policy)
        assert verdicts(run.score()) == verdicts(card), seed
        assert (0, 0) == (card.planner.undecidable, card.execution.undecidable), seed
        assert not kinds(card) & {"decision_mismatch", "executed_after_deny", "executed_without_approval"}, (
            seed
        )
        assert card.execution.authorized == card.execution.total, seed
        if capture == "full":
            assert (0, 0) == (card.planner.recorded, card.execution.recorded), seed

        starts = [event for event in own.events if isinstance(event, Started)]
        executed = Counter((start.call.name, key_text(start.call.arguments)) for start in starts)
        assert live.entered == executed, seed
        assert sum(executed.values()) == card.execution.total, seed
        count(seen, lived, starts)
    missing = {what for what in ("deny", "ask", "allow", "attempt", "stop", "budget") if not seen[what]}
    assert not missing, "the sessions are poorer than they should be"
    print(f"\n{capture}: {sessions:,} sessions, {dict(seen)}")


def told(event: Decided) -> tuple[Any, ...]:
    decision = event.decision
    budgets = sorted((budget.limit, budget.unit) for budget in decision.budgets)
    return (
        event.sequence,
        event.call_id,
        event.moment,
        decision.effect,
        decision.rules,
        decision.errors,
        decision.stop,
        budgets,
        event.facts,
    )


def count(seen: Counter[str], decided: list[Decided], starts: list[Started]) -> None:
    seen["decisions"] += len(decided)
    seen["executions"] += len(starts)
    for event in decided:
        seen[event.decision.effect.value] += 1
        seen["stop"] += event.decision.stop
        seen["budget"] += bool(event.decision.budgets)
        seen["denied at entry"] += event.moment is Moment.ENTRY and event.decision.effect is Effect.DENY
    seen["attempt"] += sum(start.attempt > 1 for start in starts)
