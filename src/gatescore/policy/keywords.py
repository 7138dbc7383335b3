"""
The slot for gatescore's own condition keywords, all named ``x-...``.

A keyword speaks about strings and about arrays of strings. What one string is worth, the keyword
says with true or false; this module makes the three values of it:

* a string: true or false as the keyword says, and indeterminate where the keyword raises;
* an array of strings: true if every item is, false if every item is false, else indeterminate;
* an empty array: indeterminate. "Every item" would be true of it, and would grant what nobody looked at;
* anything else, an array with an item that is no string included: indeterminate.

jsonschema-rs reads every exception of a keyword as "not valid", which under `not` would grant. So
nothing that a keyword raises gets that far: it becomes the answer that is safe where the keyword stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from gatescore.errors import Path


class Keyword(Protocol):
    """One ``x-`` keyword: how its value in a policy becomes a check of one string."""

    def compile(self, value: Any, path: Path, /) -> Callable[[str], bool]:
        """
        Read the keyword's *value*, found at *path*, into a check.

        It may be called several times for one place of a policy, and must answer alike.

        Raises:
            PolicyError: The value is not one that the keyword takes.
        """
        ...


KEYWORDS: dict[str, Keyword] = {}
"""The keywords that policies may use, by name."""


@dataclass(slots=True)
class Trouble:
    """What went wrong inside keywords during one validation."""

    texts: list[str] = field(default_factory=list[str])
    interrupt: BaseException | None = None
    """A `KeyboardInterrupt` or its like: raised again once the validation has returned."""


TROUBLE: ContextVar[Trouble | None] = ContextVar("gatescore_keyword_trouble", default=None)
"""Where the validation that runs in this context collects its trouble."""


@dataclass(frozen=True, slots=True)
class StringCheck:
    """One use of a keyword, compiled for one of the two readings (`may`: valid unless false)."""

    name: str
    check: Callable[[str], bool]
    may: bool

    def holds(self, value: object) -> bool:
        """Answer for any JSON value; never raises."""
        if isinstance(value, str):
            return self._ask(value)
        if isinstance(value, list):
            items = cast("list[object]", value)
            texts = [item for item in items if isinstance(item, str)]
            if texts and len(texts) == len(items):
                return any(map(self._ask, texts)) if self.may else all(map(self._ask, texts))
        return self.may

    def _ask(self, text: str) -> bool:
        try:
            answer = cast("object", self.check(text))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not reach jsonschema-rs
            self._report(described(error), None if isinstance(error, Exception) else error)
            return self.may
        if isinstance(answer, bool):
            return answer
        self._report(f"answered with a {type(answer).__name__}, not with true or false")
        return self.may

    def _report(self, text: str, interrupt: BaseException | None = None) -> None:
        trouble = TROUBLE.get()
        if trouble is not None:
            trouble.texts.append(f"`{self.name}`: {text}")
            trouble.interrupt = trouble.interrupt or interrupt


def described(error: BaseException) -> str:
    """Put an exception into one short line, also one without a text or with a text that cannot be had."""
    try:
        text = " ".join(str(error)[:300].split())
    except Exception:  # noqa: BLE001 - the exception is foreign, and so is its text
        text = ""
    return text or type(error).__name__


CHECK = "x-check"
"""The one custom keyword that generated schemas use; its value is a position in a list of checks."""


def check_class(checks: Sequence[StringCheck]) -> type[Any]:
    """Make the class that jsonschema-rs asks about `CHECK`: *checks* by position."""

    class Check:
        def __init__(self, _schema: object, position: int, _path: object) -> None:
            self._holds = checks[position].holds

        def validate(self, instance: object) -> None:
            if not self._holds(instance):
                raise _NotMetError

    return Check


class _NotMetError(Exception):
    """How a custom keyword tells jsonschema-rs that it is not met."""
