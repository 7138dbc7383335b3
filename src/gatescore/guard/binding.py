"""
How the arguments of a Python call become named arguments, and the other way round.

Every parameter has its value by name, defaults filled in: positional values under their names,
``*rest`` as an array under its own name, ``**extra`` as further names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_REST: Final = inspect.Parameter.VAR_POSITIONAL
_EXTRA: Final = inspect.Parameter.VAR_KEYWORD
_NOTHING: Final = inspect.Parameter.empty

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Parameters:
    """The parameters of one callable, found once."""

    __slots__ = ("_by_name", "_defaults", "_extra", "_names", "_only", "_rest", "_signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None
        try:
            self._signature = _signature(function)
        except (ValueError, TypeError):
            self._signature = None
        self._names: list[str] = []
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
                return dict(kwargs), "its signature cannot be inspected: call it with keyword arguments"
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
        positional = self._only or (self._rest is not None and given.get(self._rest))
        if positional:
            for name in self._names:
                if name in given:
                    args.append(given.pop(name))
                elif name in self._defaults and (self._rest in given or name in self._only):
                    args.append(self._defaults[name])
                else:
                    break
        if self._rest is not None and isinstance(given.get(self._rest), (list, tuple)):
            args.extend(cast("list[Any]", given.pop(self._rest)))
        return tuple(args), given


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of what runs; that of what it wraps only where it passes everything on as it comes."""
    own = inspect.signature(function, follow_wrapped=False)
    kinds = [parameter.kind for parameter in own.parameters.values()]
    return inspect.signature(function) if kinds == [_REST, _EXTRA] else own
