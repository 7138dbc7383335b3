"""One session of a guard, as its users see it."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypedDict, TypeVar, Unpack, cast

from gatescore.canonical import Json, canonical
from gatescore.guard.context import FRAME, Frame
from gatescore.guard.docket import Docket
from gatescore.guard.tickets import GuardError
from gatescore.model import Session
from gatescore.recording import session_of
from gatescore.score import PermissionCard, score_permissions

if TYPE_CHECKING:
    from gatescore.guard.proposals import ProposedCall

P = ParamSpec("P")
R = TypeVar("R")


class ScoreOptions(TypedDict, total=False):
    """How a run is scored: options of `gatescore.score.score_permissions` that mean something for one."""

    threshold: float
    strict: bool
    checks: str | Sequence[str] | None


class Run(Docket):
    """
    One session: made by `Guard.session`, open inside its ``with`` block.

    Attributes:
        guard: Its guard.
        id: Its id.
        principal: On whose behalf, or None.
        lone: The record of one call outside of any session.
        stopped: A spent limit with ``then: stop`` ended it: every further call is denied.
    """

    def __repr__(self) -> str:
        return f"<Run {self.id}: {len(self._ledger.history)} events>"

    @property
    def attributes(self) -> dict[str, Json]:
        """What is known about the session: a copy. Change it by `update`."""
        return canonical(self._attributes)

    def update(self, **attributes: object) -> None:
        """Set some of the session's attributes: an event, which later decisions see."""
        self.describe(canonical(attributes), keep=True)

    def propose(self, calls: Iterable[object], *, message: str | None = None) -> list[ProposedCall]:
        """
        Put forward the tool calls of one message of a model, judged in their order, before any of them runs.

        Args:
            calls: Mappings with `name`, `arguments` (a mapping, or JSON text) and, if the provider gave
                one, `id`; OpenAI's nesting in `function` is read too. Calls whose arguments are not
                valid are on the record as invalid, and denied.
            message: The id of the message; calls of one message are siblings.

        Returns:
            One proposed call for each, with its verdict; `ProposedCall.run` enters it.

        Raises:
            GuardError: The session is not open, or *calls* is no list of mappings.
        """
        from gatescore.guard.proposals import propose  # noqa: PLC0415 - what it makes can run tools

        if not self._opens:
            raise GuardError(f"session `{self.id}` is not open: propose inside its `with` block")
        return propose(self, calls, message or uuid.uuid4().hex)

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """
        Make *function* run in this session wherever it is called: in a raw thread, or an executor.

        A coroutine function runs in it wherever it is awaited. Of a generator function, bind what reads
        the generator: its steps run where they are asked for.
        """
        current = FRAME.get()
        frame = current if current is not None and current.run is self else Frame(self, None, current)

        if inspect.iscoroutinefunction(function):
            called = cast("Callable[P, Awaitable[object]]", function)

            @wraps(function)
            async def bound_async(*args: P.args, **kwargs: P.kwargs) -> object:
                before = FRAME.get()
                FRAME.set(frame)
                try:
                    return await called(*args, **kwargs)
                finally:
                    FRAME.set(before)

            return cast("Callable[P, R]", bound_async)

        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> R:
            before = FRAME.get()
            FRAME.set(frame)
            try:
                return function(*args, **kwargs)
            finally:
                FRAME.set(before)

        return bound

    def score(self, **options: Unpack[ScoreOptions]) -> PermissionCard:
        """
        Both checks and the reconciliation, from what this process recorded; complete once the session is over.

        Args:
            options: As in `gatescore.score.score_permissions`: `threshold`, `strict`, `checks`.
        """
        return score_permissions(self.session(), self.guard.policy, **options)

    def session(self) -> Session:
        """What was recorded, as a `gatescore.Session`: a copy."""
        with self._lock:
            record = self._ledger.record()
        return session_of(record, source=f"session {self.id}")


def new_session_id() -> str:
    """An id for a session that was given none."""
    return uuid.uuid4().hex
