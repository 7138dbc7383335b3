"""A guard of which record and spans are both kept, and what they say of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import ApprovalRequest, Policy, ToolDenied
from gatescore.guard import Run
from gatescore.score import PermissionCard, score_permissions
from gatescore.testing import RecordingGuard
from gatescore.traces import read_sessions
from tests.guard.seen import executed, proposed

BOUND: Final = 30
"""Seconds that nothing here comes near to, against hanging."""


class Watched(RecordingGuard):
    """A guard whose spans are kept beside its record."""

    def __init__(self, policy: Policy, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        super().__init__(policy, tracer_provider=provider, capture="full", **options)

    def card(self, run: Run) -> PermissionCard:
        """The card of a session; its spans, read back, must give the same one."""
        card = run.score()
        [session] = [session for session in read_sessions(self.exporter) if session.id == run.id]
        again = score_permissions(session, self.policy)
        assert again.to_dict() == card.to_dict()
        return card


class Person:
    """An approver that keeps its questions, and answers each by a function."""

    def __init__(self, answer: Callable[[ApprovalRequest], Any] = lambda request: True) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer(request)


def asking(*tools: str, approver: Any = None, deny: dict[str, Any] | None = None, **options: Any) -> Watched:
    """A guard that asks about *tools*, each of which gives back the arguments it ran with."""
    rules: list[dict[str, Any]] = [{"id": "ask", "ask": list(tools)}]
    if deny is not None:
        rules.append({"id": "never", **deny})
    guard = Watched(Policy(rules=rules), approver=approver, **options)
    for name in tools:
        guard.wrap(given, name=name)
    return guard


def limited(limit: dict[str, Any], *tools: str, effect: str = "allow", **more: Any) -> Policy:
    return Policy(rules=[{"id": "limited", effect: list(tools), "limit": limit}], **more)


def guarding(policy: Policy, *tools: str, **options: Any) -> Watched:
    guard = Watched(policy, **options)
    for name in tools:
        guard.wrap(given, name=name)
    return guard


def called(guard: RecordingGuard, name: str, arguments: Any = None, call_id: str | None = None) -> bool:
    """Whether a call came through."""
    try:
        guard.call(name, arguments, call_id=call_id)
    except ToolDenied:
        return False
    return True


def given(**arguments: Any) -> dict[str, Any]:
    return arguments


def in_threads(run: Run, work: Sequence[Callable[[], None]]) -> None:
    """Do several things at once in the session; what one of them raises is raised."""
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(run.bind(part)) for part in work]:
            done.result(BOUND)


def ends(run: Run) -> list[str]:
    return [str(proposal.end or "pending") for proposal in proposed(run)]


def entries(run: Run) -> list[tuple[str, dict[str, Any]]]:
    return [(execution.call.name, dict(execution.call.arguments)) for execution in executed(run)]


def failing(card: PermissionCard) -> list[str]:
    return [finding.kind for finding in card.reconciliation if finding.fails]


def shares(card: PermissionCard) -> tuple[int, int, int, int]:
    """Authorized and total, of the planner check and of the execution check."""
    planner, execution = card.planner, card.execution
    return planner.authorized, planner.total, execution.authorized, execution.total
