"""
Scores of real recordings equal the values that were computed without gatescore.

AgentDojo: 2,259 sessions under four policies by name, each of its own (the tools of its task).
tau-bench retail: 100 sessions of each of two agents, one of which had a guard of its own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gatescore.policy import Policy
from gatescore.score import SessionCard, score_permissions
from gatescore.traces import read_session
from tests.shared import shared


def row(card: SessionCard) -> list[Any]:
    planner, execution = card.planner, card.execution
    assert planner.score is not None
    assert execution.score is not None
    return [
        round(planner.score, 6),
        len(planner.unauthorized),
        round(execution.score, 6),
        len(execution.unauthorized),
    ]


def names(calls: list[dict[str, Any]] | None) -> list[str]:
    return sorted({call["name"] for call in calls or []})


def agentdojo_policy(which: str, line: dict[str, Any], always: dict[str, list[str]]) -> Policy | None:
    suite, own = line["labels"]["suite"], names(line["expected"])
    wide = sorted({*own, *always[suite]})
    if which == "P1":
        return Policy(allowed_tools=own)
    if which == "P2":
        return Policy(allowed_tools=wide)
    if which == "P3":
        return Policy(denied_tools=sorted(set(line["catalog"]) - set(wide)), default="allow")
    if line["labels"]["injection_task"] is None:
        return None
    return Policy(allowed_tools=own, denied_tools=line["labels"]["injection_expected_names"])


@pytest.mark.parametrize(("which", "sessions"), [("P1", 2259), ("P2", 2259), ("P3", 2259), ("P4", 1887)])
def test_agentdojo_scores_equal_the_expected_values(which: str, sessions: int) -> None:
    """Both scores and both counts of unauthorized calls, session by session, and their totals."""
    expected = json.loads(shared("data/agentdojo/agentdojo.dev.expected.json").read_text())
    tasks = json.loads(shared("data/agentdojo/agentdojo.tasks.json").read_text())
    always = {
        suite: [tool["name"] for tool in task["tools"] if tool.get("always_allowed")]
        for suite, task in tasks.items()
    }
    rows = {entry["id"]: entry for entry in expected["rows"]}
    judged, proposed, executed = 0, 0, 0
    with shared("data/agentdojo/agentdojo.dev.jsonl").open() as file:
        for text in file:
            line = json.loads(text)
            policy = agentdojo_policy(which, line, always)
            if policy is None:
                continue
            (card,) = score_permissions(read_session(line), policy).sessions
            assert [card.planner.total, card.execution.total] == [
                rows[line["id"]]["proposed"],
                rows[line["id"]]["entered"],
            ]
            assert row(card) == rows[line["id"]][which], line["id"]
            judged += 1
            proposed += len(card.planner.unauthorized)
            executed += len(card.execution.unauthorized)
    assert judged == sessions
    assert [judged, proposed, executed] == expected["totals"][which]


@pytest.mark.parametrize(
    ("agent", "unauthorized"), [("retail-baseline", (15, 15)), ("retail-preconditions", (23, 8))]
)
def test_tau_bench_least_privilege_equals_the_expected_values(
    agent: str, unauthorized: tuple[int, int]
) -> None:
    """T1: the tools of the task and all that read or are generic; a guard that withheld calls shows in one stream."""
    expected = json.loads(shared(f"data/tau-bench/tau.{agent}.expected.json").read_text())
    catalog = json.loads(shared("data/tau-bench/tau.catalog.json").read_text())["retail"]
    harmless = [tool["name"] for tool in catalog if tool["kind"] in ("READ", "GENERIC")]
    rows = {entry["id"]: entry for entry in expected["rows"]}
    proposed, executed = 0, 0
    lines = shared(f"data/tau-bench/tau.{agent}.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        policy = Policy(allowed_tools=sorted({*names(line["expected"]), *harmless}))
        (card,) = score_permissions(read_session(line), policy).sessions
        assert row(card) == rows[line["id"]]["T1"], line["id"]
        proposed += len(card.planner.unauthorized)
        executed += len(card.execution.unauthorized)
    assert len(lines) == 100
    assert (proposed, executed) == unauthorized
