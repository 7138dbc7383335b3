"""Inputs on which other guards were seen to fail; each test names its row of the survey."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gatescore import Policy, ToolDenied
from gatescore.testing import RecordingGuard


def test_row_7_an_async_tool_that_raises_is_recorded_as_failed():
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))

    async def tool() -> None:
        await asyncio.sleep(0)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(guard.wrap(tool)())
    assert [("failed", "ValueError")] == [(e.outcome, e.error_type) for e in guard.executions]


def test_row_7_a_generator_that_nobody_reads_was_not_executed():
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))

    def tool() -> Any:
        yield 1

    with guard.session():
        made = guard.wrap(tool)()
        assert [] == guard.executions
        assert [1] == list(made)
    assert 1 == len(guard.executions)


def test_row_8_a_default_is_judged_like_an_argument():
    policy = Policy(rules=[{"id": "small", "allow": "refund", "args": {"amount": {"maximum": 100}}}])
    guard = RecordingGuard(policy)

    def refund(order_id: str, amount: int = 9999) -> str:
        return order_id

    with pytest.raises(ToolDenied):
        guard.wrap(refund)("1")
    guard.assert_not_entered("refund")


def said(answer: object) -> Any:
    def approver(request: object) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return approver


def called(tool: Any) -> Any:
    made = tool()
    return asyncio.run(made) if asyncio.iscoroutine(made) else made


async def no(request: object) -> bool:
    return False


async def denied(request: object) -> str:
    return "DENIED"


@pytest.mark.parametrize(
    "approver",
    [
        said("DENIED"),
        said("yes"),
        said(None),
        said(1),
        said({}),
        said(NotImplemented),
        said(PermissionError()),
        no,
        denied,
        None,
    ],
    ids=["DENIED", "yes", "None", "1", "{}", "NotImplemented", "raises", "async no", "async text", "nobody"],
)
@pytest.mark.parametrize("how", ["sync", "async"])
def test_row_14_an_approver_that_does_not_say_exactly_yes_says_no(approver: Any, how: str):
    """Case F05 too: None, 1, "yes", {} and NotImplemented are no answers."""
    guard = RecordingGuard(Policy(rules=[{"id": "ask", "ask": "wipe"}]), approver=approver)

    async def coroutine() -> None: ...

    plain: Any = lambda: None  # noqa: E731 - the shortest tool
    tool = guard.wrap(plain if how == "sync" else coroutine, name="wipe")
    with guard.session() as run, pytest.raises(ToolDenied):
        called(tool)
    guard.assert_not_entered("wipe")
    card = run.score()
    assert (1, 1, 0) == (card.planner.authorized, card.planner.total, card.execution.total)


async def yes(request: Any) -> object:
    return request.approve(by="ann")


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("approver", [said(True), yes])
def test_row_14_an_exact_yes_of_a_sync_or_async_approver_is_one(approver: Any, how: str):
    guard = RecordingGuard(Policy(rules=[{"id": "ask", "ask": "wipe"}]), approver=approver)

    async def coroutine() -> str:
        return "wiped"

    with guard.session() as run:
        if how == "sync":
            assert "wiped" == guard.wrap(lambda: "wiped", name="wipe")()
        else:
            assert "wiped" == asyncio.run(guard.wrap(coroutine, name="wipe")())
    assert run.score().execution.passed
