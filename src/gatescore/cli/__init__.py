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
from gatescore.report.escapes import visible

UNUSABLE: Final = 2
INTERRUPTED: Final = 130

app = typer.Typer(
    name="gatescore",
    help="Gate the tool calls of AI agents by one policy, and score what was proposed and what ran.",
    add_completion=False,
    context_settings={"max_content_width": 100},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (score, check, explain, demo):
    app.command()(command)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"gatescore {version('gatescore')}")
        except PackageNotFoundError:
            typer.echo("gatescore (not installed: run from its source)")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit status."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every fault of the input is one line on standard error, and exit status 2."""
    _prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    command: Any = typer.main.get_command(app)
    try:
        # Without any command the help is shown, but a program that forgot to name one must notice.
        status = command.main(given or ["--help"], prog_name="gatescore", standalone_mode=False)
        sys.stdout.flush()
    except GatescoreError as error:
        return _unusable(str(error))
    except BrokenPipeError:
        _give_up_output()
        return 1
    except OSError as error:
        # Files that are read or written have errors of their own: this is the output.
        _give_up_output()
        place = error.filename or "standard output: cannot be written"
        return _unusable(f"{place}: {(error.strerror or str(error)).lower()}")
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
        remedy = "" if text.endswith("?") else f"; see `{path} --help`"
        return _unusable(f"{text[:1].lower()}{text[1:]}{remedy}")
    if not given:
        return UNUSABLE
    return status if isinstance(status, int) else 0


def _prepare_streams() -> None:
    """Make both streams writable whatever the text: a closed one is nowhere, an odd character is escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _give_up_output() -> None:
    """Leave nothing buffered that would be tried again, and fail again, when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unusable(message: str) -> int:
    print(f"gatescore: {visible(' '.join(message.splitlines()))}", file=sys.stderr)
    return UNUSABLE
