"""
Public faults of kind F: which answers are no yes, and who is never asked.

Each test has the id of a fault in its name. Only the exact answer to the very question is a yes, and
only in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gatescore import ApprovalRequest, Policy, ToolDenied
from gatescore.guard.approval import Answer
from gatescore.guard.docket import Docket
from gatescore.guard.tickets import GuardError
from gatescore.model import Effect
from tests.faults.watched import BOUND, Person, Watched, asking, called, ends, entries, failing, given, shares
from tests.guard.seen import proposed

# F05: only the exact yes is one


class Liar:
    """Claims to be equal to everything, true, and an answer."""

    __hash__ = None  # type: ignore[assignment]
    yes = True
    arguments = by = None

    def __init__(self, request: object = None) -> None:
        self.request = request

    def __eq__(self, other: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


class Posing(Liar):
    """Says of itself that it is an `Answer`."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Answer


class Ended(BaseException):
    """What no `except Exception` catches."""


def raising(error: BaseException) -> Callable[[ApprovalRequest], Any]:
    def answer(request: ApprovalRequest) -> Any:
        raise error

    return answer


async def no_answer() -> str:
    return "yes"


NOT_YES: dict[str, Callable[[ApprovalRequest], Any]] = {
    "None": lambda request: None,
    "1": lambda request: 1,
    "1.0": lambda request: 1.0,
    "'yes'": lambda request: "yes",
    "'True'": lambda request: "True",
    "'approve'": lambda request: "approve",
    "b'yes'": lambda request: b"yes",
    "{}": lambda request: {},
    "{'approve': True}": lambda request: {"approve": True},
    "[True]": lambda request: [True],
    "(True, 'ann')": lambda request: (True, "ann"),
    "...": lambda request: ...,
    "NotImplemented": lambda request: NotImplemented,
    "an effect": lambda request: Effect.ALLOW,
    "the request": lambda request: request,
    "the method": lambda request: request.approve,
    "an exception": lambda request: ValueError(),
    "a liar": Liar,
    "posing as an answer": Posing,
    "an answer whose yes is text": lambda request: Answer(request, yes="no", by=None, arguments=None),  # type: ignore[arg-type]
    "an equal question's answer": lambda request: replace(request).approve(),
    "an awaitable of no answer": lambda request: no_answer(),
    "raises": raising(KeyError("secret")),
    "raises a time-out": raising(TimeoutError()),
}


@pytest.mark.parametrize("approver", ["sync", "async"])
@pytest.mark.parametrize("tool", ["sync", "async"])
@pytest.mark.parametrize("answer", NOT_YES.values(), ids=NOT_YES)
def test_f05_what_is_not_exactly_yes_is_a_no_and_on_record_as_one(
    answer: Callable[[ApprovalRequest], Any], tool: str, approver: str
):
    async def answer_async(request: ApprovalRequest) -> Any:
        made = answer(request)
        return await made if inspect.isawaitable(made) else made

    guard = Watched(
        Policy(rules=[{"id": "ask", "ask": "wipe"}]),
        approver=answer if approver == "sync" else answer_async,
    )
    entered: list[int] = []

    async def wipe() -> None:
        entered.append(1)

    def wipe_sync() -> None:
        entered.append(1)

    with guard.session() as run:
        if tool == "sync":
            guard.wrap(wipe_sync, name="wipe")
            with pytest.raises(ToolDenied) as caught:
                guard.call("wipe", call_id="c1")
        else:
            guard.wrap(wipe)
            with pytest.raises(ToolDenied) as caught:
                asyncio.run(asyncio.wait_for(guard.call("wipe", call_id="c1"), BOUND))
        assert ["rejected"] == ends(run)
    assert ([], []) == (entered, entries(run))
    assert "secret" not in str(caught.value)
    assert (1, 1, 0, 0) == shares(guard.card(run))


@pytest.mark.parametrize("error", [SystemExit(0), Ended(), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("tool", ["sync", "async"])
@pytest.mark.parametrize("approver", ["sync", "async"])
def test_f05_an_approver_that_raises_what_ends_more_than_itself_lets_nothing_in(
    error: BaseException, tool: str, approver: str
):
    """In a thread of its own it is a no; in the caller's task it goes on, as it would without a guard."""

    async def answer_async(request: ApprovalRequest) -> bool:
        raise error

    guard = Watched(
        Policy(rules=[{"id": "ask", "ask": "wipe"}]),
        approver=raising(error) if approver == "sync" else answer_async,
    )
    entered: list[int] = []

    async def wipe() -> None:
        entered.append(1)

    async def called() -> None:
        try:
            await guard.call("wipe")
        except BaseException as raised:
            if raised is not error:
                raise

    with guard.session() as run:
        if tool == "sync":
            guard.wrap(lambda: entered.append(1), name="wipe")
            with pytest.raises(ToolDenied):
                guard.call("wipe")
        elif approver == "sync":
            guard.wrap(wipe)
            with pytest.raises(ToolDenied):
                asyncio.run(guard.call("wipe"))
        else:
            guard.wrap(wipe)
            asyncio.run(called())
    assert ([], []) == (entered, entries(run))
    assert [False] == [proposal.approved for proposal in proposed(run)]
    assert ["abandoned" if tool == approver == "async" else "rejected"] == ends(run)
    assert (1, 1, 0, 0) == shares(guard.card(run))


@pytest.mark.parametrize("approver", ["blocks", "takes its cancellation for a yes"])
def test_f05_a_yes_that_comes_after_the_time_out_is_none(approver: str):
    async def blocking(request: ApprovalRequest) -> bool:
        threading.Event().wait(0.1)  # longer than is waited for, and never giving way to the loop
        return True

    async def clinging(request: ApprovalRequest) -> bool:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return True

    guard = Watched(
        Policy(rules=[{"id": "ask", "ask": "wipe"}]),
        approver=blocking if approver == "blocks" else clinging,
        approval_timeout=0.01,
    )

    async def wipe() -> None: ...

    guard.wrap(wipe)
    with guard.session() as run, pytest.raises(ToolDenied, match="nobody answered within"):
        asyncio.run(asyncio.wait_for(guard.call("wipe"), BOUND))
    assert [] == entries(run)
    assert ["expired"] == ends(run)


def test_f05_an_answer_that_comes_after_the_time_out_is_for_no_later_call_either():
    late = threading.Event()
    answered = threading.Event()
    questions: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> Any:
        questions.append(request)
        if len(questions) > 1:
            return questions[0].approve()
        late.wait(BOUND)
        answered.set()
        return True

    guard = asking("wipe", approver=answer, approval_timeout=0.01)
    with guard.session() as run:
        with pytest.raises(ToolDenied, match="nobody answered within"):
            guard.call("wipe", {"n": 1}, call_id="c1")
        late.set()
        assert answered.wait(BOUND)
        guard.approval_timeout = BOUND
        with pytest.raises(ToolDenied, match="one to another request"):
            guard.call("wipe", {"n": 1}, call_id="c1")
    assert [] == entries(run)
    assert ["expired", "rejected"] == ends(run)
    assert [] == failing(guard.card(run))


def test_f05_a_call_that_nobody_ran_after_it_was_asked_about_is_no_yes():
    """A call that still waits for its answer when the session ends was not executed, and is not taken for approved."""
    guard = asking("wipe", approver=Person())
    with guard.session() as run:
        [call] = run.propose([{"id": "c1", "name": "wipe"}])
        assert not call.allowed
        assert ["pending"] == ends(run)
    assert ["abandoned"] == ends(run)
    assert [False] == [proposal.approved for proposal in proposed(run)]
    assert (1, 1, 0, 0) == shares(guard.card(run))


@pytest.mark.parametrize("seconds", [float("inf"), 1e12])
@pytest.mark.parametrize("option", ["approval_timeout", "approval_ttl"])
@pytest.mark.parametrize("tool", ["sync", "async"])
def test_f05_a_time_that_cannot_be_waited_for_is_refused_at_once_or_holds(
    option: str, seconds: float, tool: str
):
    """Not found out in front of a person, whose yes is then lost."""

    async def wipe() -> None: ...

    person = Person()
    options: dict[str, Any] = {option: seconds}
    try:
        guard = Watched(Policy(rules=[{"id": "ask", "ask": "wipe"}]), approver=person, **options)
    except GuardError:
        return
    with guard.session() as run:
        if tool == "sync":
            guard.wrap(lambda: None, name="wipe")
            guard.call("wipe")
        else:
            guard.wrap(wipe)
            asyncio.run(guard.call("wipe"))
    assert (1, ["executed"]) == (len(person.asked), ends(run))


def test_f05_a_failure_of_the_guard_while_a_yes_is_taken_is_a_denial_on_record(
    monkeypatch: pytest.MonkeyPatch,
):
    def broken(*args: object) -> None:
        raise RuntimeError("secret")

    guard = asking("wipe", approver=Person())
    monkeypatch.setattr(Docket, "_approve", broken)
    with guard.session() as run:
        with pytest.raises(ToolDenied, match="the guard failed: `RuntimeError`"):
            guard.call("wipe")
        assert ends(run)[0] in ("denied", "rejected")
    assert [] == entries(run)
    assert [] == failing(guard.card(run))


# F06: what cannot be read cannot be approved


@pytest.mark.parametrize("how", ["called", "proposed"])
@pytest.mark.parametrize("text", ['{"amount": 9', "null null", "[]", '{"a": 1, "a": 2}', '{"a": NaN}'])
def test_f06_unreadable_arguments_are_never_asked_about(text: str, how: str):
    person = Person()
    guard = asking("pay", approver=person)
    with guard.session() as run:
        for _ in range(2):
            if how == "called":
                with pytest.raises(ToolDenied):
                    guard.call("pay", text, call_id="c1")
            else:
                [call] = run.propose([{"id": "c1", "name": "pay", "arguments": text}])
                with pytest.raises(ToolDenied):
                    call.run()
        assert {} == guard.call("pay", "{}", call_id="c1")
    assert ["invalid", "invalid", "executed"] == ends(run)
    assert [{}] == [request.arguments for request in person.asked]
    assert (1, 3, 1, 1) == shares(guard.card(run))


class Payment:
    """An argument that JSON cannot hold: nobody who is asked sees what is in it."""

    def __init__(self, amount: int) -> None:
        self.amount = amount


def test_f06_a_yes_to_what_nobody_could_read_is_inherited_by_no_other_call():
    """Two values that look alike on the record are not the same one, even under one id and a yes that lasts."""
    policy = Policy(rules=[{"id": "ask", "ask": "pay", "approval": {"attempts": 3}}])
    person = Person(lambda request: len(person.asked) == 1)
    guard = Watched(policy, approver=person)
    paid: list[int] = []
    guard.wrap(lambda payment: paid.append(payment.amount), name="pay")
    with guard.session() as run:
        assert called(guard, "pay", {"payment": Payment(9)}, "c1")
        assert not called(guard, "pay", {"payment": Payment(900)}, "c1")
    assert [9] == paid
    assert [] == failing(guard.card(run))


# F08 and F11: who is asked, and who never is


def test_f08_what_is_denied_cannot_be_approved():
    person = Person()
    deny = {"deny": "write_file", "args": {"path": {"pattern": "^/ro/"}}}
    guard = asking("write_file", approver=person, deny=deny)
    with guard.session() as run, pytest.raises(ToolDenied) as caught:
        guard.call("write_file", {"path": "/ro/x"}, call_id="c1")
    assert ("never",) == caught.value.decision.rules
    assert ([], []) == (person.asked, entries(run))
    assert ["denied"] == ends(run)
    assert (0, 1, 0, 0) == shares(guard.card(run))


def test_f08_a_spent_limit_is_no_question():
    person = Person()
    policy = Policy(rules=[{"id": "one", "ask": "send", "limit": {"executions": 1}}])
    guard = Watched(policy, approver=person)
    guard.wrap(given, name="send")
    with guard.session() as run:
        guard.call("send")
        with pytest.raises(ToolDenied):
            guard.call("send")
    assert 1 == len(person.asked)
    assert (1, 2, 1, 1) == shares(guard.card(run))


def test_f08_a_denial_that_arises_between_two_entries_beats_a_yes_that_lasts():
    policy = Policy(
        rules=[
            {"id": "ask", "ask": "send", "approval": {"attempts": 9}},
            {"id": "seal", "allow": "seal"},
            {"id": "never", "deny": "send", "after": {"tool": "seal"}},
        ]
    )
    person = Person()
    guard = Watched(policy, approver=person)
    guard.wrap(given, name="send")
    guard.wrap(given, name="seal")
    with guard.session() as run:
        guard.call("send", call_id="c1")
        guard.call("seal")
        with pytest.raises(ToolDenied):
            guard.call("send", call_id="c1")
    assert 1 == len(person.asked)
    assert ["send", "seal"] == [name for name, _ in entries(run)]
    assert [] == failing(guard.card(run))


def test_f11_only_what_the_policy_asks_about_is_asked():
    person = Person()
    policy = Policy(
        rules=[
            {"id": "read", "allow": "read_*"},
            {"id": "write", "ask": "write_*"},
            {"id": "drop", "deny": "drop_*"},
        ]
    )
    guard = Watched(policy, approver=person)
    for name in ("read_x", "write_x", "drop_x"):
        guard.wrap(given, name=name)
    names = ["read_x"] * 100 + ["drop_x", "write_x"] + ["read_x"] * 100
    with guard.session() as run:
        calls = run.propose([{"id": f"c{n}", "name": name} for n, name in enumerate(names)])
        for call in calls:
            if call.name == "drop_x":
                with pytest.raises(ToolDenied):
                    call.run()
            else:
                call.run()
    assert ["write_x"] == [request.tool for request in person.asked]
    assert (201, 202, 201, 201) == shares(guard.card(run))
