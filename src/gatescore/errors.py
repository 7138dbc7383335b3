"""
The exceptions of gatescore, as one tree.

    GatescoreError
      PolicyError        (also ValueError)  a policy cannot be read, or contradicts itself
      ArgumentsError     (also ValueError)  the arguments of a call are not valid (see `gatescore.canonical`)
      InputError         (also ValueError)  a recording cannot be read
      ScoreError         (also ValueError)  a score was asked for in a way that has no answer

Messages are lower case, without a final period, with user data in backticks and the remedy
named. What a program may need stands in attributes; nothing has to be parsed from the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Self

Path = tuple[str | int, ...]
"""Where in a document: mapping keys and list positions, from the root."""


class GatescoreError(Exception):
    """The base of every exception that gatescore raises of its own accord."""


class PolicyError(GatescoreError, ValueError):
    """
    A policy that cannot be used: it does not parse, names something unknown, or contradicts itself.

    Attributes:
        message: What is wrong and what to do, without the place.
        path: Mapping keys and list positions from the root of the document to the fault.
        key: True where the fault is the key at the end of *path*, not its value.
        source: The file, or None for a policy built in Python.
        line, column: Place in the file, both counted from 1; None without a file.
    """

    def __init__(self, message: str, *, path: Path = (), key: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.key = key
        self.source: str | None = None
        self.line: int | None = None
        self.column: int | None = None

    def located(self, source: str | None, line: int | None, column: int | None) -> Self:
        """Add the file and the place; return the same exception."""
        self.source, self.line, self.column = source, line, column
        return self

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.source, self.line, self.column) if part is not None)
        if not where:
            where = path_text(self.path)
        return f"{where}: {self.message}" if where else self.message


class ArgumentsError(GatescoreError, ValueError):
    """Arguments of a tool call that no policy can judge: the call is invalid, and denied."""


class InputError(GatescoreError, ValueError):
    """
    A recording that cannot be read.

    Attributes:
        source: The file, or ``-`` for standard input.
        line: The line, counted from 1; None where the whole file is meant.
        message: What is wrong and what to do, without the place.
    """

    def __init__(self, message: str, *, source: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled with its place, which is not among the arguments of exceptions."""
        return _input_error, (self.message, self.source, self.line)

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{where}: {self.message}"


def _input_error(message: str, source: str, line: int | None) -> InputError:
    return InputError(message, source=source, line=line)


class ScoreError(GatescoreError, ValueError):
    """A score that was asked for with options or inputs that have no answer."""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """End a message about an unknown *word*: the nearest known one, else the whole choice."""
    choice = sorted(known)
    near = get_close_matches(str(word), choice, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return "use one of " + ", ".join(f"`{name}`" for name in choice)


def path_text(path: Path) -> str:
    """Write a path as a person would: ``rules[2].args.amount``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
