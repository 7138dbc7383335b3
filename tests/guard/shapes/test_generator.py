"""Generator functions, and functions that return generators: judged when they are called, entered at the first step."""

from __future__ import annotations

import contextvars
import gc
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from gatescore import Refusal, guarded_tool
from gatescore.testing import RecordingGuard
from tests.guard.shape_helpers import BROKE, ENTERED, Broke, Contract, Decorate, allowing, body, denying


@guarded_tool
def portable(order_id: str, notify: bool = True) -> Iterator[object]:
    body(order_id, notify)
    yield order_id
    yield notify


@guarded_tool(name="portable")
def portable_too(order_id: str, notify: bool = True) -> Iterator[object]:
    return portable.__wrapped__(order_id, notify)  # type: ignore[attr-defined]


class TestGenerator(Contract):
    several = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(order_id: str, notify: bool = True) -> Iterator[object]:
            """Cancel an order."""
            body(order_id, notify)
            yield order_id
            yield notify

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(
            first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
        ) -> Iterator[object]:
            yield first, second, rest, flag, more

        return tool

    def portable(self) -> Any:
        return portable

    def test_one_that_is_never_started_is_proposed_and_not_entered(self):
        guard = allowing()
        made = self.made(guarded_tool(guard=guard, name="tool"))("814")
        made.close()
        del made
        gc.collect()
        assert [] == ENTERED
        [session] = guard.sessions
        assert (1, []) == (len(guard.proposals), guard.executions)
        assert session.record is not None
        assert [] == [event for event in session.record.events if type(event).__name__ == "Started"]


class TestFunctionThatReturnsAGenerator(Contract):
    """Nothing tells that it is one: entered when it is called; the call lasts as long as what it returns."""

    several = True

    def made(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(order_id: str, notify: bool = True) -> Iterator[object]:
            """Cancel an order."""
            return TestGenerator().made(lambda function: function)(order_id, notify)

        return tool

    def made_with_all(self, decorate: Decorate) -> Callable[..., Any]:
        @decorate
        def tool(
            first: int, /, second: int = 2, *rest: int, flag: bool = False, **more: int
        ) -> Iterator[object]:
            return iter_of((first, second, rest, flag, more))

        return tool

    def portable(self) -> Any:
        return portable_too


def iter_of(*items: object) -> Iterator[object]:
    yield from items


def echo() -> Generator[Any, Any, str]:
    """Gives back what is sent; says what is thrown; returns when it is sent ``"enough"``."""
    got: Any = "first"
    while got != "enough":
        try:
            got = yield got
        except KeyError as error:
            got = f"caught {error}"
    return "returned"


def returned_by(function: Any) -> Any:
    def calling() -> Any:
        return function()

    return calling


SORTS: dict[str, Callable[[Any], Any]] = {
    "generator function": lambda function: function,
    "function that returns a generator": returned_by,
}

both_sorts = pytest.mark.parametrize("sort", SORTS)


def guarded(sort: str, function: Callable[..., Any]) -> tuple[RecordingGuard, Any]:
    guard = allowing()
    return guard, guard.wrap(SORTS[sort](function), name="tool")()


def ends(guard: RecordingGuard) -> list[tuple[str, str | None]]:
    return [(execution.outcome.value, execution.error_type) for execution in guard.executions]


@both_sorts
def test_what_is_sent_and_thrown_reaches_it_and_its_return_value_comes_back(sort: str):
    guard, made = guarded(sort, echo)

    def reader() -> Generator[Any, Any, list[Any]]:
        returned = yield from made
        return [returned]

    reading = reader()
    assert ["first", "a", "caught 'x'", None] == [
        next(reading),
        reading.send("a"),
        reading.throw(KeyError("x")),
        next(reading),
    ]
    with pytest.raises(StopIteration) as stop:
        reading.send("enough")
    assert ["returned"] == stop.value.value
    assert [("succeeded", None)] == ends(guard)


@both_sorts
def test_what_is_thrown_and_not_caught_comes_out_again(sort: str):
    guard, made = guarded(sort, echo)
    next(made)
    with pytest.raises(Broke) as caught:
        made.throw(BROKE)
    assert BROKE is caught.value
    assert [("failed", "Broke")] == ends(guard)
    with pytest.raises(StopIteration):
        next(made)


@both_sorts
def test_what_is_thrown_before_the_first_step_never_enters_it(sort: str):
    entered: list[str] = []

    def tool() -> Iterator[int]:
        entered.append("entered")
        yield 1

    guard, made = guarded(sort, tool)
    with pytest.raises(Broke):
        made.throw(BROKE)
    assert [] == entered
    if sort == "generator function":
        assert [] == guard.executions


def cleaning(cleaned: list[str]) -> Callable[[], Iterator[int]]:
    def tool() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            cleaned.append("up")

    return tool


@both_sorts
@pytest.mark.parametrize(
    "stop",
    ["closed", "closed in another context", "closed in another thread", "left behind", "left in a cycle"],
)
def test_one_that_is_not_read_to_its_end_is_cleaned_up_and_cancelled_on_record(sort: str, stop: str):
    cleaned: list[str] = []
    guard, made = guarded(sort, cleaning(cleaned))
    assert 1 == next(made)
    assert ([], [("unfinished", None)]) == (cleaned, ends(guard))
    if stop == "closed":
        made.close()
    elif stop == "closed in another context":
        contextvars.copy_context().run(made.close)
    elif stop == "closed in another thread":
        thread = threading.Thread(target=made.close)
        thread.start()
        thread.join(timeout=30)
    elif stop == "left behind":
        del made
    else:
        cycle: list[Any] = [made]
        cycle.append(cycle)
        del made, cycle
    gc.collect()
    assert (["up"], [("cancelled", None)]) == (cleaned, ends(guard))
    assert guard.score().passed


@both_sorts
def test_a_reader_that_breaks_off_and_one_that_raises_stop_it_alike(sort: str):
    for raises in (False, True):
        cleaned: list[str] = []
        guard, made = guarded(sort, cleaning(cleaned))
        try:
            for _ in made:
                if raises:
                    raise BROKE
                break
        except Broke:
            pass
        made.close()
        assert (["up"], [("cancelled", None)]) == (cleaned, ends(guard))


@both_sorts
def test_what_its_cleaning_up_raises_comes_out_and_is_on_record(sort: str):
    def tool() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise BROKE

    guard, made = guarded(sort, tool)
    next(made)
    with pytest.raises(Broke) as caught:
        made.close()
    assert BROKE is caught.value
    assert [("failed", "Broke")] == ends(guard)


@both_sorts
def test_what_it_raises_after_an_item_comes_out_and_is_on_record(sort: str):
    def tool() -> Iterator[int]:
        yield 1
        raise BROKE

    guard, made = guarded(sort, tool)
    items: list[int] = []
    with pytest.raises(Broke) as caught:
        items.extend(made)
    assert BROKE is caught.value
    assert [("failed", "Broke")] == ends(guard)


def test_a_stop_iteration_inside_of_it_is_the_runtime_error_that_it_always_was():
    def tool() -> Iterator[int]:
        yield 1
        next(iter(()))  # raises it

    guard, made = guarded("generator function", tool)
    next(made)
    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        next(made)
    assert [("failed", "RuntimeError")] == ends(guard)


def test_one_that_goes_on_after_it_was_closed_is_told_so():
    guard = allowing()
    asked: list[str] = []

    def tool() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            asked.append("to stop")
        yield 2

    made: Any = guard.wrap(tool)()
    next(made)
    with pytest.raises(RuntimeError, match="generator ignored GeneratorExit"):
        made.close()
    assert (["to stop"], [("failed", "RuntimeError")]) == (asked, ends(guard))


def test_it_is_a_generator_and_two_calls_are_two_of_them():
    guard = allowing()
    tool = guard.wrap(lambda: iter_of(1, 2), name="tool")
    first, second = tool(), tool()
    assert [1, 1, 2, 2] == [next(first), next(second), next(first), next(second)]
    assert [[], []] == [list(first), list(second)]
    assert [("succeeded", None)] * 2 == ends(guard)


def test_a_refusal_is_the_only_item():
    made = denying(on_deny="return").wrap(echo, name="tool")()
    assert isinstance(next(made), Refusal)
    with pytest.raises(StopIteration) as stop:
        next(made)
    assert stop.value.value is None


def test_a_refusal_at_the_entry_is_the_only_item_too():
    guard = allowing(on_deny="return")
    entered: list[object] = []

    def tool(given: list[object]) -> Iterator[int]:
        entered.append(given)
        yield 1

    given: list[object] = []
    made = guard.wrap(tool)(given)
    given.append(float("nan"))
    [refusal] = list(made)
    assert isinstance(refusal, Refusal)
    assert ("entry", [], []) == (refusal.moment, entered, guard.executions)
