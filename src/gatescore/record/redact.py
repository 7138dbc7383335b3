"""
What of a call leaves the process: everything, names and sizes, what is no secret, or nothing.

The guard judges and the tool gets the real values; only what is written is changed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from gatescore.canonical import Json, canonical_text, is_marked, key_text
from gatescore.model import (
    Approved,
    AttributesChanged,
    Budget,
    Decided,
    Decision,
    Event,
    Proposed,
    SessionStarted,
    Started,
    ToolCall,
)
from gatescore.policy import Policy

WITHHELD: Final = "$withheld"

SECRETS: Final = (
    "*password*",
    "*passwd*",
    "*secret*",
    "*token*",
    "*api_key*",
    "*apikey*",
    "*api-key*",
    "authorization",
    "*credential*",
    "*private_key*",
    "cookie",
    "set-cookie",
)
"""Names of arguments and keys whose values ``capture="redacted"`` leaves out."""

_SECRET_TEXT: Final = re.compile(
    r"\bBearer\s+\S+|\bsk-[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bAKIA[0-9A-Z]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)


class Capture:
    """
    What is written of arguments, for one policy.

    Attributes:
        mode: ``names``: names, sizes, and digests of what rules compare; ``full``; ``redacted``: without
            secrets; ``none``.
        max_size: The longest text of arguments that is written, in characters; a longer one becomes a
            marker with its size and digest.
    """

    __slots__ = ("_compared", "_key", "_patterns", "_prefix", "max_size", "mode")

    def __init__(
        self,
        policy: Policy,
        mode: str,
        key: bytes,
        redact: Sequence[str] = SECRETS,
        max_size: int = 32_768,
    ) -> None:
        self.mode = mode
        self.max_size = max_size
        self._key = key
        self._prefix = f"hmac-sha256:{hashlib.sha256(key).hexdigest()[:8]}:"
        self._patterns = tuple(pattern.lower() for pattern in redact)
        compared: set[str] = set()
        for layer in policy.layers:
            for after in layer.afters:
                compared.update(name for pair in after.same for name in pair)
            for rule in layer.rules:
                compared.update(rule.limit.key if rule.limit is not None else ())
            for tool in layer.tools:
                compared.update(tool.once_per)
        self._compared = frozenset(compared)

    def digest(self, value: Json) -> str:
        """The keyed digest of a canonical value: equal values, equal digests; nobody without the key can try values."""
        text = key_text(value).encode()
        return self._prefix + hmac.digest(self._key, text, "sha256").hex()

    def call(self, call: ToolCall) -> ToolCall:
        """*call* as it is written."""
        if self.mode == "none":
            nothing: dict[str, Json] = {WITHHELD: {}}
            return _recorded(call, nothing, withheld=True, digest=None, raw=None)
        if self.mode == "names":
            shapes: dict[str, Json] = {
                name: self._shape(name, value) for name, value in call.arguments.items()
            }
            withheld = any(value is not None for value in call.arguments.values())
            return _recorded(call, shapes, withheld=withheld, digest=call.digest, raw=None)
        arguments, withheld, raw = call.arguments, False, call.raw
        if self.mode == "redacted":
            cleaned = self._clean(arguments)
            arguments, withheld, raw = cleaned, cleaned != arguments, None
        text = canonical_text(arguments)
        if len(text) > self.max_size:
            marker: dict[str, Json] = {"size": len(text)}
            if call.digest is not None:
                marker["digest"] = call.digest
            whole: dict[str, Json] = {WITHHELD: marker}
            arguments, withheld = whole, True
        if raw is not None and len(raw) > self.max_size:
            raw = None
        return _recorded(call, arguments, withheld=withheld, digest=call.digest, raw=raw)

    def attributes(self, attributes: Mapping[str, Json]) -> tuple[dict[str, Json], bool]:
        """A session's attributes as they are written, and whether something of them is withheld."""
        held = dict(attributes)
        if not held:
            return held, False
        if self.mode in ("names", "none"):
            return {WITHHELD: {}}, True
        cleaned = self._clean(held) if self.mode == "redacted" else held
        if len(canonical_text(cleaned)) > self.max_size:
            return {WITHHELD: {}}, True
        return cleaned, cleaned != held

    def event(self, event: Event) -> Event:
        """*event* as it is written."""
        if isinstance(event, Proposed):
            return replace(event, call=self.call(event.call))
        if isinstance(event, Decided):
            call = None if event.call is None else self.call(event.call)
            return replace(event, call=call, decision=_written(event.decision))
        if isinstance(event, Started):
            return replace(event, call=self.call(event.call), budgets=_keyless(event.budgets))
        if isinstance(event, Approved) and self.mode == "none":
            return replace(event, arguments=None)
        if isinstance(event, (SessionStarted, AttributesChanged)):
            attributes, withheld = self.attributes(event.attributes)
            return replace(event, attributes=attributes, withheld=withheld)
        return event

    def _shape(self, name: str, value: Json) -> Json:
        if value is None:
            return None
        shape: dict[str, Json] = {"size": len(canonical_text(value))}
        if is_marked(value):
            shape["opaque"] = True
        elif name in self._compared:
            shape["digest"] = self.digest(value)
        return {WITHHELD: shape}

    def _clean(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        return {name: self._cleaned(name, value) for name, value in arguments.items()}

    def _cleaned(self, name: str, value: Json) -> Json:
        folded = name.lower()
        secret = value is not None and any(fnmatchcase(folded, pattern) for pattern in self._patterns)
        if secret or (isinstance(value, str) and _SECRET_TEXT.search(value)):
            return {WITHHELD: {"redacted": True}}
        if isinstance(value, dict):
            return self._clean(value)
        return [self._cleaned("", item) for item in value] if isinstance(value, list) else value


def _recorded(
    call: ToolCall, arguments: dict[str, Json], *, withheld: bool, digest: str | None, raw: str | None
) -> ToolCall:
    return ToolCall.recorded(
        call.name,
        arguments,
        server=call.server,
        call_id=call.call_id,
        host_call_id=call.host_call_id,
        invalid=call.invalid,
        opaque=call.opaque,
        withheld=withheld,
        digest=digest,
        raw=raw,
    )


def _keyless(budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Budgets without their keys, which hold values of arguments."""
    return tuple(Budget(budget.limit, budget.unit, "", budget.wide) for budget in budgets)


def _written(decision: Decision) -> Decision:
    if not decision.budgets:
        return decision
    return Decision(
        decision.effect,
        decision.rules,
        decision.reason,
        decision.policy_digest,
        decision.errors,
        _keyless(decision.budgets),
        decision.undecidable,
        decision.invalid,
        decision.stop,
    )
