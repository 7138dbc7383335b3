"""Sessions: opened again, outlived by their calls, changed, shared; none is left open, none loses its limits."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Generator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Guard, Policy, ToolDenied
from gatescore.guard import guard as guard_module
from gatescore.testing import RecordingGuard
from gatescore.traces import read_sessions
from tests.guard.seen import executed, proposed, record


def per_principal(units: int, **more: Any) -> Policy:
    limit = {"executions": units, "per": "principal", **more}
    return Policy(rules=[{"id": "limited", "allow": "pay", "limit": limit}])


def paid(guard: Guard, principal: str, session_id: str | None = None, times: int = 1) -> int:
    count = 0
    with guard.session(session_id, principal=principal):
        for _ in range(times):
            try:
                guard.call("pay")
            except ToolDenied:
                continue
            count += 1
    return count


@pytest.mark.parametrize("more", [{}, {"window": "1h"}])
@pytest.mark.parametrize("session_id", ["conv", None])
def test_a_budget_of_a_principal_is_spent_once_however_often_sessions_are_opened(
    session_id: str | None, more: dict[str, str]
):
    guard = Guard(per_principal(3, **more))
    guard.wrap(lambda: None, name="pay")
    assert [1, 1, 1, 0] == [paid(guard, "user:1", session_id) for _ in range(4)]
    assert 3 == paid(guard, "user:2", times=5)


def test_a_budget_of_a_principal_outlives_the_sessions_that_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard_module, "_REMEMBERED", 1)
    guard = Guard(per_principal(3))
    guard.wrap(lambda: None, name="pay")
    assert [1, 1, 1, 0] == [paid(guard, "user:1", f"conv-{number}") for number in range(4)]


def spans_of(policy: Policy, **options: Any) -> tuple[RecordingGuard, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return RecordingGuard(policy, tracer_provider=provider, **options), exporter


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_a_call_that_outlives_its_session_is_on_record_and_leaves_nothing_open(effect: str):
    guard, exporter = spans_of(Policy(rules=[{"id": "r", effect: "tool"}], default="deny"))
    guard.wrap(lambda: "ran", name="tool")
    with guard.session() as run:
        [call] = run.propose([{"name": "tool"}])
    if effect == "allow":
        assert "ran" == call.run()
    else:
        with pytest.raises(ToolDenied):
            call.run()
    assert () == record(run).missing
    [session] = read_sessions(exporter)
    assert session.record is not None
    assert () == session.record.missing
    assert record(run).events[-1].sequence == session.record.events[-1].sequence


def test_a_task_that_outlives_its_session_keeps_its_limits():
    policy = Policy(rules=[{"id": "once", "allow": "tool", "limit": {"executions": 1}}])
    guard, exporter = spans_of(policy)
    tool = guard.wrap(lambda: "ran", name="tool")

    async def late() -> None:
        await asyncio.sleep(0.01)
        with pytest.raises(ToolDenied, match="limit of 1 execution"):
            tool()

    async def main() -> None:
        with guard.session():
            tool()
            task = asyncio.create_task(late())
        await task

    asyncio.run(main())
    [session] = read_sessions(exporter)
    assert session.record is not None
    assert () == session.record.missing


def test_a_call_that_is_cancelled_while_a_person_is_asked_leaves_no_session_open():
    async def never(request: object) -> None:
        await asyncio.sleep(99)

    guard = RecordingGuard(Policy(rules=[{"id": "ask", "ask": "tool"}]), approver=never)

    async def tool() -> None: ...

    async def main() -> None:
        task = asyncio.create_task(guard.wrap(tool)())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    [session] = guard.sessions
    assert session.record is not None
    assert () == session.record.missing
    guard.assert_not_entered("tool")


def test_the_attributes_given_on_opening_again_take_the_place_of_the_former_ones():
    """A right that a session had must not stay because nobody mentions it any more."""
    guard = Guard(Policy(allowed_tools=["tool"]))
    with guard.session("conv", attributes={"tier": "gold", "admin": True}):
        pass
    with guard.session("conv", attributes={"tier": "gold"}) as run:
        assert {"tier": "gold"} == run.attributes
    with guard.session("conv") as run:
        assert {"tier": "gold"} == run.attributes


def test_attributes_changed_after_the_end_leave_no_session_open():
    guard = Guard(Policy(allowed_tools=["tool"]))
    with guard.session() as run:
        run.update(tier="gold")
    run.update(tier="silver")
    assert {"tier": "silver"} == run.attributes
    assert () == record(run).missing


def test_sessions_that_are_left_in_another_order_stay_what_they_are():
    """Each `with` block of a generator, or of an exit stack, ends when it ends."""
    guard = Guard(Policy(allowed_tools=["tool"]))
    tool = guard.wrap(lambda: None, name="tool")
    one, two, three = (guard.session(name) for name in ("one", "two", "three"))
    runs = [session.__enter__() for session in (one, two, three)]
    two.__exit__(None, None, None)
    tool()
    one.__exit__(None, None, None)
    tool()
    three.__exit__(None, None, None)
    tool()
    assert [0, 0, 2] == [len(executed(run)) for run in runs]
    assert [(), (), ()] == [record(run).missing for run in runs]


def test_a_session_that_ends_in_another_context_takes_no_other_one_with_it():
    guard = Guard(Policy(allowed_tools=["tool"]))
    tool = guard.wrap(lambda: None, name="tool")
    stray = guard.session("stray")
    contextvars.copy_context().run(stray.__enter__)
    with guard.session("own") as own:
        stray.__exit__(None, None, None)
        tool()
    assert 1 == len(executed(own))


def test_a_call_that_outlives_its_generator_does_not_hide_the_session():
    """Two generators inside of each other, ended in the wrong order, leave no call behind as the current one."""
    guard = Guard(Policy(allowed_tools=["items", "tool"]))

    @guard.wrap
    def items() -> Generator[int, None, None]:
        yield 1
        yield 2

    tool = guard.wrap(lambda: None, name="tool")
    with guard.session() as run:
        first, second = items(), items()
        next(first)
        next(second)
        first.close()
        second.close()
        tool()
    assert ["caller"] * 3 == [str(proposal.origin) for proposal in proposed(run)]
