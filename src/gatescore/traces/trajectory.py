"""
Trajectory lines: one recorded session a line, the neutral input for people with their own logs.

A line is a whole session. `proposed` or `executed` absent or null (not ``[]``) means that the
stream was not observed. Keys that are not known are passed over, but a call that spells its
arguments in another way is refused: it would be judged as if it had none.

Source: DESIGN, "Trajectory lines".
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from gatescore.canonical import FlawedObject, Json, canonical
from gatescore.errors import ArgumentsError, did_you_mean
from gatescore.model import Execution, Executor, Origin, Outcome, Proposal, Session, ToolCall
from gatescore.policy.names import split_qualified
from gatescore.policy.places import shown
from gatescore.traces.joining import Candidate, LineError, Raw, Turns, join, queues_of

MISSPELT: Final = ("args", "argument", "parameters", "params", "input", "inputs", "kwargs", "function")

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOT_SELECTED: Final = "not_selected"
_REFUSED: Final = ("denied", "rejected", "expired", "invalid")
_ENDS: Final = ("executed", *_REFUSED, _NOT_SELECTED, "abandoned", *Outcome)
"""What the `outcome` of a proposal may say: its end, or how the execution that it led to came out."""


def is_trajectory(data: object) -> bool:
    """Whether parsed JSON is a trajectory line: an object that speaks of a stream."""
    return isinstance(data, dict) and ("proposed" in data or "executed" in data)


def parse_trajectory(data: Mapping[str, Any], *, source: str | None = None, fallback_id: str = "") -> Session:
    """
    Make a session of one parsed line.

    Args:
        data: The JSON object, as from `gatescore.canonical.parse_json`.
        source: Where it was read, for reports.
        fallback_id: The id of a session that has none.

    Raises:
        LineError: Something in the line has the wrong form; nothing of it is scored.
    """
    if isinstance(data, FlawedObject):
        raise LineError(data.flaw)
    principal = data.get("principal")
    if principal is not None and not isinstance(principal, str):
        raise _wrong(principal, "principal", "", "text")
    proposed = _calls(data, "proposed")
    executed = _calls(data, "executed")
    candidates, turns = _candidates(proposed or [])
    executions, refused = _executions(executed or [], candidates, turns)
    proposals = [_proposal(candidate) for candidate in [*candidates, *refused]]
    return Session(
        id=_id(data.get("id"), "") or fallback_id,
        principal=principal,
        attributes=_attributes(data.get("attributes")),
        catalog=_catalog(data.get("catalog")),
        proposed=None if proposed is None else proposals,
        executed=None if executed is None else executions,
        source=source,
    )


def parse_call(data: object, where: str = "the call") -> ToolCall:
    """
    Make a call of a mapping with `name` and, optionally, `arguments` and `server`.

    Raises:
        LineError: It has no name, or spells its arguments in another way.
    """
    raw = _raw(data, where)
    return raw.tool_call(raw.host_id or "")


def _attributes(value: object) -> dict[str, Json]:
    """The session's attributes: as strict as arguments, since expressions read them."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(value, "attributes", "", "an object")
    try:
        return canonical(cast("object", value))
    except ArgumentsError as error:
        raise LineError(f"`attributes` cannot be judged, as little as such arguments: {error}") from None


def _calls(data: Mapping[str, Any], key: str) -> list[Raw] | None:
    calls: Any = data.get(key)
    if calls is None:
        return None
    if not isinstance(calls, (list, tuple)):  # a line that was made in Python may hold tuples
        raise _wrong(data[key], key, "", "a list of calls")
    items = enumerate(cast("Sequence[object]", calls), 1)
    return [_raw(call, f"call {number} of `{key}`") for number, call in items]


def _raw(given: object, where: str) -> Raw:
    if isinstance(given, FlawedObject):
        raise LineError(f"{where}: {given.flaw}")
    if not isinstance(given, dict):
        raise LineError(f'{where} is not an object: write {{"name": NAME, "arguments": {{...}}}}')
    data = cast("Mapping[str, Any]", given)
    name = data.get("name")
    if name is None:
        raise LineError(f"{where} has no `name`: write which tool it is")
    if not isinstance(name, str):
        raise _wrong(name, "name", where, "text")
    if "arguments" not in data and "input_parameters" not in data:
        for key in MISSPELT:
            if key in data:
                raise LineError(f"{where} has `{key}` but no `arguments`: rename it")
    if data.get("arguments") is not None and data.get("input_parameters") is not None:
        raise LineError(f"{where} has both `arguments` and `input_parameters`: keep one of them")
    server = data.get("server")
    if server is not None and not isinstance(server, str):
        raise _wrong(server, "server", where, 'text ("" for a local tool)')
    if server is None:
        # Logs write the server into the name; a policy names the two apart.
        server, name = split_qualified(name) or (None, name)
    turn = _whole(data.get("turn"), "turn", where)
    message = data.get("message")
    if isinstance(message, bool) or not isinstance(message, (str, int, type(None))):
        raise _wrong(message, "message", where, "the id of a message: text or a whole number")
    group = (
        ("turn", turn) if turn is not None else ("message", message) if message not in (None, "") else None
    )
    approved, approved_at = _approval(data.get("approval"), where)
    return Raw(
        where,
        data,
        name,
        server,
        _id(data.get("id"), where),
        _whole(data.get("seq"), "seq", where),
        turn,
        group,
        _time(data.get("time"), where),
        approved,
        approved_at,
    )


def _id(value: object, where: str) -> str | None:
    """An id as text; None where it is missing, null or empty."""
    if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
        raise _wrong(value, "id", where, "text or a whole number")
    return None if value in (None, "") else str(value)


def _whole(value: object, key: str, where: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _wrong(value, key, where, "a whole number")
    return value


def _attempt(value: object, where: str) -> int | None:
    attempt = _whole(value, "attempt", where)
    if attempt is not None and attempt < 1:
        raise _wrong(value, "attempt", where, "a number from 1: the first entry is attempt 1")
    return attempt


def _time(value: object, where: str) -> int | None:
    """Nanoseconds since 1970: an integer as it is, or ISO 8601 text with its offset from UTC."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        with contextlib.suppress(ValueError, TypeError):
            moment = datetime.datetime.fromisoformat(value)
            return (moment - _EPOCH) // datetime.timedelta(microseconds=1) * 1000
    raise _wrong(
        value, "time", where, "integer nanoseconds since 1970, or ISO 8601 text with its offset from UTC"
    )


def _approval(value: object, where: str) -> tuple[bool, int | None]:
    """Whether somebody said yes, and when. What else it may say is not read, so it must say no more."""
    if value is None:
        return False, None
    where = f"{where}: `approval`"
    if isinstance(value, FlawedObject):
        raise LineError(f"{where}: {value.flaw}")
    said = cast("Mapping[str, Any]", value if isinstance(value, dict) else {})
    by = said.get("by")
    if not isinstance(by, str) or not by.strip():
        raise LineError(f'{where} does not say who agreed: write `{{"by": NAME, "time": TIME}}`')
    for key in said:
        if key not in ("by", "time"):
            raise LineError(
                f"{where} is a yes, and holds `by` and `time` alone, not {shown(key)}: "
                "leave it out where nobody agreed"
            )
    return True, _time(said.get("time"), where)


def _in_time(raw: Raw, entry: int | None, proposed: int | None) -> bool:
    """
    Whether the yes that *raw* records is one to this call, as far as times are known.

    That is one given between the proposal and the entry: nobody can agree to a call that does not exist yet.
    """
    at = raw.approved_at
    if not raw.approved or at is None:
        return raw.approved
    return (entry is None or at <= entry) and (proposed is None or proposed <= at)


def _wrong(value: object, key: str, where: str, wanted: str) -> LineError:
    return LineError(f"{where}{': ' if where else ''}`{key}` is {_shown(value)}, not {wanted}")


def _shown(value: object) -> str:
    """A value as JSON writes it, shortened; text without its quotes."""
    return shown(value if isinstance(value, str) else json.dumps(value, default=str))


def _choice(value: object, known: tuple[str, ...], key: str, where: str) -> str:
    if isinstance(value, str) and value in known:
        return value
    raise LineError(f"{where}: `{key}` is {_shown(value)}: {did_you_mean(value, known)}")


def _catalog(value: object) -> frozenset[str] | None:
    if value is None:
        return None
    names: list[str] = []
    items = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else [None]
    for item in items:
        name: object = cast("Mapping[str, Any]", item).get("name") if isinstance(item, dict) else item
        if not isinstance(name, str):
            raise LineError("`catalog` is not a list of tool names: leave it out where they are not known")
        names.append(name)
    return frozenset(names)


# The proposed stream


def _candidates(raws: list[Raw]) -> tuple[list[Candidate], Turns]:
    turns = Turns(recorded=all(raw.turn is not None for raw in raws))
    taken: set[str] = set()
    return [
        Candidate(raw, raw.tool_call(_own_id(raw, position, taken)), turns.of_proposal(raw, position))
        for position, raw in enumerate(raws)
    ], turns


def _own_id(raw: Raw, position: int, taken: set[str]) -> str:
    """An id that is unique in the session: the host's where it is, else the host's or none with a number."""
    own = raw.host_id or f"#{position if raw.seq is None else raw.seq}"
    number = 2
    unique = own
    while unique in taken:
        unique, number = f"{own}#{number}", number + 1
    taken.add(unique)
    return unique


def _proposal(candidate: Candidate) -> Proposal:
    raw = candidate.raw
    origin = raw.data.get("origin")
    outcome = raw.data.get("outcome")
    if outcome is not None:
        _choice(outcome, _ENDS, "outcome", raw.where)
    return Proposal(
        call=candidate.call,
        origin=Origin.MODEL
        if origin is None
        else Origin(_choice(origin, tuple(Origin), "origin", raw.where)),
        turn=candidate.turn,
        time=raw.time,
        # A yes is given after the proposal: what it must not be later than is the entry that it covers.
        approved=_in_time(raw, candidate.entries[0] if candidate.entries else None, raw.time),
        # What ran had been selected, whatever else the record says of it.
        selected=outcome != _NOT_SELECTED or bool(candidate.entries),
        refused=candidate.refused or outcome in _REFUSED,
    )


# The executed stream


def _executions(
    raws: list[Raw], candidates: list[Candidate], turns: Turns
) -> tuple[list[Execution], list[Candidate]]:
    """The executions, joined to proposals; and refused calls that nothing else shows to have been proposed."""
    queues = queues_of(candidates)
    taken = {candidate.call.call_id for candidate in candidates}
    executions: list[Execution] = []
    refused: list[Candidate] = []
    turn = min((candidate.turn for candidate in candidates), default=0) - 1
    for position, raw in enumerate(raws):
        invoked = raw.data.get("invoked")
        if invoked is not None and not isinstance(invoked, bool):
            raise _wrong(invoked, "invoked", raw.where, "true or false")
        candidate = join(raw, queues)
        turn = candidate.turn if candidate is not None else turns.of_execution(raw, turn)
        if invoked is False:
            if candidate is None:
                candidate = Candidate(raw, raw.tool_call(_own_id(raw, position, taken)), turn)
                refused.append(candidate)
            candidate.refused = True
            continue
        if candidate is not None:
            candidate.entries.append(raw.time)
        call_id = candidate.call.call_id if candidate is not None else _own_id(raw, position, taken)
        executions.append(_execution(raw, call_id, turn, candidate))
    return executions, refused


def _execution(raw: Raw, call_id: str, turn: int, candidate: Candidate | None) -> Execution:
    proposed_at = candidate.raw.time if candidate is not None else None
    data = raw.data
    outcome = Outcome.SUCCEEDED if data.get("error") is None else Outcome.FAILED
    if data.get("outcome") is not None:
        recorded = Outcome(_choice(data["outcome"], tuple(Outcome), "outcome", raw.where))
        if recorded is Outcome.SUCCEEDED and outcome is Outcome.FAILED:
            raise LineError(
                f"{raw.where}: `outcome` is `succeeded` beside an `error`: keep the one that is true"
            )
        outcome = recorded
    executor = data.get("executor")
    return Execution(
        call=raw.tool_call(call_id),
        proposed=candidate is not None,
        turn=turn,
        attempt=_attempt(data.get("attempt"), raw.where),
        executor=Executor.LOCAL
        if executor is None
        else Executor(_choice(executor, tuple(Executor), "executor", raw.where)),
        outcome=outcome,
        time=raw.time,
        approved=_in_time(raw, raw.time, proposed_at),
    )
