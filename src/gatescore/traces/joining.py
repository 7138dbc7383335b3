"""
How the two streams of a line belong together: turns, and which execution joins which proposal.

Executions join by `seq`; without it by `id`, first in, first out; without that by name and arguments.
What does not join stays by itself: an execution is never taken for a proposal.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gatescore.canonical import equal
from gatescore.model import ToolCall


class LineError(ValueError):
    """What is wrong with a line, in one sentence that names the place in it and the remedy."""


@dataclass(slots=True)
class Raw:
    """
    One call as it stands in a line.

    Attributes:
        group: What its siblings have in common: the recorded turn, else the message; None for neither.
        approved: Somebody said yes, by the record.
        approved_at: When, or None.
    """

    where: str
    data: Mapping[str, Any]
    name: str
    server: str | None
    host_id: str | None
    seq: int | None
    turn: int | None
    group: tuple[str, str | int] | None
    time: int | None
    approved: bool
    approved_at: int | None

    def tool_call(self, call_id: str) -> ToolCall:
        """The call, with *call_id* as our own id of it; `input_parameters` are read where there are no `arguments`."""
        arguments = self.data.get("arguments")
        if arguments is None:
            arguments = self.data.get("input_parameters")
        return ToolCall(self.name, arguments, server=self.server, call_id=call_id, host_call_id=self.host_id)


@dataclass(slots=True)
class Candidate:
    """A proposal that executions may join."""

    raw: Raw
    call: ToolCall
    turn: int
    joined: int = 0
    entries: list[int | None] = field(default_factory=lambda: [])
    refused: bool = False


@dataclass(slots=True)
class Queues:
    """Proposals in order, found by what an execution can join them with."""

    by_seq: dict[int, Candidate] = field(default_factory=lambda: {})
    by_id: defaultdict[tuple[str, str], deque[Candidate]] = field(default_factory=lambda: defaultdict(deque))
    by_name: defaultdict[str, list[Candidate]] = field(default_factory=lambda: defaultdict(list))


@dataclass(slots=True)
class Turns:
    """The turns of a line: as recorded; without, calls of one message are one, others one each."""

    recorded: bool
    numbers: dict[object, int] = field(default_factory=lambda: {})

    def of_proposal(self, raw: Raw, position: int) -> int:
        """The turn of the proposal at *position*."""
        if self.recorded:
            return raw.turn or 0
        return self.numbers.setdefault(position if raw.group is None else raw.group, len(self.numbers))

    def of_execution(self, raw: Raw, before: int) -> int:
        """The turn of an execution that no proposal joins; without one, that of the execution *before*."""
        if self.recorded:
            return before if raw.turn is None else raw.turn
        return self.numbers.get(raw.group, before)


def queues_of(candidates: list[Candidate]) -> Queues:
    """
    Put the proposals of one line where executions can find them.

    Raises:
        LineError: Two proposals have one `seq`.
    """
    queues = Queues()
    for candidate in candidates:
        raw = candidate.raw
        if raw.seq is not None:
            first = queues.by_seq.setdefault(raw.seq, candidate)
            if first is not candidate:
                again = f"`seq` is `{raw.seq}`, as in {first.raw.where}"
                raise LineError(f"{raw.where}: {again}: number each proposal of a session once")
        if raw.host_id is not None:
            queues.by_id[raw.host_id, raw.name].append(candidate)
        queues.by_name[raw.name].append(candidate)
    return queues


def join(raw: Raw, queues: Queues) -> Candidate | None:
    """The proposal that an execution belongs to: by `seq`, else by `id`, else by name and arguments."""
    found: Candidate | None = None
    if raw.seq is not None and queues.by_seq:
        found = queues.by_seq.get(raw.seq)
        if found is not None and not _same_tool(found.raw, raw):
            found = None
    elif queue := queues.by_id.get((raw.host_id or "", raw.name)):
        found = _first(raw, queue)
    else:
        found = _same_call(raw, queues.by_name.get(raw.name, []))
    if found is not None:
        found.joined += 1
    return found


def _first(raw: Raw, queue: deque[Candidate]) -> Candidate | None:
    """First in, first out; the last one stays, so that a second entry is seen to be its own."""
    while len(queue) > 1 and queue[0].joined:
        queue.popleft()
    waiting = (candidate for candidate in queue if not candidate.joined and _same_tool(candidate.raw, raw))
    last = queue[-1]
    return next(waiting, last if _same_tool(last.raw, raw) else None)


def _same_tool(left: Raw, right: Raw) -> bool:
    """One name, and no two servers; a record may say the server in one of the streams alone."""
    return left.name == right.name and (
        left.server == right.server or left.server is None or right.server is None
    )


def _same_call(raw: Raw, candidates: list[Candidate]) -> Candidate | None:
    call = raw.tool_call("")
    for position, candidate in enumerate(candidates):
        # An id on both sides that differs says that they are two calls.
        comparable = raw.host_id is None or candidate.raw.host_id is None
        waiting = comparable and not candidate.joined and _same_tool(candidate.raw, raw)
        if waiting and _same_arguments(candidate.call, call):
            del candidates[position]  # the next look need not pass it over again
            return candidate
    return None


def _same_arguments(left: ToolCall, right: ToolCall) -> bool:
    return left.invalid is None and right.invalid is None and equal(left.arguments, right.arguments)
