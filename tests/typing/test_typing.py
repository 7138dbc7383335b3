"""
What is guarded keeps its types, for mypy and for pyright, both as strict as they can be.

The files in `examples` are programs of users. A line that must be an error says so at its end, with
mypy's code for it: ``# error: arg-type``. A checker that finds an error elsewhere has lost a type or
made one up; one that finds none on a marked line takes anything.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent / "examples"
FILES = sorted(path.name for path in EXAMPLES.glob("*.py"))
MARK = re.compile(r"  # error: ([a-z-]+)$")
TIMEOUT = 300

Place = tuple[str, int]


def run(*arguments: str) -> str:
    """What a checker says of the examples; that it finds errors is no failure of it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MYPY", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=EXAMPLES,
        env=clean,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert 1 == done.returncode, done.stdout + done.stderr
    return done.stdout


class Findings:
    """What one checker found: errors, by place with their codes; and what it revealed, by place."""

    def __init__(self) -> None:
        self.errors: defaultdict[Place, set[str]] = defaultdict(set)
        self.revealed: dict[Place, str] = {}


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    cache = str(tmp_path_factory.mktemp("mypy"))
    found = Findings()
    for line in run(
        "mypy", "--config-file", "mypy.ini", "--cache-dir", cache, "-O", "json", "."
    ).splitlines():
        entry = json.loads(line)
        place = Path(entry["file"]).name, entry["line"]
        if entry["severity"] == "error":
            found.errors[place].add(entry["code"])
        elif entry["message"].startswith("Revealed type is "):
            found.revealed[place] = entry["message"]
    return found


@pytest.fixture(scope="module")
def pyright() -> Findings:
    found = Findings()
    report = run("basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", "pyrightconfig.json")
    for entry in json.loads(report)["generalDiagnostics"]:
        place = Path(entry["file"]).name, entry["range"]["start"]["line"] + 1
        if entry["severity"] == "error":
            found.errors[place].add(entry.get("rule", ""))
        elif entry["severity"] == "information" and entry["message"].startswith("Type of "):
            # The message repeats the expression, which is not the same on both lines of a pair.
            found.revealed[place] = entry["message"].rpartition('" is "')[2]
    return found


def marked() -> dict[Place, str]:
    return {
        (name, number): found[1]
        for name in FILES
        for number, line in enumerate((EXAMPLES / name).read_text().splitlines(), 1)
        if (found := MARK.search(line))
    }


def lines_of(places: Mapping[Place, object]) -> set[str]:
    """Places as they stand in a message, with the text of the line."""
    return {
        f"{name}:{number}: {(EXAMPLES / name).read_text().splitlines()[number - 1].strip()}"
        for name, number in places
    }


def test_mypy_finds_errors_on_the_marked_lines_and_nowhere_else(mypy: Findings):
    assert lines_of(marked()) == lines_of(mypy.errors)


def test_mypy_finds_what_is_wrong_there_and_not_something_else(mypy: Findings):
    missed = {place: code for place, code in marked().items() if code not in mypy.errors.get(place, ())}
    assert {} == missed


def test_pyright_finds_errors_on_the_marked_lines_and_nowhere_else(pyright: Findings):
    assert lines_of(marked()) == lines_of(pyright.errors)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_what_is_guarded_has_the_type_that_it_had(checker: str, request: pytest.FixtureRequest):
    revealed = request.getfixturevalue(checker).revealed
    source = (EXAMPLES / "revealed.py").read_text().splitlines()
    lines = [number for number, line in enumerate(source, 1) if line.startswith("reveal_type(")]
    assert len(lines) >= 26
    for plain, guarded in zip(lines[::2], lines[1::2], strict=True):
        assert "guard" not in source[plain - 1]
        assert "guard" in source[guarded - 1]
        assert revealed["revealed.py", plain] == revealed["revealed.py", guarded]


def test_the_package_says_that_it_is_typed():
    """Without the marker, checkers take every name of an installed package for `Any`."""
    import gatescore

    assert gatescore.__file__ is not None
    assert (Path(gatescore.__file__).parent / "py.typed").is_file()
