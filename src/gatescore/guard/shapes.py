"""
How each kind of callable runs through a guard.

A function is judged when it is called; a coroutine function when it is awaited; a generator when it
is called, and again at its first `next`, where it is entered. The call is the current one while its
code runs, and never across a `yield`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from gatescore.guard.admission import (
    PLAIN,
    Admission,
    admitted,
    admitted_async,
    enter,
    enter_async,
    outcome_of,
    proposed,
    refused,
)
from gatescore.guard.denial import Refusal, ToolDenied
from gatescore.guard.tools import Shape, Tool
from gatescore.model import Outcome

if TYPE_CHECKING:
    from gatescore.guard.guard import Guard


_NOTHING: Final = type(None)


def _run_function(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Any:
    try:
        admission = admitted(tool, guard, wrapped, bound, args, kwargs, given)
    except ToolDenied as denied:
        return refused(guard, denied)
    if admission is None:
        return wrapped(*args, **kwargs)
    admission.step_in()
    try:
        result = wrapped(*admission.args, **admission.kwargs)
    except BaseException as error:
        admission.step_out()
        admission.failed(error)
        raise
    admission.step_out()
    return _lasting(admission, result)


def _lasting(admission: Admission, result: Any) -> Any:
    """What a function returned: where that is work still to be done, the call lasts as long as the work."""
    kind = cast("type[object]", type(result))
    if kind is _NOTHING or issubclass(kind, PLAIN):
        admission.close(Outcome.SUCCEEDED)
    elif inspect.iscoroutine(result):
        return _await(admission, result)
    elif inspect.isgenerator(result):
        return _drive(admission, result)
    elif inspect.isasyncgen(result):
        return _drive_async(admission, result)
    elif issubclass(kind, (asyncio.Future, concurrent.futures.Future)):
        future: asyncio.Future[Any] | concurrent.futures.Future[Any] = result
        future.add_done_callback(partial(_done, admission))
    else:
        admission.close(outcome_of(result))
    return result


def _done(admission: Admission, future: asyncio.Future[Any] | concurrent.futures.Future[Any]) -> None:
    if future.cancelled():
        admission.close(Outcome.CANCELLED)
        return
    error = future.exception()
    if error is None:
        admission.close(outcome_of(future.result()))
    else:
        admission.failed(error)


async def _await(admission: Admission, work: Awaitable[Any]) -> Any:
    admission.step_in()
    try:
        result = await work
    except BaseException as error:
        admission.step_out()
        admission.failed(error)
        raise
    admission.step_out()
    admission.close(outcome_of(result))
    return result


async def _run_coroutine(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Any:
    try:
        admission = await admitted_async(tool, guard, wrapped, bound, args, kwargs, given)
    except ToolDenied as denied:
        return refused(guard, denied)
    if admission is None:
        return await wrapped(*args, **kwargs)
    admission.step_in()
    try:
        result = await wrapped(*admission.args, **admission.kwargs)
    except BaseException as error:
        admission.step_out()
        admission.failed(error)
        raise
    admission.step_out()
    admission.close(outcome_of(result))
    return result


def _run_generator(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Any:
    try:
        admission = proposed(tool, guard, wrapped, bound, args, kwargs, given)
    except ToolDenied as denied:
        if guard.on_deny == "raise":
            raise
        return _one(Refusal(denied))
    if admission is None:
        return wrapped(*args, **kwargs)
    return _generate(admission)


def _one(refusal: Refusal) -> Generator[Any, Any, Any]:
    yield refusal


def _generate(admission: Admission) -> Generator[Any, Any, Any]:
    try:
        enter(admission, again=True)
    except ToolDenied as denied:
        if admission.guard.on_deny == "raise":
            raise
        yield Refusal(denied)
        return None
    admission.step_in()
    try:
        inner = admission.wrapped(*admission.args, **admission.kwargs)
    except BaseException as error:
        admission.step_out()
        admission.failed(error)
        raise
    admission.step_out()
    return (yield from _drive(admission, inner))


def _drive(admission: Admission, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a generator step by step: the call is the current one during a step, never across a `yield`."""
    step: Callable[[], Any] = lambda: next(inner)  # noqa: E731 - what comes next differs from step to step
    while True:
        admission.step_in()
        try:
            item = step()
        except StopIteration as stop:
            admission.step_out()
            admission.close(outcome_of(stop.value))
            return stop.value
        except BaseException as error:
            admission.step_out()
            admission.failed(error)
            raise
        admission.step_out()
        try:
            sent = yield item
        except GeneratorExit:
            _closing(admission, inner)
            raise
        except BaseException as error:  # noqa: BLE001 - what is thrown in is for the generator
            step = _throw(inner, error)
        else:
            step = _send(inner, sent)


def _closing(admission: Admission, inner: Generator[Any, Any, Any]) -> None:
    admission.step_in()
    try:
        inner.close()
    except BaseException as error:
        admission.step_out()
        admission.failed(error)
        raise
    admission.step_out()
    admission.close(Outcome.CANCELLED)


def _throw(inner: Generator[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: inner.throw(error)


def _send(inner: Generator[Any, Any, Any], sent: Any) -> Callable[[], Any]:
    return lambda: inner.send(sent)


def _run_async_generator(
    tool: Tool, guard: Guard, wrapped: Any, bound: bool, args: Any, kwargs: Any, given: Any
) -> Any:
    try:
        admission = proposed(tool, guard, wrapped, bound, args, kwargs, given)
    except ToolDenied as denied:
        if guard.on_deny == "raise":
            raise
        return _one_async(Refusal(denied))
    if admission is None:
        return wrapped(*args, **kwargs)
    return _generate_async(admission)


async def _one_async(refusal: Refusal) -> AsyncGenerator[Any, Any]:
    yield refusal


async def _generate_async(admission: Admission) -> AsyncGenerator[Any, Any]:
    try:
        await enter_async(admission, again=True)
    except ToolDenied as denied:
        if admission.guard.on_deny == "raise":
            raise
        yield Refusal(denied)
        return
    admission.step_in()
    try:
        inner = admission.wrapped(*admission.args, **admission.kwargs)
    except BaseException as error:
        admission.step_out()
        admission.failed(error)
        raise
    admission.step_out()
    driven = _drive_async(admission, inner)
    # `yield from` is not for async generators: pass on what is sent and thrown by hand.
    send: Awaitable[Any] = _first(driven)
    while True:
        try:
            item = await send
        except StopAsyncIteration:
            return
        try:
            sent = yield item
        except GeneratorExit:
            await driven.aclose()
            raise
        except BaseException as error:  # noqa: BLE001 - what is thrown in is for the generator
            send = driven.athrow(error)
        else:
            send = driven.asend(sent)


def _first(inner: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """
    The first step of a generator that another one closes.

    An event loop that ends closes every generator that it has seen begin, all at once: it must not
    see this one, which the one round it is closing at that moment.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return inner.__anext__()
    finally:
        sys.set_asyncgen_hooks(*hooks)


async def _drive_async(admission: Admission, inner: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    step: Awaitable[Any] = _first(inner)
    while True:
        admission.step_in()
        try:
            item = await step
        except StopAsyncIteration:
            admission.step_out()
            admission.close(Outcome.SUCCEEDED)
            return
        except BaseException as error:
            admission.step_out()
            admission.failed(error)
            raise
        admission.step_out()
        try:
            sent = yield item
        except GeneratorExit:
            admission.step_in()
            try:
                await inner.aclose()
            except BaseException as error:
                admission.step_out()
                admission.failed(error)
                raise
            admission.step_out()
            admission.close(Outcome.CANCELLED)
            raise
        except BaseException as error:  # noqa: BLE001 - what is thrown in is for the generator
            step = inner.athrow(error)
        else:
            step = inner.asend(sent)


RUNNERS: Final[dict[Shape, Callable[..., Any]]] = {
    Shape.FUNCTION: _run_function,
    Shape.COROUTINE: _run_coroutine,
    Shape.GENERATOR: _run_generator,
    Shape.ASYNC_GENERATOR: _run_async_generator,
}
"""How each shape is called through a guard."""
