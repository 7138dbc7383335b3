"""A page that shows something else than what happens must fail: tests of `pages` itself."""

from pathlib import Path

import pytest
from sybil.example import SybilFailure

from tests.docs.pages import run_page


@pytest.fixture
def run(tmp_path: Path):
    """Write *text* as a page and run it."""
    folder = tmp_path / "folder"
    folder.mkdir()

    def run(text: str) -> int:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return run_page(page, folder)

    return run


def console(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


POLICY = """\
```yaml title=policies/policy.yaml
default: deny

rules: []
```

"""


READS_THE_FILE = """\
```python
from pathlib import Path

assert "rules: []" in Path("policies/policy.yaml").read_text()
```
"""


def test_titled_blocks_are_files_for_what_follows(run):
    shown = console("$ cat policies/policy.yaml", "default: deny", "", "rules: []")

    assert 3 == run(POLICY + shown + READS_THE_FILE)


def test_a_page_leaves_nothing_outside_its_folder(run, tmp_path: Path):
    run(POLICY)

    assert ["folder", "page.md"] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param([], id="nothing shown"),
        pytest.param(["default: allow", "", "rules: []"], id="a wrong word"),
        pytest.param(["default: deny", "rules: []"], id="a line missing in the middle"),
        pytest.param(["default: deny", ""], id="a line missing at the end"),
        pytest.param(["default: deny", "", "rules: []", "more"], id="a line too many"),
        pytest.param(["default:...", "", "rules: []"], id="dots inside a line"),
        pytest.param(["...", "default: allow"], id="a wrong line after dots"),
    ],
)
def test_a_wrong_output_fails(run, printed: list[str]):
    with pytest.raises(SybilFailure, match="line 7"):
        run(POLICY + console("$ cat policies/policy.yaml", *printed))


@pytest.mark.parametrize(
    "printed",
    [["..."], ["...", "rules: []"], ["default: deny", "..."], ["default: deny", "...", "", "rules: []"]],
)
def test_dots_stand_for_any_lines(run, printed: list[str]):
    assert 2 == run(POLICY + console("$ cat policies/policy.yaml", *printed))


def test_every_command_of_a_block_is_compared(run):
    with pytest.raises(SybilFailure, match="echo two"):
        run(console("$ echo one", "one", "$ echo two", "three"))


def test_the_exit_status_is_seen_and_compared(run):
    assert 1 == run(console("$ cat missing 2>/dev/null", "$ echo $?", "1"))
    with pytest.raises(SybilFailure):
        run(console("$ cat missing 2>/dev/null", "$ echo $?", "0"))


def test_a_command_may_take_several_lines(run):
    assert 1 == run(console("$ echo one \\", "    two", "one two"))


def test_gatescore_is_the_one_under_test(run):
    """A command that does not exist is an error of the program, and so a wrong output."""
    with pytest.raises(SybilFailure, match="gatescore no-such-command"):
        run(console("$ gatescore no-such-command", "done"))


def test_a_program_that_is_not_under_test_is_refused(run):
    with pytest.raises(SybilFailure, match="show it in a `sh` block"):
        run(console("$ pip list", "..."))


def test_python_that_fails_fails_the_page(run):
    with pytest.raises(AssertionError):
        run("```python\nassert 1 == 2\n```\n")


def test_python_answers_are_compared(run):
    assert 1 == run("```python\n>>> 1 + 1\n2\n```\n")
    with pytest.raises(SybilFailure):
        run("```python\n>>> 1 + 1\n3\n```\n")


def test_blocks_for_the_reader_alone_are_not_run(run):
    assert 0 == run("```sh\nexit 1\n```\n```text\n$ gatescore\n```\n```yaml\na: b\n```\n")
