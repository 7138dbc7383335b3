"""``gatescore check``: does a policy load, and what does it say?"""

from __future__ import annotations

from typing import Annotated

import typer

from gatescore.policy import Policy
from gatescore.policy.rules import Layer
from gatescore.report.escapes import visible


def check(
    policy: Annotated[str, typer.Argument(help="The policy: a YAML or JSON file.", metavar="POLICY")],
) -> None:
    """
    Load a policy and say what is in it, or where its first fault is.

    Exit status 0 if the policy can be used, 2 if not.
    """
    loaded = Policy.load(policy)
    for layer in loaded.layers:
        typer.echo(_summary(layer))
    if len(loaded.layers) > 1:
        typer.echo(f"{len(loaded.layers)} layers: a call is allowed only if every layer allows it")
    typer.echo(f"digest {loaded.digest}")


def _summary(layer: Layer) -> str:
    counts = ", ".join(
        f"{sum(rule.effect == effect for rule in layer.rules)} {effect}"
        for effect in ("allow", "ask", "deny")
    )
    version = f" {layer.version}" if layer.version else ""
    described = f"{len(layer.tools):,} tool{'' if len(layer.tools) == 1 else 's'} described"
    tools = f", {described}" if layer.tools else ""
    text = f"ok: {layer.name or layer.source}{version}: {counts}; default {layer.default.value}{tools}"
    return visible(text)
