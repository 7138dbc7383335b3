"""
What a guarded call costs.

    python benchmarks/bench_guard.py [--quick]

The figures are ratios to spans that are written by hand, through the same kind of tracer provider,
with the names and the attributes that the guard gave to its own: two spans for a call that is
entered (the second linked to the first, and the current one for as long as the tool would run), one
for a call that is denied. The attributes are made beforehand, so that the hand does nothing but
write them. The provider has one processor, which does nothing: what an exporter costs is the same
for both.

The tool that is called does nothing, in a session that is open, where thousands of calls have been
made before. Before something is timed, its spans and its result are compared with what they are said
to be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, NoOpTracerProvider, set_span_in_context
from opentelemetry.trace import TracerProvider as AnyTracerProvider
from timing import FULL, QUICK, Pace, Row, Statement, Target, compare, print_table, print_versions

from gatescore import Guard, Policy, ToolDenied

POLICIES: Final[dict[str, dict[str, Any]]] = {
    "by name": {"allowed_tools": ["cancel_order"], "denied_tools": ["issue_refund"]},
    "one condition": {
        "rules": [
            {"id": "own", "allow": "cancel_order", "args": {"order_id": {"pattern": "^[0-9]+$"}}},
            {"id": "none", "deny": "issue_refund", "args": {"order_id": {"pattern": "^[0-9]+$"}}},
        ],
        "default": "deny",
    },
    "a limit of a session": {
        "rules": [
            {"id": "own", "allow": "cancel_order", "limit": {"executions": 1_000_000_000}},
            {"id": "none", "deny": "issue_refund"},
        ],
        "default": "deny",
    },
}

BOTH: Final = """
proposal = start("propose_tool cancel_order", attributes=dict(proposed))
proposal.end()
links = [Link(proposal.get_span_context(), {"gatescore.link": "proposal"})]
execution = start("execute_tool cancel_order", attributes=dict(executed), links=links)
token = attach(set_span_in_context(execution))
detach(token)
execution.set_attributes(dict(finished))
execution.end()
"""

ONE: Final = """
proposal = start("propose_tool issue_refund", attributes=dict(denied))
proposal.end()
"""

DENIED: Final = """
try:
    refund("814")
except ToolDenied:
    pass
"""

AT_THE_END: Final = ("gatescore.outcome", "gatescore.finish.sequence", "gatescore.finish.time")


@dataclass(frozen=True, slots=True)
class Written:
    """The attributes of the spans that a guard wrote: of the two of an entered call, and of a denied one."""

    proposed: dict[str, Any]
    executed: dict[str, Any]
    finished: dict[str, Any]
    denied: dict[str, Any]


def main(arguments: Sequence[str]) -> str | int:
    """Print all tables; return an exit status, or the text of an error."""
    if list(arguments) not in ([], ["--quick"]):
        return "usage: bench_guard.py [--quick]"
    pace = QUICK if arguments else FULL
    print_versions("gatescore", "opentelemetry-sdk", "wrapt")
    for capture in ("names", "full"):
        print_table(
            f"a guarded call with `capture={capture}`, to its spans by hand", with_spans(capture, pace)
        )
    print_table("a guarded call without spans, to its spans by hand", ledger_only(pace))
    return 0


def with_spans(capture: str, pace: Pace) -> list[Row]:
    """Guarded calls that write their spans."""
    rows: list[Row] = []
    for what, policy in POLICIES.items():
        both, one = by_hand(spans_of(policy, capture))
        with guarded(policy, capture, doing_nothing()) as (entered, denied):
            rows.append(compare(f"{what}, entered", entered, both, Target("<=", 1.3), pace=pace))
            rows.append(compare(f"{what}, denied", denied, one, Target("<=", 1.5), pace=pace))
    return rows


def ledger_only(pace: Pace) -> list[Row]:
    """Guarded calls that nobody wants spans of: what was decided is on record in the process alone."""
    rows: list[Row] = []
    for what, policy in POLICIES.items():
        both, one = by_hand(spans_of(policy, "names"))
        with guarded(policy, "names", NoOpTracerProvider()) as (entered, denied):
            rows.append(compare(f"{what}, entered", entered, both, Target("<=", 0.5), pace=pace))
            rows.append(compare(f"{what}, denied", denied, one, pace=pace))
    return rows


# Statements


def doing_nothing() -> TracerProvider:
    """A provider whose only processor does nothing."""
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor())
    return provider


def cancel_order(order_id: str, notify: bool = True) -> None:
    """Do nothing, as a tool."""


@contextmanager
def guarded(
    policy: dict[str, Any], capture: str, provider: AnyTracerProvider
) -> Iterator[tuple[Statement, Statement]]:
    """Call a guarded tool that may be entered, and one that is denied, in a session that is open."""
    guard = Guard(Policy.from_dict(policy), tracer_provider=provider, capture=capture)
    cancel, refund = both_of(guard)
    with guard.session("conversation-1", principal="user:42"):
        yield (
            Statement('cancel("814")', {"cancel": cancel}),
            Statement(DENIED, {"refund": refund, "ToolDenied": ToolDenied}),
        )


def both_of(guard: Guard) -> tuple[Callable[..., None], Callable[..., None]]:
    """Two tools that do nothing, one of which is denied."""
    return guard.wrap(cancel_order), guard.wrap(cancel_order, name="issue_refund")


def by_hand(written: Written) -> tuple[Statement, Statement]:
    """Write the spans of an entered call, and of a denied one, by hand."""
    start = doing_nothing().get_tracer("by-hand").start_span
    names: dict[str, object] = {"start": start, "Link": Link, "attach": attach, "detach": detach}
    both = {
        **names,
        "set_span_in_context": set_span_in_context,
        "proposed": written.proposed,
        "executed": written.executed,
        "finished": written.finished,
    }
    return Statement(BOTH, both), Statement(ONE, {**names, "denied": written.denied})


def spans_of(policy: dict[str, Any], capture: str) -> Written:
    """What a guard writes of one call that is entered, and of one that is denied."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    guard = Guard(Policy.from_dict(policy), tracer_provider=provider, capture=capture)
    cancel, refund = both_of(guard)
    with guard.session("conversation-1", principal="user:42"):
        cancel("814")
        try:
            refund("814")
        except ToolDenied:
            pass
        else:
            raise SystemExit("error: a denied call was to be measured, and it was entered")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    executed = attributes_of(spans["execute_tool cancel_order"])
    finished = {key: executed.pop(key) for key in AT_THE_END}
    proposed = attributes_of(spans["propose_tool cancel_order"])
    return Written(proposed, executed, finished, attributes_of(spans["propose_tool issue_refund"]))


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span, as a dict of their own."""
    return dict(span.attributes or {})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
