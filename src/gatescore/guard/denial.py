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
        call: The call that was refused.
        decision: Why: verdict, determining rules, reason.
        moment: Whether it was refused as it was put forward, or at the entry into the body.
    """

    def __init__(self, call: ToolCall, decision: Decision, moment: Moment = Moment.ENTRY) -> None:
        super().__init__(refusal_text(call, decision))
        self.call = call
        self.decision = decision
        self.moment = moment

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled by its parts, not by its text."""
        return type(self), (self.call, self.decision, self.moment)


class InvalidCall(ToolDenied, TypeError):  # noqa: N818 - as above
    """A call was refused because its arguments do not fit the tool: also the `TypeError` that it is without a guard."""


def denial(call: ToolCall, decision: Decision, moment: Moment, *, unfit: bool = False) -> ToolDenied:
    """The exception for a refused *call*; *unfit* where its arguments do not fit the tool's parameters."""
    return (InvalidCall if unfit else ToolDenied)(call, decision, moment)


class Refusal(str):
    """
    What a guard with ``on_deny="return"`` gives in place of a tool's result: a text for the model.

    Attributes:
        call, decision, moment: As in `ToolDenied`.
    """

    __slots__ = ("call", "decision", "moment")

    call: ToolCall
    decision: Decision
    moment: Moment

    def __new__(cls, denied: ToolDenied) -> Self:
        """Make the text of a denial, which it takes its parts from."""
        refusal = super().__new__(cls, str(denied))
        refusal.call = denied.call
        refusal.decision = denied.decision
        refusal.moment = denied.moment
        return refusal

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled by its parts."""
        return Refusal, (ToolDenied(self.call, self.decision, self.moment),)
