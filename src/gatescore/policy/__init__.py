"""
The policy: what it may say, and how it is read.

`Policy` is the door. A policy is read from a file or built in Python; either way everything in it
is checked when it is made, and a policy that exists can judge any call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from gatescore.canonical import digest
from gatescore.errors import PolicyError
from gatescore.model import Effect
from gatescore.policy.compile import compile_layer, extended
from gatescore.policy.document import Filename, beside, from_data, identity, read_document

if TYPE_CHECKING:
    from gatescore.policy.rules import Layer, Rule

__all__ = ["Policy"]

_MAX_LAYERS = 16


class Policy:
    """
    A policy in force: one layer, or several that can only narrow each other.

    Attributes:
        layers: The compiled layers, the widest first.
        name: The name of the last layer that has one, or None.
        version: The version written in that layer, or None.
        digest: SHA-256 of what decides, as ``sha256:...``: neither names and versions nor the order
            of rules change it (but a rule without an `id` is called by its place).
        reads_history: Whether a decision can depend on what happened before.
        has_once_per: Whether some tool has effects that must not be had twice.
        approval_attempts: By rule id: how many entries one yes covers, where that is more than one.
    """

    def __init__(
        self,
        *,
        allowed_tools: Sequence[str] | None = None,
        denied_tools: Sequence[str] | None = None,
        rules: Sequence[Mapping[str, Any]] | None = None,
        default: str | None = None,
        tools: Mapping[str, Any] | None = None,
        name: str | None = None,
        version: str | None = None,
    ) -> None:
        """
        Build a policy in Python, from the same parts as a file.

        Args:
            allowed_tools: Names and globs that may be called; ``[]`` allows nothing, None is no list.
            denied_tools: Names and globs that may not; a deny always wins.
            rules: Rules in the full form, as mappings.
            default: What no rule decides: ``deny``, ``ask`` or ``allow``. May be left out where some
                rule allows or asks, and is ``deny`` then.
            tools: What is known about tools, by name.
            name: A name for reports.
            version: Free text, for the record.

        Raises:
            PolicyError: Something in it is not known, or it says nothing.
        """
        parts = {
            "allowed_tools": allowed_tools,
            "denied_tools": denied_tools,
            "rules": rules,
            "default": default,
            "tools": tools,
            "name": name,
            "version": version,
        }
        given = {key: value for key, value in parts.items() if value is not None}
        self._set((compile_layer(from_data(given)),))

    def _set(self, layers: tuple[Layer, ...]) -> None:
        _check_budgets(layers)
        self.layers = layers
        named = next((layer for layer in reversed(layers) if layer.name is not None), layers[-1])
        self.name = named.name
        self.version = named.version
        self.digest = layers[0].digest if len(layers) == 1 else digest([layer.digest for layer in layers])
        self.reads_history = any(layer.reads_history for layer in layers)
        self.has_once_per = any(tool.once_per for layer in layers for tool in layer.tools)
        asking = [rule for layer in layers for rule in layer.rules if rule.effect is Effect.ASK]
        # Rules of several layers may share an id: then each narrows the others, as ever.
        fewest = {rule.id: rule.approval_attempts for rule in sorted(asking, key=_by_attempts, reverse=True)}
        self.approval_attempts = {rule: attempts for rule, attempts in fewest.items() if attempts > 1}
        # How each name is judged: filled by `gatescore.decide`, and bounded there.
        self.plans: dict[tuple[str | None, str], Any] = {}

    @classmethod
    def _of(cls, layers: tuple[Layer, ...]) -> Self:
        policy = cls.__new__(cls)
        policy._set(layers)
        return policy

    @classmethod
    def load(cls, path: Filename) -> Self:
        """
        Read a policy from a YAML file, or JSON where the name ends in ``.json``.

        Files named by ``extends`` (relative to the file that names them) become layers before it.

        Raises:
            PolicyError: With file, line, column and remedy, also where the file cannot be read.
        """
        return cls._of(tuple(_load(path, ())))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """
        Build a policy from a mapping with the keys of a policy file.

        Raises:
            PolicyError: With the path to the fault, such as ``rules[2].args``.
        """
        plain = from_data(document)
        if extended(plain):
            raise PolicyError(
                "only a file can extend another: use `Policy.layered`", path=("extends",), key=True
            )
        return cls._of((compile_layer(plain),))

    @classmethod
    def layered(cls, *policies: Policy) -> Self:
        """
        Put policies over each other, so that each can only narrow the others.

        A call is denied if any denies, asked about if any asks, and allowed only if all allow;
        the limits of all apply. With one policy, that policy.

        Raises:
            PolicyError: No policy was given.
        """
        if not policies:
            raise PolicyError("no policies to put over each other: pass at least one")
        return cls._of(tuple(layer for policy in policies for layer in policy.layers))

    def __repr__(self) -> str:
        rules = sum(len(layer.rules) for layer in self.layers)
        return f"<Policy {self.name or 'without a name'}: {rules} rules, {self.digest[:19]}>"


def _by_attempts(rule: Rule) -> int:
    return rule.approval_attempts


def _check_budgets(layers: tuple[Layer, ...]) -> None:
    """Refuse layers whose limits could not be told apart in a record."""
    seen: set[str] = set()
    for layer in layers:
        for rule in layer.rules:
            if rule.limit is not None and rule.limit.name in seen:
                raise PolicyError(
                    f"two layers have a limit in a rule `{rule.id}`, and policies of one name (or none): "
                    "give each policy a `name` of its own"
                )
            seen.update([rule.limit.name] if rule.limit is not None else [])


def _load(path: Filename, above: tuple[str, ...]) -> list[Layer]:
    document = read_document(path)
    layers: list[Layer] = []
    names = extended(document)
    here = (*above, identity(path))
    for number, name in enumerate(names):
        base = beside(path, name)
        problem = ""
        if identity(base) in here:
            problem = f"`{name}` extends this file in turn: a policy cannot extend itself"
        elif len(here) >= _MAX_LAYERS:
            problem = f"more than {_MAX_LAYERS} files extend each other"
        if problem:
            place = ("extends",) if number == 0 and len(names) == 1 else ("extends", number)
            raise document.locate(PolicyError(problem, path=place))
        layers.extend(_load(base, here))
    layers.append(compile_layer(document))
    return layers
