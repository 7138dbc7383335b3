"""The calls of one session: their ids, and which of them an entry belongs to."""

from __future__ import annotations

import hashlib
from collections import defaultdict

from gatescore.canonical import equal
from gatescore.guard.tickets import Ticket
from gatescore.model import Join, ToolCall


class Register:
    """
    Gives calls their ids, and finds them again. Not locked by itself: whoever asks holds the session's lock.

    Attributes:
        waiting: Calls that were proposed and not entered, by their tool, the oldest first.
    """

    __slots__ = ("_by_host", "_ordinals", "waiting")

    def __init__(self) -> None:
        self._ordinals: defaultdict[tuple[str | None, ...], int] = defaultdict(int)
        self._by_host: dict[tuple[str, str | None, str], list[Ticket]] = {}
        self.waiting: dict[tuple[str | None, str], list[Ticket]] = {}

    def identify(self, call: ToolCall, session_id: str, parent: str | None, digest: str) -> None:
        """
        Give a call its id, by what is the same when the program runs again.

        That is its session, the call in whose body it is made, its tool, the provider's id or else its
        arguments, and its number among such.
        """
        own = call.host_call_id or digest
        key = (parent, call.server, call.name, own)
        ordinal = self._ordinals[key]
        self._ordinals[key] = ordinal + 1
        text = "\n".join((session_id, parent or "", call.server or "", call.name, own, str(ordinal)))
        made = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        call.identify(made, digest, call.host_call_id)

    def remember(self, ticket: Ticket, *, waits: bool) -> None:
        """Keep what another entry may belong to."""
        call = ticket.call
        if call.host_call_id:
            key = (call.host_call_id, call.server, call.name)
            self._by_host.setdefault(key, []).append(ticket)
        if waits:
            self.waiting.setdefault(call.identity, []).append(ticket)

    def claim(self, call: ToolCall) -> tuple[Ticket, Join] | None:
        """
        Find the proposal that a call belongs to, or None: by the provider's id, else by name and arguments.

        Providers repeat their ids. One that was entered already is entered again by equal arguments
        alone, as another attempt; a denied one by none.
        """
        if not call.host_call_id and not self.waiting:
            return None
        found = self._by_id(call) if call.host_call_id else self._by_arguments(call)
        if found is None:
            return None
        found.claimed = True
        return found, Join.ID if call.host_call_id else Join.INFERRED

    def _by_id(self, call: ToolCall) -> Ticket | None:
        known = self._by_host.get((call.host_call_id or "", call.server, call.name), ())
        able = [ticket for ticket in known if ticket.denied is None]
        fresh = next((ticket for ticket in able if not ticket.claimed), None)
        if fresh is not None:
            return fresh
        return next((ticket for ticket in reversed(able) if _equal(ticket.call, call)), None)

    def _by_arguments(self, call: ToolCall) -> Ticket | None:
        waiting = [ticket for ticket in self.waiting.get(call.identity, ()) if not ticket.claimed]
        self.waiting[call.identity] = waiting
        return next((ticket for ticket in waiting if _equal(ticket.call, call)), None)


def _equal(left: ToolCall, right: ToolCall) -> bool:
    valid = left.invalid is None and right.invalid is None
    return valid and equal(left.arguments, right.arguments)
