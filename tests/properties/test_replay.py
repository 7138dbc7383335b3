"""What a guard decided can be recomputed from what it recorded: random policies, random live sessions."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Guard, Policy, ToolDenied
from gatescore.model import Decided, Started
from gatescore.score import PermissionCard, score_permissions
from gatescore.traces import read_sessions
from tests.properties.test_decide import PATIENT
from tests.properties.worlds import PLAIN, TOOLS, documents

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "call by id", "propose", "propose", "update"]),
        st.sampled_from(TOOLS),
        PLAIN,
        st.sampled_from(["fine", "fine", "raise", "inner"]),
        st.sampled_from(["c1", "c2"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


class Failing(Exception):  # noqa: N818 - what a tool may raise
    """A tool's own failure."""


def live(
    document: dict[str, Any], steps: list[Any], capture: str
) -> tuple[Policy, Any, InMemorySpanExporter]:
    """Run *steps* through a guard: a session's run, and the spans of it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    policy = Policy.from_dict(document)
    yes = iter([step[5] for step in steps] * 4)
    guard = Guard(
        policy, tracer_provider=provider, capture=capture, approver=lambda request: next(yes, False)
    )
    how = ["fine"]

    def body(**arguments: Any) -> None:
        end = how[0]
        how[0] = "fine"
        if end == "inner":
            with contextlib.suppress(ToolDenied):
                guard.call("read", {"x": 1})
        if end == "raise":
            raise Failing

    for name in TOOLS:
        guard.wrap(body, name=name)
    with guard.session("s", principal="user:1", attributes={"n": 0}) as run:
        for number, (action, name, arguments, end, host_id, together) in enumerate(steps):
            how[0] = end
            with contextlib.suppress(ToolDenied, Failing):
                if action == "update":
                    run.update(n=number)
                elif action == "propose":
                    message = [
                        {"id": f"m{number}{n}", "name": name, "arguments": arguments}
                        for n in range(1 + together)
                    ]
                    for call in run.propose(message):
                        with contextlib.suppress(ToolDenied, Failing):
                            call.run()
                else:
                    guard.call(name, arguments, call_id=host_id if action == "call by id" else None)
    return policy, run, exporter


def counts(card: PermissionCard) -> list[Any]:
    return [
        (
            check.status,
            check.authorized,
            check.total,
            check.undecidable,
            [u.call_id for u in check.unauthorized],
        )
        for check in (card.planner, card.execution)
    ]


@pytest.mark.parametrize("capture", ["full", "names", "redacted", "none"])
def test_every_decision_comes_back_from_the_spans(capture: str) -> None:
    """Under full capture every one is replayed; otherwise it is replayed, or taken from the record."""

    @settings(PATIENT)
    @given(documents("deny", "ask", "allow"), STEPS)
    def check(document: dict[str, Any], steps: list[Any]) -> None:
        policy, run, exporter = live(document, steps, capture)
        [session] = list(read_sessions(exporter))
        assert session.record is not None
        assert () == session.record.missing
        card = score_permissions(session, policy)
        kinds = [finding.kind.value for finding in card.reconciliation]
        assert "decision_mismatch" not in kinds
        assert "executed_after_deny" not in kinds
        assert "executed_without_approval" not in kinds
        assert counts(run.score()) == counts(card)
        if capture == "full":
            assert (0, 0) == (card.planner.recorded, card.execution.recorded)
        assert card.execution.authorized == card.execution.total

    check()


def test_the_events_of_the_spans_are_those_of_the_process() -> None:
    """Under full capture nothing but the keys of budgets is lost on the way."""

    @settings(PATIENT)
    @given(documents("deny", "ask", "allow"), STEPS)
    def check(document: dict[str, Any], steps: list[Any]) -> None:
        _, run, exporter = live(document, steps, "full")
        [session] = list(read_sessions(exporter))
        assert session.record is not None
        own = run.session().record.events
        assert len(own) == len(session.record.events)
        for mine, theirs in zip(own, session.record.events, strict=True):
            if isinstance(mine, (Decided, Started)):
                assert (mine.sequence, mine.time, mine.call) == (theirs.sequence, theirs.time, theirs.call)  # type: ignore[attr-defined]
            else:
                assert mine == theirs

    check()
