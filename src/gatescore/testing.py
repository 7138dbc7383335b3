"""
What users need to test their guarded tools without a model.

`RecordingGuard` keeps what it saw, and says in a test what was entered and what was not;
`ScriptedProposals` stands for the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from gatescore.guard import Guard, ProposedCall, Refusal, Run, ToolDenied
from gatescore.guard.run import ScoreOptions
from gatescore.model import Effect, Execution, Proposal, Session
from gatescore.score import PermissionCard, score_permissions

__all__ = ["RecordingGuard", "ScriptedProposals"]


class RecordingGuard(Guard):
    """
    A `Guard` that keeps all of its sessions, also those of single calls outside of any.

    Made as a `Guard` is. Sessions are kept as long as the guard is: it is for tests.
    """

    def watch(self, run: Run) -> None:
        """Keep a session."""
        super().watch(run)
        self.__dict__.setdefault("_kept", []).append(run)

    @property
    def sessions(self) -> list[Session]:
        """What was recorded, one session after the other, in the order in which they were made."""
        kept: list[Run] = self.__dict__.get("_kept", [])
        return [run.session() for run in kept]

    @property
    def proposals(self) -> list[Proposal]:
        """The proposed calls of all sessions."""
        return [proposal for session in self.sessions for proposal in session.proposed or ()]

    @property
    def executions(self) -> list[Execution]:
        """The entries into bodies of all sessions."""
        return [execution for session in self.sessions for execution in session.executed or ()]

    def entries(self, name: str) -> list[dict[str, Any]]:
        """The arguments of every entry into the tool *name*, at entry."""
        return [execution.call.arguments for execution in self.executions if execution.call.name == name]

    def assert_entered(self, name: str, *, times: int | None = None) -> None:
        """
        Fail unless the body of the tool *name* was entered: at least once, or exactly *times*.

        Raises:
            AssertionError: It was not; the message says what was proposed.
        """
        count = len(self.entries(name))
        wanted = count > 0 if times is None else count == times
        if not wanted:
            often = "at least once" if times is None else f"{times} times"
            raise AssertionError(f"`{name}` was entered {count} times, not {often}; {self._seen(name)}")

    def assert_not_entered(self, name: str) -> None:
        """
        Fail if the body of the tool *name* was entered, or if nobody so much as tried: that would prove nothing.

        Raises:
            AssertionError: It was entered, or never proposed.
        """
        count = len(self.entries(name))
        if count:
            raise AssertionError(f"`{name}` was entered {count} times; {self._seen(name)}")
        if not any(proposal.call.name == name for proposal in self.proposals):
            raise AssertionError(f"`{name}` was never proposed, so nothing was kept from being entered")

    def assert_denied(self, name: str, *, rule: str | None = None) -> None:
        """
        Fail unless every proposal of the tool *name* was refused, by *rule* where one is named.

        Raises:
            AssertionError: One was not, or there was none.
        """
        self.assert_not_entered(name)
        card = self.score()
        refused = [call for call in card.planner.unauthorized if call.tool == name]
        if rule is not None and not any(rule in call.rules for call in refused):
            by = sorted({name for call in refused for name in call.rules}) or ["no rule"]
            raise AssertionError(f"`{name}` was not refused by `{rule}` but by {', '.join(by)}")

    def score(self, **options: Unpack[ScoreOptions]) -> PermissionCard:
        """The card of all sessions; options as in `gatescore.score.score_permissions`."""
        return score_permissions(self.sessions, self.policy, **options)

    def _seen(self, name: str) -> str:
        ends = [str(proposal.end or "pending") for proposal in self.proposals if proposal.call.name == name]
        return f"its proposals: {', '.join(ends) or 'none'}"


class ScriptedProposals:
    """
    Stands for a model: proposes the calls of given messages, one message after the other.

    Attributes:
        messages: For each message, its calls, as `Run.propose` takes them.
        proposed: What was proposed so far, with the verdicts.
    """

    def __init__(self, *messages: Sequence[Mapping[str, Any]]) -> None:
        """
        Write a script.

        Args:
            messages: Lists of calls: mappings with `name`, `arguments` and, optionally, `id`.
        """
        self.messages = messages
        self.proposed: list[ProposedCall] = []

    def play(self, run: Run) -> list[Any]:
        """
        Propose and run every call, as an agent's loop would.

        Returns:
            The result of each call, in order; for a refused one the `Refusal` that the model would read.
            An exception of a tool ends the script.
        """
        return [_answer(call) for message in self.messages for call in self._propose(run, message)]

    async def play_async(self, run: Run) -> list[Any]:
        """As `play`, with async tools awaited."""
        results: list[Any] = []
        for message in self.messages:
            for call in self._propose(run, message):
                try:
                    result = _answer(call)
                    results.append(await result if inspect.isawaitable(result) else result)
                except ToolDenied as denied:
                    results.append(Refusal(denied))
        return results

    def _propose(self, run: Run, message: Iterable[object]) -> list[ProposedCall]:
        calls = run.propose(message)
        self.proposed.extend(calls)
        return calls

    @property
    def refused(self) -> list[ProposedCall]:
        """The calls that were denied as they were proposed."""
        return [call for call in self.proposed if call.decision.effect is Effect.DENY]


def _answer(call: ProposedCall) -> Any:
    try:
        return call.run()
    except ToolDenied as denied:
        return Refusal(denied)
