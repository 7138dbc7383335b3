"""Calls through a guard: arguments, ids, attempts, denials, failures of the guard itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import gatescore
from gatescore import Guard, Policy, Refusal, ToolDenied, guarded_tool
from gatescore.guard import GuardError
from gatescore.guard import docket as docket_module
from gatescore.model import Finished, Outcome, Proposed, Started
from gatescore.testing import RecordingGuard, ScriptedProposals
from tests.guard.seen import executed, proposed, record


def guard_of(*allowed: str, **options: Any) -> RecordingGuard:
    return RecordingGuard(Policy(allowed_tools=list(allowed)), **options)


def test_defaults_and_positional_arguments_are_judged_by_name():
    """FIELD 8: `refund(order_id)` with a default amount over the cap."""
    policy = Policy(rules=[{"id": "small", "allow": "refund", "args": {"amount": {"maximum": 100}, "*": {}}}])
    guard = RecordingGuard(policy)

    @guarded_tool(guard=guard)
    def refund(order_id: str, amount: int = 9999) -> str:
        return f"{order_id} {amount}"

    for call in (lambda: refund("1"), lambda: refund("1", 9999), lambda: refund("1", amount=101)):
        with pytest.raises(ToolDenied):
            call()
    assert "1 5" == refund("1", 5)
    assert [{"order_id": "1", "amount": 5}] == guard.entries("refund")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((), {"x": 1, "unknown": 2})],
)
def test_a_call_that_does_not_fit_the_tool_is_denied_and_is_the_type_error_that_it_would_be(
    args: tuple[int, ...], kwargs: dict[str, int]
):
    guard = guard_of("tool")
    tool = guard.wrap(lambda x, y=1: x, name="tool")
    with pytest.raises(ToolDenied) as caught:
        tool(*args, **kwargs)
    assert isinstance(caught.value, TypeError)
    guard.assert_not_entered("tool")


def test_a_name_that_is_parameter_and_extra_keyword_is_denied():
    guard = guard_of("tool")

    @guarded_tool(guard=guard, name="tool")
    def tool(x: int, /, **more: int) -> int:
        raise AssertionError

    with pytest.raises(ToolDenied, match="both a parameter and an extra keyword"):
        tool(1, x=2)


def test_rest_and_extra_arguments_reach_the_tool_and_the_record():
    guard = guard_of("tool")
    tool = guard.wrap(lambda first, *rest, flag=False, **more: (first, rest, flag, more), name="tool")
    assert (1, (2, 3), True, {"z": 4}) == tool(1, 2, 3, flag=True, z=4)
    assert [{"first": 1, "rest": [2, 3], "flag": True, "z": 4}] == guard.entries("tool")
    assert (1, (2,), False, {"z": 3}) == guard.call("tool", {"first": 1, "rest": [2], "z": 3})


def test_a_tool_that_changes_its_arguments_does_not_change_the_record():
    guard = guard_of("call_api")

    @guarded_tool(guard=guard)
    def call_api(params: dict[str, str]) -> None:
        params["added"] = "SECRET"

    given = {"path": "/safe"}
    call_api(given)
    assert {"path": "/safe", "added": "SECRET"} == given
    assert [{"params": {"path": "/safe"}}] == guard.entries("call_api")


def test_one_host_id_is_one_call_and_its_entries_are_attempts():
    guard = guard_of("tool")
    guard.wrap(lambda x: x, name="tool")
    with guard.session() as run:
        assert [1, 1] == [guard.call("tool", {"x": 1}, call_id="c1") for _ in range(2)]
        assert 1 == guard.call("tool", {"x": 1}, call_id="c2")
    assert 2 == len(proposed(run))
    assert [1, 2, 1] == [execution.attempt for execution in executed(run)]
    assert 2 == len({execution.call.call_id for execution in executed(run)})


def test_proposals_of_a_message_are_judged_before_any_runs_and_joined_by_id():
    policy = Policy(rules=[{"id": "six", "allow": "search", "limit": {"executions": 6}}])
    guard = RecordingGuard(policy)

    @guarded_tool(guard=guard)
    def search(q: int) -> int:
        return q

    script = ScriptedProposals([{"id": f"c{n}", "name": "search", "arguments": {"q": n}} for n in range(8)])
    with guard.session() as run:
        results = script.play(run)
    assert [0, 1, 2, 3, 4, 5] == results[:6]
    assert all(isinstance(result, Refusal) for result in results[6:])
    card = run.score()
    assert (0.75, 8) == (card.planner.score, card.planner.total)
    assert (1.0, 6) == (card.execution.score, card.execution.total)


def test_a_decorated_tool_called_by_hand_joins_the_waiting_proposal():
    guard = guard_of("get_order")

    @guarded_tool(guard=guard)
    def get_order(order_id: str, full: bool = False) -> str:
        return order_id

    with guard.session() as run:
        run.propose([{"id": "a", "name": "get_order", "arguments": '{"order_id": "814"}'}])
        get_order("814")
    assert ["inferred"] == [execution.join for execution in executed(run)]
    assert 1 == len(proposed(run))


@pytest.mark.parametrize(
    "text",
    [
        '{"table": "t", "where": "id=8',
        '{"a": 1, "a": 2}',
        '{"daily": NaN}',
        '{"x": 1e999}',
        "[1,2,3]",
        '"{}"',
        "{} {}",
    ],
)
def test_arguments_that_are_not_valid_json_are_an_invalid_proposal(text: str):
    guard = guard_of("tool")
    guard.wrap(lambda **more: more, name="tool")
    with guard.session() as run, pytest.raises(ToolDenied):
        guard.call("tool", text)
    [proposal] = proposed(run)
    assert "invalid" == proposal.end
    assert text == proposal.call.raw
    assert [] == list(executed(run))


def test_a_tool_that_nobody_wrapped_is_on_record_and_refused():
    guard = guard_of("*")
    with guard.session() as run, pytest.raises(ToolDenied, match="no tool `other` is known"):
        guard.call("other", {})
    assert 1 == run.score().planner.total


def test_two_tools_may_not_share_a_name():
    guard = guard_of("tool")

    def one() -> None: ...

    def two() -> None: ...

    guard.wrap(one, name="tool")
    with pytest.raises(GuardError, match="two tools have the name `tool`"):
        guard.wrap(two, name="tool")


@pytest.mark.parametrize("mode", ["enforce", "monitor"])
def test_a_failure_of_the_engine_is_a_denial_and_in_monitor_mode_no_hindrance(
    monkeypatch: pytest.MonkeyPatch, mode: str
):
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(docket_module, "decide", broken)
    guard = guard_of("tool", mode=mode)
    tool = guard.wrap(lambda: "ran", name="tool")
    if mode == "monitor":
        assert "ran" == tool()
    else:
        with pytest.raises(ToolDenied, match="the guard failed: `RuntimeError`"):
            tool()


def test_on_deny_return_gives_a_text_for_the_model():
    guard = guard_of("other", on_deny="return")
    refusal = guard.wrap(lambda: "ran", name="tool")()
    assert isinstance(refusal, Refusal)
    assert "`tool` was refused: no rule allows it" == refusal


def test_the_exception_of_a_tool_is_its_own_and_the_record_says_failed():
    guard = guard_of("tool")

    def tool() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        guard.wrap(tool)()
    [execution] = guard.executions
    assert ("failed", "KeyError") == (execution.outcome, execution.error_type)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(TimeoutError, "unfinished"), (KeyboardInterrupt, "cancelled"), (asyncio.CancelledError, "cancelled")],
)
def test_a_time_out_may_have_taken_effect_and_an_interruption_is_no_failure(
    error: type[BaseException], outcome: str
):
    guard = guard_of("tool")

    def tool() -> None:
        raise error

    with pytest.raises(error):
        guard.wrap(tool)()
    assert [outcome] == [execution.outcome for execution in guard.executions]


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"isError": True}, "failed"),
        ((False, "msg"), "succeeded"),
        ("error", "succeeded"),
        (None, "succeeded"),
    ],
)
def test_a_result_that_says_that_it_is_an_error_failed(result: object, outcome: str):
    """Case G13: no guessing from text."""
    guard = guard_of("tool")
    guard.wrap(lambda: result, name="tool")()
    assert [outcome] == [execution.outcome for execution in guard.executions]


def test_calls_made_inside_a_body_are_nested():
    guard = guard_of("outer", "inner")
    inner = guard.wrap(lambda: 1, name="inner")
    outer = guard.wrap(lambda: inner() + 1, name="outer")
    with guard.session() as run:
        assert 2 == outer()
    assert ["caller", "nested"] == [proposal.origin for proposal in proposed(run)]


def test_a_session_that_is_opened_again_goes_on_with_its_limits():
    guard = RecordingGuard(Policy(rules=[{"id": "once", "allow": "pay", "limit": {"executions": 1}}]))
    pay = guard.wrap(lambda: "paid", name="pay")
    with guard.session("conv"):
        pay()
    with guard.session("conv") as run, pytest.raises(ToolDenied, match="limit of 1 execution"):
        pay()
    assert run.score().execution.passed


def test_a_session_may_not_change_its_principal():
    guard = guard_of("tool")
    with guard.session("conv", principal="user:1"):
        pass
    with pytest.raises(GuardError, match="another principal"), guard.session("conv", principal="user:2"):
        pass


def test_a_call_outside_of_a_session_knows_nothing_of_the_past():
    guard = RecordingGuard(Policy(rules=[{"id": "once", "allow": "pay", "limit": {"executions": 9}}]))
    with pytest.raises(ToolDenied):
        guard.wrap(lambda: "paid", name="pay")()


def test_the_bare_decorator_takes_the_guard_of_the_session_or_the_one_in_use():
    @guarded_tool
    def tool() -> str:
        return "ran"

    with pytest.raises(ToolDenied, match="no guard is in charge"):
        tool()
    with gatescore.use(guard_of("tool")):
        assert "ran" == tool()
        with guard_of("other").session(), pytest.raises(ToolDenied):
            tool()
    with pytest.raises(ToolDenied, match="no guard is in charge"):
        tool()


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_parallel_calls_never_overshoot_a_limit(how: str):
    """FIELD 4 and 5: five at once against a limit of two."""
    policy = Policy(rules=[{"id": "two", "allow": "tool", "limit": {"executions": 2}}])
    guard = Guard(policy)
    entered: list[int] = []
    sync = guard.wrap(entered.append, name="tool")

    async def body(n: int) -> None:
        entered.append(n)
        await asyncio.sleep(0)

    task = Guard(policy).wrap(body, name="tool")
    for _ in range(100):
        entered.clear()
        if how == "threads":
            gate = threading.Barrier(5)

            def call(n: int, gate: threading.Barrier = gate) -> None:
                gate.wait()
                with contextlib.suppress(ToolDenied):
                    sync(n)

            with guard.session() as run, ThreadPoolExecutor(5) as pool:
                list(pool.map(run.bind(call), range(5)))
        else:
            asyncio.run(_all(task))
        assert 2 == len(entered)


async def _all(task: Callable[[int], Any]) -> None:
    guard: Guard = task._self_guard  # type: ignore[attr-defined]
    with guard.session():
        await asyncio.gather(*(task(n) for n in range(5)), return_exceptions=True)


def test_a_generator_is_entered_at_its_first_step_and_closed_when_its_reader_stops():
    """Cases G11 and FIELD 7."""
    guard = guard_of("numbers")

    @guarded_tool(guard=guard)
    def numbers() -> Any:
        yield 1
        yield 2

    with guard.session() as run:
        unread = numbers()
        stopped = numbers()
        assert 1 == next(stopped)
        stopped.close()
        assert [1, 2] == list(numbers())
    assert unread is not None
    assert 3 == len(proposed(run))
    assert ["cancelled", "succeeded"] == [execution.outcome for execution in executed(run)]


def test_a_coroutine_that_is_never_awaited_leaves_no_record():
    guard = guard_of("tool")

    async def tool() -> None: ...

    guard.wrap(tool)().close()
    assert [] == guard.proposals


def test_an_event_has_its_place_and_time_without_a_gap():
    guard = guard_of("tool")
    tool = guard.wrap(lambda: 1, name="tool")
    with guard.session() as run:
        tool()
        tool()
    events = record(run).events
    assert list(range(len(events))) == [event.sequence for event in events]
    times = [event.time or 0 for event in events]
    assert sorted(times) == times
    assert {Proposed, Started, Finished} <= {type(event) for event in events}
    assert Outcome.SUCCEEDED is next(e for e in events if isinstance(e, Finished)).outcome


def test_a_wrapper_with_defaults_of_its_own_is_judged_by_them():
    """`functools.wraps` lends it another signature; what runs is the wrapper."""
    policy = Policy(rules=[{"id": "small", "allow": "refund", "args": {"amount": {"maximum": 100}}}])
    guard = RecordingGuard(policy)

    def refund(order_id: str, amount: int = 1) -> int:
        return amount

    @functools.wraps(refund)
    def wrapper(order_id: str, amount: int = 9999) -> int:
        return refund(order_id, amount)

    @functools.wraps(refund)
    def passes_on(*args: Any, **kwargs: Any) -> int:
        return refund(*args, **kwargs)

    with pytest.raises(ToolDenied):
        guard.wrap(wrapper)("1")
    guard.assert_not_entered("refund")
    assert 1 == RecordingGuard(policy).wrap(passes_on)("1")


def test_one_host_id_with_other_arguments_is_another_call():
    guard = guard_of("tool")
    guard.wrap(lambda x: x, name="tool")
    with guard.session() as run:
        assert [1, 2, 1] == [guard.call("tool", {"x": x}, call_id="call_1") for x in (1, 2, 1)]
    assert [1, 1, 2] == [execution.attempt for execution in executed(run)]
    assert [] == list(run.score().reconciliation)


def test_every_denied_call_is_on_record_also_under_one_host_id():
    policy = Policy(
        rules=[{"id": "stop", "deny": "write", "limit": {"proposals": 3, "then": "stop"}}], default="deny"
    )
    guard = RecordingGuard(policy)
    guard.wrap(lambda: None, name="write")
    with guard.session() as run:
        for _ in range(5):
            with pytest.raises(ToolDenied):
                guard.call("write", call_id="c")
        assert run.stopped
    assert 5 == run.score().planner.total


def test_two_equal_proposals_are_entered_one_each():
    guard = guard_of("tool")
    tool = guard.wrap(lambda x: x, name="tool")
    with guard.session() as run:
        run.propose([{"name": "tool", "arguments": {"x": 1}}, {"name": "tool", "arguments": {"x": 1}}])
        tool(1)
        tool(1)
    assert ["executed", "executed"] == [proposal.end for proposal in proposed(run)]
    assert [1, 1] == [execution.attempt for execution in executed(run)]


def test_an_edit_keeps_where_the_call_came_from_and_shows_what_was_edited():
    guard = RecordingGuard(
        Policy(rules=[{"id": "ask", "ask": "tool"}]),
        approver=lambda request: request.edit({"x": 2}, by="ann"),
    )
    guard.wrap(lambda x, y=0: x, name="tool")
    with guard.session() as run:
        assert 2 == run.propose([{"name": "tool", "arguments": {"x": 1}}])[0].run()
    first, second = proposed(run)
    assert ("model", "model") == (first.origin, second.origin)
    assert ({"x": 2, "y": 0}, None, first.call.call_id) == (
        second.call.arguments,
        second.call.raw,
        second.edited_from,
    )
    card = run.score()
    assert "model" == card.planner.basis
    assert ["edited"] == [finding.kind for finding in card.reconciliation]
    assert card.execution.passed


def test_the_person_reads_the_reason_of_the_rule_that_asks_at_the_entry():
    asked: list[str] = []

    def person(request: Any) -> bool:
        asked.append(request.reason)
        return True

    policy = Policy(
        rules=[
            {"id": "allow", "allow": ["first", "second"]},
            {"id": "ask", "ask": "second", "after": {"tool": "first"}, "reason": "Twice needs a person."},
        ]
    )
    guard = RecordingGuard(policy, approver=person)
    guard.wrap(lambda: 1, name="first")
    guard.wrap(lambda: 2, name="second")
    with guard.session() as run:
        first, second = run.propose([{"name": "first"}, {"name": "second"}])
        assert [1, 2] == [first.run(), second.run()]
    assert ["Twice needs a person."] == asked
    assert run.score().execution.passed


@pytest.mark.parametrize("function", [functools.partial(int, "1"), lambda: 2])
def test_two_different_callables_may_not_share_a_name(function: Callable[..., Any]):
    guard = guard_of("tool")
    guard.wrap(functools.partial(int, "2"), name="tool")
    with pytest.raises(GuardError, match="two tools have the name `tool`"):
        guard.wrap(function, name="tool")


def test_a_name_that_two_servers_have_is_no_name_to_call():
    guard = guard_of("mcp:a/tool", "mcp:b/tool")
    guard.wrap(lambda: "a", name="tool", server="a")
    guard.wrap(lambda: "b", name="tool", server="b")
    with pytest.raises(ToolDenied, match="more than one server"):
        guard.call("tool")
    assert "b" == guard.call("mcp:b/tool")


def test_a_guard_that_fails_at_a_generators_entry_denies(monkeypatch: pytest.MonkeyPatch):
    guard = guard_of("tool")

    def tool() -> Any:
        yield 1

    made = guard.wrap(tool)()

    def broken(*args: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(docket_module.Docket, "enter", broken)
    with pytest.raises(ToolDenied, match="the guard failed: `RuntimeError`"):
        next(made)


def test_a_record_that_cannot_be_closed_does_not_reach_the_caller(monkeypatch: pytest.MonkeyPatch):
    guard = guard_of("tool")

    def broken(*args: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(docket_module.Docket, "finish", broken)
    with guard.session() as run:
        assert "ran" == guard.wrap(lambda: "ran", name="tool")()
    assert "incomplete" == run.score().execution.status


def test_a_closure_made_again_is_the_same_tool_and_another_one_of_its_name_is_not():
    guard = guard_of("tool")

    def factory(value: int) -> Callable[[], int]:
        return lambda: value

    for value in (1, 2):
        guard.wrap(factory(value), name="tool")
    assert 2 == guard.call("tool")
    with pytest.raises(GuardError, match="two tools have the name `tool`"):
        guard.wrap(lambda: 3, name="tool")
    first, second = (lambda: 4), (lambda: 5)
    guard.wrap(first, name="more")
    with pytest.raises(GuardError, match="two tools have the name `more`"):
        guard.wrap(second, name="more")


def test_calls_with_one_id_that_come_at_the_same_time_are_attempts_of_one_call():
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))
    guard.wrap(lambda x: x, name="tool")
    for _ in range(50):
        gate = threading.Barrier(6)

        def enter(gate: threading.Barrier = gate) -> None:
            gate.wait(30)
            guard.call("tool", {"x": 1}, call_id="c1")

        with guard.session() as run, ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(run.bind(enter)) for _ in range(6)]:
                done.result(30)
        assert 1 == len(proposed(run))
        assert [1, 2, 3, 4, 5, 6] == [execution.attempt for execution in executed(run)]


def test_arguments_that_are_no_mapping_but_have_fields_are_judged_and_given_by_name():
    @dataclass
    class Given:
        order_id: str

    guard = RecordingGuard(Policy(allowed_tools=["tool"]))
    guard.wrap(lambda order_id: order_id, name="tool")
    assert "814" == guard.call("tool", Given("814"))
    assert [{"order_id": "814"}] == guard.entries("tool")


def test_a_default_that_cannot_be_judged_is_a_refusal_on_the_record():
    guard = RecordingGuard(Policy(allowed_tools=["tool"]))
    guard.wrap(lambda order_id, limit=float("nan"): order_id, name="tool")
    with pytest.raises(ToolDenied):
        guard.call("tool", {"order_id": "814"})
    assert ["invalid"] == [proposal.end for proposal in guard.proposals]
