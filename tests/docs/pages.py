"""
Run what a page shows.

A page is read from top to bottom, in a folder of its own:

- A block with a title (```` ```yaml title=policy.yaml ````) is written to the file that it names.
- A `python` block is run, all blocks of a page in one namespace; in a block that starts with `>>>`
  the answers are compared.
- In a `console` block each line that starts with `$ ` is given to the shell, and what it prints, both
  streams together, is compared with the lines below it, up to the next `$ `. A line `...` stands for
  any lines. A command that ends in a backslash goes on in the next line. `$ echo $?` shows the exit
  status of the command before.

Every other block (`sh`, `text`, `yaml` without a title) is for the reader alone.
"""

import contextlib
import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.typing import Parser

PROGRAMS = ("gatescore", "cat", "echo")
"""What a console block may start: anything else is not installed for the tests, or leaves the folder."""

SHELL = 'gatescore() { "$PYTHON" -P -c "$GATESCORE" "$@"; }\n'
GATESCORE = "import sys; sys.argv[0] = 'gatescore'; from gatescore.cli import main; sys.exit(main())"
PLAIN = {"COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "PYTHONUTF8": "1", "TERM": "dumb"}
COLOURED = {"CLICOLOR_FORCE", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"}


def run_page(page: Path, folder: Path) -> int:
    """Run the examples of *page* in *folder*; return how many there were. A wrong one raises."""
    parsers: list[Parser] = [titled_blocks, PythonCodeBlockParser(), CodeBlockParser("console", run_console)]
    with contextlib.chdir(folder):
        examples = list(Sybil(parsers).parse(page).examples())
        for example in examples:
            example.evaluate()
    return len(examples)


def titled_blocks(document: Document) -> Iterable[Region]:
    for region in FencedCodeBlockLexer(r"\w+ +title=[^\n]+")(document):
        name = region.lexemes["language"].partition("title=")[2].strip(" \"'")
        region.parsed = name, region.lexemes["source"]
        region.evaluator = write_file
        yield region


def write_file(example: Example) -> None:
    name, text = example.parsed
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def run_console(example: Example) -> str | None:
    status = 0
    for command, expected in transcript(example.parsed):
        if command.split()[:1] == [] or command.split()[0] not in PROGRAMS:
            return f"a console block cannot run `{command}`: show it in a `sh` block"
        kept = {name: value for name, value in os.environ.items() if name not in COLOURED}
        done = subprocess.run(
            ["sh", "-c", f"{SHELL}(exit {status})\n{command}\n"],
            env=kept | PLAIN | {"PYTHON": sys.executable, "GATESCORE": GATESCORE},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        status = done.returncode
        printed = trimmed(done.stdout.splitlines())
        if not matches(expected, printed):
            difference = difflib.unified_diff(expected, printed, "the page", "the program", lineterm="")
            return "\n".join([f"$ {command}", *difference])
    return None


def transcript(text: str) -> Iterator[tuple[str, list[str]]]:
    """Cut a console block into commands, each with the lines that it is said to print."""
    for part in re.split(r"^\$ ", f"\n{text}", flags=re.MULTILINE)[1:]:
        command, _, printed = part.replace("\\\n", " ").partition("\n")
        yield command, trimmed(printed.splitlines())


def trimmed(lines: list[str]) -> list[str]:
    """Drop blanks at the end of lines, and blank lines at the end."""
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").splitlines()


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether *printed* is *expected*, where a line ``...`` stands for any lines."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(f"{line}\n") for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None
