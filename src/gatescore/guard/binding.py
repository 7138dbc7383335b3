"""
How the arguments of a Python call become named arguments, and the other way round.

Every parameter has its value by name, defaults filled in: positional values under their names,
``*rest`` as an array under its own name, ``**extra`` as further names.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import wrapt

from gatescore.canonical import canonical, equal
from gatescore.errors import ArgumentsError

_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_REST: Final = inspect.Parameter.VAR_POSITIONAL
_EXTRA: Final = inspect.Parameter.VAR_KEYWORD
_NOTHING: Final = inspect.Parameter.empty
_CACHE: Final = type(functools.lru_cache(lambda: None))
_PASSING: Final = (staticmethod, classmethod, _CACHE)
_PLACEHOLDER: Final = getattr(functools, "Placeholder", object())  # from Python 3.14 on
_UNINSPECTED: Final = "its signature cannot be inspected: call it with keyword arguments"
_UNBOUND: Final = "it cannot be called without its object or class: wrap the method of one"

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Parameters:
    """The parameters of one callable, found once."""

    __slots__ = ("_by_name", "_defaults", "_extra", "_free", "_names", "_only", "_rest", "_signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None
        try:
            self._signature = _signature(function)
        except (ValueError, TypeError):
            self._signature = None
        self._names: list[str] = []
        self._free = self._names  # those that a call by position fills
        self._only: set[str] = set()
        self._defaults: dict[str, Any] = {}
        self._by_name: set[str] = set()
        self._rest: str | None = None
        self._extra: str | None = None
        for name, parameter in self._signature.parameters.items() if self._signature else ():
            if parameter.kind is _REST:
                self._rest = name
                continue
            if parameter.kind is _EXTRA:
                self._extra = name
                continue
            if parameter.kind in (_POSITIONAL_ONLY, _POSITIONAL):
                self._names.append(name)
            if parameter.kind is _POSITIONAL_ONLY:
                self._only.add(name)
            self._by_name.add(name)
            if parameter.default is not _NOTHING:
                self._defaults[name] = parameter.default

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """
        Name all arguments of a call.

        Returns:
            The arguments by name, and None; or whatever has a name, and why the call does not fit.
        """
        if self._signature is None:
            if args:
                return dict(kwargs), _UNINSPECTED
            return dict(kwargs), None
        bound = dict(zip(self._names, args, strict=False))
        if len(args) > len(self._names):
            if self._rest is None:
                return {**bound, **kwargs}, f"it takes {len(self._names)} positional arguments"
            bound[self._rest] = list(args[len(self._names) :])
        elif self._rest is not None:
            bound[self._rest] = []
        for name, value in kwargs.items():
            if name in self._by_name and name not in self._only:
                if name in bound:
                    return {**kwargs, **bound}, f"`{name}` is given twice"
                bound[name] = value
            elif self._extra is None:
                what = "takes by position alone" if name in self._only else "does not take"
                return {**kwargs, **bound}, f"it {what} `{name}`"
            elif name in self._by_name or name == self._rest:
                # One name for two values: a rule about it could not say which.
                return {**kwargs, **bound}, f"`{name}` is both a parameter and an extra keyword"
            else:
                bound[name] = value
        if len(bound) < len(self._by_name) or not self._by_name <= bound.keys():
            for name in self._by_name - bound.keys():
                if name not in self._defaults:
                    return bound, f"it needs `{name}`"
                bound[name] = self._defaults[name]
        return bound, None

    def spread(self, arguments: Mapping[str, Any]) -> Arguments:
        """The positional and the keyword arguments that call with *arguments* by name."""
        given = dict(arguments)
        args: list[Any] = []
        rest: Any = given.get(self._rest) if self._rest is not None else None
        behind = isinstance(rest, (list, tuple)) and bool(cast("list[Any]", rest))
        for name in self._free:
            if not behind and name not in self._only:
                break
            if name in given:
                args.append(given.pop(name))
            elif name in self._defaults:
                args.append(self._defaults[name])
            else:
                # What stands behind a gap would take its place.
                return tuple(args), given
        if self._rest is not None and isinstance(rest, (list, tuple)):
            args.extend(cast("list[Any]", given.pop(self._rest)))
        return tuple(args), given


class _Filled(Parameters):
    """The parameters of what a partial calls: what the partial has filled in is judged with the rest."""

    __slots__ = ("_by_keyword", "_by_position")

    def __init__(
        self, function: Callable[..., Any], by_position: tuple[Any, ...], by_keyword: dict[str, Any]
    ) -> None:
        super().__init__(function)
        self._by_position = by_position
        self._by_keyword = by_keyword
        self._free = self._names[len(by_position) :]

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """As of all parameters; one that was filled by keyword may be replaced, one by position may not."""
        if any(value is _PLACEHOLDER for value in self._by_position):
            return dict(kwargs), "placeholders of a partial cannot be judged: fill in by keyword"
        return super().bind(self._by_position + args, {**self._by_keyword, **kwargs})

    def spread(self, arguments: Mapping[str, Any]) -> Arguments:
        """As of all parameters; what is filled by position already need not be named, but may be as it is."""
        given = dict(arguments)
        for name, value in zip(self._names, self._by_position, strict=False):
            if name in given and _alike(given[name], value):
                del given[name]
        more = list(self._by_position[len(self._names) :])
        if more and self._rest in given:
            rest = given[self._rest]
            if not isinstance(rest, (list, tuple)):
                return (), given
            if not _alike(list(cast("list[Any]", rest))[: len(more)], more):
                # Left under its name, it fits nothing: the body would get other values than these.
                return (), given
            given[self._rest] = list(cast("list[Any]", rest))[len(more) :]
        return super().spread(given)


class _Unbound(Parameters):
    """What no call can be made of: a class method without its class, and whatever else cannot be called."""

    __slots__ = ()

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Name what has a name: such a call never fits."""
        bound, unfit = super().bind(args, kwargs)
        return bound, unfit or _UNBOUND


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """The parameters that a call of *function* is judged by."""
    by_position: tuple[Any, ...] = ()
    by_keyword: dict[str, Any] | None = None
    called: Any = _called(function)
    while _is_partial(called):
        by_position = called.args + by_position
        # The partial's own dictionary where that is all: it may be changed, and what runs is judged.
        by_keyword = {**called.keywords, **by_keyword} if by_keyword else called.keywords
        called = _called(called.func)
    if not callable(called) or _of_partialmethod(called):
        return _Unbound(called)
    return Parameters(called) if by_keyword is None else _Filled(called, by_position, by_keyword)


def _is_partial(function: Any) -> bool:
    return isinstance(function, functools.partial)


def _called(function: Any) -> Any:
    """What runs when *function* is called: of an object, what its class has filled in for it."""
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    kind = cast("type[object]", type(function))
    call: Any = inspect.getattr_static(kind, "__call__", None)
    given = issubclass(type(call), (*_PASSING, functools.partialmethod))
    return call.__get__(function, kind) if given else function


def _of_partialmethod(function: Any) -> bool:
    """Whether it stands for a partial method without an instance: what is filled in has no place yet."""
    own = getattr(function, "__dict__", {})
    return any(
        isinstance(own.get(key), functools.partialmethod) for key in ("_partialmethod", "__partialmethod__")
    )


def _alike(given: object, filled: object) -> bool:
    try:
        return equal(canonical({"": given}), canonical({"": filled}))
    except ArgumentsError:
        return False


def _signature(function: Any) -> inspect.Signature:
    """The signature of what runs; that of what it wraps only where it passes everything on as it comes."""
    method = inspect.ismethod(function)
    holder: Any = function.__func__ if method else function
    below: Any = None
    if isinstance(holder, _PASSING):
        below = cast("Any", holder).__wrapped__
    else:
        try:
            own = inspect.signature(function, follow_wrapped=False)
        except (ValueError, TypeError):
            if not issubclass(type(holder), wrapt.BaseObjectProxy):
                raise
            below = holder.__wrapped__
        else:
            kinds = [parameter.kind for parameter in own.parameters.values()]
            below = getattr(holder, "__wrapped__", None) if kinds == [_REST, _EXTRA] else None
            if below is None:
                return own
    return _signature(types.MethodType(below, function.__self__) if method else below)
