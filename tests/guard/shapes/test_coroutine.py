"""Coroutine functions, and functions that return coroutines or other awaitables: judged when they are awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from gatescore import Refusal, ToolDenied, guarded_tool
from tests.guard.shape_helpers import ENTERED, Contract, Decorate, allowing, body, denying


@guarded_tool
async def portable(order_id: str, notify: bool = True) -> str:
    return body(order_id, notify)


@guarded_tool(name="portable")
def portable_too(order_id: str, notify: bool = True) -> Any:
    async def work() -> str:
        return body(order_id, notify)

    return work()


class TestCoroutine(Contract):
    late = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        async def tool(order_id: str, notify: bool = True) -> str:
            """Cancel an order."""
            await asyncio.sleep(0)
            return body(order_id, notify)

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        async def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
            return first, second, rest, flag, more

        return tool

    def portable(self) -> Any:
        return portable

    def test_one_that_is_never_awaited_leaves_no_record(self):
        for guard in (allowing(), denying()):
            made = self.made(guarded_tool(guard=guard, name="tool"))("814")
            assert inspect.iscoroutine(made)
            made.close()
            assert [] == guard.sessions
        assert [] == ENTERED

    def test_one_that_is_cancelled_before_it_starts_leaves_no_record(self):
        guard = allowing()
        tool = self.made(guarded_tool(guard=guard, name="tool"))

        async def main() -> None:
            task = asyncio.ensure_future(tool("814"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert ([], []) == (ENTERED, guard.sessions)


class TestFunctionThatReturnsACoroutine(Contract):
    """Nothing tells that it is one: judged when it is called; the call lasts as long as what it returns."""

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(order_id: str, notify: bool = True) -> Any:
            """Cancel an order."""

            async def work() -> str:
                await asyncio.sleep(0)
                return body(order_id, notify)

            return work()

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int) -> Any:
            async def work() -> Any:
                return first, second, rest, flag, more

            return work()

        return tool

    def portable(self) -> Any:
        return portable_too


def made(decorate: Decorate) -> Any:
    return TestCoroutine().made(decorate)


def test_a_cancelled_call_is_on_record_as_such_and_the_cancellation_arrives():
    guard = allowing()
    started = asyncio.Event()
    cleaned: list[str] = []

    async def tool() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    async def main() -> None:
        task = asyncio.ensure_future(guard.wrap(tool)())
        await asyncio.wait_for(started.wait(), 30)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert ["up"] == cleaned
    [execution] = guard.executions
    assert ("cancelled", "CancelledError") == (execution.outcome, execution.error_type)


def test_a_cancellation_that_the_tool_swallows_is_a_success():
    guard = allowing()
    started = asyncio.Event()

    async def tool() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "went on"
        raise AssertionError

    async def main() -> str:
        task = asyncio.ensure_future(guard.wrap(tool)())
        await asyncio.wait_for(started.wait(), 30)
        task.cancel()
        return await task

    assert "went on" == asyncio.run(main())
    assert ["succeeded"] == [execution.outcome for execution in guard.executions]


def test_one_that_is_closed_while_it_waits_is_cancelled_on_record():
    guard = allowing()

    class Once:
        def __await__(self) -> Generator[str, None, None]:
            yield "waiting"

    async def tool() -> None:
        await Once()

    waiting = guard.wrap(tool)()
    assert "waiting" == waiting.send(None)
    assert ["unfinished"] == [execution.outcome for execution in guard.executions]
    waiting.close()
    [execution] = guard.executions
    assert ("cancelled", "GeneratorExit") == (execution.outcome, execution.error_type)


def test_calls_that_run_at_once_are_one_call_each():
    guard = allowing()

    async def tool(n: int) -> int:
        await asyncio.sleep(0)
        return n

    guarded = guard.wrap(tool)

    async def main() -> list[int]:
        return await asyncio.gather(*(guarded(n) for n in range(5)))

    with guard.session():
        assert [0, 1, 2, 3, 4] == asyncio.run(main())
    assert 5 == len({proposal.call.call_id for proposal in guard.proposals})
    assert ["caller"] * 5 == [proposal.origin for proposal in guard.proposals]
    assert ["succeeded"] * 5 == [execution.outcome for execution in guard.executions]


def test_denials_in_a_task_group_come_as_they_would_from_the_tool():
    guard = denying()
    guarded = made(guarded_tool(guard=guard, name="tool"))

    async def main() -> list[Any]:
        return list(await asyncio.gather(guarded("814"), guarded("815"), return_exceptions=True))

    assert [ToolDenied, ToolDenied] == [type(given) for given in asyncio.run(main())]
    assert [] == ENTERED


def test_an_awaitable_that_is_no_coroutine_is_given_as_it_is():
    guard = allowing()

    class Later:
        def __await__(self) -> Generator[None, None, str]:
            yield
            return "given"

    later = Later()
    assert later is guard.wrap(lambda: later, name="tool")()
    assert ["succeeded"] == [execution.outcome for execution in guard.executions]


def test_a_refused_coroutine_function_still_has_to_be_awaited():
    waiting = made(guarded_tool(guard=denying(on_deny="return"), name="tool"))("814")
    assert inspect.iscoroutine(waiting)
    assert isinstance(asyncio.run(waiting), Refusal)


def test_a_coroutine_function_that_is_bound_to_a_session_runs_in_it():
    """`Run.bind` carries the session to where the coroutine runs, not only to where it is made."""
    guard = allowing()
    tool = guarded_tool(name="tool")(lambda: "ran")
    results: list[Any] = []

    async def main() -> Any:
        await asyncio.sleep(0)
        return tool()

    def in_thread(work: Callable[[], Any]) -> None:
        try:
            results.append(asyncio.run(work()))
        except ToolDenied as denied:
            results.append(denied)

    with guard.session() as run:
        thread = threading.Thread(target=in_thread, args=(run.bind(main),))
        thread.start()
        thread.join(timeout=30)
    assert ["ran"] == results
    assert [run.id] == [session.id for session in guard.sessions if session.proposed]
