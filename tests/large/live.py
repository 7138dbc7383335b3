"""
Random policies, and random live sessions under them: one of each for every seed.

A session calls its tools directly and by name, proposes whole messages of a model, runs siblings one
after the other, in threads and in tasks, leaves some of them out, repeats calls under the id that a
provider gave (a retry of the host), lets tools raise, time out and call each other, changes its
attributes, and asks a person who says yes, no, or something else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Guard, Policy, ToolDenied
from gatescore.canonical import key_text
from gatescore.guard import Answer, ApprovalRequest, GuardError, Run

TOOLS = ("read", "pay", "send", "note", "stream")
ORDERS = ("1", "2", "3")
PATIENCE = 60
"""Seconds after which a thread that does not come back is a failure."""


class Failing(Exception):  # noqa: N818 - what a tool may raise
    """A tool's own failure."""


OWN = (Failing, TimeoutError)


def policy_of(chance: random.Random) -> dict[str, Any]:
    """A policy about the tools of a session: some rules of every kind."""
    rules: list[dict[str, Any]] = [
        {"allow": ["read", "note"]},
        {"allow": "stream", "limit": limit(chance)},
        {"allow": "pay", "after": after(chance)},
        {"allow": "pay", "args": {"amount": {"maximum": 100}}, "limit": limit(chance)},
        {"ask": "pay", "args": {"amount": {"minimum": 50}}, "approval": {"attempts": chance.randint(1, 2)}},
        {"deny": "pay", "args": {"amount": {"minimum": 90}}},
        {"allow": ["send", "pay"], "when": "args.order_id in session.attributes.owned"},
        {"deny": {"labels": ["external"]}, "when": 'session.labels.exists(l, l == "private")'},
        {"deny": "send", "after": {"tool": "read", "within": {"calls": chance.randint(1, 4)}}},
        {"ask": "send", "after": after(chance)},
        {"deny": chance.choice(TOOLS), "limit": {"proposals": chance.randint(3, 9), "then": "stop"}},
        {"allow": list(TOOLS)},
    ]
    kept = [rule for rule in rules if chance.random() < 0.55] or rules[:1]
    chance.shuffle(kept)
    tools: dict[str, Any] = {
        "read": {"labels": chance.choice([["private"], ["private", "untrusted"], []])},
        "send": {"labels": ["external"]},
        "pay": {"labels": []},
        "note": {"labels": []},
        "stream": {"labels": []},
    }
    if chance.random() < 0.5:
        tools["pay"]["once_per"] = ["order_id"]
        if chance.random() < 0.5:
            tools["pay"]["safe_to_repeat"] = chance.choice([["failed"], ["failed", "unfinished"]])
    return {
        "gatescore": 1,
        "default": chance.choice(["deny", "deny", "ask", "allow"]),
        "tools": tools,
        "rules": [{"id": f"r{number}", **rule} for number, rule in enumerate(kept)],
    }


def limit(chance: random.Random) -> dict[str, Any]:
    """A limit of any kind."""
    made: dict[str, Any] = {chance.choice(["executions", "calls"]): chance.randint(1, 4)}
    made["per"] = chance.choice(["session", "session", "principal", "tool"])
    if chance.random() < 0.4:
        made["key"] = ["order_id"]
    if chance.random() < 0.3:
        made["window"] = "1h"
    return made


def after(chance: random.Random) -> dict[str, Any]:
    """A prerequisite of any kind."""
    made: dict[str, Any] = {"tool": chance.choice(["read", ["read", "note"], "stream"])}
    if chance.random() < 0.6:
        made["same"] = ["order_id"]
    if chance.random() < 0.4:
        made["within"] = chance.choice(["1h", {"calls": 3}])
    return made


class Live:
    """
    One guard, and what really happened in the bodies of its tools.

    Attributes:
        entered: How often the body of each tool was entered with which arguments.
    """

    def __init__(self, seed: int, capture: str) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.policy = Policy.from_dict(policy_of(self.chance))
        self.guard = Guard(
            self.policy, tracer_provider=provider, capture=capture, approver=self.person, approval_timeout=20
        )
        self.entered: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self.tools: dict[str, Callable[..., Any]] = {
            "read": self.guard.wrap(self.read, name="read"),
            "pay": self.guard.wrap(self.pay, name="pay"),
            "send": self.guard.wrap(self.send, name="send"),
            "note": self.guard.wrap(self.note, name="note"),
            "stream": self.guard.wrap(self.stream, name="stream"),
        }

    # Tools

    def read(self, order_id: str, amount: int = 0) -> str:
        self.enter("read", order_id, amount)
        return order_id

    def pay(self, order_id: str, amount: int = 0) -> str:
        self.enter("pay", order_id, amount)
        if amount % 7 == 3:
            raise Failing(order_id)
        if amount % 7 == 4:
            raise TimeoutError
        return order_id

    async def send(self, order_id: str, amount: int = 0) -> str:
        self.enter("send", order_id, amount)
        await asyncio.sleep(0)
        if amount % 7 == 3:
            raise Failing(order_id)
        return order_id

    def note(self, order_id: str, amount: int = 0) -> str:
        self.enter("note", order_id, amount)
        with contextlib.suppress(ToolDenied, *OWN):
            self.tools["read" if amount % 2 else "pay"](order_id, amount // 2)
        return order_id

    def stream(self, order_id: str, amount: int = 0) -> Iterator[int]:
        self.enter("stream", order_id, amount)
        yield from range(3)

    def enter(self, name: str, order_id: str, amount: int) -> None:
        with self._lock:
            self.entered[name, key_text({"order_id": order_id, "amount": amount})] += 1

    def person(self, request: ApprovalRequest) -> Answer | bool | str | None:
        """Say yes or no by what is asked, not by when: sessions with threads have no order to go by."""
        text = f"{self.seed} {key_text(request.arguments)}".encode()
        mood = hashlib.sha256(text).digest()[0] % 8
        if mood < 4:
            return request.approve(by="alice")
        if mood == 4:
            return request.edit({**request.arguments, "amount": 10}, by="bob")
        if mood == 5:
            raise Failing
        return ("yes", False, None)[mood % 3]

    # The session

    def arguments(self) -> dict[str, Any]:
        return {"order_id": self.chance.choice(ORDERS), "amount": self.chance.randint(0, 100)}

    def run(self, session_id: str) -> Run:
        """Live through one session."""
        attributes = {"owned": self.chance.sample(ORDERS, self.chance.randint(0, 3))}
        with (
            ThreadPoolExecutor(4) as pool,
            self.guard.session(session_id, principal="user:1", attributes=attributes) as run,
        ):
            for _ in range(self.chance.randint(1, 7)):
                self.chance.choice(
                    [self.call, self.retry, self.message, self.message, self.threads, self.tasks, self.update]
                )(run, pool)
        return run

    def call(self, run: Run, pool: ThreadPoolExecutor) -> None:
        use(self.tools[self.chance.choice(TOOLS)], **self.arguments())

    def retry(self, run: Run, pool: ThreadPoolExecutor) -> None:
        """The host calls again, under the same id: an attempt where the arguments are the same."""
        name, arguments, host_id = (
            self.chance.choice(TOOLS),
            self.arguments(),
            f"c{self.chance.randint(1, 3)}",
        )
        for _ in range(self.chance.randint(1, 3)):
            use(self.guard.call, name, arguments, call_id=host_id)

    def message(self, run: Run, pool: ThreadPoolExecutor) -> None:
        """A message of a model: its calls run one after the other, or in threads, and some never."""
        calls = [
            {
                "id": f"m{self.chance.randint(1, 9)}",
                "name": self.chance.choice(TOOLS),
                "arguments": self.arguments(),
            }
            for _ in range(self.chance.randint(1, 4))
        ]
        proposed = [call for call in run.propose(calls) if self.chance.random() < 0.9]
        if self.chance.random() < 0.5:
            together(pool, [run.bind(partial(use, call.run)) for call in proposed])
        else:
            for call in proposed:
                use(call.run)

    def threads(self, run: Run, pool: ThreadPoolExecutor) -> None:
        name, arguments = self.chance.choice(TOOLS), [self.arguments() for _ in range(4)]
        together(pool, [run.bind(partial(use, self.tools[name], **values)) for values in arguments])

    def tasks(self, run: Run, pool: ThreadPoolExecutor) -> None:
        arguments = [self.arguments() for _ in range(4)]

        async def one(values: dict[str, Any]) -> None:
            with contextlib.suppress(ToolDenied, *OWN):
                await self.tools["send"](**values)

        async def every() -> None:
            await asyncio.gather(*(one(values) for values in arguments))

        asyncio.run(every())

    def update(self, run: Run, pool: ThreadPoolExecutor) -> None:
        run.update(owned=self.chance.sample(ORDERS, self.chance.randint(0, 3)))


def use(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call, and wait for whatever comes of it: a result, a coroutine, or some items of a generator."""
    with contextlib.suppress(ToolDenied, GuardError, *OWN):
        result = function(*args, **kwargs)
        if inspect.iscoroutine(result):
            asyncio.run(awaited(result))
        elif hasattr(result, "__next__"):
            for number in result:
                if number == 1 and kwargs.get("amount", 0) % 2:
                    break
            result.close()


async def awaited(coroutine: Any) -> Any:
    return await coroutine


def together(pool: ThreadPoolExecutor, work: list[Callable[[], None]]) -> None:
    for future in [pool.submit(each) for each in work]:
        future.result(timeout=PATIENCE)
