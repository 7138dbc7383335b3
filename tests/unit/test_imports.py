"""What an import costs, and what it must not need. Each question is put to a fresh interpreter."""

import subprocess
import sys

import pytest

BLOCKED = ("wrapt", "opentelemetry", "langchain_core", "typer", "rich")
"""What scoring has to do without: it must run where only a recording and a policy are at hand."""

BLOCK = f"""
import importlib.abc
import sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ImportError(f"`{{name}}` is blocked")

sys.meta_path.insert(0, Block())
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def loaded_by(statement: str) -> set[str]:
    """The top-level names of all modules that *statement* brings in."""
    done = python(f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})")

    assert "" == done.stderr

    return set(done.stdout.split())


def test_scoring_runs_with_every_framework_blocked():
    done = python(BLOCK + "import gatescore.score, gatescore.traces\nprint('imported')")

    assert ("imported\n", "") == (done.stdout, done.stderr)


@pytest.mark.parametrize("name", BLOCKED)
def test_a_blocked_package_cannot_be_imported(name: str):
    """The test above says nothing if the block does not hold."""
    done = python(BLOCK + f"import {name}")

    assert f"ImportError: `{name}` is blocked" == done.stderr.splitlines()[-1]


def test_importing_gatescore_loads_no_cel_no_framework_and_no_tracer():
    assert set() == loaded_by("import gatescore") & {"cel", "langchain_core", "opentelemetry"}


def test_importing_the_scores_loads_no_cel():
    """CEL is paid for by policies with a `when`, at the time that one is read."""
    assert "cel" not in loaded_by("import gatescore.score, gatescore.traces")


def test_the_question_sees_what_is_loaded():
    assert "wrapt" in loaded_by("import wrapt")
