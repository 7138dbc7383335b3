"""What is current, the span and the session: round tasks that are cancelled, coroutines that move, and generators."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any

import pytest
from opentelemetry import trace

from gatescore import Policy, guarded_tool
from gatescore.testing import RecordingGuard
from tests.guard.traced import POLICY, Traced, logged, span_id

# Cancelled tasks


Call = Callable[[], Coroutine[Any, Any, None]]


async def cancelled(call: Call, started: asyncio.Event) -> None:
    task = asyncio.ensure_future(call())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def timed_out(call: Call, started: asyncio.Event) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await call()


async def beside_one_that_fails(call: Call, started: asyncio.Event) -> None:
    async def fails() -> None:
        await started.wait()
        raise KeyError

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(call())
            group.create_task(fails())

    with pytest.raises(BaseExceptionGroup):
        await together()


async def left_to_the_loop(call: Call, started: asyncio.Event) -> None:
    KEPT.append(asyncio.ensure_future(call()))
    await started.wait()


KEPT: list[object] = []
"""A task that nobody holds may be gone before the loop cancels it."""


@pytest.mark.parametrize("end", [cancelled, timed_out, beside_one_that_fails, left_to_the_loop])
@pytest.mark.parametrize("shape", ["coroutine", "async generator"])
def test_a_cancelled_call_ends_its_span_once_and_leaves_no_context_behind(
    end: Callable[[Call, asyncio.Event], Coroutine[Any, Any, None]],
    shape: str,
    caplog: pytest.LogCaptureFixture,
):
    traced = Traced()
    started: list[asyncio.Event] = []
    outside: list[bool] = []

    async def waits() -> None:
        started[0].set()
        await asyncio.Event().wait()

    async def items() -> AsyncIterator[None]:
        await waits()
        yield

    body: Any = waits if shape == "coroutine" else items
    tool = traced.guard.wrap(body, name="tool")

    async def call() -> None:
        before = span_id()
        try:
            made = tool()
            await (made if shape == "coroutine" else anext(made))
        finally:
            outside.append(before == span_id())

    async def main() -> None:
        started.append(asyncio.Event())
        with traced.tracer.start_as_current_span("of the user"):
            await end(call, started[0])

    asyncio.run(asyncio.wait_for(main(), 30))
    KEPT.clear()
    assert (["cancelled"], ["cancelled"]) == (
        [execution.outcome for execution in traced.guard.executions],
        traced.outcomes(),
    )
    assert [True] == outside
    assert trace.INVALID_SPAN is trace.get_current_span()
    assert [] == logged(caplog)


class Once:
    """Waits for one `send`, without a loop."""

    def __await__(self) -> Generator[str, None, None]:
        yield "waiting"


@pytest.mark.parametrize("end", ["closed", "left behind", "resumed"])
def test_a_coroutine_that_ends_in_another_context_than_it_began_in_disturbs_nothing(
    end: str, caplog: pytest.LogCaptureFixture
):
    """As the coroutine of a task does that its loop was closed over: collected wherever that happens."""
    traced = Traced()

    async def waits() -> None:
        await Once()

    made = traced.guard.wrap(waits, name="tool")()
    assert "waiting" == contextvars.copy_context().run(made.send, None)
    with traced.tracer.start_as_current_span("of the user"):
        before = span_id()
        if end == "closed":
            made.close()
        elif end == "resumed":
            with pytest.raises(StopIteration):
                made.send(None)
        del made
        gc.collect()
        assert before == span_id()
    assert ["succeeded" if end == "resumed" else "cancelled"] == traced.outcomes()
    assert [] == logged(caplog)


@pytest.mark.parametrize("end", ["closed", "left behind", "resumed"])
def test_a_coroutine_that_ends_in_another_context_leaves_the_session_there_as_it_is(end: str):
    """Else the next calls there would be judged by another guard, and land on another record."""
    here, there = RecordingGuard(POLICY), RecordingGuard(Policy(allowed_tools=["tool"]))
    inner = guarded_tool(name="inner")(lambda: "ran")

    async def waits() -> None:
        await Once()

    def begin() -> Any:
        session = there.session("there")
        session.__enter__()
        sessions.append(session)
        made = guarded_tool(name="tool")(waits)()
        made.send(None)
        return made

    sessions: list[Any] = []
    with here.session("here") as run:
        made = contextvars.copy_context().run(begin)
        if end == "closed":
            made.close()
        elif end == "resumed":
            with pytest.raises(StopIteration):
                made.send(None)
        del made
        gc.collect()
        assert "ran" == inner()
    assert ["inner"] == [proposal.call.name for proposal in run.session().proposed or ()]
    assert ["tool"] == [proposal.call.name for proposal in there.proposals]


# Generators


def steps(traced: Traced, seen: list[int]) -> Callable[[], Iterator[int]]:
    def tool() -> Iterator[int]:
        for number in range(3):
            seen.append(span_id())
            yield number

    return traced.guard.wrap(tool)


def test_between_the_steps_of_a_generator_the_current_span_is_that_of_its_reader():
    traced = Traced()
    seen: list[int] = []
    with traced.tracer.start_as_current_span("of the user"):
        reader = span_id()
        for _ in steps(traced, seen)():
            assert reader == span_id()
            with traced.tracer.start_as_current_span("between"):
                pass
    [execution] = traced.spans("execute_tool tool")
    assert execution.context is not None
    assert [execution.context.span_id] * 3 == seen
    assert [reader] * 3 == [span.parent.span_id for span in traced.spans("between") if span.parent]


def test_what_the_reader_of_a_generator_calls_is_not_nested_in_it():
    traced = Traced()
    inner = traced.guard.wrap(lambda: None, name="inner")
    with traced.guard.session() as run:
        for _ in steps(traced, [])():
            inner()
    assert [("tool", "caller")] + [("inner", "caller")] * 3 == [
        (proposal.call.name, proposal.origin) for proposal in run.session().proposed or ()
    ]


@pytest.mark.parametrize("closed", ["here", "in another context", "in another thread", "left behind"])
def test_generators_that_are_read_in_turn_keep_apart(closed: str, caplog: pytest.LogCaptureFixture):
    traced = Traced()
    first_seen: list[int] = []
    second_seen: list[int] = []
    with traced.guard.session(), traced.tracer.start_as_current_span("of the user"):
        reader = span_id()
        first, second = steps(traced, first_seen)(), steps(traced, second_seen)()
        assert [0, 0, 1, 1] == [next(made) for made in (first, second, first, second)]
        assert reader == span_id()
        close = first.close  # type: ignore[attr-defined]
        if closed == "here":
            close()
        elif closed == "in another context":
            contextvars.copy_context().run(close)
        elif closed == "in another thread":
            thread = threading.Thread(target=close)
            thread.start()
            thread.join(timeout=30)
        del first, close
        gc.collect()
        assert reader == span_id()
        assert [2] == list(second)
        assert reader == span_id()
    assert (2, 3) == (len(first_seen), len(second_seen))
    assert 2 == len({*first_seen, *second_seen})
    assert ["cancelled", "succeeded"] == traced.outcomes()
    assert [] == logged(caplog)


def test_a_generator_that_is_read_in_another_thread_is_recorded_in_its_own_session_alone():
    traced = Traced()
    seen: list[int] = []
    current: list[Any] = []
    with traced.guard.session("one") as run:
        made = steps(traced, seen)()
        next(made)

        def read() -> None:
            list(made)
            current.append(trace.get_current_span())

        thread = threading.Thread(target=read)
        thread.start()
        thread.join(timeout=30)
    assert (3, 1, [trace.INVALID_SPAN]) == (len(seen), len(set(seen)), current)
    assert ["succeeded"] == [execution.outcome for execution in run.session().executed or ()]


@pytest.mark.xfail(
    strict=True, reason="a generator runs in its reader's context: what it opens there stays open"
)
def test_a_session_that_a_generator_opens_holds_in_all_of_its_steps_and_nowhere_else():
    traced = Traced()
    inner = guarded_tool(name="inner")(lambda n: n)
    guard = traced.guard

    def tool() -> Iterator[int]:
        with guard.session("of the generator"):
            yield inner(1)
            yield inner(2)

    made = guard.wrap(tool)()
    with guard.session("of the reader"):
        assert 1 == next(made)
        assert 10 == inner(10)
        assert 2 == next(made)
        assert 20 == inner(20)
        assert [] == list(made)
        assert 30 == inner(30)
    found = {
        session.id: [
            proposal.call.arguments["n"]
            for proposal in session.proposed or ()
            if proposal.call.name == "inner"
        ]
        for session in guard.sessions
    }
    assert ([1, 2], [10, 20, 30]) == (found["of the generator"], found["of the reader"])


def test_async_generators_that_are_read_by_several_tasks_keep_apart(caplog: pytest.LogCaptureFixture):
    traced = Traced()
    seen: dict[int, set[int]] = {}

    async def tool(n: int) -> AsyncIterator[int]:
        for _ in range(3):
            seen.setdefault(n, set()).add(span_id())
            await asyncio.sleep(0)
            yield n

    guarded = traced.guard.wrap(tool)

    async def read(n: int) -> None:
        with traced.tracer.start_as_current_span("of the user"):
            reader = span_id()
            async for _ in guarded(n):
                assert reader == span_id()
                await asyncio.sleep(0)
            assert reader == span_id()

    async def main() -> None:
        await asyncio.gather(*(read(n) for n in range(4)))

    with traced.guard.session() as run:
        asyncio.run(asyncio.wait_for(main(), 30))
    assert [1] * 4 == [len(spans) for spans in seen.values()]
    assert 4 == len(set().union(*seen.values()))
    assert ["succeeded"] * 4 == traced.outcomes()
    assert run.score().passed
    assert [] == logged(caplog)


def test_an_async_generator_of_which_each_step_is_a_task_of_its_own_keeps_its_span():
    """As with `asyncio.wait_for` round each `anext`."""
    traced = Traced()
    seen: list[int] = []

    async def tool() -> AsyncIterator[int]:
        for number in range(3):
            seen.append(span_id())
            await asyncio.sleep(0)
            yield number

    async def main() -> None:
        made = traced.guard.wrap(tool)()
        for number in range(3):
            assert number == await asyncio.ensure_future(anext(made))
            assert trace.INVALID_SPAN is trace.get_current_span()
        with pytest.raises(StopAsyncIteration):
            await anext(made)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert (3, 1) == (len(seen), len(set(seen)))
    assert ["succeeded"] == traced.outcomes()
