"""Where a command's output goes: standard output in the width and colours it has, or a file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from gatescore.errors import InputError, ScoreError, did_you_mean

FORMATS: Final = ("text", "json")

PolicyFile = Annotated[str, typer.Option("--policy", "-p", help="The policy: a YAML or JSON file.", metavar="FILE")]
Format = Annotated[str, typer.Option("--format", "-f", help="text or json.", metavar="FORMAT")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Write here instead of to standard output.", metavar="FILE")
]


def check_format(name: str) -> None:
    """Refuse a format that is not known, before any work is done."""
    if name not in FORMATS:
        raise ScoreError(f"unknown format `{name}`: {did_you_mean(name, FORMATS)}")


def terminal() -> tuple[int | None, bool]:
    """The width of standard output and whether it shows colours; (None, False) if it is no terminal."""
    if not sys.stdout.isatty():
        return None, False
    return shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ


def check_output(file: str | None) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if file is not None and not Path(file).resolve().parent.is_dir():
        raise InputError("cannot be written: its folder does not exist", source=file)


def write(text: str, file: str | None) -> None:
    """Write *text* to *file*, or to standard output."""
    if file is None:
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be written: {(error.strerror or str(error)).lower()}", source=file
        ) from None
