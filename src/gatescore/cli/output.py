"""Where a command's output goes: standard output in the width and colours it has, or a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from gatescore.errors import InputError, ScoreError, did_you_mean

FORMATS: Final = ("text", "json")

_LINE: Final = "\u2500"
"""What tables are drawn with: not every encoding has it."""

PolicyFile = Annotated[
    str, typer.Option("--policy", "-p", help="The policy: a YAML or JSON file.", metavar="FILE")
]
Format = Annotated[str, typer.Option("--format", "-f", help="text or json.", metavar="FORMAT")]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Write here instead of to standard output.", metavar="FILE"),
]


def check_format(name: str) -> None:
    """Refuse a format that is not known, before any work is done."""
    if name not in FORMATS:
        raise ScoreError(f"unknown format `{name}`: {did_you_mean(name, FORMATS)}")


def terminal() -> tuple[int | None, bool]:
    """The width of standard output and whether it shows colours; (None, False) if it is no terminal."""
    if not sys.stdout.isatty():
        return None, False
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return shutil.get_terminal_size().columns, not plain


def check_output(file: str | None, inputs: Sequence[str] = ()) -> None:
    """Refuse a file that cannot be written, or that is one of *inputs*, before any work is done."""
    if file is None:
        return
    if not file:
        raise InputError("the name of a file is empty: name one, or leave the option out", source="--output")
    path = Path(file).resolve()
    if path.is_dir():
        raise InputError("cannot be written: it is a folder", source=file)
    if not path.parent.is_dir():
        raise InputError("cannot be written: its folder does not exist", source=file)
    if any(path == Path(name).resolve() for name in inputs):
        raise InputError("cannot be written: it is read in the same run, so name another file", source=file)


def write(text: str, file: str | None = None) -> None:
    """Write *text* to *file*, or to standard output."""
    if file is None:
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        sys.stdout.write(text if encoding.startswith("utf") else text.replace(_LINE, "-"))
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be written: {(error.strerror or str(error)).lower()}", source=file
        ) from None
