"""
Which session, and which call, the code that runs now belongs to.

It travels in a context variable: into tasks and `asyncio.to_thread` by itself, into raw threads by
`Run.bind`. A frame is never changed, only put on top of another.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatescore.guard.docket import Docket
    from gatescore.guard.guard import Guard


class Frame:
    """
    One open session, or one call inside of it.

    Attributes:
        run: The session.
        call_id: The guarded call in whose body this is, or None.
        below: The frame that this one lies on, or None.
    """

    __slots__ = ("below", "call_id", "run")

    def __init__(self, run: Docket, call_id: str | None, below: Frame | None) -> None:
        self.run = run
        self.call_id = call_id
        self.below = below


FRAME: ContextVar[Frame | None] = ContextVar("gatescore_frame", default=None)


def frame_of(guard: Guard | None) -> Frame | None:
    """The innermost frame of *guard*; with None, the innermost of all."""
    frame = FRAME.get()
    while frame is not None and guard is not None and frame.run.guard is not guard:
        frame = frame.below
    return frame


def leave(token: Token[Frame | None]) -> None:
    """Go back to the frame before *token*, also where another context leaves than the one that entered."""
    try:
        FRAME.reset(token)
    except ValueError:
        before = token.old_value
        FRAME.set(None if before is Token.MISSING else before)
