"""Progress of long reading, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from gatescore.traces.inputs import Progress, find_inputs, total_size

_WORTH_SHOWING: Final = 2_000_000
"""Bytes of input from which reading takes long enough to be shown."""


@contextmanager
def reading(inputs: list[str]) -> Generator[Progress | None]:
    """Show a bar on standard error while *inputs* are read; yields what counts the bytes."""
    if not sys.stderr.isatty():
        yield None
        return
    total = total_size(find_inputs(inputs))
    if total is not None and total < _WORTH_SHOWING:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("scoring"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scoring", total=total)
        yield lambda read: bar.advance(task, read)
