"""
How much the large runs do: a little, to show that they work; all of it with ``GATESCORE_LARGE=1``.

`make test` does a little, `make test-large` does it all.
"""

from __future__ import annotations

import os

WHOLE = os.environ.get("GATESCORE_LARGE") == "1"


def size(whole: int, little: int) -> int:
    """The number of repetitions: *whole*, or *little* where nobody asked for all of them."""
    return whole if WHOLE else little
