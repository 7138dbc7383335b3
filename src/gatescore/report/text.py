"""
Cards and explanations as text that a person reads in ten seconds.

Whatever comes from a recording is shown with its control characters written out: a trace must not
be able to move the cursor of the terminal that shows it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatescore.explain import Explanation, Part
from gatescore.model import Effect, Stream, ToolCall
from gatescore.report.escapes import visible
from gatescore.score import Check, Finding, Kind, PermissionCard, Status, Unauthorized
from gatescore.truth import FALSE, TRUE

WIDTH = 110
"""Columns of text that no terminal gives a width to."""

_LISTED = 10
"""How many calls are listed one by one before they are counted by tool."""

_ID_WIDTH = 30
"""Columns of a session's id that is only an example."""

_CELL_WIDTH = 300
"""Characters of one cell: names come from models, and one of them must not fill the screen."""

_STYLE = {True: "bold green", False: "bold red"}


def permission_text(card: PermissionCard, *, width: int | None = None, color: bool = False) -> str:
    """The card of a permission score: the checks, what is not authorized, the findings, the result."""
    page = io.StringIO()
    console = _console(page, width, color=color)
    console.print(_title(card))
    for note in card.notes:
        console.print(Text(f"note: {note}"))
    console.print(_checks_table(card))
    for check in (card.planner, card.execution):
        _print_gaps(console, check, card.reconciliation)
        _print_unauthorized(console, check)
    _print_findings(console, card.reconciliation)
    console.print()
    for error in card.input_errors[:_LISTED]:
        console.print(Text(f"not read: {visible(str(error))}", style="bold red"))
    if len(card.input_errors) > _LISTED:
        console.print(f"not read: {len(card.input_errors) - _LISTED:,} more")
    console.print(_result(card))
    return _written(page)


def explanation_text(
    explanation: Explanation, call: ToolCall, *, width: int | None = None, color: bool = False
) -> str:
    """A decision: the verdict, each rule that was looked at with its conditions, and the nearest miss."""
    page = io.StringIO()
    console = _console(page, width, color=color)
    decision = explanation.decision
    verdict = "undecidable, so deny" if decision.undecidable else decision.effect.value
    line = Text(f"{visible(call.tool)}: ")
    line.append(verdict, style=_STYLE[decision.allowed])
    line.append(f" - {visible(decision.reason)}")
    console.print(line)
    if explanation.readings:
        console.print(_readings_table(explanation))
    for error in () if decision.invalid is not None else decision.errors:  # the reason says that one
        console.print(Text(f"could not be judged: {visible(error)}"))
    if explanation.others:
        verb = "speaks" if explanation.others == 1 else "speak"
        console.print(f"{explanation.others:,} rule{_s(explanation.others)} {verb} about other tools")
    nearest = explanation.nearest
    if nearest is not None:
        failed = "; ".join(f"{part.name}: {visible(part.text)}" for part in nearest.failed)
        console.print(Text(f"nearest miss: {nearest.effect.value} rule `{visible(nearest.rule)}` - {failed}"))
    if explanation.similar is not None:
        console.print(Text(f"nearest name in the policy: `{visible(explanation.similar)}`"))
    return _written(page)


def _console(page: io.StringIO, width: int | None, *, color: bool) -> Console:
    return Console(
        file=page,
        width=width or WIDTH,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,  # `[red]` in a recorded name is that name, and no colour
        emoji=False,
    )


def _written(page: io.StringIO) -> str:
    lines: list[str] = []
    for line in page.getvalue().split("\n"):
        # The tables bring an empty line above and below; two in a row say nothing.
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines).strip("\n") + "\n"


def _title(card: PermissionCard) -> Text:
    name = visible(card.policy_name) if card.policy_name else "policy"
    count = len(card.sessions)
    return Text(f"{name} ({card.policy_digest[:15]}) on {count:,} session{_s(count)}")


def _score(check: Check) -> str:
    """Three digits; rounded down where rounding would make a score reach what it does not reach."""
    score = check.score
    if score is None:
        return "-"
    rounded = round(score, 3)
    if any(score < limit <= rounded for limit in (check.threshold, 1.0)):
        rounded = math.floor(score * 1000) / 1000
    return f"{rounded:.3f}"


def _table(*columns: str, right: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column in whole,
        )
    return table


def _cell(text: str) -> str:
    """Recorded text as a table shows it; JSON has all of it."""
    shown = visible(text[: _CELL_WIDTH + 1])
    return shown if len(shown) <= _CELL_WIDTH else shown[:_CELL_WIDTH] + "..."


def _checks_table(card: PermissionCard) -> Table:
    table = _table("check", "score", "authorized", "result", "", right=("score", "authorized"))
    for name, check in (("planner", card.planner), ("execution", card.execution)):
        requested = name in card.checks
        passed = Text("not requested", style="dim")
        if requested:
            passed = Text("passed" if check.passed else "FAILED", style=_STYLE[check.passed])
        counts = "-" if check.status is Status.NOT_OBSERVED else f"{check.authorized:,} of {check.total:,}"
        table.add_row(name, _score(check), counts, passed, _remarks(check))
    return table


def _remarks(check: Check) -> str:
    remarks: list[str] = []
    if check.status is not Status.COMPLETE:
        remarks.append(check.status.value.replace("_", " "))
    if check.basis is not None and check.status is not Status.NOT_OBSERVED:
        remarks.append(f"basis {check.basis.value}")
    if check.asked:
        remarks.append(f"{check.asked:,} need{'s' if check.asked == 1 else ''} a yes")
    if check.recorded:
        remarks.append(f"{check.recorded:,} as recorded")
    if check.undecidable:
        remarks.append(f"{check.undecidable:,} undecidable")
    if check.not_selected:
        remarks.append(f"{check.not_selected:,} not selected")
    return ", ".join(remarks)


def _print_gaps(console: Console, check: Check, findings: Sequence[Finding]) -> None:
    if not check.missing:
        return
    # What is missing of a record makes no single call undecidable: it leaves the whole check open.
    gaps = {finding.evidence for finding in findings if finding.kind is Kind.MISSING_RECORDS}
    for what in check.missing:
        word = "incomplete" if what in gaps else "undecidable"
        console.print(Text(f"{check.stream.value}: {word}, because {visible(what)}"))


def _print_unauthorized(console: Console, check: Check) -> None:
    calls = check.unauthorized
    if not calls:
        return
    what = "proposals" if check.stream is Stream.PROPOSED else "executions"
    one = "proposal" if check.stream is Stream.PROPOSED else "execution"
    console.print()
    console.print(f"{len(calls):,} unauthorized {what if len(calls) > 1 else one}", style="bold")
    if len(calls) <= _LISTED:
        table = _table("session", "call", "tool", "effect", "rule", "reason")
        for call in calls:
            table.add_row(*_row(call))
    else:
        columns = ("calls", "tool", "effect", "rule", "reason", "first in")
        table = _table(*columns, right=("calls",), whole=("calls", "effect", "first in"))
        groups = _grouped(calls)
        for group in groups[:_LISTED]:
            table.add_row(f"{len(group):,}", *_row(group[0])[2:], _short(group[0].session))
        if len(groups) > _LISTED:
            rest = sum(len(group) for group in groups[_LISTED:])
            table.add_row(
                f"{rest:,}", f"... of {len(groups) - _LISTED:,} more kinds: --format json lists each"
            )
    console.print(table)


def _short(session: str) -> str:
    """A session's id where it only points to an example: its end, which tells ids of one run apart."""
    shown = visible(session)
    return shown if len(shown) <= _ID_WIDTH else "..." + shown[3 - _ID_WIDTH :]


def _row(call: Unauthorized) -> tuple[str, ...]:
    tool = _cell(call.tool) + (" (unknown tool)" if call.unknown_tool else "")
    rules = _cell(", ".join(call.rules)) or "default"
    return _cell(call.session), _cell(call.call_id), tool, call.effect, rules, _cell(call.reason)


def _grouped(calls: Iterable[Unauthorized]) -> list[list[Unauthorized]]:
    """Calls with one tool, effect, rules and reason together; the largest groups first."""
    groups: dict[tuple[object, ...], list[Unauthorized]] = {}
    for call in calls:
        groups.setdefault((call.tool, call.effect, call.rules, call.reason), []).append(call)
    return sorted(groups.values(), key=lambda group: -len(group))


def _print_findings(console: Console, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    by_kind: dict[str, list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault(finding.kind.value, []).append(finding)
    console.print()
    console.print("the two streams against each other", style="bold")
    columns = ("finding", "calls", "", "first: session", "call", "tool", "evidence")
    table = _table(*columns, right=("calls",), whole=("finding", "calls", "", "first: session"))
    for kind, group in sorted(by_kind.items(), key=lambda item: not item[1][0].fails):
        first = group[0]
        fails = Text("FAILS", style=_STYLE[False]) if first.fails else Text("")
        table.add_row(
            kind,
            f"{len(group):,}",
            fails,
            _short(first.session),
            _cell(first.call_id),
            _cell(first.tool),
            _cell(first.evidence),
        )
    console.print(table)


def _result(card: PermissionCard) -> Text:
    if card.passed:
        return Text("passed", style=_STYLE[True])
    causes = [
        f"{name} check {_shortfall(check)}"
        for name, check in (("planner", card.planner), ("execution", card.execution))
        if name in card.checks and not check.passed
    ]
    failing = sum(finding.fails for finding in card.reconciliation)
    if failing:
        causes.append(f"{failing:,} failing finding{_s(failing)}")
    if card.input_errors:
        causes.append(f"{len(card.input_errors):,} part{_s(len(card.input_errors))} of the input not read")
    if not card.sessions:
        causes.append("no session")
    return Text("FAILED: " + ", ".join(causes), style=_STYLE[False])


def _shortfall(check: Check) -> str:
    if check.score is None:
        return check.status.value.replace("_", " ")
    if check.strict:
        return f"{_score(check)}, and strict allows no unauthorized call"
    return f"{_score(check)} is below {check.threshold:g}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _readings_table(explanation: Explanation) -> Table:
    table = _table("rule", "effect", "matches", "condition", "is", "")
    layered = len({reading.layer for reading in explanation.readings}) > 1
    for reading in explanation.readings:
        name = f"{reading.layer}: {reading.rule}" if layered else reading.rule
        for number, part in enumerate(reading.parts):
            first = number == 0
            whole = Part("", reading.truths, "").word
            table.add_row(
                Text(visible(name), style="bold" if reading.determining else "") if first else "",
                reading.effect.value if first else "",
                whole if first else "",
                part.name,
                Text(part.word, style=_word_style(reading.effect, part)),
                _cell(part.text),
            )
    return table


def _word_style(effect: Effect, part: Part) -> str:
    if part.truths == TRUE:
        return "green"
    return "red" if part.truths == FALSE and effect is not Effect.DENY else "yellow"
