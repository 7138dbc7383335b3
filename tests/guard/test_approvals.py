"""A yes: to these arguments, for so long, so often, and by nobody but the one who was asked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gatescore import ApprovalRequest, Policy, ToolDenied
from gatescore.testing import RecordingGuard
from tests.guard.seen import executed, proposed


def asking(approver: Callable[[ApprovalRequest], Any], attempts: int = 1, **options: Any) -> RecordingGuard:
    rule: dict[str, Any] = {"id": "ask", "ask": "tool"}
    if attempts > 1:
        rule["approval"] = {"attempts": attempts}
    guard = RecordingGuard(Policy(rules=[rule]), approver=approver, **options)
    guard.wrap(lambda x=0: x, name="tool")
    return guard


@pytest.mark.parametrize(("attempts", "asked"), [(1, 3), (2, 2), (3, 1)])
def test_a_yes_covers_as_many_entries_of_one_call_as_the_rule_says(attempts: int, asked: int):
    questions: list[ApprovalRequest] = []

    def person(request: ApprovalRequest) -> bool:
        questions.append(request)
        return True

    guard = asking(person, attempts)
    with guard.session() as run:
        for _ in range(3):
            guard.call("tool", {"x": 1}, call_id="c")
    assert asked == len(questions)
    assert [1, 2, 3] == [execution.attempt for execution in executed(run)]
    assert run.score().execution.passed


def test_a_yes_ends_after_its_time():
    questions: list[ApprovalRequest] = []

    def person(request: ApprovalRequest) -> bool:
        questions.append(request)
        return True

    guard = asking(person, 5, approval_ttl=0.01)
    with guard.session():
        guard.call("tool", call_id="c")
        time.sleep(0.02)
        guard.call("tool", call_id="c")
    assert 2 == len(questions)


def test_arguments_that_change_while_a_person_is_asked_are_not_agreed_to():
    """Case F01: the approver sees one amount, and another one would run."""
    given = {"price": 900}

    def person(request: ApprovalRequest) -> bool:
        given["price"] = 450
        return True

    guard = RecordingGuard(Policy(rules=[{"id": "ask", "ask": "set_price"}]), approver=person)
    tool = guard.wrap(lambda order: order, name="set_price")
    with guard.session() as run, pytest.raises(ToolDenied, match="the arguments changed"):
        tool(given)
    guard.assert_not_entered("set_price")
    assert ["rejected"] == [proposal.end for proposal in proposed(run)]


def test_a_yes_to_another_request_is_none():
    """Case F02."""
    kept: list[Any] = []

    def person(request: ApprovalRequest) -> Any:
        kept.append(request.approve())
        return kept[0]

    guard = asking(person)
    with guard.session():
        assert 1 == guard.call("tool", {"x": 1})
        with pytest.raises(ToolDenied, match="one to another request"):
            guard.call("tool", {"x": 2})


@pytest.mark.parametrize("how", ["sync", "async", "sync approver of an async tool"])
def test_a_person_who_never_answers_says_no(how: str):
    gate = threading.Event()

    def silent(request: ApprovalRequest) -> bool:
        return gate.wait(30)

    async def silent_async(request: ApprovalRequest) -> bool:
        await asyncio.sleep(30)
        return True

    guard = RecordingGuard(
        Policy(rules=[{"id": "ask", "ask": "tool"}]),
        approver=silent_async if how == "async" else silent,
        approval_timeout=0.02,
    )

    async def coroutine() -> None: ...

    began = time.monotonic()
    with guard.session() as run:
        if how == "sync":
            with pytest.raises(ToolDenied, match="nobody answered within"):
                guard.wrap(lambda: None, name="tool")()
        else:
            with pytest.raises(ToolDenied, match="nobody answered within"):
                asyncio.run(guard.wrap(coroutine, name="tool")())
    gate.set()
    assert time.monotonic() - began < 20  # a bound against hanging, far from the time-out
    assert ["expired"] == [proposal.end for proposal in proposed(run)]


def test_an_async_approver_of_a_synchronous_tool_inside_a_loop_says_what_to_do():
    async def person(request: ApprovalRequest) -> bool:
        return True

    guard = asking(person)

    async def main() -> None:
        guard.call("tool")

    with pytest.raises(ToolDenied, match="make the tool async, or the approver synchronous"):
        asyncio.run(main())


def test_a_denied_call_is_never_asked_about():
    """Cases F08 and F11: hard rules first, and nobody is asked about what is harmless."""
    asked: list[str] = []

    def person(request: ApprovalRequest) -> bool:
        asked.append(request.tool)
        return True

    policy = Policy(
        rules=[
            {"id": "read", "allow": "read_x"},
            {"id": "write", "ask": "write_x"},
            {"id": "no", "deny": "write_x", "args": {"path": {"pattern": "^/ro/"}}},
            {"id": "drop", "deny": "drop_x"},
        ]
    )
    guard = RecordingGuard(policy, approver=person)
    for name in ("read_x", "write_x", "drop_x"):
        guard.wrap(lambda path="/rw": path, name=name)
    with guard.session():
        for _ in range(200):
            guard.call("read_x")
        guard.call("write_x")
        for name, arguments in (("drop_x", {}), ("write_x", {"path": "/ro/x"})):
            with pytest.raises(ToolDenied):
                guard.call(name, arguments)
    assert ["write_x"] == asked


def test_a_call_that_cannot_be_read_can_never_be_approved():
    """Case F06."""
    guard = asking(lambda request: True)
    with guard.session(), pytest.raises(ToolDenied):
        guard.call("tool", '{"x": ')
    guard.assert_not_entered("tool")


def test_a_deny_that_appears_while_a_person_is_asked_holds():
    """Hard rules run before a person is asked, and again before the call runs."""
    policy = Policy(
        rules=[
            {"id": "other", "allow": "other"},
            {"id": "ask", "ask": "tool"},
            {"id": "not-after-other", "deny": "tool", "after": {"tool": "other"}},
        ]
    )

    def person(request: ApprovalRequest) -> bool:
        guard.call("other")
        return True

    guard = RecordingGuard(policy, approver=person)
    guard.wrap(lambda: None, name="other")
    guard.wrap(lambda: None, name="tool")
    with guard.session() as run, pytest.raises(ToolDenied):
        guard.call("tool")
    guard.assert_not_entered("tool")
    assert ["denied_at_entry"] == [finding.kind for finding in run.score().reconciliation]
