"""The helpers for users' own tests fail where they must."""

from __future__ import annotations

import asyncio
import re

import pytest

from gatescore import Policy, Refusal, ToolDenied
from gatescore.testing import RecordingGuard, ScriptedProposals

POLICY = Policy(rules=[{"id": "ok", "allow": "good"}, {"id": "no", "deny": "bad"}])


@pytest.fixture
def guard() -> RecordingGuard:
    made = RecordingGuard(POLICY)
    for name in ("good", "bad", "other"):
        made.wrap(lambda x=0: x, name=name)
    made.call("good", {"x": 1})
    for name in ("bad", "other"):
        with pytest.raises(ToolDenied):
            made.call(name)
    return made


def test_what_is_so_passes(guard: RecordingGuard):
    guard.assert_entered("good")
    guard.assert_entered("good", times=1)
    guard.assert_not_entered("bad")
    guard.assert_denied("bad", rule="no")
    guard.assert_denied("other")
    assert [{"x": 1}] == guard.entries("good")


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (
            lambda guard: guard.assert_entered("bad"),
            "`bad` was entered 0 times, not at least once; its proposals: denied",
        ),
        (lambda guard: guard.assert_entered("good", times=2), "`good` was entered 1 times, not 2 times"),
        (lambda guard: guard.assert_not_entered("good"), "`good` was entered 1 times"),
        (lambda guard: guard.assert_not_entered("never"), "`never` was never proposed"),
        (lambda guard: guard.assert_denied("good"), "`good` was entered 1 times"),
        (lambda guard: guard.assert_denied("bad", rule="ok"), "`bad` was not refused by `ok` but by no"),
        (
            lambda guard: guard.assert_denied("other", rule="ok"),
            "`other` was not refused by `ok` but by no rule",
        ),
    ],
    ids=["entered", "times", "not entered", "never", "denied", "rule", "no rule"],
)
def test_what_is_not_so_fails_and_says_why(guard: RecordingGuard, check, text: str):
    with pytest.raises(AssertionError, match=re.escape(text)):
        check(guard)


def test_a_script_gives_results_and_refusals_in_order_also_of_async_tools():
    guard = RecordingGuard(POLICY)

    async def good(x: int) -> int:
        return x

    guard.wrap(good)
    guard.wrap(lambda: None, name="bad")
    script = ScriptedProposals([{"name": "good", "arguments": {"x": 1}}], [{"name": "bad"}])

    async def main() -> list[object]:
        with guard.session() as run:
            return await script.play_async(run)

    first, second = asyncio.run(main())
    assert 1 == first
    assert isinstance(second, Refusal)
    assert ["bad"] == [call.name for call in script.refused]
