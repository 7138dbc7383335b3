"""Sessions, proposals, denials and scores, as a program that is checked strictly uses them."""

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_type

import gatescore
from gatescore import Decision, Effect, Guard, Policy, Refusal, Session, ToolCall, ToolDenied
from gatescore.guard import InvalidCall, ProposedCall, Run
from gatescore.score import PermissionCard
from gatescore.testing import RecordingGuard, ScriptedProposals

guard = Guard(Policy(allowed_tools=["refund"]), mode="enforce", on_deny="return", capture="full", key="key")
Guard(["refund"])  # error: arg-type
Guard(Policy(allowed_tools=["refund"]), on_deny="ignore")  # error: arg-type
Guard(Policy(allowed_tools=["refund"]), "monitor")  # error: call-arg
Guard(Policy(allowed_tools=["refund"]), approval_timeout="5")  # error: arg-type
Guard(Policy(allowed_tools=["refund"]), unknown=1)  # error: call-arg


def refund(order_id: str, amount: float = 1.0) -> int:
    return round(amount)


async def fetch(order_id: str) -> bytes:
    return order_id.encode()


def pages(first: int) -> Iterator[str]:
    yield str(first)


with guard.session("conv-1", principal="user:42", attributes={"tier": "gold"}) as run:
    assert_type(run, Run)
    assert_type(run.id, str)
    assert_type(run.principal, str | None)
    assert_type(run.stopped, bool)
    run.update(tier="silver")

    bound = run.bind(refund)
    assert_type(bound("814", amount=2.0), int)
    bound(814)  # error: arg-type
    threading.Thread(target=run.bind(refund), args=("814",)).start()
    with ThreadPoolExecutor(1) as pool:
        assert_type(pool.submit(run.bind(refund), "814").result(), int)
        pool.submit(run.bind(refund), 814)  # error: arg-type
    awaitable: Awaitable[bytes] = run.bind(fetch)("814")
    other: Awaitable[str] = run.bind(fetch)("814")  # error: assignment
    assert_type(list(run.bind(pages)(1)), list[str])
    run.bind(pages)("1")  # error: arg-type
    run.bind("not callable")  # error: arg-type

    calls = run.propose([{"id": "call_1", "name": "refund", "arguments": {"order_id": "814"}}], message="m1")
    assert_type(calls, list[ProposedCall])
    assert_type(calls[0].allowed, bool)
    assert_type(calls[0].id, str | None)
    assert_type(calls[0].call, ToolCall)
    assert_type(calls[0].decision, Decision)
    calls[0].unknown()  # error: attr-defined
    run.propose(1)  # error: arg-type

    assert_type(run.session(), Session)

guard.session(1)  # error: arg-type
guard.session(attributes=["gold"])  # error: arg-type


async def fetches() -> None:
    with guard.session() as inside:
        assert_type(await inside.bind(fetch)("814"), bytes)
        assert_type(await asyncio.to_thread(inside.bind(refund), "814"), int)
        await inside.bind(fetch)(814)  # error: arg-type


card = run.score()
assert_type(card, PermissionCard)
assert_type(card.passed, bool)
assert_type(card.planner.authorized, int)
assert_type(card.planner.total, int)
assert_type(card.planner.score, float | None)
assert_type(run.score(threshold=0.5, strict=True, checks=["planner"]).passed, bool)
run.score(threshold="0.5")  # error: arg-type
run.score(unknown=True)  # error: call-arg
card.planner.unknown  # error: attr-defined

guard.call("refund", {"order_id": "814"}, call_id="call_2")
guard.call("refund", '{"order_id": "814"}')
guard.call(refund)  # error: arg-type
guard.call("refund", call_id=2)  # error: arg-type

try:
    guard.call("refund")
except InvalidCall as invalid:
    as_both: tuple[ToolDenied, TypeError] = (invalid, invalid)
except ToolDenied as denied:
    assert_type(denied.call, ToolCall)
    assert_type(denied.call.name, str)
    arguments: Mapping[str, object] = denied.call.arguments
    assert_type(denied.decision, Decision)
    assert_type(denied.decision.effect, Effect)
    assert_type(denied.decision.reason, str)
    assert_type(denied.decision.rules, tuple[str, ...])
    denied.unknown  # error: attr-defined


def answer(result: object) -> str:
    if isinstance(result, Refusal):
        assert_type(result.call, ToolCall)
        assert_type(result.decision, Decision)
        return result
    return str(result)


with gatescore.use(guard) as nothing:
    assert_type(nothing, None)
gatescore.use(None)
gatescore.use("guard")  # error: arg-type

recording = RecordingGuard(Policy(allowed_tools=["refund"]))
assert_type(recording.wrap(refund)("814"), int)
assert_type(recording.entries("refund"), list[dict[str, Any]])
assert_type(recording.sessions, list[Session])
assert_type(recording.score(checks="both"), PermissionCard)
recording.score(unknown=True)  # error: call-arg
recording.assert_entered("refund", times=1)
recording.assert_entered("refund", times="1")  # error: arg-type
with recording.session() as recorded:
    assert_type(recorded, Run)
    ScriptedProposals([{"name": "refund"}]).play(recorded)
    ScriptedProposals({"name": "refund"})  # error: arg-type
