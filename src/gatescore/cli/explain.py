"""``gatescore explain``: why one call gets its verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from gatescore.canonical import parse_json
from gatescore.cli.output import terminal, write
from gatescore.errors import InputError
from gatescore.explain import explain as explain_call
from gatescore.history import History
from gatescore.model import Facts, Session, SessionStarted, ToolCall
from gatescore.policy import Policy
from gatescore.report.text import explanation_text
from gatescore.score.streams import history_of
from gatescore.traces import read_sessions
from gatescore.traces.joining import LineError
from gatescore.traces.trajectory import parse_call


def explain(
    policy: Annotated[str, typer.Argument(help="The policy: a YAML or JSON file.", metavar="POLICY")],
    call: Annotated[
        str,
        typer.Option("--call", "-c", help='The call: {"name": ..., "arguments": {...}}.', metavar="JSON"),
    ],
    history: Annotated[
        str | None,
        typer.Option(
            "--history", help="A recording; the call comes after the last session in it.", metavar="INPUT"
        ),
    ] = None,
) -> None:
    """
    Explain the verdict on one call, condition by condition.

    Exit status 0 whatever the verdict, 2 if the policy, the call or the history is unusable.
    """
    loaded = Policy.load(policy)
    made = _call(call)
    past = History([SessionStarted(session_id="explained")]) if history is None else _past(loaded, history)
    width, color = terminal()
    write(explanation_text(explain_call(loaded, past, made, Facts()), made, width=width, color=color))


def _call(text: str) -> ToolCall:
    try:
        return parse_call(parse_json(text))
    except LineError as error:
        raise InputError(str(error), source="--call") from None
    except ValueError as error:
        raise InputError(f"not JSON: {str(error).splitlines()[0].lower()}", source="--call") from None


def _past(policy: Policy, source: str) -> History:
    last: Session | None = None
    for session in read_sessions(source):
        if session.error is not None:
            raise session.error
        last = session
    # A recording without any session raises, so that there is a last one.
    return History() if last is None else history_of(policy, last)
