"""What a caller gets in place of a tool that may not run."""

from __future__ import annotations

from typing import Self

from gatescore.errors import GatescoreError
from gatescore.model import Decision, Moment, ToolCall


def refusal_text(call: ToolCall, decision: Decision) -> str:
    """The sentence for a model: the tool's name and the public reason, and no argument of the call."""
    return f"`{call.tool}` was refused: {decision.reason}"


class ToolDenied(GatescoreError):  # noqa: N818 - the word of the field for a call that a policy denies
    """
    A tool call was refused; the body of the tool was not entered.

    The text names the tool and the public reason; arguments and the inside of rules are never in it.

    Attributes:
        decision: Why: verdict, determining rules, reason.
        moment: Whether it was refused as it was put forward, or at the entry into the body.
    """

    def __init__(self, call: ToolCall, decision: Decision, moment: Moment = Moment.ENTRY) -> None:
        super().__init__(refusal_text(call, decision))
        self._call = call
        self.decision = decision
        self.moment = moment

    @property
    def call(self) -> ToolCall:
        """The call that was refused: a copy of what is on record."""
        return self._call.copied()

    @property
    def parts(self) -> tuple[ToolCall, Decision, Moment]:
        """What it is made of."""
        return self._call, self.decision, self.moment

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled by its parts, not by its text."""
        return type(self), self.parts


class InvalidCall(ToolDenied, TypeError):  # noqa: N818 - as above
    """A call was refused because its arguments do not fit the tool: also the `TypeError` that it is without a guard."""


def denial(call: ToolCall, decision: Decision, moment: Moment, *, unfit: bool = False) -> ToolDenied:
    """The exception for a refused *call*; *unfit* where its arguments do not fit the tool's parameters."""
    return (InvalidCall if unfit else ToolDenied)(call, decision, moment)


class Refusal(str):
    """
    What a guard with ``on_deny="return"`` gives in place of a tool's result: a text for the model.

    Attributes:
        decision, moment: As in `ToolDenied`.
    """

    __slots__ = ("_call", "decision", "moment")

    _call: ToolCall
    decision: Decision
    moment: Moment

    def __new__(cls, denied: ToolDenied) -> Self:
        """Make the text of a denial, which it takes its parts from."""
        refusal = super().__new__(cls, str(denied))
        # Its parts, and not itself: an exception holds on to the code that raised it.
        refusal._call, refusal.decision, refusal.moment = denied.parts
        return refusal

    @property
    def call(self) -> ToolCall:
        """As in `ToolDenied`."""
        return self._call.copied()

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled by its parts."""
        return Refusal, (ToolDenied(self._call, self.decision, self.moment),)
