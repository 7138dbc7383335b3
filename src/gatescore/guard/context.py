"""
Which session, and which call, the code that runs now belongs to.

It travels in a context variable: into tasks and `asyncio.to_thread` by itself, into raw threads by
`Run.bind`. A frame is never changed, only put on top of another.
"""

from __future__ import annotations

from contextvars import ContextVar
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
        stands_for: The frame that this one took the place of, when one further below was left; or None.
    """

    __slots__ = ("below", "call_id", "run", "stands_for")

    def __init__(
        self, run: Docket, call_id: str | None, below: Frame | None, stands_for: Frame | None = None
    ) -> None:
        self.run = run
        self.call_id = call_id
        self.below = below
        self.stands_for = stands_for


FRAME: ContextVar[Frame | None] = ContextVar("gatescore_frame", default=None)


def frame_of(guard: Guard | None) -> Frame | None:
    """The innermost frame of *guard*; with None, the innermost of all."""
    frame = FRAME.get()
    while frame is not None and guard is not None and frame.run.guard is not guard:
        frame = frame.below
    return frame


def enter(run: Docket, call_id: str | None) -> Frame:
    """Put a frame on top of what is current."""
    frame = Frame(run, call_id, FRAME.get())
    FRAME.set(frame)
    return frame


def leave(frame: Frame) -> None:
    """
    Take *frame* away, and nothing that was put on top of it since.

    Where another context leaves than the one that entered, and *frame* is not there, nothing changes.
    """
    top = FRAME.get()
    FRAME.set(frame.below if top is frame else _without(top, frame))


def _without(top: Frame | None, frame: Frame) -> Frame | None:
    if top is None:
        return None
    if top is frame or top.stands_for is frame:
        return top.below
    below = _without(top.below, frame)
    return top if below is top.below else Frame(top.run, top.call_id, below, top.stands_for or top)
