"""
The guarded callable itself, and what becomes of it when it is bound, copied, pickled or taken apart.

Whatever Python makes of a guarded callable is guarded as well. Where that cannot be, it is refused.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

import wrapt

from gatescore.guard.admission import Given, denied_outright
from gatescore.guard.context import FRAME
from gatescore.guard.guard import Guard, used
from gatescore.guard.shapes import RUNNERS
from gatescore.guard.tools import Tool

_NO_GUARD: Final = (
    "no guard is in charge: open a session, call `gatescore.use(guard)`, or name one by `guard=`"
)
_PARTIALS: Final = (functools.partial, functools.partialmethod)


class _Closure(tuple[Any, ...]):
    """
    The cells of a guarded function, for those who look at them.

    A pickler that takes functions apart, to pickle them by value, would leave the guard behind: it stops here.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a guarded tool cannot be pickled by value: define it in a module that can be imported, "
            "under its own name"
        )


class BoundTool(wrapt.BoundFunctionWrapper[..., Any]):
    """A guarded callable that was read from a class, or from an object."""

    @property
    def __func__(self) -> Any:
        # Who takes a method apart, and calls its function with its object, calls the tool.
        wrapped: Any = self.__wrapped__
        return self._self_parent._self_part(wrapped.__func__)

    @property
    def __closure__(self) -> Any:
        return _Closure(self.__wrapped__.__closure__ or ())

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        instance = self._self_instance
        if instance is None or self._self_binding in ("classmethod", "staticmethod"):
            return self
        copied = copy.deepcopy(instance, memo)
        return self if copied is instance else self._self_parent.__get__(copied, self._self_owner)

    def __reduce_ex__(self, protocol: object) -> Any:
        # As methods are: by the name under which their object, or their class, holds them.
        instance = getattr(self.__wrapped__, "__self__", None)
        holder = self._self_owner if instance is None else instance
        for name in (self._self_parent._self_held, getattr(self, "__name__", None)):
            found = getattr(holder, name or "", None)
            if (
                type(found) is BoundTool
                and found._self_parent is self._self_parent
                and getattr(found.__wrapped__, "__self__", None) is instance
            ):
                return _taken, (holder, name)
        raise TypeError(
            f"the tool `{self._self_parent._self_tool.name}` cannot be pickled: "
            "its class does not hold it under the name that it was defined by"
        )

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


class GuardedTool(wrapt.FunctionWrapper[..., Any]):
    """A guarded callable: looks like the one it wraps, and is called through its guard alone."""

    __bound_function_wrapper__ = BoundTool

    def __init__(self, function: Callable[..., Any], tool: Tool, guard: Guard | None) -> None:
        super().__init__(function, self._self_called)
        self._self_tool = tool
        self._self_guard = guard
        self._self_run = RUNNERS[tool.shape]
        self._self_held: str | None = None
        self._self_inner: GuardedTool | None = None
        tool.function = self

    def _self_called(
        self, wrapped: Any, instance: Any, args: Any, kwargs: Any, given: Given | None = None
    ) -> Any:
        guard = self._self_guard or _guard_in_charge()
        tool = self._self_tool
        if guard is None:
            raise denied_outright(tool.name, tool.server, _NO_GUARD, None)
        return self._self_run(tool, guard, wrapped, instance is not None, args, kwargs, given)

    def __set_name__(self, owner: type, name: str) -> None:
        cast("Any", super()).__set_name__(owner, name)
        self._self_held = self._self_held or name

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__wrapped__" and value is not self.__wrapped__:
            raise AttributeError("what a guarded tool calls cannot be replaced: guard the other callable")
        super().__setattr__(name, value)

    def __mro_entries__(self, bases: tuple[type, ...]) -> NoReturn:
        raise TypeError(
            f"a class below the guarded class `{self._self_tool.name}` would make its objects without the guard: "
            "derive it from the class itself, and guard it as well"
        )

    # Its parts

    def _self_part(self, bare: Any) -> GuardedTool:
        """A callable that is inside of it, under the same guard and name."""
        inner = self if bare is self.__wrapped__ else self._self_inner
        if inner is None or inner.__wrapped__ is not bare:
            inner = self._self_inner = self._self_like(bare)
        return inner

    def _self_like(self, function: Any) -> GuardedTool:
        tool = self._self_tool
        return GuardedTool(function, Tool(function, tool.name, tool.server), self._self_guard)

    @property
    def __func__(self) -> Any:
        wrapped: Any = self.__wrapped__
        return self._self_part(wrapped.__func__)

    @property
    def func(self) -> Any:
        """What a partial calls, guarded: a partial of a partial is made of it. Of another callable, its own."""
        wrapped: Any = self.__wrapped__
        found = wrapped.func
        return self._self_part(found) if isinstance(wrapped, _PARTIALS) else found

    @func.setter
    def func(self, value: Any) -> None:
        wrapped: Any = self.__wrapped__
        wrapped.func = value

    @property
    def __closure__(self) -> Any:
        return _Closure(self.__wrapped__.__closure__ or ())

    # Copies

    def __copy__(self) -> GuardedTool:
        wrapped = self.__wrapped__
        if inspect.isroutine(wrapped):
            return self
        copied = copy.copy(wrapped)
        return self if copied is wrapped else self._self_like(copied)

    def __deepcopy__(self, memo: dict[int, Any]) -> GuardedTool:
        wrapped = self.__wrapped__
        if inspect.isroutine(wrapped) and not inspect.ismethod(wrapped):
            return self
        copied = copy.deepcopy(wrapped, memo)
        return self if copied is wrapped else self._self_like(copied)

    def __reduce_ex__(self, protocol: object) -> Any:
        # As functions are: by the name under which the module holds it. Others by what they wrap.
        wrapped, tool = self.__wrapped__, self._self_tool
        name = getattr(wrapped, "__qualname__", None)
        if isinstance(name, str) and _held(getattr(wrapped, "__module__", None), name) is self:
            return name
        if self._self_guard is not None:
            raise TypeError(
                f"the tool `{tool.name}` cannot be pickled with its guard: leave `guard=` out, and call "
                "`gatescore.use(guard)` in each process, or define it in a module under its own name"
            )
        return _guarded_again, (wrapped, tool.name, tool.server)

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


def _guard_in_charge() -> Guard | None:
    frame = FRAME.get()
    return used() if frame is None else frame.run.guard


def _held(module: str | None, qualname: str) -> Any:
    found: Any = sys.modules.get(module or "")
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _guarded_again(function: Any, name: str, server: str) -> GuardedTool:
    """What comes back from pickle, where the tool names no guard."""
    return GuardedTool(function, Tool(function, name, server), None)


def _taken(holder: Any, name: str) -> Any:
    """What comes back from pickle for a method: nothing, where it is not guarded here."""
    found = getattr(holder, name)
    if type(found) is not BoundTool:
        raise pickle.UnpicklingError(f"`{name}` is not guarded here: load what the same program has pickled")
    return found
