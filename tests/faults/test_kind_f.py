"""
Public faults of kind F: what a person's yes covers.

Each test has the id of a fault in its name, and goes through the whole kind of it. A yes is one
answer to one question about one call, and no yes takes back a denial.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gatescore import ApprovalRequest, Policy, ToolDenied
from gatescore.guard import Run
from tests.faults.watched import (
    BOUND,
    Person,
    Watched,
    asking,
    called,
    ends,
    entries,
    failing,
    given,
    in_threads,
    shares,
)
from tests.guard.seen import executed, proposed

# F01: what is approved is what runs


@pytest.mark.parametrize("when", ["before", "while a person is asked"])
def test_f01_what_was_approved_is_what_runs_or_nothing_does(when: str):
    price = {"amount": 900}

    def rewrite() -> None:
        price["amount"] = 450

    def answer(request: ApprovalRequest) -> bool:
        if when != "before":
            rewrite()
        return True

    person = Person(answer)
    guard = asking("set_price", approver=person)
    with guard.session() as run:
        [call] = run.propose([{"id": "c1", "name": "set_price", "arguments": {"price": price}}])
        if when == "before":
            rewrite()
            assert {"price": {"amount": 450}} == call.run()
        else:
            with pytest.raises(ToolDenied, match="the arguments changed"):
                call.run()
    assert [{"price": {"amount": 900}}] == [proposal.call.arguments for proposal in proposed(run)]
    if when == "before":
        assert [{"price": {"amount": 450}}] == [request.arguments for request in person.asked]
        assert [("set_price", {"price": {"amount": 450}})] == entries(run)
        assert ["altered_arguments"] == failing(guard.card(run))
    else:
        assert [] == entries(run)
        assert ["rejected"] == ends(run)
        assert (1, 1, 0, 0) == shares(guard.card(run))


@pytest.mark.parametrize("yes", [True, False])
def test_f01_an_approver_that_changes_what_it_was_shown_changes_neither_the_call_nor_its_record(yes: bool):
    def answer(request: ApprovalRequest) -> bool:
        request.arguments["price"] = 1
        return yes

    guard = asking("set_price", approver=answer)
    with guard.session() as run:
        if yes:
            assert {"price": 900} == guard.call("set_price", {"price": 900})
        else:
            with pytest.raises(ToolDenied):
                guard.call("set_price", {"price": 900})
    assert [{"price": 900}] == [proposal.call.arguments for proposal in proposed(run)]
    assert [("set_price", {"price": 900})] * yes == entries(run)
    assert [] == failing(guard.card(run))


def test_f01_a_yes_that_lasts_does_not_cover_arguments_that_changed_after_it():
    policy = Policy(rules=[{"id": "ask", "ask": "set_price", "approval": {"attempts": 5}}])
    person = Person()
    guard = Watched(policy, approver=person)
    guard.wrap(given, name="set_price")
    price = {"amount": 900}
    with guard.session() as run:
        [call] = run.propose([{"id": "c1", "name": "set_price", "arguments": {"price": price}}])
        call.run()
        price["amount"] = 450
        call.run()
    assert [900, 450] == [request.arguments["price"]["amount"] for request in person.asked]  # type: ignore[index, call-overload]
    assert [1, 2] == [execution.attempt for execution in executed(run)]
    assert [True, True] == [execution.approved for execution in executed(run)]


def test_f01_an_edit_is_a_new_proposal_and_runs_as_edited():
    person = Person(lambda request: request.edit({"price": 450}, by="ann"))
    guard = asking("set_price", approver=person)
    with guard.session() as run:
        assert {"price": 450} == guard.call("set_price", {"price": 900}, call_id="c1")
    first, second = proposed(run)
    assert (first.call.arguments, first.end) == ({"price": 900}, "rejected")
    assert (second.call.arguments, second.end) == ({"price": 450}, "executed")
    assert first.call.call_id == second.edited_from
    assert 1 == len(person.asked)
    card = guard.card(run)
    assert (2, 2, 1, 1) == shares(card)
    assert ["edited"] == [finding.kind for finding in card.reconciliation]


@pytest.mark.parametrize(
    ("edit", "end"),
    [
        ({"path": "/ro/x"}, "denied"),
        ({"path": float("nan")}, "invalid"),
        ({"path": "/rw", "no": 1}, "invalid"),
    ],
    ids=["denied", "not JSON", "does not fit"],
)
def test_f01_an_edit_to_what_may_not_run_is_not_run(edit: dict[str, Any], end: str):
    guard = asking(
        "write_file",
        approver=Person(lambda request: request.edit(edit)),
        deny={"deny": "write_file", "args": {"path": {"pattern": "^/ro/"}}},
    )
    entered: list[str] = []

    def write_file(path: str) -> None:
        entered.append(path)

    other = Watched(guard.policy, approver=guard.approver)
    other.wrap(write_file)
    with other.session() as run, pytest.raises(ToolDenied):
        other.call("write_file", {"path": "/rw/x"})
    assert [] == entered
    assert ["rejected", end] == ends(run)
    assert [] == failing(other.card(run))


def test_f01_a_yes_to_an_edited_call_lasts_as_long_as_the_rule_for_what_it_was_edited_into_says():
    policy = Policy(
        rules=[
            {"id": "small", "ask": "pay", "args": {"amount": {"maximum": 100}}, "approval": {"attempts": 5}},
            {"id": "big", "ask": "pay", "args": {"amount": {"exclusiveMinimum": 100}}},
        ]
    )
    person = Person(lambda request: len(person.asked) == 1 and request.edit({"amount": 500}))
    guard = Watched(policy, approver=person)
    guard.wrap(given, name="pay")
    with guard.session() as run:
        assert {"amount": 500} == guard.call("pay", {"amount": 50}, call_id="c1")
        assert not called(guard, "pay", {"amount": 500}, "c1")
    assert [50, 500] == [request.arguments["amount"] for request in person.asked]
    assert [] == failing(guard.card(run))


# F02: a yes is for one call


def test_f02_an_approval_is_spent_by_the_call_that_it_was_given_to():
    approved: list[dict[str, Any]] = []

    def answer(request: ApprovalRequest) -> bool:
        first = not approved
        approved.append(request.arguments)
        return first

    guard = asking("send", "other_tool", approver=answer)
    with guard.session() as run:
        guard.call("send", {"to": "a"}, call_id="c1")
        for name, arguments, call_id in [
            ("send", {"to": "b"}, "c1"),
            ("other_tool", {"to": "a"}, "c1"),
            ("send", {"to": "a"}, "c2"),
            ("send", {"to": "a"}, "c1"),
            ("send", {"to": "a"}, None),
        ]:
            with pytest.raises(ToolDenied):
                guard.call(name, arguments, call_id=call_id)
    assert [("send", {"to": "a"})] == entries(run)
    assert 6 == len(approved)  # each one was asked about anew
    assert [] == failing(guard.card(run))


@pytest.mark.parametrize("attempts", [1, 3])
def test_f02_parallel_entries_of_one_call_never_share_a_yes(attempts: int):
    """Every entry of a call beyond those that its yes covers needs a yes of its own."""
    policy = Policy(rules=[{"id": "ask", "ask": "send", "approval": {"attempts": attempts}}])
    yeses = [True]

    def answer(request: ApprovalRequest) -> bool:
        try:
            return yeses.pop()
        except IndexError:
            return False

    guard = Watched(policy, approver=answer)
    guard.wrap(given, name="send")
    gate = threading.Barrier(8)

    def enter() -> None:
        gate.wait(BOUND)
        with contextlib.suppress(ToolDenied):
            guard.call("send", {"to": "a"}, call_id="c1")

    with guard.session() as run:
        in_threads(run, [enter] * 8)
    assert len(entries(run)) <= attempts
    assert [] == failing(guard.card(run))


def test_f02_of_two_entries_that_are_both_answered_by_yes_each_is_covered_by_its_own():
    """The other one's yes and entry may come between the answer and the entry: no argument changed."""
    both_asked, both_answered = threading.Barrier(2), threading.Barrier(2)

    def answer(request: ApprovalRequest) -> bool:
        both_asked.wait(BOUND)
        return True

    guard = asking("send", approver=answer)

    def enter() -> None:
        guard.call("send", {"to": "a"}, call_id="c1")
        both_answered.wait(BOUND)

    for _ in range(20):
        with guard.session() as run:
            in_threads(run, [enter, enter])
        assert [True, True] == [execution.approved for execution in executed(run)]
        assert [] == failing(guard.card(run))


def test_f02_a_no_that_comes_before_the_yes_to_another_entry_of_the_call_stays_on_record():
    both_asked = threading.Barrier(2)
    refused = threading.Event()
    answers = [False, True]

    def answer(request: ApprovalRequest) -> bool:
        number = both_asked.wait(BOUND)
        if number:
            assert refused.wait(BOUND)
        return answers[number]

    guard = asking("send", approver=answer)

    def enter() -> None:
        with pytest.raises(ToolDenied):
            guard.call("send", {"to": "a"}, call_id="c1")
        refused.set()

    with guard.session() as run:
        in_threads(run, [enter, enter])
    assert [] == entries(run)
    assert ["rejected"] == ends(run)
    assert [] == [finding.kind for finding in guard.card(run).reconciliation]


def test_f02_a_yes_under_one_policy_is_none_under_another():
    """What a person agreed to under one policy never goes on under another: a guard keeps its own for good."""
    guard = asking("send", approver=Person())
    lax = Policy(allowed_tools=["*"])
    for name, value in [("policy", lax), ("mode", "monitor"), ("enforces", False)]:
        with pytest.raises(AttributeError, match=f"the `{name}` of a guard cannot be changed"):
            setattr(guard, name, value)
    other = Watched(lax)
    other.wrap(given, name="send")
    with guard.session("s") as run:
        guard.call("send", call_id="c1")
    with other.session("s") as again:
        other.call("send", call_id="c1")
    assert ([True], [False]) == ([e.approved for e in executed(run)], [e.approved for e in executed(again)])


# F03: answers belong to questions, not to places


def test_f03_answers_in_another_order_than_the_calls_reach_the_calls_they_name():
    waiting: dict[str | None, asyncio.Future[bool]] = {}
    both_asked = asyncio.Event()

    async def answer(request: ApprovalRequest) -> bool:
        own = waiting[request.call.host_call_id] = asyncio.get_running_loop().create_future()
        if len(waiting) == 2:
            both_asked.set()
        return await own

    guard = Watched(Policy(rules=[{"id": "ask", "ask": "*"}]), approver=answer)

    async def tool(**arguments: Any) -> dict[str, Any]:
        return arguments

    for name in ("close_account", "post_letter"):
        guard.wrap(tool, name=name)

    async def main() -> Run:
        with guard.session() as run:
            calls = run.propose(
                [
                    {"id": "c1", "name": "close_account", "arguments": {"n": 7}},
                    {"id": "c2", "name": "post_letter", "arguments": {"to": "B"}},
                ]
            )
            tasks = [asyncio.ensure_future(call.run()) for call in calls]
            await both_asked.wait()
            waiting["c2"].set_result(False)
            waiting["c1"].set_result(True)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert {"n": 7} == results[0]
            assert isinstance(results[1], ToolDenied)
            assert "c2" == results[1].call.host_call_id
        return run

    run = asyncio.run(asyncio.wait_for(main(), BOUND))
    assert [("close_account", {"n": 7})] == entries(run)
    assert ["executed", "rejected"] == ends(run)
    assert (2, 2, 1, 1) == shares(guard.card(run))


@pytest.mark.parametrize("swapped", ["approve", "edit"])
def test_f03_the_answer_to_one_of_two_pending_calls_is_an_error_for_the_other(swapped: str):
    both_asked = threading.Barrier(2)
    requests: dict[str | None, ApprovalRequest] = {}

    def answer(request: ApprovalRequest) -> Any:
        requests[request.call.host_call_id] = request
        both_asked.wait(BOUND)
        other = requests["c2" if request.call.host_call_id == "c1" else "c1"]
        return other.approve() if swapped == "approve" else other.edit({"n": 1})

    guard = asking("close_account", approver=answer)

    def enter(call_id: str) -> Callable[[], None]:
        def entered() -> None:
            with pytest.raises(ToolDenied, match="one to another request"):
                guard.call("close_account", {"n": 7}, call_id=call_id)

        return entered

    with guard.session() as run:
        in_threads(run, [enter("c1"), enter("c2")])
    assert [] == entries(run)
    assert ["rejected", "rejected"] == ends(run)
    assert [] == failing(guard.card(run))


# F07: no answer covers more than its call


def test_f07_always_is_no_answer_and_a_yes_to_one_address_opens_no_other():
    person = Person(lambda request: "always" if len(person.asked) == 1 else len(person.asked) < 4)
    guard = asking("fetch", approver=person)
    with guard.session() as run:
        with pytest.raises(ToolDenied):
            guard.call("fetch", {"url": "https://a.test/x"})
        for url in ("https://a.test/x", "https://a.test/x"):
            guard.call("fetch", {"url": url})
        with pytest.raises(ToolDenied):
            guard.call("fetch", {"url": "https://b.test/"})
    assert ["https://a.test/x"] * 3 + ["https://b.test/"] == [r.arguments["url"] for r in person.asked]
    assert [True, True] == [execution.approved for execution in executed(run)]
    assert (4, 4, 2, 2) == shares(guard.card(run))


# F10: a resumed batch


@pytest.mark.parametrize("once", [True, False])
def test_f10_what_ran_before_a_pause_is_another_attempt_when_the_batch_is_resumed(once: bool):
    """The batch is cancelled while a person is asked about its second call, and entered again from the top."""
    asked = asyncio.Event()
    answers: list[bool] = []

    async def answer(request: ApprovalRequest) -> bool:
        asked.set()
        if not answers:
            await asyncio.Event().wait()
        return answers.pop()

    tools = {"create_shape": {"once_per": ["shape"]}} if once else {}
    policy = Policy(rules=[{"id": "draw", "allow": "create_shape"}, {"id": "ask", "ask": "pay"}], tools=tools)
    guard = Watched(policy, approver=answer)

    async def tool(**arguments: Any) -> dict[str, Any]:
        return arguments

    for name in ("create_shape", "pay"):
        guard.wrap(tool, name=name)

    def batch() -> Any:
        return asyncio.gather(
            guard.call("create_shape", {"shape": "disc"}, call_id="c1"),
            guard.call("pay", {"amount": 9}, call_id="c2"),
            return_exceptions=True,
        )

    async def main() -> Run:
        with guard.session() as run:
            paused = batch()
            await asked.wait()
            paused.cancel()
            with pytest.raises(asyncio.CancelledError):
                await paused
            assert [("create_shape", {"shape": "disc"})] == entries(run)
            answers.append(True)
            shape, payment = await batch()
            assert isinstance(shape, ToolDenied) == once
            assert {"amount": 9} == payment
        return run

    run = asyncio.run(asyncio.wait_for(main(), BOUND))
    assert ["c1", "c2"] == [proposal.call.host_call_id for proposal in proposed(run)]
    again = [] if once else [("c1", 2)]
    assert [("c1", 1), *again, ("c2", 1)] == [(e.call.host_call_id, e.attempt) for e in executed(run)]
    assert [] == failing(guard.card(run))
