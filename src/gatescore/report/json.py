"""Cards as JSON: one object, stable and versioned."""

from __future__ import annotations

import json

from gatescore.score import PermissionCard


def permission_json(card: PermissionCard) -> str:
    """
    One JSON object with a line break at its end; see `PermissionCard.to_dict`.

    It is ASCII: names from a recording can hold what no terminal should see and no encoding has.
    """
    return json.dumps(card.to_dict(), indent=2) + "\n"
