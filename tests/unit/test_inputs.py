"""Recorded input to sessions: whatever a name means, and whatever stands in a file, nothing is lost in silence."""

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gatescore.errors import InputError
from gatescore.model import Session
from gatescore.policy import Policy
from gatescore.score import Status, score_permissions
from gatescore.traces import find_inputs, read_sessions

GOOD = '{"id": "s1", "proposed": [{"name": "get_order"}], "executed": []}\n'
OTHER = '{"id": "s2", "proposed": [], "executed": [{"name": "get_order"}]}\n'
FOREIGN = '{"name": "package", "version": "1.0"}\n'
NO_LINE = "JSON, but not a trajectory line: an object with `proposed` or `executed`, one session a line"
BINARY = "not text, but binary: pass trajectory lines, one JSON object a line"

NO_END = "the JSON does not end on its line: write each session on one line, as `jq -c .` does"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the test's folder."""

    def put(content: str | bytes, name: str = "runs.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put


def ids(*inputs: str | os.PathLike[str]) -> list[str]:
    return [session.id for session in read_sessions(*inputs)]


def told(*inputs: str | os.PathLike[str]) -> str:
    with pytest.raises(InputError) as caught:
        list(read_sessions(*inputs))
    return str(caught.value)


def errors(sessions: list[Session]) -> list[str]:
    return [str(session.error) for session in sessions if session.error is not None]


# --- what a name means ---------------------------------------------------------------------------


def test_a_file_is_read_line_by_line(write: Write):
    path = write(GOOD + OTHER)
    first, second = read_sessions(path)

    assert ("s1", "s2") == (first.id, second.id)
    assert (f"{path}:1", f"{path}:2") == (first.source, second.source)


def test_the_name_of_a_file_does_not_matter(write: Write):
    """A file that is named is meant; only a folder is searched by endings."""
    assert ["s1"] == ids(write(GOOD, "runs.txt"))


def test_several_inputs_are_read_in_their_order(write: Write):
    assert ["s2", "s1"] == ids(write(OTHER, "z.jsonl"), write(GOOD, "a.jsonl"))


def test_a_folder_is_read_with_all_below_it_in_sorted_order(write: Write, tmp_path: Path):
    write(OTHER, "b/2.ndjson")
    write(GOOD, "b/1.jsonl")
    write(GOOD.replace("s1", "s0"), "a.json")
    write("no recording", "b/README.md")

    assert ["s0", "s1", "s2"] == ids(tmp_path)


def test_a_glob_is_read_in_sorted_order(write: Write, tmp_path: Path):
    write(OTHER, "run-2.jsonl")
    write(GOOD, "run-1.jsonl")
    write(FOREIGN, "package.json")

    assert ["s1", "s2"] == ids(f"{tmp_path}/run-*.jsonl")


def test_a_glob_reaches_below_with_two_stars(write: Write, tmp_path: Path):
    write(GOOD, "a/b/c.jsonl")

    assert ["s1"] == ids(f"{tmp_path}/**/*.jsonl")


def test_a_file_whose_name_looks_like_a_glob_is_that_file(write: Write):
    assert ["s1"] == ids(write(GOOD, "run[1].jsonl"))


def test_a_file_that_is_named_twice_is_read_once(write: Write, tmp_path: Path):
    """Otherwise its calls would count twice in a score."""
    path = write(GOOD, "a/runs.jsonl")
    (tmp_path / "link.jsonl").symlink_to(path)

    assert ["s1"] == ids(path, tmp_path / "a", f"{tmp_path}/a/*", path, tmp_path / "link.jsonl")


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((GOOD + OTHER).encode())))
    first, second = read_sessions("-")

    assert ("standard input:1", "s2") == (first.source, second.id)


def test_standard_input_that_was_closed_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", None)

    assert "standard input: it is closed: pass a recording" == told("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_read_like_a_file(tmp_path: Path):
    """A shell's `<(zcat runs.gz)` is one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Opened for both, so that neither side waits for the other.
    with os.fdopen(os.open(pipe, os.O_RDWR), "wb", buffering=0) as end:
        end.write(GOOD.encode())
        sessions = read_sessions(pipe)
        first = next(sessions)

    assert "s1" == first.id
    assert [] == list(sessions)


# --- what is no input ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["missing.jsonl", "no*.jsonl", "missing/", "x\0y"])
def test_a_name_that_means_nothing_is_refused_at_once(name: str):
    """Before any session is asked for: a list that nobody reads must not hide it."""
    with pytest.raises(InputError) as caught:
        read_sessions(name)

    assert f"{name}: no such file: name a file, a folder, a glob, or `-`" == str(caught.value)


def test_no_name_and_an_empty_name_are_refused():
    assert "read_sessions: no input: name a file, a folder, a glob, or `-`" == told()
    assert "input: a name is empty: name a file, a folder, a glob, or `-`" == told("")


def test_an_unknown_format_is_refused(write: Write):
    with pytest.raises(InputError) as caught:
        read_sessions(write(GOOD), format="trajectroy")

    assert "trajectroy: unknown format: did you mean `trajectory`?" == str(caught.value)


def test_the_format_can_be_named(write: Write):
    assert ["s1"] == [session.id for session in read_sessions(write(GOOD), format="trajectory")]


def test_a_folder_without_recordings_is_refused(write: Write, tmp_path: Path):
    write("no recording", "README.md")

    assert f"{tmp_path}: the folder holds no .jsonl or .ndjson or .json file" == told(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is unreadable for root")
def test_a_file_that_may_not_be_read_is_refused(write: Write):
    path = write(GOOD)
    path.chmod(0)

    assert f"{path}: cannot be read: permission denied" == told(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is unreadable for root")
def test_a_folder_that_may_not_be_read_is_not_passed_over(write: Write, tmp_path: Path):
    write(GOOD, "open/runs.jsonl")
    closed = write(OTHER, "closed/runs.jsonl").parent
    closed.chmod(0)
    try:
        assert f"{closed}: cannot be read: permission denied" == told(tmp_path)
    finally:
        closed.chmod(0o700)


def test_a_folder_whose_listing_fails_is_not_passed_over(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Walking a tree leaves out what it cannot list, unless it is told not to."""
    write(GOOD, "open/runs.jsonl")
    closed = write(OTHER, "closed/runs.jsonl").parent
    listed: Callable[..., Any] = os.scandir

    def scandir(path: str) -> Any:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)

    assert f"{closed}: cannot be read: permission denied" == told(tmp_path)


def test_a_file_that_cannot_be_opened_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch):
    path = write(GOOD)
    monkeypatch.setattr("builtins.open", raise_permission_denied)

    assert f"{path}: cannot be read: permission denied" == told(path)


def raise_permission_denied(*args: object, **kwargs: object) -> None:
    raise PermissionError(13, "Permission denied")


# --- what stands in a file -----------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "\n", " \n\r\n\t\n"])
def test_an_empty_file_is_refused(write: Write, content: str):
    """An agent that did nothing has a line with empty streams; no line is no run."""
    path = write(content)

    assert f"{path}: the file is empty: record at least one session, one JSON object a line" == told(path)


def test_blank_lines_are_passed_over_and_counted(write: Write):
    path = write(f"\n{GOOD}\n\n{OTHER}\n")

    assert [f"{path}:2", f"{path}:5"] == [session.source for session in read_sessions(path)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0\n\0\0\0", BINARY),
        (gzip.compress(GOOD.encode(), mtime=0), BINARY),
        (GOOD.encode("utf-16"), BINARY),
        (
            '{"proposed": [{"name": "bücher"}]}'.encode("latin-1"),
            "not UTF-8 text: pass trajectory lines, one JSON object a line",
        ),
        (FOREIGN, NO_LINE),
        ("[1, 2]", NO_LINE),
        (f"[{GOOD.strip()}]", NO_LINE),
        ("null\n", NO_LINE),
        ("7\n", NO_LINE),
        ('"text"', NO_LINE),
        ("name,arguments\nget_order,{}\n", "not JSON: expecting value (column 1)"),
        ("{'proposed': []}\n", "not JSON: expecting property name enclosed in double quotes (column 2)"),
        (f"{GOOD.strip()} {OTHER}", "not JSON: extra data (column 67)"),
        (
            GOOD.strip()[:-1],
            "not JSON: expecting ',' delimiter (column 65); the line may be cut short, it has no end",
        ),
    ],
)
def test_a_file_without_any_session_is_refused_with_its_first_line(
    write: Write, content: str | bytes, message: str
):
    path = write(content)

    assert f"{path}:1: no session in it: {message}" == told(path)


@pytest.mark.parametrize("indent", [2, "\t"])
def test_json_over_several_lines_is_refused_with_the_remedy(write: Write, indent: int | str):
    path = write(json.dumps(json.loads(GOOD), indent=indent) + "\n")

    assert told(path) == (f"{path}:1: no session in it: {NO_END}")


@pytest.mark.parametrize(
    "content",
    [
        f"\ufeff{GOOD}{OTHER}",
        GOOD.replace("\n", "\r\n") + OTHER.replace("\n", "\r\n"),
        GOOD + OTHER.strip(),
        f"  {GOOD}\t{OTHER}",
    ],
    ids=["byte order mark", "CRLF", "no last line end", "indented"],
)
def test_what_editors_and_systems_add_does_not_matter(write: Write, content: str):
    assert ["s1", "s2"] == ids(write(content))


def test_names_in_any_script_are_read(write: Write):
    (session,) = read_sessions(write('{"proposed": [{"name": "bücher_suchen"}, {"name": "\\u67e5\\u8be2"}]}'))

    assert session.proposed is not None
    assert ["bücher_suchen", "查询"] == [proposal.call.name for proposal in session.proposed]


@pytest.mark.parametrize(
    "deep",
    [
        '{"proposed": [{"name": "a", "arguments": {"x": %s}}], "executed": []}',
        '{"proposed": [{"name": "a", "arguments": %s}], "executed": []}',
        '{"proposed": [{"name": "a", "note": %s, "arguments": [1]}], "metadata": %s, "executed": []}',
    ],
)
def test_a_line_nested_10_000_deep_is_read_without_ending_the_process(write: Write, deep: str):
    """Its call is invalid, and denied; the line after it is read as ever."""
    nested = "[" * 10_000 + "]" * 10_000
    first, second = read_sessions(write(deep.replace("%s", nested) + "\n" + OTHER))

    assert first.proposed is not None
    assert first.proposed[0].call.invalid is not None
    assert "s2" == second.id


def test_attributes_nested_10_000_deep_are_an_error_of_their_line(write: Write):
    nested = '{"a": ' * 10_000 + "1" + "}" * 10_000
    bad, good = read_sessions(write(f'{{"proposed": [], "attributes": {nested}}}\n{GOOD}'))

    assert bad.error is not None
    assert "nested deeper than 64 levels" in bad.error.message
    assert "s1" == good.id


@pytest.mark.parametrize("opening", ["[", '{"proposed": ['])
def test_brackets_without_end_are_refused(write: Write, opening: str):
    assert "no session in it: not JSON" in told(write(opening * 100_000))


def test_a_session_without_an_id_is_named_by_its_place(write: Write):
    path = write('\n{"proposed": []}\n{"id": "", "proposed": []}\n')

    assert [f"{path}:2", f"{path}:3"] == ids(path)


# --- broken lines --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "s3", "proposed": [{"na\n', NO_END),
        (b'{"id": "s3", "proposed": [}\n', "not JSON: expecting value (column 27)"),
        (b"\0\0\0\n", BINARY),
        (
            b'{"proposed": [], "id": "\xff"}\n',
            "not UTF-8 text: pass trajectory lines, one JSON object a line",
        ),
        (FOREIGN.encode(), NO_LINE),
        (b"null\n", NO_LINE),
        (b'{"proposed": 5}\n', "`proposed` is `5`, not a list of calls"),
        (b'{"proposed": [{}]}\n', "call 1 of `proposed` has no `name`: write which tool it is"),
    ],
)
@pytest.mark.parametrize("before", ["", GOOD])
def test_a_broken_line_is_a_session_with_an_error_in_its_place(
    write: Write, before: str, line: bytes, message: str
):
    """So `list(read_sessions(...))` holds it, and whoever scores the list cannot lose it."""
    path = write(before.encode() + line + OTHER.encode())
    number = 2 if before else 1
    sessions = list(read_sessions(path))
    broken = sessions[number - 1]

    assert (["s1"] if before else []) + [f"{path}:{number}", "s2"] == [session.id for session in sessions]
    assert f"{path}:{number}: {message}" == str(broken.error)
    assert (None, None, f"{path}:{number}") == (broken.proposed, broken.executed, broken.source)


def test_a_last_line_that_was_cut_is_a_session_with_an_error(write: Write):
    """A process that was killed leaves one: whether the session went on is not known."""
    path = write(GOOD + OTHER.strip()[:-20])
    good, cut = read_sessions(path)

    assert "s1" == good.id
    assert str(cut.error) == (
        f"{path}:2: not JSON: unterminated string starting at (column 44); the line may be cut short, it has no end"
    )


def test_a_session_with_an_error_makes_every_check_incomplete(write: Write):
    """Half of a file is no evidence: no score is told, whatever the other half says."""
    sessions = list(read_sessions(write(GOOD + "{\n")))
    card = score_permissions(sessions, Policy(allowed_tools=["get_order"]))

    assert (Status.INCOMPLETE, Status.INCOMPLETE) == (card.planner.status, card.execution.status)
    assert (None, None, False) == (card.planner.score, card.execution.score, card.passed)
    assert (1, 1) == (len(card.sessions), len(card.input_errors))


def test_many_broken_lines_before_a_session_are_all_told(write: Write):
    path = write("{\n" * 100 + GOOD)
    sessions = list(read_sessions(path))

    assert 100 == len(errors(sessions))
    assert "s1" == sessions[-1].id


def test_a_file_that_begins_with_more_broken_lines_is_taken_for_something_else(write: Write):
    """No session of it is scored then: it is refused as a whole."""
    path = write("{\n" * 101 + GOOD)

    assert told(path).startswith(f"{path}:1: no session in it: ")


def test_a_failure_while_reading_is_an_error_and_not_the_end(monkeypatch: pytest.MonkeyPatch):
    def lines() -> Iterator[bytes]:
        yield GOOD.encode()
        raise OSError(5, "Input/output error")

    reading = lines()
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=SimpleNamespace(readline=lambda _: next(reading)))
    )
    sessions = read_sessions("-")

    assert "s1" == next(sessions).id
    with pytest.raises(InputError) as caught:
        next(sessions)
    assert "standard input: cannot be read: input/output error" == str(caught.value)


# --- several files -------------------------------------------------------------------------------


def test_a_foreign_file_in_a_folder_is_an_error_among_its_sessions(write: Write, tmp_path: Path):
    """It might have been the recording of the one session that matters."""
    foreign = write(FOREIGN, "b/package.json")
    write(GOOD, "a.jsonl")
    write(OTHER, "c.jsonl")
    sessions = list(read_sessions(tmp_path))

    assert ["s1", str(foreign), "s2"] == [session.id for session in sessions]
    assert [f"{foreign}:1: no session in it: {NO_LINE}"] == errors(sessions)


def test_an_empty_file_in_a_folder_is_an_error_among_its_sessions(write: Write, tmp_path: Path):
    empty = write("", "a.jsonl")
    write(GOOD, "b.jsonl")

    assert errors(list(read_sessions(tmp_path))) == [
        f"{empty}: the file is empty: record at least one session, one JSON object a line"
    ]


def test_files_that_hold_no_session_at_all_are_refused(write: Write, tmp_path: Path):
    first = write(FOREIGN, "a.json")
    write(FOREIGN, "b.json")

    assert f"{first}:1: no session in it: {NO_LINE}; nor in the other file" == told(tmp_path)

    write("", "c.json")

    assert f"{first}:1: no session in it: {NO_LINE}; nor in the 2 other files" == told(tmp_path)


# --- sizes and progress --------------------------------------------------------------------------


def test_progress_counts_every_byte_that_was_read(write: Write):
    path = write(f"{GOOD}\n{{\n{OTHER}")
    read: list[int] = []
    list(read_sessions(path, progress=read.append))

    assert path.stat().st_size == sum(read)


def test_sessions_are_read_one_after_the_other(write: Write):
    """Whatever the size of the input: nothing is read ahead of what was asked for, but a buffer."""
    path = write(GOOD * 10_000)
    read: list[int] = []
    sessions = read_sessions(path, progress=read.append)
    next(sessions)

    assert [len(GOOD)] == read


def test_inputs_are_found_without_being_opened(write: Write, tmp_path: Path):
    first, second = write(GOOD, "a.jsonl"), write(b"\0", "b.json")

    assert [str(first), str(second)] == find_inputs([str(tmp_path)])


def test_a_glob_that_matches_a_folder_means_what_is_in_it(write: Write, tmp_path: Path):
    """The session that matters may be one level down."""
    write(GOOD, "top.jsonl")
    write(OTHER, "sub/inner.jsonl")

    assert ["s1", "s2"] == sorted(session.id for session in read_sessions(str(tmp_path / "*")))


@pytest.mark.parametrize("name", ["run.jsonl.1", "run.jsonl-20240101", "RUN.JSONL", "run.jsonl~"])
def test_rotated_and_compressed_recordings_of_a_folder_are_read(name: str, write: Write, tmp_path: Path):
    write(GOOD, name)
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress(OTHER.encode()))
    write("notes", "README.md")

    assert ["s1", "s2"] == sorted(session.id for session in read_sessions(tmp_path))


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda raw: b"no gzip at all"], ids=["cut", "foreign"]
)
def test_a_damaged_compressed_file_is_told(damage: Callable[[bytes], bytes], tmp_path: Path):
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(damage(gzip.compress(GOOD.encode() * 100)))

    with pytest.raises(InputError, match="cannot be read"):
        list(read_sessions(path))


def test_a_file_without_line_ends_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch, write: Write):
    monkeypatch.setattr("gatescore.traces.inputs._MAX_LINE", 1000)

    with pytest.raises(InputError, match="longer than 1,000 bytes"):
        list(read_sessions(write("x" * 5000, "a.jsonl")))
