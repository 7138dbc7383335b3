"""What a guard knows of the tools it guards."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, cast

import wrapt

from gatescore.guard.binding import Parameters, parameters_of
from gatescore.guard.tickets import GuardError
from gatescore.policy.names import split_qualified

_PARTIALS: Final = (functools.partial, functools.partialmethod)
_METHODS: Final = (staticmethod, classmethod)


class Shape(Enum):
    """How a callable runs."""

    FUNCTION = auto()
    COROUTINE = auto()
    GENERATOR = auto()
    ASYNC_GENERATOR = auto()


def shape_of(function: Callable[..., Any]) -> Shape:
    """The shape of a callable of any kind: partials, methods and objects by what they call."""
    called: Any = function
    while True:
        if issubclass(type(called), wrapt.BaseObjectProxy):
            called = called.__wrapped__
        elif isinstance(called, _PARTIALS):
            called = called.func
        elif issubclass(type(called), _METHODS):
            called = called.__func__
        else:
            break
    if not inspect.isroutine(called) and not isinstance(called, type):
        kind = cast("type[object]", type(called))
        called = getattr(kind, "__call__", called)  # noqa: B004 - the function is wanted
    if inspect.iscoroutinefunction(called):
        return Shape.COROUTINE
    if inspect.isasyncgenfunction(called):
        return Shape.ASYNC_GENERATOR
    return Shape.GENERATOR if inspect.isgeneratorfunction(called) else Shape.FUNCTION


def name_of(function: object) -> str:
    """The name of a callable: its own, that of what a partial calls, or that of its type."""
    named: Any = function
    while isinstance(named, _PARTIALS):
        named = named.func
    name = getattr(named, "__name__", None)
    return name if isinstance(name, str) else type(named).__name__


class Tool:
    """
    A guarded callable, as its guard sees it.

    Attributes:
        name, server: Which tool.
        shape: How it runs.
        function: The guarded callable; None until it is made.
    """

    __slots__ = ("_bound", "_plain", "function", "name", "server", "shape")

    def __init__(self, function: Callable[..., Any], name: str | None, server: str) -> None:
        self.name = name or name_of(function)
        self.server = server
        self.shape = shape_of(function)
        self.function: Any = None
        self._plain: Parameters | None = None
        self._bound: Parameters | None = None

    def parameters(self, wrapped: Callable[..., Any], *, bound: bool) -> Parameters:
        """The parameters, without those that a bound method has filled already; found once for each."""
        known = self._bound if bound else self._plain
        if known is None:
            own = self.function.__wrapped__
            if bound and wrapped is not own and type(wrapped) is wrapt.PartialCallableObjectProxy:
                # A method that its class was asked for, with its object in front: as if it was bound.
                wrapped = own.__get__(self, type(self))
            known = parameters_of(wrapped)
            if not callable(wrapped):
                return known  # a class method without its class: calls of it have other parameters
            if bound:
                self._bound = known
            else:
                self._plain = known
        return known


class Tools:
    """The tools of one guard, by server and name."""

    __slots__ = ("_tools",)

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], Tool] = {}

    def add(self, tool: Tool) -> None:
        """Make a tool known; one that was defined again takes the place of its former self."""
        key = (tool.server, tool.name)
        known = self._tools.get(key)
        if known is not None and not _same(known.function.__wrapped__, tool.function.__wrapped__):
            raise GuardError(f"two tools have the name `{tool.name}`: give one of them another, by `name=`")
        self._tools[key] = tool

    def find(self, name: str) -> list[tuple[Tool, Any]]:
        """The tools of a name, each with its callable: of all servers, or of the one that the name says."""
        server, raw = split_qualified(name) or (None, name)
        return [
            (tool, tool.function)
            for (offered_by, known), tool in self._tools.items()
            if known == raw and server in (None, offered_by)
        ]


def _same(known: Any, new: Any) -> bool:
    """Whether a callable is another one's self, made again: by a closure, or by loading its module again."""
    if known is new:
        return True
    if type(known) is type(new) and issubclass(type(known), _METHODS):
        return _same(known.__func__, new.__func__)
    code, other = getattr(known, "__code__", None), getattr(new, "__code__", None)
    if code is None or other is None:
        return False
    place, same = (
        known.__qualname__,
        (known.__module__, known.__qualname__) == (new.__module__, new.__qualname__),
    )
    # What is defined inside of a function may be there several times: then the code tells.
    return bool(same and ("<" not in place or code == other))
