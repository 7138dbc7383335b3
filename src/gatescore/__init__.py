"""
One policy, used twice: it gates the tool calls of an AI agent, and it scores what was recorded.

The names below are loaded when they are first used, so that ``import gatescore`` costs nothing that
its user does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatescore.errors import ArgumentsError, GatescoreError, InputError, PolicyError, ScoreError
    from gatescore.guard import ApprovalRequest, Guard, GuardError, Refusal, ToolDenied, guarded_tool, use
    from gatescore.model import Decision, Effect, Session, Stream, ToolCall
    from gatescore.policy import Policy

__all__ = [
    "ApprovalRequest",
    "ArgumentsError",
    "Decision",
    "Effect",
    "GatescoreError",
    "Guard",
    "GuardError",
    "InputError",
    "Policy",
    "PolicyError",
    "Refusal",
    "ScoreError",
    "Session",
    "Stream",
    "ToolCall",
    "ToolDenied",
    "__version__",
    "guarded_tool",
    "use",
]

_HOME = {
    **dict.fromkeys(
        ("ArgumentsError", "GatescoreError", "InputError", "PolicyError", "ScoreError"), "errors"
    ),
    **dict.fromkeys(
        ("ApprovalRequest", "Guard", "GuardError", "Refusal", "ToolDenied", "guarded_tool", "use"), "guard"
    ),
    **dict.fromkeys(("Decision", "Effect", "Session", "Stream", "ToolCall"), "model"),
    "Policy": "policy",
}

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("gatescore")
    if name not in _HOME:
        raise AttributeError(f"module `gatescore` has no `{name}`")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"gatescore.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
