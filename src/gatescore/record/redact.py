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
from fnmatch import translate
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
from gatescore.semconv import Written, escaped, json_text, parsed

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
    r"\bBearer\s+\S+"
    r"|\b(?i:bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bA[KS]IA[0-9A-Z]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Texts that are secrets by their looks, whatever they are called."""

_NONE_OF_THEM: Final = r"(?!)"
_NOTHING: Final = json_text({WITHHELD: {}})


class Capture:
    """
    What is written of arguments, for one policy.

    Attributes:
        mode: ``names``: names, sizes, and digests of what rules compare; ``full``; ``redacted``: without
            secrets; ``none``.
        max_size: The longest text of arguments that is written, in characters; a longer one becomes a
            marker with its size, beside the digest of all the arguments.
    """

    __slots__ = ("_compared", "_key", "_last", "_prefix", "_secret_name", "max_size", "mode")

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
        patterns = "|".join(translate(pattern.lower()) for pattern in redact)
        self._secret_name = re.compile(patterns or _NONE_OF_THEM)
        compared: set[str] = set()
        for layer in policy.layers:
            for after in layer.afters:
                compared.update(name for pair in after.same for name in pair)
            for rule in layer.rules:
                compared.update(rule.limit.key if rule.limit is not None else ())
            for tool in layer.tools:
                compared.update(tool.once_per)
        self._compared = frozenset(compared)
        self._last: tuple[ToolCall, int | None, Written] | None = None

    def digest(self, value: Json) -> str:
        """The keyed digest of a canonical value: equal values, equal digests; nobody without the key can try values."""
        text = key_text(value).encode()
        return self._prefix + hmac.digest(self._key, text, "sha256").hex()

    def written(self, call: ToolCall, limit: int | None = None) -> Written:
        """
        What is written of *call*.

        Args:
            call: The call.
            limit: How many characters an attribute may have where it is written to; None for any number.
        """
        last = self._last  # most calls are entered right after they were proposed, as the same object
        if last is not None and last[0] is call and last[1] == limit:
            return last[2]
        made = self._written(call, limit)
        self._last = call, limit, made
        return made

    def _written(self, call: ToolCall, limit: int | None) -> Written:
        mode = self.mode
        if mode == "none":
            return Written(_NOTHING, withheld=True, digest=None, raw=None)
        if limit is None or limit > self.max_size:
            limit = self.max_size
        raw, withheld = call.raw, call.withheld
        if mode == "full":
            text = json_text(call.arguments)
        elif mode == "names":
            raw = None
            withheld = any(value is not None for value in call.arguments.values())
            text = self._shapes(call.arguments)
        else:
            cleaned = self._clean(call.arguments)
            raw, withheld = None, cleaned != call.arguments
            text = json_text(cleaned)
        if len(text) > limit:
            size = len(text if mode == "full" else json_text(call.arguments))
            text, withheld = _too_large(size), True
        if raw is not None and len(escaped(raw)) > limit:
            raw = _too_large(len(raw))
        return Written(text, withheld, call.digest, raw)

    def call(self, call: ToolCall) -> ToolCall:
        """*call* as it is written."""
        written = self.written(call)
        return ToolCall.recorded(
            call.name,
            parsed(written.arguments),
            server=call.server,
            call_id=call.call_id,
            host_call_id=call.host_call_id,
            invalid=call.invalid,
            opaque=call.opaque,
            withheld=written.withheld,
            digest=written.digest,
            raw=written.raw,
        )

    def attributes(
        self, attributes: Mapping[str, Json], limit: int | None = None
    ) -> tuple[dict[str, Json], bool]:
        """A session's attributes as they are written, and whether something of them is withheld."""
        held = dict(attributes)
        if not held:
            return held, False
        if self.mode in ("names", "none"):
            return {WITHHELD: {}}, True
        cleaned = self._clean(held) if self.mode == "redacted" else held
        if len(json_text(cleaned)) > (self.max_size if limit is None else min(limit, self.max_size)):
            return {WITHHELD: {"size": len(json_text(held))}}, True
        return cleaned, cleaned != held

    def event(self, event: Event, limit: int | None = None) -> Event:
        """*event* as it is written; *limit* as that of `written`, for what is not a call."""
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
            attributes, withheld = self.attributes(event.attributes, limit)
            return replace(event, attributes=attributes, withheld=withheld)
        return event

    def _shapes(self, arguments: Mapping[str, Json]) -> str:
        """Arguments by their names alone, as JSON; put together by hand, because this runs for every call."""
        shapes = [
            f"{canonical_text(name)}:{self._shape(name, arguments[name])}" for name in sorted(arguments)
        ]
        return f"{{{','.join(shapes)}}}"

    def _shape(self, name: str, value: Json) -> str:
        if value is None:
            return "null"
        size = f'"size":{len(canonical_text(value))}'
        if is_marked(value):
            size = f'"opaque":true,{size}'
        elif name in self._compared:
            size = f'"digest":"{self.digest(value)}",{size}'
        return f'{{"{WITHHELD}":{{{size}}}}}'

    def _clean(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        return {name: self._cleaned(name, value) for name, value in arguments.items()}

    def _cleaned(self, name: str, value: Json) -> Json:
        if (value is not None and self._secret_name.match(name.lower())) or (
            isinstance(value, str) and _SECRET_TEXT.search(value)
        ):
            return {WITHHELD: {"redacted": True}}
        if isinstance(value, dict):
            return self._clean(value)
        return [self._cleaned("", item) for item in value] if isinstance(value, list) else value


def _too_large(size: int) -> str:
    """The marker that stands for a text that is too long, which is then never cut."""
    return f'{{"{WITHHELD}":{{"size":{size}}}}}'


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
