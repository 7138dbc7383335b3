"""Every page and every example does what it shows."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_shows_what_happens(page: Path, tmp_path: Path):
    run_page(page, tmp_path)


def test_the_first_page_is_run_and_not_only_shown(tmp_path: Path):
    assert run_page(ROOT / "README.md", tmp_path) > 0


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_runs_offline_and_asserts_its_own_outcome(example: Path, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "assert " in example.read_text(encoding="utf-8")
