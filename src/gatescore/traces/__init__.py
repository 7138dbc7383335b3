"""
Recorded runs to sessions.

Nothing here judges: a session is what was recorded, with its two streams apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gatescore.errors import InputError, did_you_mean
from gatescore.model import Session
from gatescore.traces.inputs import FORMATS, Progress, find_inputs, read_file
from gatescore.traces.joining import LineError
from gatescore.traces.spans import NO_SPAN, SpanSessions, spans_of
from gatescore.traces.trajectory import parse_trajectory

__all__ = ["FORMATS", "find_inputs", "read_session", "read_sessions"]


def read_sessions(
    *inputs: str | os.PathLike[str] | object,
    format: str | None = None,  # noqa: A002 - the word of the command line
    progress: Progress | None = None,
) -> Iterator[Session]:
    """
    Read recorded sessions, one after the other, whatever the size of the input.

    Args:
        inputs: Files, folders, globs, or ``-`` for standard input; at least one. Or one in-memory
            exporter, or an iterable of its spans: the sessions that a guard recorded in them.
        format: The format, where it is not to be recognised: ``trajectory`` (one session a line) or
            ``otlp`` (spans of a guard as OTLP JSON).
        progress: Called with the number of bytes read since its last call.

    Yields:
        Sessions in the order of the input; those of spans at its end, since a session's spans may
        stand anywhere, in any of the files. A line that cannot be read is a session whose `error`
        says why and whose streams are not observed: it never counts as one in which nothing
        happened.

    Raises:
        InputError: No such input, or a file without any session: empty, binary or something else.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format: {did_you_mean(format, FORMATS)}", source=format)
    if len(inputs) == 1:
        spans = spans_of(inputs[0])
        if spans is not None:
            return _sessions_of(spans)
    files = find_inputs(_names(inputs))
    return _sessions(files, progress, format)


def _sessions_of(spans: Iterable[Any]) -> Iterator[Session]:
    found = SpanSessions()
    for span in spans:
        dropped = getattr(span, "dropped_attributes", 0)
        found.add(span.attributes or {}, "spans", dropped=dropped if isinstance(dropped, int) else 0)
    if not found.found:
        raise InputError(NO_SPAN, source="spans")
    yield from found.sessions()


def _names(inputs: Iterable[object]) -> list[str]:
    names: list[str] = []
    for name in inputs:
        if not isinstance(name, (str, os.PathLike)):
            kind = type(name).__name__
            raise InputError(
                f"a `{kind}` is no input: name a file, or pass an exporter", source="read_sessions"
            )
        names.append(os.fsdecode(name))
    if not names:
        raise InputError("no input: name a file, a folder, a glob, or `-`", source="read_sessions")
    return names


def _sessions(files: list[str], progress: Progress | None, form: str | None) -> Iterator[Session]:
    found = False
    spans = SpanSessions()
    first: InputError | None = None
    for file in files:
        try:
            for session in read_file(file, spans, progress, form):
                found = True
                yield session
        except InputError as error:
            if len(files) == 1:
                raise
            # Among several files one that is no recording is an error of the input, not its end.
            first = first or error
            yield Session(id=error.source, source=error.source, error=error)
    yield from spans.sessions()
    if not (found or spans.found) and first is not None:
        others = "the other file" if len(files) == 2 else f"the {len(files) - 1:,} other files"
        raise InputError(f"{first.message}; nor in {others}", source=first.source, line=first.line)


def _is_mapping(line: object) -> bool:
    return isinstance(line, Mapping)


def read_session(line: Mapping[str, Any], *, fallback_id: str = "session") -> Session:
    """
    Make a session of one trajectory line that is in memory, as a mapping.

    Raises:
        InputError: Something in it has the wrong form.
    """
    if not _is_mapping(line):
        kind = type(line).__name__
        raise InputError(
            f"a trajectory line is a mapping, not `{kind}`: parse its text first", source=fallback_id
        )
    try:
        return parse_trajectory(line, fallback_id=fallback_id)
    except LineError as error:
        raise InputError(str(error), source=str(line.get("id", fallback_id))) from None
