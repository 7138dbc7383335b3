"""
Plain data that remembers where it stood in its file.

The readers of YAML and JSON both feed a `Builder` with what they meet, in order. It builds the
data and, beside it, a tree of `Node` that knows the place of every key and value. All limits
and refusals that the formats share are here: depth, duplicate keys, keys that are not text,
aliases that multiply or contain themselves, numbers that are none. Nothing recurses.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from gatescore.errors import Path, PolicyError

Place = tuple[int, int]
"""A line and a column, both counted from 1; columns count characters, not bytes."""

MAX_DEPTH: Final = 64
"""How deep lists and mappings may nest: far more than a policy needs, far less than any stack holds."""

MAX_COPIES: Final = 200_000
"""How many values the aliases of one file may add; values written out are not limited."""

MAX_INTEGER_BITS: Final = 13_000
"""Whole numbers stay below the length at which Python refuses to write them as decimal digits."""

EMPTY: Final = "the policy is empty: write `allowed_tools: []` to allow nothing"
TOO_DEEP: Final = f"lists and mappings nest more than {MAX_DEPTH} deep: write it flatter"
TOO_LONG: Final = "a whole number of this length cannot be read: write text, in quotes"

_BREAK: Final = re.compile(r"\r\n|\r|\n")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_SHOWN: Final = 60


def shown(text: str) -> str:
    """Put user data in backticks: on one line, visible characters only, shortened where it is long."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    plain = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut
    )
    return f"`{plain}`"


def value_fault(value: object) -> str | None:
    """Say why a scalar cannot stand in a policy, or None: what no JSON document can hold is refused."""
    if isinstance(value, float) and not isfinite(value):
        return "not a finite number: leave out the bound, or put text in quotes"
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return TOO_LONG
    if isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
        return "half of a surrogate pair is not a character: write the whole one"
    return None


class Lines:
    """Where the lines of a text begin; a line ends with CR, LF or both."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in _BREAK.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def place(self, offset: int) -> Place:
        """Turn a position in the text, counted from 0, into a line and column."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


@dataclass(slots=True, eq=False)
class Node:
    """
    A value and its place.

    Attributes:
        value: The plain value; of a list or mapping, the same object that the data holds.
        place: Where it begins; of an alias, where the alias stands.
        children: The nodes of a list by position, of a mapping by key. What an alias stands for
            is shared with its anchor, so its parts have the places at which they are written.
        keys: The places of a mapping's keys.
        size: How many values it holds, itself included and aliases written out.
        height: How many lists and mappings nest in it, itself included; 0 for a scalar.
    """

    value: object
    place: Place
    children: dict[str | int, Node] = field(default_factory=dict[str | int, "Node"])
    keys: dict[str, Place] = field(default_factory=dict[str, Place])
    size: int = 1
    height: int = 0

    def find(self, path: Path, *, key: bool = False) -> Place:
        """Locate the value at *path*, or the *key* that ends it; where it is not, the nearest ancestor."""
        node = self
        for depth, step in enumerate(path, start=1):
            if key and depth == len(path) and isinstance(step, str) and step in node.keys:
                return node.keys[step]
            child = node.children.get(step)
            if child is None:
                break
            node = child
        return node.place


@dataclass(slots=True, eq=False)
class _Open:
    """A list or mapping whose end was not met yet."""

    node: Node
    mapping: dict[str, object] | None
    items: list[object]
    key: str | None = None

    @property
    def awaits_key(self) -> bool:
        return self.mapping is not None and self.key is None


class Builder:
    """Builds data and places from the events of one document, in the order of the file."""

    def __init__(self, source: str | None) -> None:
        self._root: Node | None = None
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._copies = 0

    @property
    def awaits_key(self) -> bool:
        """Whether what comes next is the key of a mapping."""
        return bool(self._open) and self._open[-1].awaits_key

    def fault(self, message: str, place: Place, key: str | None = None) -> PolicyError:
        """Make an error about what comes next, or about *key* in the mapping that is open."""
        path: list[str | int] = []
        for container in self._open:
            step = len(container.items) if container.mapping is None else container.key
            if step is not None:
                path.append(step)
        if key is not None:
            path.append(key)
        error = PolicyError(message, path=tuple(path), key=key is not None)
        return error.located(self._source, *place)

    def start(self, *, mapping: bool, place: Place, anchor: str | None = None) -> None:
        """Open a mapping or a list."""
        if self.awaits_key:
            raise self.fault(
                "a key is text, never a list or mapping: put it in quotes if text is meant", place
            )
        if len(self._open) >= MAX_DEPTH:
            raise self.fault(TOO_DEEP, place)
        data: dict[str, object] = {}
        items: list[object] = []
        node = Node(data if mapping else items, place, height=1)
        self._note(anchor, node)
        self._open.append(_Open(node, data if mapping else None, items))

    def end(self) -> None:
        """Close the innermost list or mapping."""
        self._add(self._open.pop().node)

    def scalar(
        self, read: Callable[[str], object], raw: str, place: Place, anchor: str | None = None
    ) -> None:
        """Take a single value, or a key; *read* makes the value of *raw*, the text of it."""
        try:
            value = read(raw)
        except ValueError:  # Python's own limit on the digits of an int
            raise self.fault(TOO_LONG, place) from None
        problem = value_fault(value)
        if problem is not None:
            raise self.fault(problem, place)
        node = Node(value, place)
        self._note(anchor, node)
        self._take(node, raw)

    def alias(self, anchor: str, place: Place) -> None:
        """Take what *anchor* stands for once more."""
        target = self._anchors.get(anchor)
        if target is None:
            raise self.fault(
                f"`*{anchor}` stands for an anchor `&{anchor}`, and none comes before it: "
                "put it in quotes if a name or pattern is meant",
                place,
            )
        if any(container.node is target for container in self._open):
            raise self.fault(f"`*{anchor}` contains itself: write out what it stands for", place)
        if len(self._open) + target.height > MAX_DEPTH:
            raise self.fault(TOO_DEEP, place)
        self._copies += target.size
        if self._copies > MAX_COPIES:
            raise self.fault(
                f"aliases add more than {MAX_COPIES:,} values: write fewer, or the values themselves", place
            )
        copy = Node(target.value, place, target.children, target.keys, target.size, target.height)
        self._take(copy, f"*{anchor}")

    def finish(self) -> Node:
        """Give back the document; one without a value, or that is null, is empty."""
        if self._root is None or self._root.value is None:
            raise self.fault(EMPTY, (1, 1) if self._root is None else self._root.place)
        return self._root

    def _note(self, anchor: str | None, node: Node) -> None:
        if anchor is not None:
            self._anchors[anchor] = node

    def _take(self, node: Node, raw: str) -> None:
        if not self.awaits_key:
            self._add(node)
            return
        top = self._open[-1]
        key = node.value
        if not isinstance(key, str):
            raise self.fault(_key_fault(key, raw), node.place)
        if key in top.node.keys:
            line = top.node.keys[key][0]
            raise self.fault(
                f"duplicate key {shown(key)}, already on line {line}: keep one of the two", node.place, key
            )
        top.node.keys[key] = node.place
        top.key = key

    def _add(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        top = self._open[-1]
        parent = top.node
        if top.mapping is None:
            parent.children[len(top.items)] = node
            top.items.append(node.value)
        elif top.key is not None:
            parent.children[top.key] = node
            top.mapping[top.key] = node.value
            top.key = None
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)


def _key_fault(key: object, raw: str) -> str:
    if raw == "":
        return 'a key is missing before `:`: an empty text is written `""`'
    if isinstance(key, list | dict):
        return f"a key is text, never a list or mapping, as {shown(raw)} is"
    kind = "null" if key is None else "a truth value" if isinstance(key, bool) else "a number"
    return f"the key {shown(raw)} is {kind}, and a key is text: put it in quotes"
