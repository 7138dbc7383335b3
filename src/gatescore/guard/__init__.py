"""The guard: the one place that keeps a denied tool from being entered."""

from __future__ import annotations

from gatescore.guard.approval import Answer, ApprovalRequest
from gatescore.guard.denial import InvalidCall, Refusal, ToolDenied
from gatescore.guard.guard import Guard, use
from gatescore.guard.proposals import ProposedCall
from gatescore.guard.run import Run
from gatescore.guard.tickets import GuardError
from gatescore.guard.wrap import guarded_tool

__all__ = [
    "Answer",
    "ApprovalRequest",
    "Guard",
    "GuardError",
    "InvalidCall",
    "ProposedCall",
    "Refusal",
    "Run",
    "ToolDenied",
    "guarded_tool",
    "use",
]
