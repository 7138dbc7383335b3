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
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO, Final, NoReturn, cast

from gatescore.canonical import parse_json
from gatescore.errors import InputError
from gatescore.model import Session
from gatescore.traces.joining import LineError
from gatescore.traces.spans import NO_SPAN, SpanSessions, is_otlp, otlp_documents, otlp_spans
from gatescore.traces.trajectory import is_trajectory, parse_trajectory

SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
"""The files of a folder that are read, also rotated (``.jsonl.1``) and compressed (``.jsonl.gz``)."""

_RECORDING: Final = re.compile(r"\.(?:jsonl|ndjson|json)(?:[.-][0-9A-Za-z_-]+)*~?$", re.IGNORECASE)
"""The name of a recording in a folder: one of the suffixes, with whatever rotation or compression adds."""

_MAX_LINE: Final = 512 * 1024 * 1024
"""The longest line, in bytes: a file without line ends must not fill the memory."""

FORMATS: Final = ("trajectory", "otlp")
"""The formats that can be read."""

STANDARD_INPUT: Final = "-"

_BOM: Final = b"\xef\xbb\xbf"

_OTLP_DOCUMENT: Final = re.compile(rb'\s*\{\s*"resource(?:Spans|Logs|Metrics)"\s*:')
"""How an OTLP document begins."""

_OTLP_NEEDED: Final = (
    "JSON, but not OTLP: pass what an OTLP JSON exporter wrote, an object with `resourceSpans`"
)

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


def read_file(
    name: str, spans: SpanSessions, progress: Progress | None = None, form: str | None = None
) -> Iterator[Session]:
    """
    Read the sessions of one file.

    Args:
        name: The file.
        spans: Takes in the spans of a guard that the file holds: their sessions are whole only when
            all files are read.
        progress: Called with the bytes read.
        form: The only format that may stand in it; None for any.

    Raises:
        InputError: The file cannot be opened, or holds no session.
    """
    if name == STANDARD_INPUT:
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - where it was closed
            raise InputError("it is closed: pass a recording", source="standard input")
        yield from _Reading("standard input", spans, form).read(
            _lines(sys.stdin.buffer, "standard input", progress)
        )
        return
    try:
        opener = gzip.open if name.endswith(".gz") else open
        file = cast("BinaryIO", opener(name, "rb"))  # a failure to open is not one of reading
    except OSError as error:
        raise unreadable(error, name) from None
    with file:
        yield from _Reading(name, spans, form).read(_lines(file, name, progress))


def _lines(file: BinaryIO, source: str, progress: Progress | None) -> Iterator[bytes]:
    for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), b""), 1):
        if len(line) == _MAX_LINE and not line.endswith(b"\n"):
            raise InputError(
                f"a line is longer than {_MAX_LINE:,} bytes: write each session on one line",
                source=source,
                line=number,
            )
        if progress is not None:
            progress(len(line))
        yield line


class _Reading:
    """The reading of one file, whatever of the formats stands in it."""

    def __init__(self, source: str, spans: SpanSessions, form: str | None) -> None:
        self._source = source
        self._spans = spans
        self._form = form
        self._otlp = False

    def read(self, lines: Iterator[bytes]) -> Iterator[Session]:
        """The sessions that stand on a line each; spans are taken in."""
        before = self._spans.found
        broken: list[InputError] = []
        seen = trajectories = False
        try:
            documents, lines = self._documents(lines)
            for document in documents:
                yield from self._document(document)
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                session: Session | None = None
                try:
                    session = self._line(line, number)
                except LineError as error:
                    broken.append(InputError(str(error), source=self._source, line=number))
                    if not (seen or self._otlp):
                        if len(broken) > _LOOKED_AT:
                            break
                        continue
                seen = True
                yield from map(_broken, broken)
                broken.clear()
                if session is not None:
                    trajectories = True
                    yield session
        except (OSError, EOFError, zlib.error) as error:  # the last two: compressed, and cut or damaged
            raise unreadable(error, self._source) from None
        if broken:
            raise InputError(
                f"no session in it: {broken[0].message}", source=self._source, line=broken[0].line
            )
        if self._otlp and not trajectories and self._spans.found == before:
            raise InputError(f"OTLP, but {NO_SPAN}", source=self._source)
        if not (seen or self._otlp):
            raise InputError(
                "the file is empty: record at least one session, one JSON object a line", source=self._source
            )

    def _documents(self, lines: Iterator[bytes]) -> tuple[list[Any], Iterator[bytes]]:
        """OTLP documents that go over several lines, if the file holds these, and the lines that are left."""
        if self._form == "trajectory":
            return [], lines
        head: list[bytes] = []
        text = b""
        for line in lines:
            head.append(line)
            text = (text + line).removeprefix(_BOM).strip()
            if text not in (b"", b"{"):
                break
        if not _OTLP_DOCUMENT.match(text) or (text.endswith(b"}") and _is_json(text)):
            return [], chain(head, lines)
        size = sum(map(len, head))
        for line in lines:
            head.append(line)
            size += len(line)
            if size > _MAX_LINE:
                return [], chain(head, lines)
        try:
            documents = otlp_documents(b"".join(head).removeprefix(_BOM).decode())
        except UnicodeDecodeError:
            documents = None
        # Where it is not JSON as a whole, some of its lines may still be.
        return ([], iter(head)) if documents is None else (documents, iter(()))

    def _document(self, document: object) -> Iterator[Session]:
        try:
            if not is_otlp(document):
                raise LineError(_OTLP_NEEDED)
            self._take_in(cast("dict[str, Any]", document))
        except LineError as error:
            yield _broken(InputError(str(error), source=self._source))

    def _take_in(self, data: Mapping[str, Any]) -> None:
        self._otlp = True
        for attributes, dropped in otlp_spans(data):
            self._spans.add(attributes, self._source, dropped=dropped)

    def _line(self, line: bytes, number: int) -> Session | None:
        """The session of one line; None for a line of spans."""
        data = _parsed(line, number)
        if is_trajectory(data) and self._form != "otlp":
            place = f"{self._source}:{number}"
            return parse_trajectory(data, source=place, fallback_id=place)
        if is_otlp(data) and self._form != "trajectory":
            self._take_in(data)
            return None
        if self._form == "otlp":
            raise LineError(_OTLP_NEEDED)
        raise LineError(
            "JSON, but not a trajectory line: an object with `proposed` or `executed`, one session a line"
        )


def _is_json(text: bytes) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def _broken(error: InputError) -> Session:
    place = str(error).removesuffix(f": {error.message}")
    return Session(id=place, source=place, error=error)


def _parsed(line: bytes, number: int) -> Any:
    if b"\0" in line:
        raise LineError("not text, but binary: pass trajectory lines, one JSON object a line")
    try:
        return parse_json(line.removeprefix(_BOM) if number == 1 else line)
    except UnicodeDecodeError:
        raise LineError("not UTF-8 text: pass trajectory lines, one JSON object a line") from None
    except ValueError as error:
        raise LineError(_not_json(error, line)) from None


def _not_json(error: ValueError, line: bytes) -> str:
    where = ""
    if isinstance(error, json.JSONDecodeError):
        where = f" (column {error.pos + 1})"
        if line.endswith(b"\n") and error.pos >= len(error.doc.rstrip()):
            return "the JSON does not end on its line: write each session on one line, as `jq -c .` does"
    reason = getattr(error, "msg", str(error))
    end = "" if line.endswith(b"\n") else "; the line may be cut short, it has no end"
    return f"not JSON: {reason[:1].lower()}{reason[1:]}{where}{end}"
