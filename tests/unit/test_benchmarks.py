"""The benchmarks run. What they measure is no matter of tests: a time says more about the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 600
"""Seconds. One short round takes one; it is the machine that may be busy."""


@pytest.mark.parametrize(
    "script", sorted((ROOT / "benchmarks").glob("bench_*.py")), ids=lambda path: path.name
)
def test_a_benchmark_runs_and_prints_its_tables(script):
    search = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(script), "--quick"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=os.environ | {"PYTHONPATH": search},
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "target" in done.stdout


def test_an_unknown_option_is_answered_with_the_usage():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "bench_decide.py"), "--quik"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )

    assert (1, "usage: bench_decide.py [--quick]\n") == (done.returncode, done.stderr)
