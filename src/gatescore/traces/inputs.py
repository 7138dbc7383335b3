"""
Recorded input: files, folders, globs and standard input, to sessions, one after the other.

What cannot be read is never passed over in silence: a broken line comes out as a session that
holds an error instead of streams, and a file that is no recording at all raises.
"""
# ruff: noqa: PTH110, PTH112, PTH113, PTH118, PTH202, PTH207 - `os.path` answers for any name,
# where `pathlib` raises for some and takes "" for a folder

from __future__ import annotations

import glob
import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final, NoReturn, cast

from gatescore.canonical import parse_json
from gatescore.errors import InputError
from gatescore.model import Session
from gatescore.traces.joining import LineError
from gatescore.traces.trajectory import is_trajectory, parse_trajectory

SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
"""The files of a folder that are read, also rotated (``.jsonl.1``) and compressed (``.jsonl.gz``)."""

_RECORDING: Final = re.compile(r"\.(?:jsonl|ndjson|json)(?:[.-][0-9A-Za-z_-]+)*~?$", re.IGNORECASE)
"""The name of a recording in a folder: one of the suffixes, with whatever rotation or compression adds."""

_MAX_LINE: Final = 512 * 1024 * 1024
"""The longest line, in bytes: a file without line ends must not fill the memory."""

FORMATS: Final = ("trajectory",)
"""The formats that can be read."""

STANDARD_INPUT: Final = "-"

_LOOKED_AT: Final = 100
"""How many broken lines a file may begin with before it is taken for something else."""

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def find_inputs(names: Iterable[str]) -> list[str]:
    """
    The files meant by *names*: files as they are, folders and globs opened up in sorted order.

    Raises:
        InputError: A name that means no file.
    """
    found: list[str] = []
    for name in names:
        if not name:
            raise InputError("a name is empty: name a file, a folder, a glob, or `-`", source="input")
        if name == STANDARD_INPUT:
            found.append(name)
        elif os.path.isdir(name):
            found.extend(_files_in(name))
        elif os.path.exists(name):  # not only plain files: a shell's `<(...)` is a pipe
            found.append(name)
        else:
            matches = sorted(glob.glob(name, recursive=True))
            if not matches:
                raise InputError("no such file: name a file, a folder, a glob, or `-`", source=name)
            for match in matches:
                found.extend(_recordings_in(match) if os.path.isdir(match) else [match])
    # A file that is named twice, as by a folder and a glob, holds its sessions once.
    return list({name if name == STANDARD_INPUT else os.path.realpath(name): name for name in found}.values())


def _files_in(folder: str) -> list[str]:
    files = _recordings_in(folder)
    if not files:
        raise InputError("the folder holds no " + " or ".join(SUFFIXES) + " file", source=folder)
    return files


def _recordings_in(folder: str) -> list[str]:
    """The files below *folder* that are named as recordings, also rotated or compressed ones, sorted."""

    def refuse(error: OSError) -> NoReturn:
        raise unreadable(error, error.filename or folder) from None

    files: list[str] = []
    seen: set[str] = set()
    for inner, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        # A link to a folder is followed, and one that leads round in a circle only once.
        seen.add(os.path.realpath(inner))
        folders[:] = [name for name in folders if os.path.realpath(os.path.join(inner, name)) not in seen]
        files.extend(os.path.join(inner, name) for name in names if _RECORDING.search(name))
    return sorted(files)


def unreadable(error: Exception, source: str) -> InputError:
    """The error of a file that cannot be opened or read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"cannot be read: {reason.lower()}", source=source)


def total_size(files: Iterable[str]) -> int | None:
    """The bytes of all *files*, or None where one has no size that is known before."""
    total = 0
    for file in files:
        if file == STANDARD_INPUT or not os.path.isfile(file):
            return None
        total += os.path.getsize(file)
    return total


def read_file(name: str, progress: Progress | None = None) -> Iterator[Session]:
    """
    Read the sessions of one file.

    Raises:
        InputError: The file cannot be opened, or holds no session.
    """
    if name == STANDARD_INPUT:
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - where it was closed
            raise InputError("it is closed: pass a recording", source="standard input")
        yield from _read(sys.stdin.buffer, "standard input", progress)
        return
    try:
        opener = gzip.open if name.endswith(".gz") else open
        file = cast("BinaryIO", opener(name, "rb"))  # a failure to open is not one of reading
    except OSError as error:
        raise unreadable(error, name) from None
    with file:
        yield from _read(file, name, progress)


def _read(file: BinaryIO, source: str, progress: Progress | None) -> Iterator[Session]:
    broken: list[InputError] = []
    seen = False
    try:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), b""), 1):
            if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                raise InputError(
                    f"a line is longer than {_MAX_LINE:,} bytes: write each session on one line",
                    source=source,
                    line=number,
                )
            if progress is not None:
                progress(len(line))
            if not line.strip():
                continue
            try:
                session = _session(line, source, number)
            except LineError as error:
                problem = InputError(str(error), source=source, line=number)
                if seen:
                    yield _broken(problem)
                else:
                    broken.append(problem)
                    if len(broken) > _LOOKED_AT:
                        break
                continue
            if not seen:
                seen = True
                yield from map(_broken, broken)
            yield session
    except (OSError, EOFError, zlib.error) as error:  # the last two: a compressed file that is cut or damaged
        raise unreadable(error, source) from None
    if not seen:
        if not broken:
            raise InputError(
                "the file is empty: record at least one session, one JSON object a line", source=source
            )
        raise InputError(f"no session in it: {broken[0].message}", source=source, line=broken[0].line)


def _broken(error: InputError) -> Session:
    place = str(error).removesuffix(f": {error.message}")
    return Session(id=place, source=place, error=error)


def _session(line: bytes, source: str, number: int) -> Session:
    if b"\0" in line:
        raise LineError("not text, but binary: pass trajectory lines, one JSON object a line")
    try:
        data = parse_json(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
    except UnicodeDecodeError:
        raise LineError("not UTF-8 text: pass trajectory lines, one JSON object a line") from None
    except ValueError as error:
        raise LineError(_not_json(error, line)) from None
    if not is_trajectory(data):
        raise LineError(
            "JSON, but not a trajectory line: an object with `proposed` or `executed`, one session a line"
        )
    place = f"{source}:{number}"
    return parse_trajectory(data, source=place, fallback_id=place)


def _not_json(error: ValueError, line: bytes) -> str:
    where = ""
    if isinstance(error, json.JSONDecodeError):
        where = f" (column {error.pos + 1})"
        if line.endswith(b"\n") and error.pos >= len(error.doc.rstrip()):
            return "the JSON does not end on its line: write each session on one line, as `jq -c .` does"
    reason = getattr(error, "msg", str(error))
    end = "" if line.endswith(b"\n") else "; the line may be cut short, it has no end"
    return f"not JSON: {reason[:1].lower()}{reason[1:]}{where}{end}"
