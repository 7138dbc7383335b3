"""
The permission score, beside DeepEval's `ToolPermissionMetric` on the same calls.

    python benchmarks/peer_deepeval.py [--check]

Runs in an environment of its own, made by `make bench` and `make test-integrations`.

Without an option it says how many times as long DeepEval takes to score one session of five calls.
Either side has everything made before: gatescore the session and the policy, DeepEval the test case and
the metric. DeepEval scores one list of five calls, without the display of its progress and, since that is
how it comes, with it. gatescore judges five proposals and five executions, and reconciles the two.

With `--check` it compares results instead: for small lists of names and small lists of calls, both
streams must get DeepEval's score, DeepEval's verdict, and the same unauthorized calls. The names are such
that reading a denied name widely finds nothing which reading it exactly would not; how the two differ
elsewhere is not compared.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from typing import Final

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"  # read when it is imported
os.environ["DEEPEVAL_DISABLE_DOTENV"] = "1"

import deepeval.metrics  # type: ignore[import-not-found]
import deepeval.test_case  # type: ignore[import-not-found]
from timing import FULL, Statement, Target, compare, print_table, print_versions

from gatescore.model import Execution, Proposal, Session, ToolCall
from gatescore.policy import Policy
from gatescore.score import Check, score_permissions

ALLOWED: Final[Sequence[list[str] | None]] = (
    None,
    [],
    ["get_order"],
    ["get_order", "search_kb"],
    ["search_kb", "get_order", "search_kb"],
)
DENIED: Final[Sequence[list[str] | None]] = (None, [], ["issue_refund"], ["get_order", "issue_refund"])
CALLED: Final[Sequence[list[str]]] = (
    [],
    ["get_order"],
    ["issue_refund", "issue_refund"],
    ["get_order", "search_kb", "get_order", "issue_refund", "get_order"],
)


def main(arguments: Sequence[str]) -> str | int:
    """Measure or compare; return an exit status, or the text of an error."""
    if list(arguments) not in ([], ["--check"]):
        return "usage: peer_deepeval.py [--check]"
    print_versions("gatescore", "deepeval")
    return check() if arguments else bench()


def bench() -> int:
    """Print how many times as long DeepEval takes for the last list of calls."""
    allowed, denied, called = ["get_order", "search_kb"], ["issue_refund"], CALLED[-1]
    ours = Statement(
        "score_permissions(session, policy)",
        {
            "score_permissions": score_permissions,
            "session": session_of(called),
            "policy": policy_of(allowed, denied),
        },
    )
    names = {"metric": metric_of(allowed, denied), "case": case_of(called)}
    silent = Statement("metric.measure(case, _show_indicator=False)", names)
    shown = Statement("metric.measure(case)", names)
    what = f"a session of {len(called)} calls"
    rows = [compare(f"{what}, no display of progress", silent, ours, Target(">=", 3), pace=FULL)]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        rows.append(compare(f"{what}, progress displayed (to nowhere)", shown, ours, pace=FULL))
    print_table("DeepEval's permission score, to both checks and the reconciliation", rows)
    return 0


def check() -> int:
    """Compare the results of all cases; return 1 where one differs."""
    passed = failed = 0
    for allowed, denied, called in cases():
        differences = list(compared(allowed, denied, called))
        for difference in differences:
            print(f"allowed {allowed}, denied {denied}, called {called}: {difference}")
        passed += not differences
        failed += bool(differences)
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed == 0)


def cases() -> Iterator[tuple[list[str] | None, list[str] | None, list[str]]]:
    """All combinations; without any list there is no policy, for either side."""
    for allowed, denied, called in product(ALLOWED, DENIED, CALLED):
        if allowed is not None or denied is not None:
            yield allowed, denied, called


def compared(allowed: list[str] | None, denied: list[str] | None, called: list[str]) -> Iterator[str]:
    """What both streams, and the same calls as a plain list, have otherwise than DeepEval."""
    metric, case = metric_of(allowed, denied), case_of(called)
    score: float = metric.measure(case, _show_indicator=False)
    # The metric tells the calls by their names alone; which ones they were it knows itself.
    unauthorized = {id(call) for call in metric._unauthorized_calls(case.tools_called)}
    positions = [number for number, call in enumerate(case.tools_called) if id(call) in unauthorized]
    expected = (score, bool(metric.is_successful()), positions)

    card = score_permissions(session_of(called), policy_of(allowed, denied))
    calls = [{"name": name} for name in called]
    listed = score_permissions(calls, allowed_tools=allowed, denied_tools=denied)
    checks = (("proposed", card.planner), ("executed", card.execution), ("as a list", listed.planner))
    for what, found in checks:
        if expected != result(found):
            yield f"{what}: expected {expected}, found {result(found)}"


def result(found: Check) -> tuple[float | None, bool, list[int]]:
    """Score, verdict, and the positions of the calls that are not authorized."""
    return found.score, found.passed, [int(call.call_id.removeprefix("#")) for call in found.unauthorized]


# The two sides


def policy_of(allowed: list[str] | None, denied: list[str] | None) -> Policy:
    """The lists as a policy: where nothing is said to be allowed, everything is that is not denied."""
    default = "allow" if allowed is None else None
    return Policy(allowed_tools=allowed, denied_tools=denied, default=default)


def session_of(called: Sequence[str]) -> Session:
    """A session in which every call was proposed in a turn of its own, and executed as proposed."""
    return Session(
        id="session",
        proposed=[Proposal(call=call_of(number, name), turn=number) for number, name in enumerate(called)],
        executed=[
            Execution(call=call_of(number, name), turn=number, proposed=True)
            for number, name in enumerate(called)
        ],
    )


def call_of(number: int, name: str) -> ToolCall:
    """One call; each stream gets values of its own, as when they are read from a record."""
    return ToolCall(name, {"order_id": "814", "position": number}, call_id=f"#{number}")


def metric_of(allowed: list[str] | None, denied: list[str] | None) -> deepeval.metrics.ToolPermissionMetric:
    """DeepEval's metric for the lists."""
    return deepeval.metrics.ToolPermissionMetric(allowed_tools=allowed, denied_tools=denied)


def case_of(called: Sequence[str]) -> deepeval.test_case.LLMTestCase:
    """DeepEval's test case for the calls."""
    calls = [
        deepeval.test_case.ToolCall(name=name, input_parameters={"order_id": "814", "position": number})
        for number, name in enumerate(called)
    ]
    return deepeval.test_case.LLMTestCase(input="", actual_output="", tools_called=calls)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
