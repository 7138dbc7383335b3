"""To attributes: what happened to a session, and what a person answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gatescore.model import (
    Abandoned,
    Approved,
    AttributesChanged,
    Event,
    Rejected,
    SessionEnded,
    SessionStarted,
)
from gatescore.semconv.texts import Attributes, json_text, put


def _session_started(own: Attributes, event: SessionStarted) -> None:
    put(own, "gatescore.principal", event.principal)
    _attributes(own, event)
    if not event.observed:
        own["gatescore.unobserved"] = True
    if event.lone:
        own["gatescore.lone"] = True
    if event.mode is not None:
        own["gatescore.mode"] = str(event.mode)
    put(own, "gatescore.policy.name", event.policy_name)
    put(own, "gatescore.policy.version", event.policy_version)
    put(own, "gatescore.policy.digest", event.policy_digest)
    if event.catalog is not None:
        own["gatescore.catalog"] = tuple(sorted(event.catalog))
    if event.continues is not None:
        own["gatescore.continues.writer"] = event.continues.writer
        own["gatescore.continues.sequence"] = event.continues.sequence


def _attributes(own: Attributes, event: SessionStarted | AttributesChanged) -> None:
    own["gatescore.attributes"] = json_text(dict(event.attributes))
    if event.withheld:
        own["gatescore.attributes.withheld"] = True


def _approved(own: Attributes, event: Approved) -> None:
    own["gatescore.call.id"] = event.call_id
    own["gatescore.approval"] = "approved"
    put(own, "gatescore.args.digest", event.arguments)
    put(own, "gatescore.policy.digest", event.policy_digest)
    put(own, "gatescore.approval.by", event.by)
    put(own, "gatescore.approval.expires", event.expires)
    own["gatescore.approval.attempts"] = event.attempts


def _rejected(own: Attributes, event: Rejected) -> None:
    own["gatescore.call.id"] = event.call_id
    own["gatescore.approval"] = "expired" if event.expired else "rejected"
    put(own, "gatescore.approval.by", event.by)
    put(own, "gatescore.approval.error", event.error)


def _abandoned(own: Attributes, event: Abandoned) -> None:
    own["gatescore.call.id"] = event.call_id


def _ended(own: Attributes, event: SessionEnded) -> None:
    """A session's end has nothing but its place."""


ENCODERS: Final[Mapping[type[Event], Callable[[Attributes, Any], None]]] = {
    SessionStarted: _session_started,
    AttributesChanged: _attributes,
    Approved: _approved,
    Rejected: _rejected,
    Abandoned: _abandoned,
    SessionEnded: _ended,
}
