"""
Real recordings and right values, which are not part of the project.

They are read from the folder `shared` beside the checkout, or from the one that the environment
variable `GATESCORE_SHARED` names. Tests that need them are skipped, saying so, where it is absent.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("GATESCORE_SHARED") or Path(__file__).parents[2] / "shared")


def shared(name: str) -> Path:
    """The path of one shared file or folder; skips the test that asks where it is not there."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"the shared recordings are not here: no `{name}`")
    return path
