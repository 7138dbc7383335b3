"""Scores of recorded runs. Works where no framework, no tracer and no wrapper is installed."""

from __future__ import annotations

from gatescore.score.cards import Check, Finding, Kind, PermissionCard, SessionCard, Status, Unauthorized
from gatescore.score.permission import score_permissions

__all__ = [
    "Check",
    "Finding",
    "Kind",
    "PermissionCard",
    "SessionCard",
    "Status",
    "Unauthorized",
    "score_permissions",
]
