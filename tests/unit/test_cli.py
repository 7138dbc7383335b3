"""The command line as its user meets it: what it prints where, and the status that it ends with."""

import contextlib
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from gatescore import cli
from gatescore.cli.output import check_output
from gatescore.errors import InputError
from gatescore.policy import Policy
from gatescore.report.text import permission_text
from gatescore.score import score_permissions
from gatescore.traces import read_session

PROGRAM = (sys.executable, "-c", "from gatescore.cli import main; main()")
COLOURED = {"CLICOLOR_FORCE", "FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE"}
POLICY = """\
gatescore: 1
name: support-agent
version: 2026-11-30
default: deny
tools:
  cancel_order: {once_per: [order_id]}
rules:
  - {id: look-up, allow: [get_order, "search_*"]}
  - id: cancel-after-look-up
    allow: cancel_order
    args: {order_id: {pattern: "^[0-9]+$"}}
    after: {tool: get_order, same: [order_id]}
  - {id: big-refund, ask: issue_refund, args: {amount: {minimum: 100}}, reason: Refunds over 100 need a person.}
  - {id: no-deletion, deny: delete_account, reason: Accounts are deleted by people.}
"""

HERE = Path.cwd()
NO_SESSION = "runs.jsonl:1: no session in it:"

Write = Callable[..., str]


class Done(NamedTuple):
    """What a command did."""

    status: int
    stdout: str
    stderr: str


def line(id: str, proposed: Sequence[Any] | None, executed: Sequence[Any] | None, **keys: Any) -> str:  # noqa: A002
    return json.dumps({"id": id, "proposed": proposed, "executed": executed, **keys}) + "\n"


def call(name: str, id: str | None = None, **keys: Any) -> dict[str, Any]:  # noqa: A002 - the key of a line
    return {"name": name, "id": id, **keys}


LOOK_UP = call("get_order", "call_1", arguments={"order_id": "814"})
CANCEL = call("cancel_order", "call_2", arguments={"order_id": "814"})
REFUND = call("issue_refund", "call_4", arguments={"amount": 250})
DELETE = call("delete_account", "call_3", arguments={})
GOOD = line("good", [LOOK_UP], [LOOK_UP])
BAD = line("bad", [LOOK_UP, DELETE], [LOOK_UP, {**DELETE, "invoked": False}])


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the folder in which the program is started."""
    monkeypatch.chdir(tmp_path)

    def put(name: str, content: str | bytes) -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return name

    put("policy.yaml", POLICY)
    put("good.jsonl", GOOD)
    put("bad.jsonl", BAD)
    return put


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in COLOURED}
    # Started elsewhere, the program still finds what this process found.
    paths = os.pathsep.join(str(Path(HERE, path)) for path in sys.path)
    return (
        kept
        | {"COLUMNS": "100", "TERM": "xterm-256color", "PYTHONUTF8": "1", "PYTHONPATH": paths}
        | variables
    )


def stream(content: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8", newline="")


def written(to: io.TextIOWrapper) -> str:
    to.flush()
    assert isinstance(to.buffer, io.BytesIO)
    return to.buffer.getvalue().decode()


def run(*arguments: str, stdin: str = "", **variables: str) -> Done:
    """Run the command line in this process, which takes a hundredth of the time of a new one."""
    out, err = stream(), stream()
    with (
        mock.patch.dict(os.environ, environment(**variables), clear=True),
        mock.patch("sys.stdin", stream(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = cli.run(arguments)
    return Done(status, written(out), written(err))


def start(*arguments: str, stdin: str = "", **variables: str) -> Done:
    """Run the command line as a program of its own."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin.encode(),
        capture_output=True,
        env=environment(**variables),
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def score(*arguments: str, **keys: Any) -> Done:
    return run("score", *arguments, "--policy", "policy.yaml", **keys)


def refused(done: Done) -> str:
    """The one line that is said of unusable input; nothing else may be printed."""
    assert (2, "") == (done.status, done.stdout)
    assert done.stderr.endswith("\n")
    (told,) = done.stderr.splitlines()
    assert told.startswith("gatescore: ")
    assert "Traceback" not in told
    return told.removeprefix("gatescore: ")


def digest(policy: str = "policy.yaml") -> str:
    return Policy.load(policy).digest


# --- exit status ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("good.jsonl",), 0),
        (("bad.jsonl",), 1),
        (("good.jsonl", "bad.jsonl"), 1),
        (("bad.jsonl", "--check", "execution"), 0),
        (("bad.jsonl", "--check", "planner"), 1),
        (("bad.jsonl", "--threshold", "0.5"), 0),
        (("bad.jsonl", "-t", "0.51"), 1),
        (("bad.jsonl", "--threshold", "0.5", "--strict"), 1),
        (("good.jsonl", "--strict"), 0),
        (("good.jsonl", "--from", "trajectory"), 0),
    ],
)
def test_score_ends_with_0_if_every_requested_check_passes_else_with_1(
    write: Write, arguments: tuple[str, ...], status: int
):
    done = score(*arguments)

    assert (status, "") == (done.status, done.stderr)


@pytest.mark.parametrize(
    "content",
    [
        line("s", [LOOK_UP], None),
        line("s", None, [LOOK_UP]),
        line("s", [], [LOOK_UP]),
        line("s", [LOOK_UP], [{**LOOK_UP, "outcome": "unfinished"}]),
        GOOD + "{\n",
        GOOD + GOOD.strip()[:-9],
    ],
    ids=["no executions", "no proposals", "not proposed", "unfinished", "broken line", "cut line"],
)
def test_what_is_not_known_is_no_pass(write: Write, content: str):
    """A gate in a pipeline must not open because a recording is short."""
    write("runs.jsonl", content)
    done = score("runs.jsonl", "--threshold", "0")

    assert (1, "") == (done.status, done.stderr)
    assert "\nFAILED: " in done.stdout


def test_a_run_in_which_nothing_was_called_passes(write: Write):
    write("runs.jsonl", line("s", [], []))
    done = score("runs.jsonl")

    assert 0 == done.status
    assert 2 == done.stdout.count("1.000       0 of 0")


def test_recordings_come_from_files_folders_globs_and_standard_input(write: Write):
    write("runs/a/1.jsonl", GOOD)
    write("runs/2.json", GOOD)

    for inputs in (("runs",), ("runs/**/*.json*",), ("runs/a/1.jsonl", "runs/2.json")):
        assert "on 2 sessions" in score(*inputs).stdout
    done = score("-", stdin=GOOD + BAD)

    assert 1 == done.status
    assert "on 2 sessions" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "policy.yaml"),
        ("explain", "policy.yaml", "--call", '{"name": "get_order"}'),
        ("explain", "policy.yaml", "--call", '{"name": "delete_account"}'),
    ],
)
def test_check_and_explain_end_with_0_whatever_the_verdict(write: Write, arguments: tuple[str, ...]):
    """A verdict is an answer, not a failure."""
    done = run(*arguments)

    assert (0, "") == (done.status, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("score", "good.jsonl", "-p", "policy.yaml"), 0),
        (("score", "bad.jsonl", "-p", "policy.yaml", "-f", "json"), 1),
        (("score", "-", "-p", "policy.yaml"), 1),
        (("score", "none.jsonl", "-p", "policy.yaml"), 2),
        (("score", "good.jsonl", "-p", "policy.yaml", "-t", "nan"), 2),
        (("score", "good.jsonl"), 2),
        (("check", "none.yaml"), 2),
        (("explain", "policy.yaml", "--call", '{"name": "get_order"}'), 0),
        (("demo",), 0),
        ((), 2),
        (("scoer",), 2),
        (("--help",), 0),
    ],
)
def test_the_program_prints_and_ends_as_its_function_says(
    write: Write, arguments: tuple[str, ...], status: int
):
    """Most tests here call the function: this one is about the program."""
    done = start(*arguments, stdin=BAD)

    assert run(*arguments, stdin=BAD) == done
    assert status == done.status
    assert "Traceback" not in done.stderr


# --- unusable input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("rules: [{alow: x}]", "p.yaml:1:10: unknown key `alow`: did you mean `allow`?"),
        (
            "rules:\n  - {id: a, allow: x, args: {}}\n",
            "p.yaml:2:",
        ),
        ("", "p.yaml:1:1: the policy is empty: write `allowed_tools: []` to allow nothing"),
        ("allowed_tools: get_order\n", "p.yaml:1:16: the text `get_order` instead of a list of tool names"),
        ("allowed_tools: [a\n", "p.yaml:2:1: not YAML: "),
        (b"\xff\xfe\0\0", "p.yaml"),
        (b"\x7fELF\0", "p.yaml"),
        ("rules: [{allow: x, when: 'args.'}]\n", "p.yaml:1:"),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "p.yaml"),
        ("score", "good.jsonl", "-p", "p.yaml"),
        ("explain", "p.yaml", "--call", '{"name": "x"}'),
    ],
    ids=["check", "score", "explain"],
)
def test_a_broken_policy_is_refused_with_its_place(
    write: Write, arguments: tuple[str, ...], policy: str | bytes, message: str
):
    write("p.yaml", policy)

    assert refused(run(*arguments)).startswith(message)


@pytest.mark.parametrize(
    "arguments", [("check", "none.yaml"), ("score", "good.jsonl", "-p", "none.yaml")], ids=["check", "score"]
)
def test_a_policy_that_is_not_there_is_refused(write: Write, arguments: tuple[str, ...]):
    assert "none.yaml: the policy cannot be read: no such file or directory" == refused(run(*arguments))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "runs.jsonl: the file is empty: record at least one session, one JSON object a line"),
        (
            '{"name": "package"}\n',
            f"{NO_SESSION} JSON, but not a trajectory line: an object with `proposed` or `executed`, one session a line",
        ),
        (
            b"\x7fELF\0\0\0\n",
            f"{NO_SESSION} not text, but binary: pass trajectory lines, one JSON object a line",
        ),
        (
            json.dumps(json.loads(GOOD), indent=2) + "\n",
            f"{NO_SESSION} the JSON does not end on its line: write each session on one line, as `jq -c .` does",
        ),
        (
            line("s", [{"name": "a", "seq": "\x1b[31m"}], []),
            f"{NO_SESSION} call 1 of `proposed`: `seq` is `\\x1b[31m`, not a whole number",
        ),
    ],
    ids=["empty", "foreign", "binary", "pretty-printed", "wrong value"],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_input_without_any_session_is_refused_with_place_and_remedy(
    write: Write, content: str | bytes, message: str, output: str
):
    """With no half of a report on standard output, whatever its format."""
    write("runs.jsonl", content)

    assert message == refused(score("runs.jsonl", "--format", output))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.jsonl",), "none.jsonl: no such file: name a file, a folder, a glob, or `-`"),
        (("good.jsonl", "none*"), "none*: no such file: name a file, a folder, a glob, or `-`"),
        (("empty",), "empty: the folder holds no .jsonl or .ndjson or .json file"),
        (("",), "input: a name is empty: name a file, a folder, a glob, or `-`"),
        (("-",), "standard input: the file is empty: record at least one session, one JSON object a line"),
        (("good.jsonl", "--threshold", "nan"), "threshold `nan` is not a number from 0 to 1"),
        (("good.jsonl", "--threshold", "1.5"), "threshold `1.5` is not a number from 0 to 1"),
        (("good.jsonl", "--threshold=-1"), "threshold `-1.0` is not a number from 0 to 1"),
        (("good.jsonl", "--format", "jsn"), "unknown format `jsn`: did you mean `json`?"),
        (("good.jsonl", "--format", ""), "unknown format ``: use one of `json`, `text`"),
        (("good.jsonl", "--check", "planer"), "unknown check `planer`: did you mean `planner`?"),
        (("good.jsonl", "--from", "zipkin"), "zipkin: unknown format: use one of `otlp`, `trajectory`"),
        (
            ("good.jsonl", "-o", "none/report.json"),
            "none/report.json: cannot be written: its folder does not exist",
        ),
        (("good.jsonl", "-o", "empty"), "empty: cannot be written: it is a folder"),
        (
            ("good.jsonl", "-o", ""),
            "--output: the name of a file is empty: name one, or leave the option out",
        ),
    ],
)
def test_a_wrong_argument_of_score_is_refused(write: Write, arguments: tuple[str, ...], message: str):
    Path("empty").mkdir()

    assert message == refused(score(*arguments))


@pytest.mark.parametrize(
    ("arguments", "begins", "ends"),
    [
        (("scoer",), "no such command ", "Did you mean 'score'?"),
        (("frobnicate",), "no such command 'frobnicate'", "; see `gatescore --help`"),
        (("--bogus",), "no such option: --bogus", "; see `gatescore --help`"),
        (("score", "good.jsonl", "--bogus"), "no such option: --bogus", "; see `gatescore score --help`"),
        (("score", "good.jsonl"), "missing option '--policy'", "; see `gatescore score --help`"),
        (("score", "-p", "policy.yaml"), "missing argument 'INPUT...'", "; see `gatescore score --help`"),
        (
            ("score", "good.jsonl", "-p", "policy.yaml", "-t", "much"),
            "invalid value for '--threshold'",
            "; see `gatescore score --help`",
        ),
        (("check",), "missing argument 'POLICY'", "; see `gatescore check --help`"),
        (("explain", "policy.yaml"), "missing option '--call'", "; see `gatescore explain --help`"),
        (("demo", "x"), "got unexpected extra argument", "; see `gatescore demo --help`"),
    ],
)
def test_wrong_usage_is_refused_with_where_to_look(
    write: Write, arguments: tuple[str, ...], begins: str, ends: str
):
    told = refused(run(*arguments))

    assert told.startswith(begins)
    assert told.endswith(ends)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("get_order", "--call: not JSON: expecting value: line 1 column 1 (char 0)"),
        (
            "{",
            "--call: not JSON: expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("[]", '--call: the call is not an object: write {"name": NAME, "arguments": {...}}'),
        ("{}", "--call: the call has no `name`: write which tool it is"),
        ('{"arguments": {}}', "--call: the call has no `name`: write which tool it is"),
        ('{"name": "a", "args": {}}', "--call: the call has `args` but no `arguments`: rename it"),
        ('{"name": "a", "name": "b"}', "--call: the call: key `name` stands twice in one object"),
    ],
)
def test_a_call_that_cannot_be_read_is_refused(write: Write, given: str, message: str):
    assert message == refused(run("explain", "policy.yaml", "--call", given))


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ("none.jsonl", "none.jsonl: no such file: name a file, a folder, a glob, or `-`"),
        (
            "broken.jsonl",
            "broken.jsonl:2: not JSON: expecting property name enclosed in double quotes (column 2)",
        ),
        ("foreign.json", "foreign.json:1: no session in it: JSON, but not a trajectory line: "),
    ],
)
def test_a_history_that_cannot_be_read_is_refused(write: Write, history: str, message: str):
    """Explained without it, the verdict would be another one."""
    write("broken.jsonl", GOOD + "{x\n" + GOOD)
    write("foreign.json", "{}\n")
    done = run("explain", "policy.yaml", "--call", '{"name": "a"}', "--history", history)

    assert refused(done).startswith(message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "arguments", [("score", "good.jsonl", "-p", "policy.yaml"), ("check", "policy.yaml")]
)
def test_output_that_cannot_be_written_is_said_and_is_no_verdict(write: Write, arguments: tuple[str, ...]):
    """A full disk must not look like a failed check, nor like a passed one."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False
        )

    assert 2 == done.returncode
    told = b"gatescore: standard output: cannot be written: no space left on device\n"
    assert told == done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_output_file_that_cannot_be_written_is_said(write: Write):
    told = refused(score("good.jsonl", "-o", "/dev/full"))

    assert "/dev/full: cannot be written: no space left on device" == told


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_an_output_file_in_a_forbidden_folder_is_said(write: Write):
    Path("closed").mkdir(mode=0o500)

    assert "closed/x: cannot be written: permission denied" == refused(score("good.jsonl", "-o", "closed/x"))


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes the streams")
@pytest.mark.parametrize(("closing", "status"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("<&-", 0)])
def test_closed_streams_change_no_verdict(write: Write, closing: str, status: int):
    command = f'"$0" -c "$1" score good.jsonl -p policy.yaml {closing}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, PROGRAM[2]], capture_output=True, env=environment(), check=False
    )

    assert (status, b"") == (done.returncode, done.stderr)


# --- what is printed where -----------------------------------------------------------------------


def test_json_is_one_object_and_nothing_else(write: Write):
    done = score("bad.jsonl", "--format", "json")
    form = json.loads(done.stdout)

    assert (1, "") == (done.status, done.stderr)
    assert (1, False, 0.5, 1.0) == (
        form["gatescore"],
        form["passed"],
        form["planner"]["score"],
        form["execution"]["score"],
    )
    assert {"name": "support-agent", "digest": digest()} == form["policy"]


def test_options_stand_in_the_json(write: Write):
    done = score("bad.jsonl", "-f", "json", "--check", "execution", "--threshold", "0.25", "--strict")
    form = json.loads(done.stdout)

    assert (["execution"], 0.25, True) == (form["checks"], form["threshold"], form["strict"])


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_file_gets_what_standard_output_would(write: Write, output: str):
    shown = score("bad.jsonl", "--format", output)
    done = score("bad.jsonl", "--format", output, "-o", "report")

    assert (shown.status, "", "") == (done.status, done.stdout, done.stderr)
    assert shown.stdout == Path("report").read_text(encoding="utf-8")


def test_a_report_is_written_over_an_older_one(write: Write):
    write("report", "x" * 100_000)
    score("good.jsonl", "--format", "json", "-o", "report")

    assert json.loads(Path("report").read_text(encoding="utf-8"))["passed"] is True


def test_nothing_is_written_where_the_input_is_unusable(write: Write):
    refused(score("none.jsonl", "-o", "report"))

    assert not Path("report").exists()


def test_the_text_of_a_small_card_as_a_whole(write: Write):
    write(
        "runs.jsonl",
        line("order-814", [LOOK_UP, CANCEL], [LOOK_UP, {**CANCEL, "arguments": {"order_id": "841"}}])
        + line(
            "goodbye",
            [DELETE, REFUND],
            [{**DELETE, "invoked": False}, REFUND],
            catalog=["get_order", "issue_refund"],
        ),
    )
    done = score("runs.jsonl")

    assert (1, "") == (done.status, done.stderr)
    assert (
        done.stdout.splitlines()
        == f"""\
support-agent ({digest()[:15]}) on 2 sessions
check       score   authorized   result
────────────────────────────────────────────────────────────────────
planner     0.750       3 of 4   FAILED   basis model, 1 needs a yes
execution   0.333       1 of 3   FAILED   1 needs a yes

1 unauthorized proposal
session   call     tool                            effect   rule          reason
─────────────────────────────────────────────────────────────────────────────────────────────────────────
goodbye   call_3   delete_account (unknown tool)   deny     no-deletion   Accounts are deleted by people.

2 unauthorized executions
session     call     tool           effect   rule         reason
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
order-814   call_2   cancel_order   deny     default      no rule allows it
goodbye     call_4   issue_refund   ask      big-refund   no valid yes is recorded: Refunds over 100 need a
                                                          person.

the two streams against each other
finding             calls           first: session   call     tool           evidence
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
altered_arguments       1   FAILS   order-814        call_2   cancel_order   changed since the proposal:
                                                                             `order_id`

FAILED: planner check 0.750 is below 1, execution check 0.333 is below 1, 1 failing finding
""".splitlines()
    )


def test_the_text_of_a_passing_card_as_a_whole(write: Write):
    assert (
        score("good.jsonl").stdout.splitlines()
        == f"""\
support-agent ({digest()[:15]}) on 1 session
check       score   authorized   result
─────────────────────────────────────────────────────
planner     1.000       1 of 1   passed   basis model
execution   1.000       1 of 1   passed

passed
""".splitlines()
    )


def test_what_could_not_be_told_is_said_in_the_text(write: Write):
    write("timed.yaml", "rules: [{allow: [a]}, {allow: b, after: {tool: a, within: 10m}}]\n")
    write("runs.jsonl", line("s", [call("a"), call("b")], None) + "{x\n")
    done = run("score", "runs.jsonl", "--policy", "timed.yaml")

    assert (
        done.stdout.splitlines()
        == f"""\
policy ({digest("timed.yaml")[:15]}) on 1 session
check       score   authorized   result
────────────────────────────────────────────────────────────────────────────────
planner         -       1 of 2   FAILED   incomplete, basis model, 1 undecidable
execution       -       0 of 0   FAILED   incomplete
proposed: undecidable, because what was executed before was not observed

not read: runs.jsonl:2: not JSON: expecting property name enclosed in double quotes (column 2)
FAILED: planner check incomplete, execution check incomplete, 1 part of the input not read
""".splitlines()
    )


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (("--check", "execution"), "passed"),
        (("--check", "planner"), "FAILED: planner check 0.500 is below 1"),
        (("--threshold", "0.75"), "FAILED: planner check 0.500 is below 0.75"),
        (
            ("--strict", "--threshold", "0"),
            "FAILED: planner check 0.000, and strict allows no unauthorized call",
        ),
    ],
)
def test_the_last_line_is_the_result(write: Write, arguments: tuple[str, ...], result: str):
    assert result == score("bad.jsonl", *arguments).stdout.splitlines()[-1]


def test_a_check_that_was_not_requested_is_shown_as_such(write: Write):
    shown = score("bad.jsonl", "--check", "execution").stdout

    assert re.search(r"^planner +0\.500 +1 of 2 +not requested +basis model$", shown, re.MULTILINE)


def test_a_score_is_never_rounded_up_to_what_it_does_not_reach(write: Write):
    """1,999 of 2,000 is no 1.000, and a check that fails must not look as if it reached its threshold."""
    calls = [call("get_order", str(number)) for number in range(1_999)]
    write("runs.jsonl", line("s", [*calls, DELETE], calls))

    assert "FAILED: planner check 0.999 is below 1" == score("runs.jsonl").stdout.splitlines()[-1]

    write("runs.jsonl", line("s", [*calls[:1_799], *[DELETE] * 201], calls[:1_799]))
    shown = score("runs.jsonl", "-t", "0.9").stdout

    assert "1,799 of 2,000" in shown
    assert "FAILED: planner check 0.899 is below 0.9" == shown.splitlines()[-1]


def test_many_calls_are_grouped_with_the_largest_group_first(write: Write):
    """Ten thousand lines help nobody; the JSON lists each."""
    calls = [call(name, f"{name}-{n}") for name, count in (("a", 3), ("b", 20)) for n in range(count)]
    write("runs.jsonl", line("first-session", calls, []) + line("s2", calls, []))
    shown = score("runs.jsonl", "--check", "planner").stdout

    assert shown.splitlines()[6:11] == [
        "46 unauthorized proposals",
        "calls   tool   effect   rule      reason              first in",
        "─" * 67,
        "   40   b      deny     default   no rule allows it   first-session",
        "    6   a      deny     default   no rule allows it   first-session",
    ]
    assert 46 == len(json.loads(score("runs.jsonl", "-f", "json").stdout)["planner"]["unauthorized"])


def test_kinds_beyond_ten_are_counted_together(write: Write):
    calls = [call(f"tool_{n:02}") for n in range(15)]
    write("runs.jsonl", line("s", calls, []))
    shown = score("runs.jsonl").stdout

    assert "tool_09" in shown
    assert "tool_10" not in shown
    assert re.search(r"^ +5   \.\.\. of 5 more kinds: --format json", shown, re.MULTILINE)


def test_a_long_name_does_not_fill_the_screen(write: Write):
    """Names come from models."""
    write("runs.jsonl", line("s", [call("y" * 100_000, "z" * 100_000)], []))
    shown = score("runs.jsonl").stdout

    assert len(shown) < 5_000
    assert (
        "y" * 100_000
        == json.loads(score("runs.jsonl", "-f", "json").stdout)["planner"]["unauthorized"][0]["tool"]
    )


# --- check, explain, demo ------------------------------------------------------------------------


def test_the_text_of_check_as_a_whole(write: Write):
    done = run("check", "policy.yaml")

    assert done.stdout == (
        "ok: support-agent 2026-11-30: 2 allow, 1 ask, 1 deny; default deny, 1 tool described\n"
        f"digest {digest()}\n"
    )


def test_check_shows_every_layer(write: Write):
    write("org.yaml", "name: org\ndefault: allow\nrules: [{id: never, deny: 'drop_*'}]\n")
    write("team.yaml", "extends: org.yaml\nallowed_tools: [get_order]\n")
    done = run("check", "team.yaml")

    assert done.stdout == (
        "ok: org: 0 allow, 0 ask, 1 deny; default allow\n"
        "ok: team.yaml: 1 allow, 0 ask, 0 deny; default deny\n"
        "2 layers: a call is allowed only if every layer allows it\n"
        f"digest {digest('team.yaml')}\n"
    )


def explained(given: object, *arguments: str) -> list[str]:
    done = run("explain", "policy.yaml", "--call", json.dumps(given), *arguments)
    assert (0, "") == (done.status, done.stderr)
    return done.stdout.splitlines()


def test_the_text_of_an_explanation_as_a_whole(write: Write):
    """The verdict first, then each rule that was looked at with its conditions, then what came nearest."""
    shown = explained({"name": "cancel_order", "arguments": {"order_id": "814"}})

    assert (
        shown
        == """\
cancel_order: deny - no rule allows it
rule                    effect   matches   condition   is
───────────────────────────────────────────────────────────────────────────────────────────────────
cancel-after-look-up    allow    false     tool        true    cancel_order
                                           args        true    order_id = "814" meets its condition
                                           after       false   no such call came before
once_per:cancel_order   deny     false     once_per    false   no other call for this order_id
3 rules speak about other tools
nearest miss: allow rule `cancel-after-look-up` - after: no such call came before
""".splitlines()
    )


def test_an_explanation_takes_the_history_of_a_recording(write: Write):
    write("runs.jsonl", line("other", [], []) + GOOD)
    shown = explained({"name": "cancel_order", "arguments": {"order_id": "814"}}, "--history", "runs.jsonl")

    assert (
        shown
        == """\
cancel_order: allow - allowed
rule                    effect   matches   condition   is
───────────────────────────────────────────────────────────────────────────────────────────────────
cancel-after-look-up    allow    true      tool        true    cancel_order
                                           args        true    order_id = "814" meets its condition
                                           after       true    such a call came before
once_per:cancel_order   deny     false     once_per    false   no other call for this order_id
3 rules speak about other tools
""".splitlines()
    )


def test_an_explanation_names_what_is_spelt_nearly_alike(write: Write):
    assert explained({"name": "get_ordr"}) == [
        "get_ordr: deny - no rule allows it",
        "4 rules speak about other tools",
        "nearest name in the policy: `get_order`",
    ]


def test_an_invalid_call_is_explained_once_and_without_rules(write: Write):
    first, *rest = explained({"name": "get_order", "arguments": "{"})

    assert first.startswith("get_order: deny - its arguments are not valid: arguments are not JSON: ")
    assert 1 >= len(rest), "the reason may need a second line, and nothing else is told"


def test_the_demo_shows_both_checks_and_passes(tmp_path: Path):
    """It proves its own point: the planner check fails and the execution check passes."""
    done = run("demo")

    assert (0, "") == (done.status, done.stderr)
    assert re.search(r"^planner +0\.857 +6 of 7 +FAILED", done.stdout, re.MULTILINE)
    assert re.search(r"^execution +1\.000 +6 of 6 +passed", done.stdout, re.MULTILINE)
    assert re.search(r"^planner +0\.500 +1 of 2 +FAILED", done.stdout, re.MULTILINE)
    assert re.search(r"^execution +1\.000 +1 of 1 +passed", done.stdout, re.MULTILINE)
    assert re.search(r"^ +delete_account +refused +`delete_account` was refused: ", done.stdout, re.MULTILINE)
    assert "\nThe execution checks pass: the call was refused before it ran.\n" in done.stdout


# --- version and help ----------------------------------------------------------------------------


def test_the_version_is_that_of_the_installed_package():
    try:
        version = importlib.metadata.version("gatescore")
    except importlib.metadata.PackageNotFoundError:
        version = "(not installed: run from its source)"
    done = start("--version")

    assert (0, f"gatescore {version}\n", "") == (done.status, done.stdout, done.stderr)


@pytest.mark.parametrize("columns", ["80", "100", "300"])
@pytest.mark.parametrize("command", [(), ("score",), ("check",), ("explain",), ("demo",)])
def test_help_can_be_read_in_100_columns(command: tuple[str, ...], columns: str):
    done = run(*command, "--help", COLUMNS=columns)

    assert (0, "") == (done.status, done.stderr)
    assert f"Usage: {' '.join(('gatescore', *command))} " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout


def test_help_says_what_each_command_does_in_a_whole_sentence():
    """Cut sentences say nothing."""
    shown = run("--help", COLUMNS="80").stdout

    assert shown.partition("Commands:\n")[2].splitlines() == [
        "  score    Score recorded sessions: the planner and the execution check.",
        "  check    Load a policy and say what is in it, or where its first fault is.",
        "  explain  Explain the verdict on one call, condition by condition.",
        "  demo     Run two tools behind a guard, and score a recording.",
    ]


@pytest.mark.parametrize("command", ["score", "check", "explain", "demo"])
def test_help_tells_the_exit_statuses(command: str):
    assert "Exit status 0 " in " ".join(run(command, "--help").stdout.split())


def test_without_a_command_the_help_is_shown_and_nothing_is_passed():
    """A pipeline whose variable was empty must not take it for success."""
    done = run()

    assert (2, "") == (done.status, done.stderr)
    assert run("--help").stdout == done.stdout


# --- hostile text --------------------------------------------------------------------------------

HOSTILE = "a\x1b[31m\x1b]0;title\x07\r\n\x9b2J\u202eb\x7f\ud800"
ESCAPED = r"a\x1b[31m\x1b]0;title\x07\r\n\x9b2J\u202eb\x7f\ud800"
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ud800-\udfff]")


def hostile_line() -> str:
    entry = call(HOSTILE, HOSTILE, arguments={HOSTILE: HOSTILE})
    return line(HOSTILE, [entry], [{**entry, "arguments": {HOSTILE: 1}}], catalog=[HOSTILE + "x"])


def test_what_a_recording_holds_never_reaches_the_terminal_raw(write: Write):
    """A trace must not move the cursor, set the title or turn the text of whoever looks at it."""
    write("runs.jsonl", hostile_line())
    done = score("runs.jsonl")

    assert 1 == done.status
    assert not UNSEEN.search(done.stdout)

    write("runs.jsonl", line("s", [call(HOSTILE)], []))

    assert f"s         #0     {ESCAPED}   deny" in score("runs.jsonl").stdout
    assert explained({"name": HOSTILE})[0] == f"{ESCAPED}: deny - no rule allows it"


def test_json_is_ascii_and_gives_back_what_was_recorded(write: Write):
    write("runs.jsonl", hostile_line())
    done = score("runs.jsonl", "--format", "json")

    assert done.stdout.isascii()
    assert not UNSEEN.search(done.stdout)
    assert HOSTILE == json.loads(done.stdout)["planner"]["unauthorized"][0]["tool"]


def test_what_a_policy_holds_never_reaches_the_terminal_raw(write: Write):
    name = json.dumps("x\x1b[31m\x9b2J\u202ey")
    write(
        "p.yaml",
        f"name: {name}\nversion: {name}\ndefault: deny\nrules:\n"
        f"  - {{id: {name}, deny: get_order, reason: {name}}}\n"
        f'  - {{id: {name[:-1]}z", allow: get_order, args: {{a: {{const: 1}}}}}}\n',
    )
    for arguments in (
        ("score", "good.jsonl", "-p", "p.yaml"),
        ("check", "p.yaml"),
        ("explain", "p.yaml", "--call", '{"name": "get_order"}'),
    ):
        done = run(*arguments)

        assert done.status in (0, 1)
        assert not UNSEEN.search(done.stdout)
        assert "x\\x1b[31m\\x9b2J\\u202ey" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "no\x1b[31m", "-p", "policy.yaml"),
        ("score", "good.jsonl", "-p", "no\x1b[31m"),
        ("score", "good.jsonl", "-p", "policy.yaml", "--format", "\x1b[31m"),
        ("score", "good.jsonl", "-p", "policy.yaml", "--\x1b[31m"),
        ("\x1b[31m\x9b",),
        ("explain", "policy.yaml", "--call", '{"\x1b[31m"'),
        ("explain", "policy.yaml", "--call", "\x1b[31m\n\n"),
        ("score", "runs\x1b[31m.jsonl", "-p", "policy.yaml"),
    ],
)
def test_an_error_is_one_line_without_control_characters(write: Write, arguments: tuple[str, ...]):
    write("runs\x1b[31m.jsonl", "{\x1b[31m\n")

    assert not UNSEEN.search(refused(run(*arguments)))


def test_markup_in_names_is_shown_as_it_is(write: Write):
    """`[red]` in a name is that name: no colour, no crash, and nothing swallowed."""
    names = ["[red]x[/red]", "[/nope]", ":smile:", "[link=http://x]y[/link]", "\\[x]"]
    write("runs.jsonl", line("[bold]s", [call(name, f"[i]{n}") for n, name in enumerate(names)], []))
    write(
        "p.yaml",
        'name: "[red]p"\nrules: [{id: "[blue]r", allow: get_order}, {id: "[/x]", deny: smile}]\n',
    )
    shown = run("score", "runs.jsonl", "-p", "p.yaml").stdout

    for text in (*names, "[bold]s", "[i]3", "[red]p"):
        assert text in shown
    assert "[red]p" in run("check", "p.yaml").stdout
    assert "[/x]" in run("explain", "p.yaml", "--call", '{"name": "smile"}').stdout
    assert "[red]x[/red]: deny" in run("explain", "p.yaml", "--call", '{"name": "[red]x[/red]"}').stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_in_another_encoding_is_written_all_the_same(write: Write, encoding: str):
    """A report that ends in an encoding error would be no report."""
    write("runs.jsonl", line("s", [call("查询")], []))
    done = start("score", "runs.jsonl", "-p", "policy.yaml", PYTHONUTF8="0", PYTHONIOENCODING=encoding)

    assert (1, "") == (done.status, done.stderr)
    assert "\\u67e5\\u8be2" in done.stdout
    assert "\n------" in done.stdout


def test_names_of_other_scripts_are_shown_as_they_are(write: Write):
    write("runs.jsonl", line("s", [call("查询"), call("bücher_suchen")], []))
    shown = score("runs.jsonl").stdout

    assert "查询" in shown
    assert "bücher_suchen" in shown


# --- terminals and pipes -------------------------------------------------------------------------


def pseudo_terminal() -> tuple[int, int]:
    """Both ends of a new one: ours, and the one that a program takes for a terminal."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, theirs = pty.openpty()
    return ours, theirs


def on_terminal(*arguments: str, stdout: bool = True, **variables: Any) -> tuple[int, str]:
    """Run with standard error, and standard output too, on a terminal; the status and what it showed."""
    ours, theirs = pseudo_terminal()
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs if stdout else subprocess.DEVNULL,
        stderr=theirs,
        env=environment(**variables),
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), shown.decode()


def test_a_terminal_gets_colours_and_its_own_width(write: Write):
    status, shown = on_terminal("score", "bad.jsonl", "-p", "policy.yaml", COLUMNS="60")

    assert 1 == status
    assert "\x1b[1;31mFAILED" in shown
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", row)) for row in shown.splitlines()) <= 60


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "bad.jsonl", "-p", "policy.yaml"),
        ("explain", "policy.yaml", "--call", '{"name": "get_order"}'),
    ],
    ids=["score", "explain"],
)
def test_a_terminal_without_colours_gets_none(
    write: Write, arguments: tuple[str, ...], variables: dict[str, Any]
):
    _, shown = on_terminal(*arguments, **variables)

    assert "\x1b" not in shown


def test_a_pipe_gets_no_colours(write: Write):
    assert "\x1b" not in score("bad.jsonl").stdout


def long_recording(size: int) -> str:
    many = line("s", [call("get_order", str(n), arguments={"order_id": "8" * 900}) for n in range(50)], [])
    return many * (size // len(many) + 1)


def test_long_input_shows_progress_on_a_terminal(write: Write):
    write("long.jsonl", long_recording(2_500_000))
    status, shown = on_terminal("score", "long.jsonl", "-p", "policy.yaml", "-o", "report", stdout=False)

    assert 0 == status
    assert "scoring" in shown
    assert "2.5" in shown or "2.6" in shown, "how much of it has been read"


def test_short_input_shows_no_progress(write: Write):
    assert (0, "") == on_terminal("score", "good.jsonl", "-p", "policy.yaml", stdout=False)


def test_progress_leaves_standard_output_alone(write: Write):
    """The bar is on standard error: a report that is piped on stays what it was."""
    write("long.jsonl", long_recording(2_500_000))
    ours, theirs = pseudo_terminal()
    done = subprocess.run(
        [*PROGRAM, "score", "long.jsonl", "-p", "policy.yaml", "-f", "json"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(),
        check=False,
    )
    os.close(theirs)
    os.close(ours)

    assert json.loads(done.stdout)["passed"] is True


def test_a_pipe_gets_no_progress(write: Write):
    write("long.jsonl", long_recording(2_500_000))
    done = start("score", "long.jsonl", "-p", "policy.yaml")

    assert (0, "") == (done.status, done.stderr)
    assert "scoring" not in done.stdout


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_reader_that_stops_reading_is_no_error(write: Write, output: str):
    """As in `gatescore score ... | head -1`."""
    calls = [call(f"tool_{n}", str(n)) for n in range(20_000)]
    write("runs.jsonl", line("s", calls, []))
    process = subprocess.Popen(
        [*PROGRAM, "score", "runs.jsonl", "-p", "policy.yaml", "-f", output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()

    assert b"" == process.stderr.read()
    assert 1 == process.wait()
    process.stderr.close()


def test_the_output_is_no_file_that_is_read(tmp_path: Path) -> None:
    """A report must not replace the only recording, or the policy."""
    recording, policy = tmp_path / "r.jsonl", tmp_path / "p.yaml"
    recording.write_text('{"proposed": [], "executed": []}\n', encoding="utf-8")
    policy.write_text("allowed_tools: [a]\n", encoding="utf-8")

    for target in (recording, policy):
        before = target.read_text(encoding="utf-8")
        with pytest.raises(InputError, match="name another file"):
            check_output(str(target), [str(policy), str(recording)])
        assert before == target.read_text(encoding="utf-8")


def test_calls_that_look_alike_each_have_a_row() -> None:
    """A count and a list that differ make both unbelievable."""
    line = {"id": "s", "proposed": [{"id": "1", "name": "rm"}], "executed": []}
    card = score_permissions([read_session(line), read_session(line)], Policy(allowed_tools=["a"]))

    assert 2 == sum(row.startswith("s ") for row in permission_text(card).splitlines())
