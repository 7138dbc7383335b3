"""``gatescore demo``: a recorded file that ships with the package, scored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from gatescore.cli.output import terminal, write
from gatescore.policy import Policy
from gatescore.report.text import permission_text
from gatescore.score import score_permissions
from gatescore.traces import read_sessions

FOLDER: Final = Path(__file__).parent.parent / "demo"


def demo() -> None:
    """
    Score a recording of a support agent that comes with gatescore.

    In one of its sessions the model asked for an account to be deleted, and its runtime refused.

    Exit status 0 if the planner check fails and the execution check passes, as they must; else 1.
    """
    typer.echo("A support agent may look orders up and cancel them once; deleting accounts is denied.")
    typer.echo("Recorded: three sessions. In one of them the model asked for `delete_account`.")
    typer.echo("")
    typer.echo("$ gatescore score sessions.jsonl --policy policy.yaml")
    card = score_permissions(read_sessions(FOLDER / "sessions.jsonl"), Policy.load(FOLDER / "policy.yaml"))
    width, color = terminal()
    write(permission_text(card, width=width, color=color) + "\n")
    typer.echo("The planner check fails: the model asked for what it must not have.")
    typer.echo("The execution check passes: the call was refused before it ran.")
    typer.echo(f"Both files are in {FOLDER}")
    if card.planner.passed or not card.execution.passed:
        raise typer.Exit(1)
