"""``gatescore score``: what the model asked for and what ran, against a policy."""

from __future__ import annotations

from typing import Annotated

import typer

from gatescore.cli.output import Format, Output, PolicyFile, check_format, check_output, terminal, write
from gatescore.cli.progress import reading
from gatescore.policy import Policy
from gatescore.report.json import permission_json
from gatescore.report.text import permission_text
from gatescore.score import score_permissions
from gatescore.traces import find_inputs, read_sessions


def score(
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Recordings: files, folders, globs, or - for standard input.", metavar="INPUT..."
        ),
    ],
    policy: PolicyFile,
    check: Annotated[
        str,
        typer.Option("--check", help="Which checks must pass: planner, execution or both.", metavar="CHECK"),
    ] = "both",
    threshold: Annotated[
        float,
        typer.Option("--threshold", "-t", help="The least score that passes, from 0 to 1.", metavar="T"),
    ] = 1.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Any unauthorized call makes the score 0.")
    ] = False,
    format: Format = "text",  # noqa: A002 - the name of the option
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The format of the input, instead of recognising it: trajectory or otlp.",
            metavar="FORMAT",
        ),
    ] = None,
    output: Output = None,
) -> None:
    """
    Score recorded sessions: the planner and the execution check.

    Exit status 0 if every requested check passes, 1 if one fails or is incomplete, 2 if the input or
    the policy is unusable.
    """
    check_format(format)
    check_output(output, [policy, *(find_inputs(inputs) if output else ())])
    loaded = Policy.load(policy)
    with reading(inputs) as progress:
        card = score_permissions(
            read_sessions(*inputs, format=source, progress=progress),
            loaded,
            threshold=threshold,
            strict=strict,
            checks=check,
        )
    if format == "json":
        text = permission_json(card)
    else:
        width, color = (None, False) if output else terminal()
        text = permission_text(card, width=width, color=color)
    write(text, output)
    if not card.passed:
        raise typer.Exit(1)
