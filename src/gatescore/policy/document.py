"""
A policy's text as plain data, with the place of every key and value.

Plain data is what JSON can hold: mappings with text as keys, lists, text, finite numbers, true,
false, null, at most 64 deep. Whichever way a policy comes in, from YAML, JSON or Python, what
comes out is that and nothing else, so nobody behind this module needs to check again. It may be
shared (an alias gives the same object twice): read it, do not change it.

The only module of the core that opens a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from gatescore.canonical import Json
from gatescore.errors import Path, PolicyError
from gatescore.policy import json_text
from gatescore.policy.places import EMPTY, MAX_DEPTH, TOO_DEEP, Lines, Node, Place, shown, value_fault

Filename = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Document:
    """
    A policy as plain data.

    Attributes:
        data: The value at the root; any plain value, for it was not read as a policy yet.
        source: The file, or what stands for it in messages; None for a policy built in Python.
    """

    data: Json
    source: str | None = None
    _root: Node | None = field(default=None, repr=False, compare=False)

    def place(self, path: Path, *, key: bool = False) -> Place | None:
        """
        Locate the value at *path*, or with *key* the mapping key that ends it.

        Returns:
            Line and column, both from 1. Where nothing is at *path*, the place of its nearest
            ancestor. None for a policy built in Python.
        """
        return None if self._root is None else self._root.find(path, key=key)

    def locate(self, error: PolicyError) -> PolicyError:
        """Give *error* the place of its path; one that has a place already keeps it. Same object."""
        if error.line is not None:
            return error
        line, column = self.place(error.path, key=error.key) or (None, None)
        return error.located(self.source, line, column)


def read_document(path: Filename) -> Document:
    """
    Read a policy file: JSON where its name ends in ``.json``, else YAML.

    Raises:
        PolicyError: The file cannot be opened, is not UTF-8 text, or does not parse.
    """
    source = os.fspath(path)
    try:
        with open(source, "rb") as file:  # noqa: PTH123 - `pathlib` would be one more import of the core
            raw = file.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (
            (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        )
        raise PolicyError(f"the policy cannot be read: {reason.lower()}").located(
            source, None, None
        ) from error
    text = decode(raw, source)
    return parse_json(text, source) if source.lower().endswith(".json") else parse_yaml(text, source)


def beside(path: Filename, name: str) -> str:
    """The file that *name* means in the file *path*: relative names start from its folder."""
    return os.path.join(os.path.dirname(os.fspath(path)), name)  # noqa: PTH118, PTH120 - as above


def identity(path: Filename) -> str:
    """One spelling for all names of a file, links followed."""
    return os.path.realpath(path)


def decode(raw: bytes, source: str | None = None) -> str:
    """
    Decode a policy's bytes: UTF-8, with or without a byte order mark.

    Raises:
        PolicyError: Not UTF-8, or not text at all; the place is the first byte at fault.
    """
    try:
        text, bad = raw.decode("utf-8-sig"), raw.find(b"\0")
    except UnicodeDecodeError as error:
        text, bad = "", error.start
    if bad >= 0:
        before = raw[:bad].decode("utf-8-sig", "replace")
        message = "not a text in UTF-8: save the policy as UTF-8"
        raise PolicyError(message).located(source, *Lines(before).place(len(before)))
    return text


def parse_yaml(text: str, source: str | None = None) -> Document:
    """
    Read a policy in YAML: core schema of YAML 1.2, no tags, no merge keys, one document.

    Raises:
        PolicyError: With the place, for everything that is not such a document, also an empty one.
    """
    from gatescore.policy import yaml_text  # noqa: PLC0415 - a policy in JSON or Python needs no PyYAML

    root = yaml_text.parse(text.removeprefix("\ufeff"), source)
    return Document(cast("Json", root.value), source, root)


def parse_json(text: str, source: str | None = None) -> Document:
    """
    Read a policy in JSON, strictly: no comments, no NaN, no key twice.

    Raises:
        PolicyError: With the place, for everything that is not such a document, also an empty one.
    """
    root = json_text.parse(text.removeprefix("\ufeff"), source)
    return Document(cast("Json", root.value), source, root)


def from_data(data: object, source: str | None = None) -> Document:
    """
    Copy a policy that was built in Python; tuples become lists.

    Raises:
        PolicyError: Something in it is not plain data. With its path; there are no lines.
    """
    result: list[object] = [None]
    todo: list[_Copy] = [(data, (), partial(result.__setitem__, 0))]
    while todo:
        value, path, put = todo.pop()
        if isinstance(value, Mapping):
            # reversed, and filled beforehand: so the first fault is told first, and the order is kept
            entries = list(cast("Mapping[object, object]", value).items())
            mapping = {_key(key, path, source): cast("object", None) for key, _ in entries}
            for key, (_, item) in reversed(list(zip(mapping, entries, strict=True))):
                todo.append((item, (*path, key), partial(mapping.__setitem__, key)))
            put(mapping)
        elif isinstance(value, list | tuple):
            items = list(cast("list[object] | tuple[object, ...]", value))
            for index, item in reversed(list(enumerate(items))):
                todo.append((item, (*path, index), partial(items.__setitem__, index)))
            put(items)
        else:
            put(_scalar(value, path, source))
            continue
        if len(path) >= MAX_DEPTH:
            raise _fault(TOO_DEEP, path, source)
    if result[0] is None:
        raise _fault(EMPTY, (), source)
    return Document(cast("Json", result[0]), source)


_Copy = tuple[object, Path, Callable[[object], None]]
"""What to copy, where it stands, and how to hand in the copy."""


def _fault(message: str, path: Path, source: str | None, *, key: bool = False) -> PolicyError:
    return PolicyError(message, path=path, key=key).located(source, None, None)


def _key(key: object, path: Path, source: str | None) -> str:
    if not isinstance(key, str):
        raise _fault(f"the key {shown(str(key))} is not text: write it in quotes", path, source)
    problem = value_fault(key)
    if problem is not None:
        raise _fault(problem, (*path, key), source, key=True)
    return str.__str__(key)


def _scalar(value: object, path: Path, source: str | None) -> object:
    problem = value_fault(value)
    if problem is not None:
        raise _fault(problem, path, source)
    if value is None or isinstance(value, bool):
        return value
    # members of enumerations, and other kinds of text and number, become what they stand for
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    kind = type(value).__name__
    raise _fault(
        f"a policy is made of text, numbers, true, false, null, lists and mappings, and this is a `{kind}`",
        path,
        source,
    )
