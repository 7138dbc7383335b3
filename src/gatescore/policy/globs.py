"""
Globs over whole names: ``*`` for any characters but `/`, ``**`` for any at all, ``?`` for one but `/`.

The time that a match takes grows with the name, never with the square of it or worse: names come
from models, and `*a*a*a*` must not be a way to stop a gate. So a pattern is run as an automaton,
all of its states at once, as the bits of one number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_WILD: Final = re.compile(r"\*+|\?")


@dataclass(frozen=True, slots=True, eq=False)
class _Automaton:
    """
    Bit n of a state stands for "n characters of the pattern are used up".

    Attributes:
        literals: For a character, the states that it takes one further.
        elsewhere: The states that any character but `/` takes further, and those that it leaves.
        slash: The same for `/`.
        last: The state in which the pattern is used up.
    """

    literals: dict[str, int]
    elsewhere: tuple[int, int]
    slash: tuple[int, int]
    last: int

    def accepts(self, text: str) -> bool:
        states = 1
        for char in text:
            moves, stays = self.slash if char == "/" else self.elsewhere
            states = (states & (self.literals.get(char, 0) | moves)) << 1 | states & stays
            if not states:
                return False
        return bool(states >> self.last & 1)


@dataclass(frozen=True, slots=True, eq=False)
class Glob:
    """A glob, compiled by `compile_glob`: text before the first wildcard, text after the last, a middle."""

    head: str
    tail: str
    middle: _Automaton | None
    lone_star: bool
    crosses: bool

    def matches(self, name: str) -> bool:
        """Whether the glob describes the whole of *name*."""
        if self.middle is None:
            return name == self.head
        end = len(name) - len(self.tail)
        if len(self.head) > end or not name.startswith(self.head) or not name.endswith(self.tail):
            return False
        if self.lone_star:  # nearly every glob of a policy, such as `search_*`
            return self.crosses or name.find("/", len(self.head), end) < 0
        return self.middle.accepts(name[len(self.head) : end])


def has_wildcard(text: str) -> bool:
    """Whether *text* holds a wildcard."""
    return "*" in text or "?" in text


def compile_glob(text: str, *, wide: bool = False) -> Glob:
    """
    Compile *text*; without a wildcard it matches itself alone, the empty text too.

    Args:
        text: The glob; three stars in a row or more mean what two mean.
        wide: Let every wildcard match `/` as well.
    """
    wild = list(_WILD.finditer(text))
    if not wild:
        return Glob(head=text, tail="", middle=None, lone_star=False, crosses=False)
    begin, end = wild[0].start(), wild[-1].end()
    literals: dict[str, int] = {}
    ones = stars = deep = 0
    state = 1
    for token in re.finditer(r"\*+|.", text[begin:end], re.DOTALL):
        part = token[0]
        if part[0] == "*":
            stars |= state
            deep |= state if wide or len(part) > 1 else 0
            continue
        if part == "?":
            ones |= state
        else:
            literals[part] = literals.get(part, 0) | state
        state <<= 1
    return Glob(
        head=text[:begin],
        tail=text[end:],
        middle=_Automaton(literals, (ones, stars), (ones if wide else 0, deep), state.bit_length() - 1),
        lone_star=len(wild) == 1 and bool(stars),
        crosses=bool(deep),
    )
