"""A guard that lives long does not grow with the sessions it has seen."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from gatescore import Guard, Policy, ToolDenied
from tests.large.size import WHOLE, size

STATUS = Path("/proc/self/statm")
MEGABYTE = 2**20


def resident() -> int:
    """The memory of this process, in bytes."""
    gc.collect()
    return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live(guard: Guard, sessions: range) -> None:
    """Sessions with an id and without, calls outside of any, denials and budgets of ten principals."""
    fine = guard.wrap(lambda order_id: order_id, name="fine")
    guard.wrap(len, name="other")
    for number in sessions:
        session_id = None if number % 2 else f"session-{number}"
        with guard.session(session_id, principal=f"user:{number % 10}", attributes={"n": number}) as run:
            fine(order_id=str(number))
            for call in run.propose([{"id": "c1", "name": "other", "arguments": {"obj": [number]}}] * 2):
                try:
                    call.run()
                except ToolDenied:
                    assert call.call.name == "other"
        try:
            fine(order_id=str(number))
        except ToolDenied:
            assert number >= 0


@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell the memory of a process in /proc")
def test_memory_is_flat_over_many_sessions() -> None:
    """After the first tenth, in which the last 1,000 sessions are there to be opened again, it stays."""
    sessions = size(100_000, 3_000)
    warm = sessions // 10 if WHOLE else 2_000
    policy = {
        "default": "deny",
        "rules": [
            {"id": "fine", "allow": "fine", "limit": {"executions": 10_000_000, "per": "principal"}},
            {"id": "lone", "allow": "fine"},
            {"id": "recent", "allow": "fine", "limit": {"calls": 10_000_000, "per": "tool", "window": "1s"}},
        ],
    }
    guard = Guard(Policy.from_dict(policy))
    live(guard, range(warm))
    before = resident()
    live(guard, range(warm, sessions))
    grown = (resident() - before) / MEGABYTE
    print(
        f"\n{sessions:,} sessions: {before / MEGABYTE:.0f} MB after {warm:,}, {grown:+.1f} MB after the rest"
    )
    assert grown < 8
