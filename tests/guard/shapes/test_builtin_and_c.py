"""Callables that are not written in Python: builtins, methods of builtin types, classes, callables without a signature."""

from __future__ import annotations

import functools
import inspect
import json
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest

from gatescore import Policy, ToolDenied
from gatescore.testing import RecordingGuard
from tests.guard.shape_helpers import allowing, assert_executed_once, denying

# One of each sort with a signature: what it is called with, what it gives, and the arguments by name.
WITH_SIGNATURE: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any, dict[str, Any]]] = {
    "builtin": (len, ("abc",), {}, 3, {"obj": "abc"}),
    "builtin with keywords": (
        sorted,
        ([2, 1],),
        {"reverse": True},
        [2, 1],
        {"iterable": [2, 1], "key": None, "reverse": True},
    ),
    "function of a C module": (math.sqrt, (9,), {}, 3.0, {"x": 9}),
    "method of a builtin type, bound": ("a,b".split, (",",), {}, ["a", "b"], {"sep": ",", "maxsplit": -1}),
    "method of a builtin type, unbound": (str.upper, ("abc",), {}, "ABC", {"self": "abc"}),
    "slot of a builtin type, bound": ((3).__add__, (4,), {}, 7, {"value": 4}),
    "method of a dictionary": ({"a": 1}.get, ("a",), {}, 1, {"key": "a", "default": None}),
    "partial of a builtin": (
        functools.partial(sorted, reverse=True),
        ([1, 2],),
        {},
        [2, 1],
        {"iterable": [1, 2], "key": None, "reverse": True},
    ),
    "cached function": (functools.lru_cache(lambda x, y=2: x + y), (1,), {}, 3, {"x": 1, "y": 2}),
    "function of the standard library": (
        json.loads,
        ("[1]",),
        {},
        [1],
        {
            "s": "[1]",
            "cls": None,
            "object_hook": None,
            "parse_float": None,
            "parse_int": None,
            "parse_constant": None,
            "object_pairs_hook": None,
        },
    ),
}

# Callables that no signature can be found for.
WITHOUT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "builtin": (max, (1, 2), 2),
    "type": (int, ("3",), 3),
    "item getter": (operator.itemgetter("a"), ({"a": 1},), 1),
}


@pytest.mark.parametrize("case", WITH_SIGNATURE)
def test_one_with_a_signature_is_judged_by_its_arguments(case: str):
    function, args, kwargs, result, arguments = WITH_SIGNATURE[case]
    guard = allowing()
    assert result == guard.wrap(function, name="tool")(*args, **kwargs)
    assert_executed_once(guard, **arguments)
    assert guard.score().passed


@pytest.mark.parametrize("case", WITH_SIGNATURE)
def test_one_with_a_signature_keeps_it(case: str):
    function = WITH_SIGNATURE[case][0]
    tool = allowing().wrap(function, name="tool")
    assert inspect.signature(function) == inspect.signature(tool)
    assert getattr(function, "__doc__", None) == tool.__doc__
    for predicate in (inspect.isbuiltin, inspect.isfunction, inspect.ismethod, inspect.isclass):
        assert predicate(function) == predicate(tool), predicate


@pytest.mark.parametrize("case", WITH_SIGNATURE)
def test_a_denied_one_is_not_called(case: str):
    function, args, kwargs, _, arguments = WITH_SIGNATURE[case]
    guard = denying()
    with pytest.raises(ToolDenied) as caught:
        guard.wrap(function, name="tool")(*args, **kwargs)
    assert (["denied"], []) == ([proposal.end for proposal in guard.proposals], guard.executions)
    assert arguments == caught.value.call.arguments


def test_what_a_denied_builtin_would_do_is_not_done():
    taken: list[int] = []
    with pytest.raises(ToolDenied):
        denying().wrap(taken.append, name="tool")(1)
    assert [] == taken
    allowing().wrap(taken.append, name="tool")(1)
    assert [1] == taken


@pytest.mark.parametrize("case", WITHOUT)
def test_one_without_a_signature_cannot_be_judged_by_position(case: str):
    """No rule could say what the first argument is: refused, also by a guard that allows the tool."""
    function, args, _ = WITHOUT[case]
    with pytest.raises(ValueError, match="signature"):
        inspect.signature(function)
    guard = allowing()
    tool = guard.wrap(function, name="tool")
    with pytest.raises(ToolDenied, match="its signature cannot be inspected") as caught:
        tool(*args)
    assert isinstance(caught.value, TypeError)
    assert (["invalid"], []) == ([proposal.end for proposal in guard.proposals], guard.executions)


def test_one_without_a_signature_is_judged_by_keywords():
    policy = Policy(rules=[{"id": "small", "allow": "tool", "args": {"a": {"maximum": 9}}}])
    guard = RecordingGuard(policy)
    tool = guard.wrap(dict, name="tool")
    assert {"a": 9} == tool(a=9)
    with pytest.raises(ToolDenied):
        tool(a=10)
    assert [{"a": 9}] == guard.entries("tool")


def test_in_monitor_mode_one_without_a_signature_runs_and_is_on_record():
    guard = allowing(mode="monitor")
    assert 2 == guard.wrap(max, name="tool")(1, 2)
    [execution] = guard.executions
    assert "succeeded" == execution.outcome
    assert not guard.score().execution.passed


def test_a_builtin_takes_its_own_name():
    guard = allowing("len")
    assert 3 == guard.wrap(len)("abc")
    assert [{"obj": "abc"}] == guard.entries("len")


def test_a_builtin_called_by_name_is_judged_by_its_arguments():
    guard = allowing()
    guard.wrap(sorted, name="tool")
    assert [2, 1] == guard.call("tool", {"iterable": [1, 2], "reverse": True})
    assert_executed_once(guard, iterable=[1, 2], key=None, reverse=True)


def test_a_cached_function_is_judged_each_time_also_where_its_result_is_known():
    runs: list[int] = []

    @functools.lru_cache
    def tool(n: int) -> int:
        runs.append(n)
        return n

    guard = RecordingGuard(Policy(rules=[{"id": "two", "allow": "tool", "limit": {"executions": 2}}]))
    guarded = guard.wrap(tool)
    with guard.session():
        assert (1, 1) == (guarded(1), guarded(1))
        with pytest.raises(ToolDenied):
            guarded(1)
    assert [1] == runs
    assert 2 == len(guard.executions)
