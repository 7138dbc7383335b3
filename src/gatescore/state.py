"""
What one policy layer must know of a session's past: a fold over its events.

`State.apply` takes one event in; the questions below it are what conditions on the past ask.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gatescore.canonical import Json
from gatescore.correlation import Index, Values, is_withheld, pattern_of, values_of
from gatescore.model import (
    Abandoned,
    AttributesChanged,
    Budget,
    Decided,
    Effect,
    Event,
    Finished,
    Moment,
    Outcome,
    Proposed,
    Rejected,
    SessionEnded,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy.arguments import REST, ArgumentsCondition
from gatescore.policy.rules import After, Layer, Limit, Tool
from gatescore.policy.three_valued import WITHHELD
from gatescore.truth import AND, FALSE, INDETERMINATE, OR, TRUE, UNKNOWN, Truths
from gatescore.units import Units

NO_TIME: Final = "the time of a call is not recorded"
WITHHELD_ARGUMENTS: Final = "the arguments of a call are withheld"

_SINGLE: Final = (FALSE, INDETERMINATE, TRUE)


def judge_arguments(condition: ArgumentsCondition, call: ToolCall, errors: list[str] | None = None) -> Truths:
    """Whether the arguments of *call* meet *condition*; indeterminate for an invalid call."""
    if call.invalid is not None:
        return INDETERMINATE
    withheld = call.withheld and _reads_withheld(condition, call)
    return condition.judge(call.arguments, errors, opaque=call.opaque, withheld=withheld)


def _reads_withheld(condition: ArgumentsCondition, call: ToolCall) -> bool:
    """Whether *condition* is about something that the record withholds, or may be."""
    if condition.anywhere is not None or REST in condition.args or WITHHELD in call.arguments:
        return True
    return any(is_withheld(call.arguments.get(key.removesuffix("?"))) for key in condition.args)


@dataclass(slots=True)
class _Earlier:
    """One earlier execution that an ``after`` may count: its start among the events, and when it counted."""

    start: int
    time: int | None
    call_id: str


def _start(earlier: _Earlier) -> int:
    return earlier.start


def _time(earlier: _Earlier) -> float:
    return math.inf if earlier.time is None else earlier.time


_Rows = dict[Truths, list[_Earlier]]
"""The executions that an ``after`` may count, by the truth of its conditions on them, the nearest last."""


def _no_rows() -> _Rows:
    return {}


@dataclass(slots=True)
class _Effect:
    """
    Who had an effect.

    Attributes:
        calls: The calls that had it, or may have had it, with how many of their attempts.
        succeeded: Those of which an attempt succeeded.
    """

    calls: dict[str, int] = field(default_factory=lambda: {})
    succeeded: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class _Open:
    """An execution in flight, and what its success will add."""

    call: ToolCall
    start: int
    evidence: list[tuple[int, Values, Truths]] = field(default_factory=lambda: [])
    effects: list[tuple[Tool, Values]] = field(default_factory=lambda: [])


class State:
    """What one policy layer knows of a session's past. Read by `gatescore.decide`, changed by `apply` alone."""

    __slots__ = (
        "_effects",
        "_keyed",
        "_last_starts",
        "_messages",
        "_open",
        "_patterns",
        "_tables",
        "_units",
        "_withheld_calls",
        "attributes",
        "attributes_withheld",
        "folded",
        "labels",
        "layer",
        "may_be_stopped",
        "session",
        "stopped",
    )

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.folded = 0
        self.session: SessionStarted | None = None
        self.attributes: Mapping[str, Json] = {}
        self.attributes_withheld = False
        self.labels: set[str] = set()
        self.stopped = False
        self.may_be_stopped = False
        self._messages: dict[str, str] = {}
        self._last_starts: dict[str, int] = {}
        self._tables: list[Index[_Rows]] = [Index(_no_rows) for _ in layer.afters]
        self._open: dict[tuple[str, int], _Open] = {}  # by call and attempt
        self._units = Units()
        self._effects: defaultdict[Tool, Index[_Effect]] = defaultdict(lambda: Index(_Effect))
        # Of which calls the record withholds something, and by the limit's name, how the values of its
        # key were told in the calls that took a unit or may have: see `pattern_of`.
        self._withheld_calls: set[str] = set()
        self._keyed = any(rule.limit is not None and rule.limit.key for rule in layer.rules)
        self._patterns: defaultdict[str, set[Values | None]] = defaultdict(set)

    # The fold

    def apply(self, event: Event) -> None:
        """Fold one event in."""
        self.folded += 1
        match event:
            case SessionStarted():
                # The record of a lone call is no session: nothing is known of what happened before.
                self.session = None if event.lone else event
                self.attributes = event.attributes
                self.attributes_withheld = event.withheld
            case AttributesChanged():
                self.attributes = event.attributes
                self.attributes_withheld = event.withheld
            case Proposed():
                if event.message is not None:
                    self._messages[event.call.call_id] = event.message
                if event.call.withheld:
                    self._note_keys(event.call)
            case Decided():
                self._decided(event)
            case Started():
                self._started(event)
            case Finished():
                self._finished(event)
            case Rejected() | Abandoned():
                self._units.release(event.call_id)
            case SessionEnded():
                self._units.release_all()
            case _:
                pass  # the rest is for the record: no decision reads it

    def _decided(self, event: Decided) -> None:
        decision = event.decision
        if decision.stop:
            self.stopped = True
        self.may_be_stopped = self.may_be_stopped or decision.may_stop
        if event.call is not None and event.call.withheld:
            self._note_keys(event.call)
        elif self._keyed and event.call_id not in self._withheld_calls:
            self._note_told(decision.budgets)
        held = tuple(budget for budget in decision.budgets if budget.unit != "proposals")
        if event.moment is Moment.PROPOSAL:
            for budget in decision.budgets:
                if budget.unit == "proposals":
                    self._units.use(budget, event.time)
            # A call that waits for a person's yes holds nothing back from others.
            if decision.effect is Effect.ALLOW:
                self._units.reserve(event.call_id, held)
        elif decision.effect is Effect.DENY:
            self._units.release(event.call_id)
        else:
            self._units.reserve(event.call_id, held)

    def _started(self, event: Started) -> None:
        call = event.call
        first = self._last_starts.pop(call.call_id, None) is None
        self._last_starts[call.call_id] = (
            self.folded
        )  # at the end: the calls stand in the order of their last starts
        self._units.release(call.call_id)
        if call.withheld:
            self._note_keys(call)
        elif self._keyed:
            self._note_told(event.budgets)
        for budget in event.budgets:
            if budget.unit == "executions" or (budget.unit == "calls" and first):
                self._units.use(budget, event.time)

        layer = self.layer
        tool = layer.tool(call.server, call.name)
        tools = layer.restricting_tools(call.server, call.name) if layer.tools else ()
        for meant in tools:
            self.labels |= meant.labels or frozenset()
        running = _Open(call, self.folded)
        self._open[call.call_id, event.attempt] = running
        for after in layer.afters:
            truths = after.selector.judge(call.server, call.name, tool)
            if truths != FALSE and after.args is not None:
                truths = AND[truths][judge_arguments(after.args, call)]
            if truths == FALSE:
                continue
            values = values_of(call, [theirs for _, theirs in after.same])
            if after.restricting:
                earlier = _Earlier(self.folded, event.time, call.call_id)
                self._add(after.index, values, truths, earlier)
            else:
                running.evidence.append((after.index, values, truths))
        for meant in tools:
            if meant.once_per:
                values = values_of(call, meant.once_per)
                for effect in self._effects[meant].at(values):
                    effect.calls[call.call_id] = effect.calls.get(call.call_id, 0) + 1
                running.effects.append((meant, values))

    def _finished(self, event: Finished) -> None:
        running = self._open.pop((event.call_id, event.attempt), None)
        if running is None:
            return
        if event.outcome is Outcome.SUCCEEDED:
            for index, values, truths in running.evidence:
                earlier = _Earlier(running.start, event.time, event.call_id)
                self._add(index, values, truths, earlier)
        for tool, values in running.effects:
            if event.outcome is Outcome.SUCCEEDED:
                for effect in self._effects[tool].at(values):
                    effect.succeeded.add(event.call_id)
            elif event.outcome in tool.safe_to_repeat:
                for effect in self._effects[tool].at(values):
                    _take_one(effect.calls, event.call_id)

    def _note_keys(self, call: ToolCall) -> None:
        """Note how the keys of limits are told in *call*, of which the record withholds something."""
        self._withheld_calls.add(call.call_id)
        layer = self.layer
        for rule, _ in layer.rules_for(call.server, call.name, layer.tool(call.server, call.name)):
            if rule.limit is not None and rule.limit.key:
                pattern = pattern_of(values_of(call, rule.limit.key))
                if None not in pattern:  # without a value, it takes no unit
                    self._patterns[rule.limit.name].add(pattern)

    def _note_told(self, budgets: tuple[Budget, ...]) -> None:
        """Note that the keys of *budgets* are told, in a call of which the record withholds nothing."""
        for budget in budgets:
            self._patterns[budget.limit].add(None)

    def _add(self, index: int, values: Values, truths: Truths, earlier: _Earlier) -> None:
        for rows in self._tables[index].at(values):
            if self.layer.afters[index].calls is not None:
                insort(rows.setdefault(truths, []), earlier, key=_start)
            else:
                # Nearly always an append; a record whose times go back must not hide the nearest.
                insort(rows.setdefault(truths, []), earlier, key=_time)

    # Questions

    @property
    def observed(self) -> bool:
        """Whether the record holds what was executed in the session."""
        return self.session is not None and self.session.observed

    def after(
        self, after: After, call: ToolCall, now: int | None, moment: Moment, lacking: list[str]
    ) -> Truths:
        """
        Whether an execution that *after* asks for came before; without regard to `observed`.

        What the record lacks to say so of one of them is added to *lacking*.
        """
        values = values_of(call, [mine for mine, _ in after.same])
        truths = FALSE
        for same, found in self._tables[after.index].matching(values):
            for met, rows in found.items():
                earlier = self._latest(rows, call, moment)
                if earlier is not None:
                    within = self._within(after, earlier, call, now)
                    known = AND[AND[met][same]][within]
                    if known not in _SINGLE:
                        if within == UNKNOWN:
                            lacking.append(NO_TIME)
                        if met not in _SINGLE or same not in _SINGLE:
                            lacking.append(WITHHELD_ARGUMENTS)
                    truths = OR[truths][known]
        return truths

    def _latest(self, rows: list[_Earlier], call: ToolCall, moment: Moment) -> _Earlier | None:
        """The nearest execution of another call; at the proposal, siblings do not count."""
        message = self._messages.get(call.call_id) if moment is Moment.PROPOSAL else None
        for earlier in reversed(rows):
            if earlier.call_id == call.call_id:
                continue
            if message is not None and self._messages.get(earlier.call_id) == message:
                continue
            return earlier
        return None

    def _within(self, after: After, earlier: _Earlier, call: ToolCall, now: int | None) -> Truths:
        if after.calls is not None:
            return TRUE if earlier.start > self._start_before(after.calls, call.call_id) else FALSE
        if after.nanoseconds is None:
            return TRUE
        if now is None or earlier.time is None or now < earlier.time:
            return UNKNOWN
        return TRUE if now - earlier.time <= after.nanoseconds else FALSE

    def _start_before(self, calls: int, own: str) -> int:
        """The last start of the call that came before the last *calls* other calls; 0 where there is none."""
        left = calls
        for call_id in reversed(self._last_starts):
            if call_id != own:
                if not left:
                    return self._last_starts[call_id]
                left -= 1
        return 0

    def spent(
        self, limit: Limit, budget: Budget, call: ToolCall, elsewhere: int | None, now: int | None
    ) -> Truths:
        """
        Whether *budget* has no unit left for *call*.

        Args:
            limit: The limit that the budget belongs to.
            budget: Whose budget.
            call: The call that would take a unit; what it holds itself does not count.
            elsewhere: Units used outside of this session; None where the record does not hold it.
            now: The time, for a window.
        """
        if limit.unit == "calls" and call.call_id in self._last_starts:
            return FALSE  # another attempt of a call that has its unit
        used, unclear = self._units.taken(budget.key, call.call_id, limit.window, now)
        used += elsewhere or 0
        if used >= limit.units:
            return TRUE
        if (budget.wide and elsewhere is None) or used + unclear >= limit.units:
            return FALSE | TRUE
        return FALSE

    def doubts(self, budget: Budget) -> bool:
        """Whether the record does not tell of some earlier call if it took a unit of *budget*."""
        return self._units.doubts(budget.key)

    def mixes(self, limit: Limit, call: ToolCall, values: Values) -> bool:
        """Whether the record cannot tell which earlier units of *limit* are of the budget with the key *values*."""
        if not (call.withheld or self._withheld_calls):
            return False
        patterns = self._patterns.get(limit.name)
        if patterns is None or (limit.unit == "calls" and call.call_id in self._last_starts):
            return False
        own = pattern_of(values)
        told = ("",) * len(values)
        return any((told if pattern is None else pattern) != own for pattern in patterns)

    def repeats(self, tool: Tool, call: ToolCall) -> Truths:
        """
        Whether the effect of *call* is in flight, was had, or may have been had.

        Another attempt of the call itself is no repetition, unless an earlier one succeeded.
        """
        truths = FALSE
        own = call.call_id
        for same, effect in self._effects[tool].matching(values_of(call, tool.once_per)):
            if len(effect.calls) > (own in effect.calls) or own in effect.succeeded:
                truths = OR[truths][same]
        return truths


def _take_one(calls: dict[str, int], call_id: str) -> None:
    calls[call_id] -= 1
    if not calls[call_id]:
        del calls[call_id]
