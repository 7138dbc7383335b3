"""
A compiled condition, ready to be asked: two validators, and what happens when one of them fails.

Source: DESIGN 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gatescore.policy.keywords import TROUBLE, Trouble, described
from gatescore.truth import FALSE, INDETERMINATE, TRUE, Truths


@dataclass(frozen=True, slots=True)
class Reading:
    """
    One of the two readings of a condition, ready to be asked.

    Attributes:
        is_valid: The validator.
        may: It is the reading that holds unless the condition is false.
        watched: It uses keywords of ours, which collect what goes wrong in them.
    """

    is_valid: Callable[[object], bool]
    may: bool
    watched: bool

    def holds(self, value: object, errors: list[str] | None = None) -> bool:
        """
        Ask about *value*.

        Whatever goes wrong is added to *errors*, each text once, and makes a `must` False and a `may`
        True: it restricts, and never grants.
        """
        if self.watched:
            return self._watch(value, errors)
        try:
            return self.is_valid(value)
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no `Exception`
            return self._unanswered(error, errors)

    def _watch(self, value: object, errors: list[str] | None) -> bool:
        trouble = Trouble()
        token = TROUBLE.set(trouble)
        try:
            answer = self.is_valid(value)
        except BaseException as error:  # noqa: BLE001 - as above
            answer = self._unanswered(error, errors)
        finally:
            TROUBLE.reset(token)
        if trouble.interrupt is not None:
            raise trouble.interrupt
        for text in trouble.texts:
            _note(text, errors)
        return answer

    def _unanswered(self, error: BaseException, errors: list[str] | None) -> bool:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise error
        _note(f"the arguments could not be judged: {described(error)}", errors)
        return self.may


def _note(text: str, errors: list[str] | None) -> None:
    if errors is not None and text not in errors:
        errors.append(text)


class Pair(NamedTuple):
    """Both readings of one condition."""

    must: Reading
    may: Reading

    def judge(
        self, value: object, errors: list[str] | None = None, otherwise: Truths = INDETERMINATE
    ) -> Truths:
        """True, false, or *otherwise*."""
        if self.must.holds(value, errors):
            return TRUE
        return otherwise if self.may.holds(value, errors) else FALSE
