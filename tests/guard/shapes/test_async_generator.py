"""Async generator functions, and functions that return such: judged when called, entered at the first step."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from gatescore import Refusal, guarded_tool
from gatescore.testing import RecordingGuard
from tests.guard.shape_helpers import BROKE, ENTERED, Broke, Contract, Decorate, allowing, body, denying


@guarded_tool
async def portable(order_id: str, notify: bool = True) -> AsyncIterator[object]:
    body(order_id, notify)
    yield order_id
    yield notify


class TestAsyncGenerator(Contract):
    several = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        async def tool(order_id: str, notify: bool = True) -> AsyncIterator[object]:
            """Cancel an order."""
            body(order_id, notify)
            await asyncio.sleep(0)
            yield order_id
            yield notify

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        async def tool(
            first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
        ) -> AsyncIterator[object]:
            yield first, second, rest, flag, more

        return tool

    def portable(self) -> Any:
        return portable

    def test_one_that_is_never_started_is_proposed_and_not_entered(self):
        guard = allowing()
        made = self.made(guarded_tool(guard=guard, name="tool"))("814")
        asyncio.run(made.aclose())
        assert ([], 1, []) == (ENTERED, len(guard.proposals), guard.executions)


async def echo() -> AsyncIterator[Any]:
    """Gives back what is sent; says what is thrown; ends when it is sent ``"enough"``."""
    got: Any = "first"
    while got != "enough":
        try:
            got = yield got
        except KeyError as error:
            got = f"caught {error}"


def returned_by(function: Any) -> Any:
    def calling() -> Any:
        return function()

    return calling


SORTS: dict[str, Callable[[Any], Any]] = {
    "async generator function": lambda function: function,
    "function that returns an async generator": returned_by,
}

both_sorts = pytest.mark.parametrize("sort", SORTS)


def guarded(sort: str, function: Callable[..., Any]) -> tuple[RecordingGuard, Any]:
    guard = allowing()
    return guard, guard.wrap(SORTS[sort](function), name="tool")()


def ends(guard: RecordingGuard) -> list[tuple[str, str | None]]:
    return [(execution.outcome.value, execution.error_type) for execution in guard.executions]


def in_time(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


@both_sorts
def test_what_is_sent_and_thrown_reaches_it(sort: str):
    guard, made = guarded(sort, echo)

    async def main() -> list[Any]:
        items = [await anext(made), await made.asend("a"), await made.athrow(KeyError("x"))]
        items.append(await anext(made))
        with pytest.raises(StopAsyncIteration):
            await made.asend("enough")
        return items

    assert ["first", "a", "caught 'x'", None] == in_time(main())
    assert [("succeeded", None)] == ends(guard)


@both_sorts
def test_what_is_thrown_and_not_caught_comes_out_again(sort: str):
    guard, made = guarded(sort, echo)

    async def main() -> None:
        await anext(made)
        with pytest.raises(Broke) as caught:
            await made.athrow(BROKE)
        assert BROKE is caught.value
        with pytest.raises(StopAsyncIteration):
            await anext(made)

    in_time(main())
    assert [("failed", "Broke")] == ends(guard)


def cleaning(cleaned: list[str]) -> Callable[[], AsyncIterator[int]]:
    async def tool() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    return tool


@both_sorts
@pytest.mark.parametrize("stop", ["closed", "closed by another task", "left behind", "left to the loop"])
def test_one_that_is_not_read_to_its_end_is_cleaned_up_and_cancelled_on_record(
    sort: str, stop: str, caplog: pytest.LogCaptureFixture
):
    cleaned: list[str] = []
    guard, made = guarded(sort, cleaning(cleaned))
    held = [made]
    del made

    async def main() -> None:
        assert 1 == await anext(held[0])
        assert ([], [("unfinished", None)]) == (cleaned, ends(guard))
        if stop == "closed":
            await held[0].aclose()
        elif stop == "closed by another task":
            await asyncio.ensure_future(held[0].aclose())
        elif stop == "left behind":
            held.clear()
            gc.collect()
            for _ in range(20):  # the loop closes it in a task of its own
                await asyncio.sleep(0)
        # left to the loop: `asyncio.run` closes what is still open

    in_time(main())
    assert (["up"], [("cancelled", None)]) == (cleaned, ends(guard))
    assert [] == [entry.getMessage() for entry in caplog.records if entry.levelname == "ERROR"]
    assert guard.score().passed


@both_sorts
def test_a_reader_that_breaks_off_and_one_that_raises_stop_it_alike(sort: str):
    async def main(made: Any, raises: bool) -> None:
        async with contextlib.aclosing(made) as items:
            async for _ in items:
                if raises:
                    raise BROKE
                break

    for raises in (False, True):
        cleaned: list[str] = []
        guard, made = guarded(sort, cleaning(cleaned))
        with contextlib.suppress(Broke):
            in_time(main(made, raises))
        assert (["up"], [("cancelled", None)]) == (cleaned, ends(guard))


@both_sorts
def test_what_its_cleaning_up_raises_comes_out_and_is_on_record(sort: str):
    async def tool() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise BROKE

    guard, made = guarded(sort, tool)

    async def main() -> None:
        await anext(made)
        with pytest.raises(Broke) as caught:
            await made.aclose()
        assert BROKE is caught.value

    in_time(main())
    assert [("failed", "Broke")] == ends(guard)


@both_sorts
def test_a_task_that_is_cancelled_during_a_step_cancels_the_call(sort: str):
    cleaned: list[str] = []
    waiting: list[asyncio.Event] = []

    async def tool() -> AsyncIterator[int]:
        yield 1
        try:
            waiting[0].set()
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    guard, made = guarded(sort, tool)

    async def read() -> None:
        async for _ in made:
            pass

    async def main() -> None:
        waiting.append(asyncio.Event())
        task = asyncio.ensure_future(read())
        await waiting[0].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_time(main())
    assert (["up"], [("cancelled", "CancelledError")]) == (cleaned, ends(guard))


@both_sorts
def test_one_that_swallows_a_cancellation_goes_on(sort: str):
    waiting: list[asyncio.Event] = []

    async def tool() -> AsyncIterator[str]:
        try:
            waiting[0].set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "went on"

    guard, made = guarded(sort, tool)

    async def read() -> list[str]:
        return [item async for item in made]

    async def main() -> list[str]:
        waiting.append(asyncio.Event())
        task = asyncio.ensure_future(read())
        await waiting[0].wait()
        task.cancel()
        return await task

    assert ["went on"] == in_time(main())
    assert [("succeeded", None)] == ends(guard)


@both_sorts
def test_what_it_raises_after_an_item_comes_out_and_is_on_record(sort: str):
    async def tool() -> AsyncIterator[int]:
        yield 1
        raise BROKE

    guard, made = guarded(sort, tool)

    async def main() -> list[int]:
        return [item async for item in made]

    with pytest.raises(Broke) as caught:
        in_time(main())
    assert BROKE is caught.value
    assert [("failed", "Broke")] == ends(guard)


def test_one_that_goes_on_after_it_was_closed_is_told_so():
    guard = allowing()

    async def tool() -> AsyncIterator[int]:
        with contextlib.suppress(GeneratorExit):
            yield 1
        yield 2

    async def main() -> None:
        made = guard.wrap(tool)()
        await anext(made)
        with pytest.raises(RuntimeError, match="async generator ignored GeneratorExit"):
            await made.aclose()  # type: ignore[attr-defined]

    in_time(main())
    assert [("failed", "RuntimeError")] == ends(guard)


def test_a_refusal_is_the_only_item():
    async def main() -> list[Any]:
        return [item async for item in denying(on_deny="return").wrap(echo, name="tool")()]

    [refusal] = in_time(main())
    assert isinstance(refusal, Refusal)


def test_a_refusal_at_the_entry_is_the_only_item_too():
    guard = allowing(on_deny="return")
    entered: list[object] = []

    async def tool(given: list[object]) -> AsyncIterator[int]:
        entered.append(given)
        yield 1

    async def main() -> list[Any]:
        given: list[object] = []
        made = guard.wrap(tool)(given)
        given.append(float("nan"))
        return [item async for item in made]

    [refusal] = in_time(main())
    assert isinstance(refusal, Refusal)
    assert ("entry", [], []) == (refusal.moment, entered, guard.executions)


def test_two_that_are_read_in_turn_are_two_calls():
    guard = allowing()

    async def tool(n: int) -> AsyncIterator[int]:
        yield n
        await asyncio.sleep(0)
        yield n + 1

    async def main() -> list[int]:
        first, second = guarded_by(1), guarded_by(10)
        return [await anext(made) for made in (first, second, first, second)]

    guarded_by = guard.wrap(tool)
    assert [1, 10, 2, 11] == in_time(main())
    assert [{"n": 1}, {"n": 10}] == guard.entries("tool")
    assert ["caller", "caller"] == [proposal.origin for proposal in guard.proposals]
