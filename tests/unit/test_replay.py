"""A recorded session judged again, and its two streams held against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gatescore.canonical import Json
from gatescore.decide import decide
from gatescore.history import History, advance
from gatescore.model import (
    Approved,
    AttributesChanged,
    Budget,
    Decided,
    Decision,
    Effect,
    Event,
    Executor,
    Facts,
    Finished,
    Mode,
    Moment,
    Origin,
    Outcome,
    Position,
    Proposed,
    Record,
    Rejected,
    SessionEnded,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy
from gatescore.recording import session_of
from gatescore.report.text import permission_text
from gatescore.score import PermissionCard, Status, score_permissions
from gatescore.score.cards import Basis, Kind
from gatescore.score.replay import replay

POLICY = Policy.from_dict(
    {
        "gatescore": 1,
        "default": "deny",
        "tools": {"pay": {"once_per": ["id"]}},
        "rules": [
            {"id": "read", "allow": ["read", "pay"]},
            {"id": "small", "allow": "refund", "args": {"x": {"maximum": 10}}},
            {"id": "cancel", "ask": "cancel"},
            {"id": "twice", "allow": "search", "limit": {"executions": 1, "per": "session"}},
        ],
    }
)
OTHER = Policy(allowed_tools=["read", "drop"])
REST = SessionEnded()
MARKER: dict[str, Json] = {"$withheld": {"size": 1}}


def enforced(**more: Any) -> SessionStarted:
    return SessionStarted(**{"session_id": "s", "mode": Mode.ENFORCE, **more})


def monitored() -> SessionStarted:
    return enforced(mode=Mode.MONITOR)


def call(name: str, call_id: str = "c", *, digest: str | None = "d", **arguments: Json) -> ToolCall:
    return ToolCall.recorded(name, arguments, call_id=call_id, digest=digest)


def hidden(name: str, call_id: str = "c", *, digest: str | None = "d") -> ToolCall:
    return ToolCall.recorded(name, {"x": MARKER}, call_id=call_id, withheld=True, digest=digest)


def verdict(effect: str, *rules: str, policy: Policy = POLICY, **more: Any) -> Decision:
    return Decision(Effect(effect), rules, "recorded", policy.digest, **more)


class Tape:
    """Events written as a guard would: each verdict is what the policy gives at that point, unless one is named."""

    def __init__(self, start: SessionStarted | None = None, policy: Policy = POLICY) -> None:
        self.policy = policy
        self.events: list[Event] = []
        self.history = History()
        self.add(start or enforced())

    def add(self, *events: Event) -> Tape:
        for event in events:
            self.events.append(event)
            self.history = advance(self.history, event)
        return self

    def judge(self, moment: Moment, what: ToolCall, decision: Decision | None = None) -> Decision:
        decision = decision or decide(self.policy, self.history, what, moment=moment)
        entered = what if moment is Moment.ENTRY else None
        self.add(Decided(call_id=what.call_id, moment=moment, decision=decision, call=entered))
        return decision

    def propose(self, what: ToolCall, decision: Decision | None = None, **more: Any) -> Tape:
        self.add(Proposed(call=what, **more))
        self.judge(Moment.PROPOSAL, what, decision)
        return self

    def enter(
        self,
        what: ToolCall,
        decision: Decision | None = None,
        *,
        outcome: Outcome | None = Outcome.SUCCEEDED,
        **more: Any,
    ) -> Tape:
        made = self.judge(Moment.ENTRY, what, decision)
        self.add(Started(call=what, budgets=made.budgets, **more))
        if outcome is not None:
            self.add(Finished(call_id=what.call_id, outcome=outcome, attempt=more.get("attempt", 1)))
        return self

    def run(self, what: ToolCall, **more: Any) -> Tape:
        return self.propose(what).enter(what, **more)

    def record(self, **more: Any) -> Record:
        return Record(**{"events": self.events, **more})

    def card(self, policy: Policy | None = None, **more: Any) -> PermissionCard:
        return score_permissions(session_of(self.record(**more)), policy or self.policy)


def yes(**more: Any) -> Approved:
    return Approved(**{"call_id": "c", "arguments": "d", "policy_digest": POLICY.digest, **more})


def kinds(card: PermissionCard) -> list[str]:
    return [finding.kind.value for finding in card.reconciliation]


READ, DROP, CANCEL = call("read"), call("drop"), call("cancel")

FOUND: dict[str, tuple[Tape, list[str]]] = {
    "nothing": (Tape().run(READ), []),
    "a denial, and no more": (Tape().propose(DROP).add(REST), []),
    # executed_after_deny
    "entered after a denial when proposed": (Tape().run(DROP), ["executed_after_deny"]),
    "entered after a denial at the entry": (
        Tape().propose(READ).enter(call("read", x=1), verdict("deny")),
        ["decision_mismatch", "executed_after_deny", "altered_arguments"],
    ),
    "a denial when proposed is not taken back at the entry": (
        Tape().propose(READ, verdict("deny")).enter(READ),
        ["decision_mismatch", "executed_after_deny"],
    ),
    "entered after a no": (
        Tape().propose(CANCEL).add(Rejected(call_id="c")).enter(CANCEL),
        ["executed_after_deny"],
    ),
    "entered after a no and then a yes": (
        Tape().propose(CANCEL).add(Rejected(call_id="c"), yes()).enter(CANCEL),
        [],
    ),
    "no mode is recorded": (Tape(enforced(mode=None)).run(DROP), []),
    # executed_without_approval
    "entered without a yes": (Tape().run(CANCEL), ["executed_without_approval"]),
    "entered with a yes": (Tape().propose(CANCEL).add(yes()).enter(CANCEL), []),
    "entered with a yes to something else": (
        Tape().propose(CANCEL).add(yes(arguments="e")).enter(CANCEL),
        ["executed_without_approval"],
    ),
    "asked only when proposed": (
        Tape().propose(READ, verdict("ask")).enter(READ),
        ["decision_mismatch", "executed_without_approval"],
    ),
    # unproposed_execution
    "never proposed": (Tape().enter(READ), ["unproposed_execution"]),
    # altered_arguments
    "altered": (Tape().propose(call("read", x=1)).enter(call("read", x=2)), ["altered_arguments"]),
    "edited by a person": (
        Tape().propose(call("read", x=1), edited_from="b").enter(call("read", x=2)),
        ["edited"],
    ),
    "withheld, and the same": (Tape().propose(call("read", x=1)).enter(hidden("read")), []),
    "withheld, and altered": (
        Tape().propose(hidden("read")).enter(hidden("read", digest="e")),
        ["altered_arguments"],
    ),
    "withheld without a digest": (Tape().propose(hidden("read")).enter(hidden("read", digest=None)), []),
    # duplicate_execution
    "one effect by two calls": (
        Tape().run(call("pay", "a", id=1)).run(call("pay", "b", id=1)),
        ["executed_after_deny", "duplicate_execution"],
    ),
    "two effects": (Tape().run(call("pay", "a", id=1)).run(call("pay", "b", id=2)), []),
    "one attempt twice": (Tape().run(READ).enter(READ), ["duplicate_execution"]),
    "two attempts": (Tape().run(READ).enter(READ, attempt=2), []),
    # unfinished_execution
    "no end": (Tape().run(READ, outcome=None), ["unfinished_execution"]),
    "an end that tells nothing": (Tape().run(READ, outcome=Outcome.UNFINISHED), []),
    # denied_at_entry
    "let through, and denied at the entry": (
        Tape()
        .propose(READ)
        .add(Decided(call_id="c", moment=Moment.ENTRY, decision=verdict("deny", policy=OTHER), call=READ)),
        ["denied_at_entry"],
    ),
    "asked about, and denied at the entry": (
        Tape()
        .propose(CANCEL)
        .add(Decided(call_id="c", moment=Moment.ENTRY, decision=verdict("deny", policy=OTHER), call=CANCEL)),
        ["denied_at_entry"],
    ),
    "denied when proposed and at the entry": (
        Tape()
        .propose(DROP)
        .add(Decided(call_id="c", moment=Moment.ENTRY, decision=verdict("deny"), call=DROP)),
        [],
    ),
    "denied at the entry, and no verdict when proposed": (
        Tape()
        .add(Proposed(call=READ))
        .add(Decided(call_id="c", moment=Moment.ENTRY, decision=verdict("deny", policy=OTHER), call=READ)),
        [],
    ),
    # abandoned_proposal
    "abandoned": (Tape().propose(READ).add(REST), ["abandoned_proposal"]),
    "pending": (Tape().propose(READ), []),
    "not selected": (Tape().propose(READ, selected=False).add(REST), []),
    "rejected": (Tape().propose(CANCEL).add(Rejected(call_id="c"), REST), []),
    # unenforced
    "monitored, and denied": (Tape(monitored()).run(DROP), ["unenforced"]),
    "monitored, and asked about": (Tape(monitored()).run(CANCEL), ["unenforced"]),
    "monitored, and allowed": (Tape(monitored()).run(READ), []),
    "monitored, denied, and never entered": (Tape(monitored()).propose(DROP).add(REST), []),
    # provider_executed
    "run by the provider": (Tape().run(READ, executor=Executor.PROVIDER), ["provider_executed"]),
}


@pytest.mark.parametrize(("tape", "expected"), FOUND.values(), ids=FOUND.keys())
def test_findings(tape: Tape, expected: list[str]):
    assert expected == kinds(tape.card())


def test_every_kind_is_tested_here():
    tested = {kind for _, expected in FOUND.values() for kind in expected}
    assert set(Kind) - tested == {Kind.MISSING_RECORDS}


def test_what_fails_a_card():
    failing = {kind for kind in Kind if kind.fails}
    assert failing == {
        Kind.EXECUTED_AFTER_DENY,
        Kind.EXECUTED_WITHOUT_APPROVAL,
        Kind.UNPROPOSED_EXECUTION,
        Kind.ALTERED_ARGUMENTS,
        Kind.DUPLICATE_EXECUTION,
        Kind.DECISION_MISMATCH,
    }


# --- replay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recorded",
    [
        verdict("deny"),
        verdict("allow", "else"),
        verdict("allow", "read", stop=True),
        verdict("allow", "read", budgets=(Budget("twice", "executions", ""),)),
        verdict("allow", "read", invalid="no JSON"),
    ],
    ids=["effect", "rules", "stop", "budgets", "invalid"],
)
def test_a_verdict_that_its_policy_does_not_give_is_a_mismatch(recorded: Decision):
    card = Tape().propose(READ, recorded).card()
    [finding] = [f for f in card.reconciliation if f.kind is Kind.DECISION_MISMATCH]
    assert ("c", "read", True) == (finding.call_id, finding.tool, finding.fails)
    assert not card.passed
    assert (1, 0) == (card.planner.authorized, card.planner.recorded)  # the replay counts


def test_errors_reasons_and_keys_of_budgets_make_no_mismatch():
    search = call("search")
    limit = decide(POLICY, Tape().history, search).budgets[0].limit
    bare = verdict("allow", "twice", budgets=(Budget(limit, "executions", ""),), errors=("told otherwise",))
    assert [] == kinds(Tape().propose(search, bare).card())


def test_a_verdict_of_another_policy_is_judged_again():
    card = Tape().run(DROP).card(OTHER)
    assert (1, 1, 0) == (card.planner.authorized, card.planner.total, card.planner.recorded)
    assert (1, 1, 0) == (card.execution.authorized, card.execution.total, card.execution.recorded)
    # It was denied all the same by the policy in force, and ran.
    assert ["executed_after_deny"] == kinds(card)


def test_under_another_policy_what_is_withheld_stays_undecidable():
    other = Policy.from_dict(
        {"gatescore": 1, "rules": [{"id": "r", "allow": "refund", "args": {"x": {"maximum": 9}}}]}
        | {"default": "deny"}
    )
    what = hidden("refund")
    card = Tape().propose(what, verdict("allow", "small")).enter(what, verdict("allow", "small")).card(other)
    assert (1, 0, Status.INCOMPLETE) == (card.planner.undecidable, card.planner.recorded, card.planner.status)
    assert (1, 0, Status.INCOMPLETE) == (
        card.execution.undecidable,
        card.execution.recorded,
        card.execution.status,
    )


def test_what_is_withheld_is_taken_over_from_the_record():
    what = hidden("refund")
    allow = verdict("allow", "small")
    card = Tape().propose(what, allow).enter(what, allow).add(REST).card()
    assert (1, 1, 1, 0) == (
        card.planner.authorized,
        card.planner.total,
        card.planner.recorded,
        card.planner.undecidable,
    )
    assert (1, 1) == (card.execution.authorized, card.execution.recorded)
    assert card.passed
    assert "1 as recorded" in permission_text(card)


def test_a_recorded_denial_is_taken_over_too():
    card = Tape().propose(hidden("refund"), verdict("deny")).card()
    assert (0, 1, 1, 0) == (
        card.planner.authorized,
        card.planner.total,
        card.planner.recorded,
        card.planner.undecidable,
    )


def test_of_proposals_that_were_not_selected_none_counts_as_taken_over():
    card = Tape().propose(hidden("refund"), verdict("allow", "small"), selected=False).card()
    assert (1, 0, 0) == (card.planner.not_selected, card.planner.total, card.planner.recorded)


@pytest.mark.parametrize("how", ["start", "change"])
def test_where_attributes_are_withheld_the_recorded_rules_count(how: str):
    policy = Policy.from_dict(
        {
            "gatescore": 1,
            "default": "allow",
            "rules": [
                {"id": "never", "deny": "drop"},
                {"id": "maybe", "deny": "drop", "when": "session.attributes.n == 1"},
            ],
        }
    )
    tape = Tape(enforced(withheld=how == "start"), policy)
    if how == "change":
        tape.add(AttributesChanged(attributes={}, withheld=True))
    card = tape.propose(DROP, verdict("deny", "never", policy=policy)).card()
    assert [] == kinds(card)
    assert (1, ("never",)) == (card.planner.recorded, card.planner.unauthorized[0].rules)


def test_budgets_of_a_recorded_verdict_are_taken_in_the_replay():
    policy = Policy.from_dict(
        {
            "gatescore": 1,
            "default": "deny",
            "rules": [
                {"id": "r", "allow": "refund", "args": {"x": {"maximum": 9}}, "limit": {"executions": 1}},
            ],
        }
    )
    [limit] = {b.limit for b in decide(policy, Tape().history, call("refund", x=1)).budgets}
    taken = verdict("allow", "r", policy=policy, budgets=(Budget(limit, "executions", ""),))
    tape = Tape(policy=policy)
    first, second = hidden("refund", "a"), call("refund", "b", x=1)
    tape.propose(first, taken).enter(first, taken)
    card = tape.propose(second, verdict("deny", "r", policy=policy, budgets=taken.budgets)).card()
    assert [] == kinds(card)
    assert (1, 2, 1) == (card.planner.authorized, card.planner.total, card.planner.recorded)


def test_facts_are_those_of_the_record():
    policy = Policy.from_dict(
        {
            "gatescore": 1,
            "default": "deny",
            "rules": [{"id": "late", "allow": "read", "when": "now > timestamp('2000-01-01T00:00:00Z')"}],
        }
    )
    allow = verdict("allow", "late", policy=policy)
    for now, mismatch in ((10**18, []), (10**17, ["decision_mismatch"])):
        tape = Tape(policy=policy).add(Proposed(call=READ))
        tape.add(Decided(call_id="c", moment=Moment.PROPOSAL, decision=allow, facts=Facts(now=now)))
        assert mismatch == kinds(tape.card())


def test_a_proposal_without_a_verdict_is_undecidable():
    card = Tape().add(Proposed(call=READ)).card()
    assert (Status.INCOMPLETE, 1, ["the verdict of a proposal"]) == (
        card.planner.status,
        card.planner.undecidable,
        card.planner.missing,
    )
    assert card.execution.status is Status.COMPLETE


def test_an_entry_without_a_verdict_is_judged():
    tape = Tape().propose(READ).add(Started(call=DROP))
    assert [Effect.DENY] == [d.effect for d in replay(POLICY, tape.record()).executions]


def test_a_lone_call_knows_nothing_of_the_past():
    search = call("search")
    card = Tape(enforced(lone=True)).run(search).card()
    assert (0, 1, [Kind.EXECUTED_AFTER_DENY]) == (
        card.execution.authorized,
        card.execution.total,
        kinds(card),
    )


# --- gaps -----------------------------------------------------------------------------------------


def numbered(*calls: ToolCall) -> list[Event]:
    """A whole record: each event with its number, and a call to `search` takes the only unit."""
    tape = Tape()
    for what in calls:
        tape.run(what)
    tape.add(REST)
    return [_numbered(event, number) for number, event in enumerate(tape.events)]


def _numbered(event: Event, number: int) -> Event:
    return replace(event, sequence=number)


def test_a_gap_leaves_both_checks_open():
    events = numbered(READ)
    lost = "1 event is missing"
    card = score_permissions(session_of(Record(events=events, missing=(lost,))), POLICY)
    for check in (card.planner, card.execution):
        assert (Status.INCOMPLETE, None, [lost]) == (check.status, check.score, check.missing)
    assert [("missing_records", False, lost)] == [
        (f.kind.value, f.fails, f.evidence) for f in card.reconciliation
    ]
    assert not card.passed
    assert f"proposed: incomplete, because {lost}" in permission_text(card)


def test_after_a_gap_the_recorded_verdict_counts_and_is_no_mismatch():
    """The replay does not know of the unit that was taken in the gap."""
    events = numbered(call("search", "a"), call("search", "b"))
    first = next(n for n, event in enumerate(events) if isinstance(event, Started))
    whole = score_permissions(session_of(Record(events=events)), POLICY)
    assert ["executed_after_deny"] == kinds(whole)
    torn = [event for n, event in enumerate(events) if not 1 <= n <= first + 1]
    card = score_permissions(session_of(Record(events=torn, missing=("a gap",))), POLICY)
    assert ["missing_records", "executed_after_deny"] == kinds(card)
    assert (0, 1, 1) == (card.planner.authorized, card.planner.total, card.planner.recorded)


def torn(tape: Tape, *lost: type[Event]) -> PermissionCard:
    """The card of a record without its events of some kinds."""
    events = [_numbered(event, number) for number, event in enumerate(tape.add(REST).events)]
    left = [event for event in events if not isinstance(event, lost)]
    return score_permissions(session_of(Record(events=left, missing=("a gap",))), POLICY)


def test_what_is_missing_may_have_been_the_proposal():
    """The record is incomplete; that the call was never proposed cannot be said."""
    tape = Tape().propose(READ)
    tape.events[-1:] = []  # of the one span, both events are lost
    assert ["missing_records"] == kinds(torn(tape.enter(READ), Proposed))
    assert ["missing_records", "unproposed_execution"] == kinds(torn(Tape().enter(READ), SessionEnded))


def test_what_is_missing_may_have_been_the_answer():
    asked = Tape().propose(CANCEL).add(yes()).enter(CANCEL)
    card = torn(asked, Approved)
    assert ["missing_records"] == kinds(card)
    assert (1, 1, [], 0) == (
        card.execution.total,
        card.execution.undecidable,
        card.execution.unauthorized,
        card.execution.authorized,
    )
    assert "a person's answer, which may be among what is missing" in card.execution.missing
    assert not card.passed


def test_an_answer_that_is_there_counts_after_a_gap():
    asked = Tape().run(READ).propose(call("cancel", "x")).add(yes(call_id="x")).enter(call("cancel", "x"))
    card = torn(asked, Finished)
    assert 0 == card.execution.undecidable
    assert (2, 2) == (card.execution.authorized, card.execution.total)


def test_before_a_gap_a_mismatch_is_one():
    tape = Tape().propose(READ, verdict("deny")).add(REST)
    events = [_numbered(event, number) for number, event in enumerate(tape.events)]
    events[-1] = _numbered(events[-1], 9)
    card = score_permissions(session_of(Record(events=events, missing=("a gap",))), POLICY)
    assert ["missing_records", "decision_mismatch"] == kinds(card)


@pytest.mark.parametrize(("position", "found"), [(2, True), (7, False)], ids=["joined", "torn"])
def test_another_writer_counts_from_0_again(position: int, found: bool):
    before = [_numbered(e, n) for n, e in enumerate(Tape().propose(call("read", "a")).events)]
    goes_on = enforced(continues=Position(writer="w", sequence=position))
    after = [
        _numbered(e, n) for n, e in enumerate([goes_on, *Tape().propose(READ, verdict("deny")).events[1:]])
    ]
    record = Record(events=[*before, *after], inherited=len(before))
    assert found == (Kind.DECISION_MISMATCH in kinds(score_permissions(session_of(record), POLICY)))


def test_an_earlier_writer_is_history_and_not_reported():
    tape = (
        Tape().run(call("pay", "a", id=1)).run(call("drop", "x")).propose(call("read", "y"), verdict("deny"))
    )
    tape.propose(call("read", "z", n=1))
    inherited = len(tape.events)
    tape.run(call("pay", "b", id=1)).enter(call("read", "z", n=2)).add(REST)
    card = tape.card(inherited=inherited)
    assert [
        ("executed_after_deny", "b"),
        ("duplicate_execution", "b"),
        ("altered_arguments", "z"),
    ] == [(f.kind.value, f.call_id) for f in card.reconciliation]
    assert (1, 2) == (card.planner.total, card.execution.total)
    assert (0, 1) == (card.planner.authorized, card.execution.authorized)


# --- the checks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origins", "basis"),
    [
        ([], Basis.CALLER),
        ([Origin.MODEL], Basis.MODEL),
        ([Origin.MODEL, Origin.NESTED], Basis.MODEL),
        ([Origin.NESTED], Basis.CALLER),
        ([Origin.MODEL, Origin.CALLER], Basis.CALLER),
        ([Origin.CALLER], Basis.CALLER),
    ],
)
def test_the_basis_is_where_proposals_were_seen(origins: list[Origin], basis: Basis):
    tape = Tape()
    for number, origin in enumerate(origins):
        tape.propose(call("read", str(number)), origin=origin)
    assert tape.card().planner.basis is basis


@pytest.mark.parametrize(("events", "authorized"), [((), 0), ((yes(),), 1)], ids=["no yes", "a yes"])
def test_an_ask_is_authorized_by_a_valid_yes(events: tuple[Event, ...], authorized: int):
    card = Tape().propose(CANCEL).add(*events).enter(CANCEL).card()
    assert (authorized, 1, 1) == (card.execution.authorized, card.execution.total, card.execution.asked)
    assert (1, 1) == (card.planner.authorized, card.planner.asked)


@pytest.mark.parametrize("start", [enforced(), monitored(), enforced(mode=None)])
def test_verdicts_count_in_every_mode(start: SessionStarted):
    card = Tape(start).run(DROP).run(call("read", "r")).card()
    assert (1, 2) == (card.planner.authorized, card.planner.total)
    assert (1, 2) == (card.execution.authorized, card.execution.total)


@pytest.mark.parametrize(
    ("outcome", "status"), [(None, Status.INCOMPLETE), (Outcome.UNFINISHED, Status.COMPLETE)]
)
def test_an_execution_without_an_end_leaves_the_check_open(outcome: Outcome | None, status: Status):
    card = Tape().run(READ, outcome=outcome).card()
    assert (Status.COMPLETE, status) == (card.planner.status, card.execution.status)
