"""What the events of a guard's record say, field by field, and what a refusal sets free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gatescore import ApprovalRequest, Policy, ToolDenied
from gatescore.guard import docket as docket_module
from gatescore.model import Action, Decided, Moment, Rejected
from gatescore.testing import RecordingGuard
from tests.guard.seen import executed, record


def guarding(document: dict[str, Any], **options: Any) -> RecordingGuard:
    guard = RecordingGuard(Policy.from_dict({"default": "deny", **document}), **options)
    for name in ("tool", "other"):
        guard.wrap(lambda **arguments: arguments, name=name)
    return guard


def called(guard: RecordingGuard, name: str = "tool", call_id: str | None = None, **arguments: Any) -> bool:
    try:
        guard.call(name, arguments, call_id=call_id)
    except ToolDenied:
        return False
    return True


def actions(document: dict[str, Any], **options: Any) -> list[tuple[Moment, Action | None]]:
    guard = guarding(document, **options)
    with guard.session() as run:
        called(guard)
    return [(event.moment, event.action) for event in record(run).events if isinstance(event, Decided)]


ALLOW, ASK, DENY = ({"rules": [{"id": "r", effect: "tool"}]} for effect in ("allow", "ask", "deny"))


def test_what_was_done_about_a_verdict_is_on_record():
    at_proposal, at_entry = Moment.PROPOSAL, Moment.ENTRY
    go = [(at_proposal, Action.EXECUTE), (at_entry, Action.EXECUTE)]
    assert go == actions(ALLOW)
    assert [(at_proposal, Action.BLOCK)] == actions(DENY)
    assert [(at_proposal, Action.PENDING)] == actions(ASK)
    yes = actions(ASK, approver=lambda request: True)
    assert [(at_proposal, Action.PENDING), (at_entry, Action.EXECUTE)] == yes
    for document in (ALLOW, ASK, DENY):
        assert go == actions(document, mode="monitor")


def test_a_denial_at_the_entry_is_recorded_as_blocked():
    document = {
        "rules": [{"id": "r", "allow": "*"}, {"id": "no", "deny": "tool", "after": {"tool": "other"}}]
    }
    guard = guarding(document)
    with guard.session() as run:
        [call] = run.propose([{"name": "tool"}])
        assert called(guard, "other")
        with pytest.raises(ToolDenied):
            call.run()
    last = [event for event in record(run).events if isinstance(event, Decided)][-1]
    assert (Moment.ENTRY, Action.BLOCK) == (last.moment, last.action)


def test_who_said_no_and_what_went_wrong_is_on_record():
    def rejected(answer: Callable[[ApprovalRequest], Any]) -> Rejected:
        guard = guarding(ASK, approver=answer)
        with guard.session() as run:
            assert not called(guard)
        [event] = [event for event in record(run).events if isinstance(event, Rejected)]
        return event

    no = rejected(lambda request: request.reject(by="ann"))
    assert ("ann", None, False) == (no.by, no.error, no.expired)
    wrong = rejected(lambda request: "yes")
    assert wrong.by is None
    assert "returned a `str`" in (wrong.error or "")
    nameless: Any = 7
    assert "none that" in (rejected(lambda request: request.approve(by=nameless)).error or "")


def test_where_the_default_asks_a_yes_covers_one_entry():
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    guard = guarding({"default": "ask", "rules": []}, approver=answer)
    with guard.session() as run:
        for _ in range(2):
            assert called(guard, call_id="c")
    assert (2, [True, True]) == (len(asked), [execution.approved for execution in executed(run)])


WIDE = {"executions": 1, "per": "tool"}


def test_what_a_denial_at_the_entry_had_reserved_is_free_for_other_sessions():
    limited = {"id": "r", "allow": "tool", "limit": WIDE}
    guard = guarding(
        {
            "rules": [
                limited,
                {"id": "o", "allow": "other"},
                {"id": "no", "deny": "tool", "after": {"tool": "other"}},
            ]
        }
    )
    with guard.session("a") as run:
        [call] = run.propose([{"name": "tool"}])
        with guard.session("b"):
            assert not called(guard)
        assert called(guard, "other")
        with pytest.raises(ToolDenied):
            call.run()
        with guard.session("b"):
            assert called(guard)


@pytest.mark.parametrize(("unit", "expected"), [("executions", False), ("calls", True)])
def test_a_retry_uses_an_execution_and_no_call_of_a_budget_that_sessions_share(unit: str, expected: bool):
    guard = guarding({"rules": [{"id": "r", "allow": "tool", "limit": {unit: 3, "per": "tool"}}]})
    with guard.session("a"):
        assert called(guard, call_id="c")
        assert called(guard, call_id="c")
    with guard.session("b"):
        assert called(guard)
        assert expected == called(guard)


def test_a_guard_that_fails_in_monitor_mode_stands_in_nobodys_way(monkeypatch: pytest.MonkeyPatch):
    guard = guarding(DENY, mode="monitor")

    def broken(*args: object, **options: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(docket_module.Docket, "submit", broken)
    with guard.session():
        assert {"x": 1} == guard.call("tool", {"x": 1})
