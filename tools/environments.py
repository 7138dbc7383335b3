"""
Make the virtual environments of this project, each only when what it is made from has changed.

    python tools/environments.py main          `.venv`: gatescore, installed editable
    python tools/environments.py dev           the same, with what the checks need
    python tools/environments.py check         `.venvs/NAME` for every peer, then its `check` command
    python tools/environments.py bench         the same, with its `bench` command

The peers stand in `integrations/environments.toml`. This script needs the standard library alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PEERS: Final = "integrations/environments.toml"
USAGE: Final = "usage: environments.py main|dev|check|bench"


def main(arguments: Sequence[str]) -> str | int:
    """Do what *arguments* say; return an exit status, or the text of an error."""
    try:
        match arguments:
            case ["main"]:
                ensure(ROOT / ".venv", ["-e", "."])
            case ["dev"]:
                # A full environment serves `main` too, so it takes both marks.
                ensure(ROOT / ".venv", ["-e", ".[dev]"], serves=(["-e", "."],))
            case ["check" | "bench" as which]:
                return run_peers(which)
            case _:
                return USAGE
    except subprocess.CalledProcessError as error:
        return f"error: `{' '.join(error.cmd)}` ended with status {error.returncode}"
    return 0


def ensure(folder: Path, requirements: list[str], *, serves: Sequence[list[str]] = ()) -> Path:
    """
    Have *requirements* installed in the environment *folder*; return its python.

    A stamp in *folder* says where and with which interpreter it was made, and what was installed
    for `pyproject.toml` as it was then. Nothing is done where all of that still holds.
    """
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    origin = digest(sys.version, sys.base_prefix, str(folder))
    found = stamp.read_text().split() if stamp.is_file() and python.exists() else []
    if origin in found and digest(settings, *requirements) in found:
        return python
    if origin not in found:
        print(f"creating {folder.relative_to(ROOT)}", flush=True)
        create(folder)
    stamp.unlink(missing_ok=True)
    print(f"installing {' '.join(requirements)} into {folder.relative_to(ROOT)}", flush=True)
    options = ["-qq", "--no-input", "--disable-pip-version-check"]  # errors are shown, warnings are not
    subprocess.run([str(python), "-m", "pip", "install", *options, *requirements], cwd=ROOT, check=True)
    marks = [origin, *(digest(settings, *served) for served in (requirements, *serves))]
    stamp.write_text("\n".join(marks) + "\n")
    return python


def create(folder: Path) -> None:
    """Make an empty environment, in place of what may be there."""
    command = [sys.executable, "-m", "venv", "--clear", str(folder)]
    if subprocess.run(command, check=False).returncode:
        sys.exit(
            "error: this python cannot make a virtual environment; install its `venv` module"
            " (on debian: `apt-get install python3-venv`)"
        )


def digest(*parts: str) -> str:
    """Name a state of affairs: equal if and only if all *parts* are equal."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def run_peers(which: str) -> int:
    """Run the command *which* of every peer in its own environment; return 1 where one failed."""
    failed = 0
    for name, peer in tomllib.loads((ROOT / PEERS).read_text()).items():
        command: list[str] = peer[which]
        python = ensure(ROOT / ".venvs" / name, ["-e", ".", *peer["requires"]])
        print(f"{name}: {' '.join(command)}", flush=True)
        variables = os.environ | peer.get("variables", {})
        done = subprocess.run([str(python), *command], cwd=ROOT, env=variables, check=False)
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
