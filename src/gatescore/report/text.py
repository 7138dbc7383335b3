"""
Cards and explanations as text that a person reads in ten seconds.

Whatever comes from a recording is shown with its control characters written out: a trace must not
be able to move the cursor of the terminal that shows it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatescore.explain import Explanation, Part
from gatescore.model import Effect, Stream, ToolCall
from gatescore.score import Check, Finding, PermissionCard, Status, Unauthorized
from gatescore.truth import FALSE, TRUE

WIDTH = 110
"""Columns of text that no terminal gives a width to."""

_LISTED = 10
"""How many calls are listed one by one before they are counted by tool."""

_ID_WIDTH = 30
"""Columns of a session's id that is only an example."""

_STYLE = {True: "bold green", False: "bold red"}


def permission_text(card: PermissionCard, *, width: int | None = None, color: bool = False) -> str:
    """The card of a permission score: the checks, what is not authorized, the findings, the result."""
    console = _console(width, color=color)
    console.print(_title(card))
    for note in card.notes:
        console.print(Text(f"note: {note}"))
    console.print(_checks_table(card))
    for check in (card.planner, card.execution):
        _print_gaps(console, check)
        _print_unauthorized(console, check)
    _print_findings(console, card.reconciliation)
    for error in card.input_errors[:_LISTED]:
        console.print(Text(f"not read: {visible(str(error))}", style="bold red"))
    if len(card.input_errors) > _LISTED:
        console.print(f"not read: {len(card.input_errors) - _LISTED:,} more")
    console.print(_result(card))
    return _captured(console)


def explanation_text(
    explanation: Explanation, call: ToolCall, *, width: int | None = None, color: bool = False
) -> str:
    """A decision: the verdict, each rule that was looked at with its conditions, and the nearest miss."""
    console = _console(width, color=color)
    decision = explanation.decision
    verdict = "undecidable, so deny" if decision.undecidable else decision.effect.value
    line = Text(f"{visible(call.tool)}: ")
    line.append(verdict, style=_STYLE[decision.allowed])
    line.append(f" - {visible(decision.reason)}")
    console.print(line)
    if explanation.readings:
        console.print(_readings_table(explanation))
    for error in decision.errors:
        console.print(Text(f"could not be judged: {visible(error)}"))
    if explanation.others:
        console.print(f"{explanation.others:,} rules speak about other tools")
    nearest = explanation.nearest
    if nearest is not None:
        failed = "; ".join(f"{part.name}: {visible(part.text)}" for part in nearest.failed)
        console.print(Text(f"nearest miss: {nearest.effect.value} rule `{nearest.rule}` - {failed}"))
    if explanation.similar is not None:
        console.print(Text(f"nearest name: the policy allows `{explanation.similar}`"))
    return _captured(console)


def visible(text: str) -> str:
    """Write out control and other unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _console(width: int | None, *, color: bool) -> Console:
    return Console(
        file=io.StringIO(), width=width or WIDTH, force_terminal=color, highlight=False, no_color=not color
    )


def _captured(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = (line.rstrip() for line in file.getvalue().splitlines())
    # The tables bring an empty line above and below; two in a row say nothing.
    return "\n".join(line for line, _ in groupby(lines)).strip("\n") + "\n"


def _title(card: PermissionCard) -> Text:
    name = visible(card.policy_name) if card.policy_name else "policy"
    count = len(card.sessions)
    return Text(f"{name} ({card.policy_digest[:15]}) on {count:,} session{'' if count == 1 else 's'}")


def _score(check: Check) -> str:
    return "-" if check.score is None else f"{check.score:.3f}"


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


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
        remarks.append(f"{check.asked:,} need a yes")
    if check.undecidable:
        remarks.append(f"{check.undecidable:,} undecidable")
    if check.not_selected:
        remarks.append(f"{check.not_selected:,} not selected")
    return ", ".join(remarks)


def _print_gaps(console: Console, check: Check) -> None:
    for what in check.missing:
        console.print(Text(f"{check.stream.value}: undecidable, because {visible(what)}"))


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
        table = _table("calls", "tool", "effect", "rule", "reason", "first in", right=("calls",))
        groups = _grouped(calls)
        for group in groups[:_LISTED]:
            table.add_row(f"{len(group):,}", *_row(group[0])[2:], _short(group[0].session))
        if len(groups) > _LISTED:
            rest = sum(len(group) for group in groups[_LISTED:])
            table.add_row(f"{rest:,}", f"... of {len(groups) - _LISTED:,} more kinds: --format json lists each")
    console.print(table)


def _short(session: str) -> str:
    """A session's id where it only points to an example: its end, which tells ids of one run apart."""
    shown = visible(session)
    return shown if len(shown) <= _ID_WIDTH else "..." + shown[3 - _ID_WIDTH :]


def _row(call: Unauthorized) -> tuple[str, ...]:
    tool = visible(call.tool) + (" (unknown tool)" if call.unknown_tool else "")
    rules = ", ".join(visible(rule) for rule in call.rules) or "default"
    return visible(call.session), visible(call.call_id), tool, call.effect, rules, visible(call.reason)


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
    table = _table("finding", "calls", "", "first: session", "call", "tool", "evidence", right=("calls",))
    for kind, group in sorted(by_kind.items(), key=lambda item: not item[1][0].fails):
        first = group[0]
        fails = Text("FAILS", style=_STYLE[False]) if first.fails else Text("")
        table.add_row(
            kind,
            f"{len(group):,}",
            fails,
            _short(first.session),
            visible(first.call_id),
            visible(first.tool),
            visible(first.evidence),
        )
    console.print(table)


def _result(card: PermissionCard) -> Text:
    if card.passed:
        return Text("passed", style=_STYLE[True])
    causes = [
        f"{name} check " + (f"{_score(check)} is below {check.threshold:g}" if check.score is not None else check.status.value.replace("_", " "))
        for name, check in (("planner", card.planner), ("execution", card.execution))
        if name in card.checks and not check.passed
    ]
    failing = sum(finding.fails for finding in card.reconciliation)
    if failing:
        causes.append(f"{failing:,} failing finding{'' if failing == 1 else 's'}")
    if card.input_errors:
        causes.append(f"{len(card.input_errors):,} part{'' if len(card.input_errors) == 1 else 's'} of the input not read")
    if not card.sessions:
        causes.append("no session")
    return Text("FAILED: " + ", ".join(causes), style=_STYLE[False])


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
                visible(part.text),
            )
    return table


def _word_style(effect: Effect, part: Part) -> str:
    if part.truths == TRUE:
        return "green"
    return "red" if part.truths == FALSE and effect is not Effect.DENY else "yellow"
