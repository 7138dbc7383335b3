"""
The command line: one module for each command.

Exit status: 0 every check passes, 1 a check fails (violations, incomplete, not observed), 2 the
input or the policy is unusable, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from gatescore.cli.check import check
from gatescore.cli.demo import demo
from gatescore.cli.explain import explain
from gatescore.cli.score import score
from gatescore.errors import GatescoreError

UNUSABLE: Final = 2
INTERRUPTED: Final = 130

app = typer.Typer(
    name="gatescore",
    help="Gate the tool calls of AI agents by one policy, and score what was proposed and what ran.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (score, check, explain, demo):
    app.command()(command)


def _version(value: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if value:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"gatescore {version('gatescore')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001 - read by its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit status."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every fault of the input is one line on standard error, and exit status 2."""
    command: Any = typer.main.get_command(app)
    try:
        status = command.main(arguments, prog_name="gatescore", standalone_mode=False)
        sys.stdout.flush()
    except GatescoreError as error:
        return _unusable(str(error))
    except BrokenPipeError:
        # The reader of our output has gone; what is still buffered must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        # Usage errors: their class has another home in each generation of typer.
        explanation = getattr(error, "format_message", None)
        if explanation is None:
            raise
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "gatescore"
        text = " ".join(str(explanation()).split()).rstrip(".")
        return _unusable(f"{text[:1].lower()}{text[1:]}; see `{path} --help`")
    return status if isinstance(status, int) else 0


def _unusable(message: str) -> int:
    print(f"gatescore: {' '.join(message.splitlines())}", file=sys.stderr)
    return UNUSABLE
