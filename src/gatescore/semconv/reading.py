"""The attributes of one span, each read as what it must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from gatescore.canonical import MAX_DEPTH, Json, is_marked
from gatescore.model import Action, Budget, Decided, Decision, Effect, Facts, Moment, ToolCall
from gatescore.semconv.encoding import Written
from gatescore.semconv.texts import ARGUMENTS, EVENTS, SHAPE, DamagedSpanError, json_text, parsed, unescaped

_DIGEST: Final = "hmac-sha256:"
_DIGEST_LENGTH: Final = len(_DIGEST) + 8 + 1 + 64
_INT64: Final = 2**63
_NOW: Final = re.compile(r'\{"now":(0|[1-9][0-9]{0,18})\}')


class Reader:
    """The attributes of one span, each as what it must be."""

    __slots__ = ("_call", "attributes", "written")

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.attributes = attributes
        self.written: Written | None = None  # what `call` was read from
        self._call: ToolCall | None = None

    def needed(self, key: str) -> Any:
        """An attribute that must be there."""
        try:
            return self.attributes[key]
        except KeyError:
            raise DamagedSpanError(f"a span lacks the attribute `{key}`") from None

    def text(self, key: str) -> str:
        """A text, as it was before it was escaped."""
        value = self.needed(key)
        if not isinstance(value, str):
            raise DamagedSpanError(f"`{key}` is not text")
        return unescaped(value)

    def maybe(self, key: str) -> str | None:
        """The same, or None where there is none."""
        return self.text(key) if key in self.attributes else None

    def whole(self, key: str, least: int = 0) -> int:
        """A whole number from *least*, that every backend can hold."""
        value = self.needed(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise DamagedSpanError(f"`{key}` is not a whole number")
        if not least <= value < _INT64:
            raise DamagedSpanError(f"`{key}` is not a number from {least}")
        return value

    def number(self, key: str) -> int | None:
        """The same from 0, or None where there is none."""
        return self.whole(key) if key in self.attributes else None

    def flag(self, key: str) -> bool:
        """Whether *key* is there; its value is compared with what a guard writes."""
        return key in self.attributes

    def one_of(self, kind: Callable[[str], Any], key: str) -> Any:
        """A value of an enumeration."""
        text = self.text(key)
        try:
            return kind(text)
        except ValueError:
            raise DamagedSpanError(f"`{key}` is `{text[:100]}`: there is no such value") from None

    def texts(self, key: str) -> tuple[str, ...]:
        """A sequence of texts."""
        values = self.needed(key)
        if not isinstance(values, (list, tuple)):
            raise DamagedSpanError(f"`{key}` is not a sequence of texts")
        items = cast("Sequence[object]", values)
        if not all(isinstance(item, str) for item in items):
            raise DamagedSpanError(f"`{key}` is not a sequence of texts")
        return tuple([unescaped(cast("str", item)) for item in items])

    def digest(self, key: str) -> str | None:
        """A digest, or None where there is none."""
        text = self.maybe(key)
        if text is not None and text.startswith(_DIGEST) and len(text) != _DIGEST_LENGTH:
            # Two that were cut would be equal where their values are not.
            raise DamagedSpanError(f"`{key}` was cut")
        return text

    def object(self, key: str) -> dict[str, Json]:
        """A JSON object."""
        text = self.text_as_it_is(key)
        value = _json(key, text)
        if not isinstance(value, dict):
            raise DamagedSpanError(f"`{key}` is not an object")
        # What judges the values relies on a depth that no guard's are over.
        if text.count("{") + text.count("[") > MAX_DEPTH and _depth(value, MAX_DEPTH) > MAX_DEPTH:
            raise DamagedSpanError(f"`{key}` is nested deeper than {MAX_DEPTH} levels")
        return value

    def text_as_it_is(self, key: str) -> str:
        """A text with its escapes."""
        value = self.needed(key)
        if not isinstance(value, str):
            raise DamagedSpanError(f"`{key}` is not text")
        return value

    def place(self, position: int = 0) -> dict[str, int | None]:
        """When and where an event stands: the one at *position* among those of the span."""
        sequence = self.number("gatescore.sequence")
        return {
            "time": self.number("gatescore.time"),
            "sequence": None if sequence is None else sequence + position,
        }

    def call(self) -> ToolCall:
        """The call; the events of one span share one."""
        if self._call is None:
            withheld = self.flag("gatescore.args.withheld")
            key = SHAPE if withheld else ARGUMENTS
            arguments = self.object(key)
            opaque = self.flag("gatescore.args.opaque")
            if not withheld and opaque is not is_marked(arguments):
                raise DamagedSpanError("`gatescore.args.opaque` is not what the arguments say")
            digest, raw = self.digest("gatescore.args.digest"), self.maybe("gatescore.args.raw")
            self.written = Written(self.attributes[key], withheld, digest, raw)
            self._call = ToolCall.recorded(
                self.text("gatescore.tool.name"),
                arguments,
                server=self.maybe("gatescore.server"),
                call_id=self.text("gatescore.call.id"),
                host_call_id=self.maybe("gatescore.host_call.id"),
                invalid=self.maybe("gatescore.invalid"),
                opaque=opaque,
                withheld=withheld,
                digest=digest,
                raw=raw,
            )
        return self._call

    def budgets(self) -> tuple[Budget, ...]:
        """The units that a decision gives."""
        key = "gatescore.budgets"
        if key not in self.attributes:
            return ()
        self.texts(key)
        return tuple([_budget(key, _json(key, text)) for text in self.attributes[key]])

    def facts(self) -> Facts:
        """What a decision knew of the world."""
        key = "gatescore.facts"
        time = _NOW.fullmatch(self.text_as_it_is(key))
        if time is not None and int(time[1]) < _INT64:
            return Facts(now=int(time[1]))  # the same, quicker, for nearly every call
        told = self.object(key)
        now, budgets = told.get("now"), told.get("budgets", {})
        if not (now is None or _counts(now)):
            raise DamagedSpanError(f"`{key}` holds a `now` that is not a whole number")
        if not isinstance(budgets, dict) or not all(map(_counts, budgets.values())):
            raise DamagedSpanError(f"`{key}` holds `budgets` that are not whole numbers by their limits")
        return Facts(now=cast("int | None", now), budgets=cast("dict[str, int]", budgets))

    def decision(self) -> Decision:
        """The verdict."""
        return Decision(
            self.one_of(Effect, "gatescore.decision"),
            self.texts("gatescore.rule.ids"),
            self.text("gatescore.reason"),
            self.text("gatescore.policy.digest"),
            self.texts("gatescore.errors") if "gatescore.errors" in self.attributes else (),
            self.budgets(),
            (),
            self.maybe("gatescore.decision.invalid"),
            self.flag("gatescore.stop"),
        )

    def decided(self, moment: Moment, call: ToolCall | None, position: int = 0) -> Decided:
        """The verdict as an event."""
        if self.one_of(Moment, "gatescore.moment") is not moment:
            raise DamagedSpanError(f"`gatescore.moment` is not `{moment}`, as `{EVENTS}` says")
        return Decided(
            **self.place(position),
            call_id=self.text("gatescore.call.id"),
            moment=moment,
            decision=self.decision(),
            call=call,
            facts=self.facts(),
            action=self.one_of(Action, "gatescore.action") if "gatescore.action" in self.attributes else None,
        )


def _json(key: str, text: str) -> Json:
    """The value of canonical JSON, which has one text alone: no key twice, no number that is none."""
    try:
        value: Json = parsed(text)
        if json_text(value) == text:
            return value
    except (ValueError, RecursionError):
        pass
    raise DamagedSpanError(f"`{key}` is not JSON as a guard writes it")


def _depth(value: Json, limit: int) -> int:
    """How deep objects and arrays nest in *value*; anything above *limit* where it is deeper than that."""
    if limit < 0 or not isinstance(value, (dict, list)):
        return 0 if limit >= 0 else 1
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(item, limit - 1) for item in inner), default=0)


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _INT64


def _budget(key: str, told: Json) -> Budget:
    match told:
        case [str(unit), str(limit), bool(wide)]:
            return Budget(limit, unit, "", wide)
        case _:
            raise DamagedSpanError(f"`{key}` holds something other than a unit, a limit and its width")
