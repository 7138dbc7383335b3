"""
The one form in which arguments are judged, compared, digested and recorded.

`canonical` makes plain JSON of whatever a tool was called with, and refuses what no policy can
judge. Nothing above this module ever sees a live object.

Source: DESIGN, "What is judged".
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import math
import numbers
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from pathlib import PurePath
from typing import Any, Final, TypeAlias, cast

from gatescore.errors import ArgumentsError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A JSON value. Integers are exact, floats are finite, keys are text without lone surrogates."""

MAX_DEPTH: Final = 64
"""How deep objects and arrays may nest; the arguments themselves are level 1."""

MAX_SIZE: Final = 4_000_000
"""The largest size: characters in texts and keys, and one for every value."""

MAX_DIGITS: Final = 4_000
"""The longest integer, in decimal digits (Python itself refuses to print more than 4,300)."""

OPAQUE: Final = "$python"
"""The key of the marker that stands for a value JSON cannot hold: ``{"$python": "type name"}``."""

_TOO_LONG: Final = 10**MAX_DIGITS
_KEY: Final = itemgetter(0)
_quoted: Final[Callable[[str], str]] = encode_basestring_ascii
_DICT: Final[Any] = dict  # its own methods, whatever a subclass makes of them
_NAME_OF_TYPE: Final = type.__dict__["__name__"].__get__
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# Possessive, and content with a text that has no end: nothing in it makes the search start over.
_TEXT_OR_BRACKET: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)


class FlawedObject(dict[str, Json]):
    """A JSON object whose text was ambiguous: a key stood in it twice. It is never judged."""

    __slots__ = ("flaw",)

    def __init__(self, pairs: Sequence[tuple[str, Json]], flaw: str) -> None:
        super().__init__(pairs)
        self.flaw = flaw


def parse_json(text: str | bytes) -> Any:
    """
    Parse JSON text without losing what makes it unfit to be judged.

    An object with a key twice comes back as a `FlawedObject`; NaN and infinities come back as
    floats; nesting beyond what a parser bears is cut far below `MAX_DEPTH`, so that `canonical`
    still refuses it. Each of these is then found by `canonical`, in the call where it stands.

    Raises:
        ValueError: The text is not JSON, or something follows it.
        RecursionError: Never.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return _DECODER.decode(_without_depths(text))


def canonical(arguments: object) -> dict[str, Json]:
    """
    Make the canonical form of a call's *arguments*: a new JSON object, sharing nothing.

    Absent (None), ``""`` and null are ``{}``; other text is parsed as JSON. Inside: Decimal
    becomes a number, Enum its value, Path and UUID text, dates ISO 8601 text, bytes base64 text,
    sets sorted arrays, tuples arrays, dataclasses and pydantic models objects. Anything else
    becomes ``{"$python": "type name"}``, on which every condition is indeterminate.

    Raises:
        ArgumentsError: NaN or an infinity (also by overflow), a key twice, text that is not JSON
            or goes on behind it, not an object, a lone surrogate in a key, nesting over
            `MAX_DEPTH` or a cycle, size over `MAX_SIZE`, an integer over `MAX_DIGITS`, an object that
            raises when it is looked at in place of the arguments.
    """
    return canonical_and_marked(arguments)[0]


def canonical_and_marked(arguments: object) -> tuple[dict[str, Json], bool]:
    """As `canonical`, with what `is_marked` says of the result."""
    try:
        return _canonical(arguments)
    except ArgumentsError:
        raise
    except RecursionError:
        raise ArgumentsError("arguments nest deeper than the stack that is left can follow") from None
    except Exception as error:  # noqa: BLE001 - a hostile or broken object is no reason to judge nothing
        raise ArgumentsError(
            f"arguments cannot be read: looking at them raises {_type_name(error)}"
        ) from None


def _canonical(arguments: object) -> tuple[dict[str, Json], bool]:
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}, False
    if isinstance(arguments, (str, bytes)):
        if len(arguments) > 2 * MAX_SIZE:
            raise ArgumentsError(f"arguments are larger than {MAX_SIZE:,}")
        try:
            arguments = parse_json(arguments)
        except ValueError as error:
            raise ArgumentsError(f"arguments are not JSON: {_first_line(error)}") from None
        if arguments is None:
            return {}, False
    walk = _Walk()
    value = walk.value(arguments, 1)
    if not isinstance(value, dict) or (OPAQUE in value and not isinstance(arguments, Mapping)):
        raise ArgumentsError(f"arguments are not an object but {_kind(arguments)}")
    return value, walk.marked


def canonical_text(value: Json) -> str:
    """Write a canonical *value* as its one JSON text: keys sorted, ASCII, no blanks, integers exact."""
    return _written(value, float.__repr__)


def key_text(value: Json) -> str:
    """Write *value* so that equal JSON values give equal texts: 1 and 1.0 are one, true and 1 are not."""
    return _written(value, _float_or_whole)


def digest(value: Json) -> str:
    """The plain SHA-256 of the canonical text, as ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(key_text(value).encode()).hexdigest()


def equal(left: Json, right: Json) -> bool:
    """Compare two canonical values as JSON does: 1 equals 1.0, true does not equal 1, missing is not null."""
    # Python's own comparison finds every difference but the one between truth values and numbers.
    return left is right or (left == right and _same_truths(left, right))


def _same_truths(left: Json, right: Json) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        for key, value in left.items():
            if type(value) is not str and value is not right[key] and not _same_truths(value, right[key]):
                return False
        return True
    if isinstance(left, list) and isinstance(right, list):
        return all(_same_truths(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool)


def _written(value: Json, number: Callable[[float], str]) -> str:
    # By hand: every guarded call is written at least once, and the encoder of the standard library takes
    # twice as long for what most calls are, an object of a few texts and numbers.
    kind = type(value)
    if kind is str:
        return _quoted(value)  # type: ignore[arg-type]
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return repr(value)
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise ValueError("a number that is not finite has no JSON text")
        return number(value)  # type: ignore[arg-type]
    if isinstance(value, dict):
        members = [
            f"{_quoted(key)}:{_quoted(item) if type(item) is str else _written(item, number)}"
            for key, item in sorted(value.items(), key=_KEY)
        ]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_written(item, number) for item in value]) + "]"
    raise TypeError(f"a `{kind.__name__}` is no canonical value")


def _float_or_whole(value: float) -> str:
    return int.__repr__(int(value)) if value.is_integer() else float.__repr__(value)


def is_marked(value: Json) -> bool:
    """Whether the marker of a value that JSON cannot hold stands anywhere in canonical *value*."""
    if isinstance(value, dict):
        return OPAQUE in value or any(is_marked(item) for item in value.values())
    return isinstance(value, list) and any(is_marked(item) for item in value)


class _Walk:
    """One pass over live arguments: copies, converts and measures."""

    __slots__ = ("marked", "size")

    def __init__(self) -> None:
        self.size = 0
        self.marked = False

    def _marker(self, value: object) -> dict[str, Json]:
        self.marked = True
        return {OPAQUE: _type_name(value)}

    def value(self, value: object, depth: int) -> Json:
        kind = type(value)
        if kind is str:
            self._grow(len(value) + 1)  # type: ignore[arg-type]
            return _joined(value)  # type: ignore[arg-type]
        self._grow(1)
        if value is None or kind is bool:
            return value  # type: ignore[return-value]
        if kind is int:
            return _integer(value)  # type: ignore[arg-type]
        if kind is float:
            return _finite(value)  # type: ignore[arg-type]
        if kind is dict or kind is FlawedObject:
            return self._object(value, depth)  # type: ignore[arg-type]
        if kind is list or kind is tuple:
            return self._array(value, depth)  # type: ignore[arg-type]
        return self._other(value, depth)

    def _grow(self, size: int) -> None:
        self.size += size
        if self.size > MAX_SIZE:
            raise ArgumentsError(f"arguments are larger than {MAX_SIZE:,}")

    def _array(self, values: Iterable[object], depth: int) -> list[Json]:
        _check_depth(depth)
        return [self.value(item, depth + 1) for item in values]

    def _object(self, mapping: Mapping[object, object], depth: int) -> dict[str, Json]:
        _check_depth(depth)
        if isinstance(mapping, FlawedObject):
            raise ArgumentsError(mapping.flaw)
        # What a dict holds, not what a subclass says that it does.
        pairs: Iterable[tuple[object, object]]
        pairs = _DICT.items(mapping) if isinstance(mapping, dict) else mapping.items()
        result: dict[str, Json] = {}
        for key, item in pairs:
            name = key if type(key) is str else _key(key)
            if name is None:
                return self._marker(mapping)
            if not name.isascii() and _SURROGATES.search(name):
                raise ArgumentsError("a key of the arguments holds a lone surrogate")
            if name in result:
                raise ArgumentsError(f"key `{name}` stands twice in the arguments")
            if type(item) is str:  # as `value` does: most arguments are texts
                self._grow(len(name) + len(item) + 1)
                result[name] = item if item.isascii() else _joined(item)
            else:
                self._grow(len(name))
                result[name] = self.value(item, depth + 1)
        if OPAQUE in result:
            self.marked = True
        return result

    def _other(self, value: object, depth: int) -> Json:
        """Convert what is not a plain JSON type; whatever raises on the way is opaque."""
        try:
            simpler = _simpler(value)
            if simpler is not value:
                return self.value(simpler, depth)
            # Measured while they are gone through: a collection may be without an end.
            if isinstance(value, Mapping):
                return self._object(cast("Mapping[object, object]", value), depth)
            if isinstance(value, (list, tuple, Set)):
                items = self._array(_held(cast("Iterable[object]", value)), depth)
                return sorted(items, key=canonical_text) if isinstance(value, Set) else items
        except ArgumentsError:
            raise
        except Exception:  # noqa: BLE001, S110 - a hostile or broken object must not reach the caller's tool
            pass
        return self._marker(value)  # pyright: ignore[reportUnknownArgumentType]


def _joined(text: str) -> str:
    """*text* with each pair of lone surrogates as the one character that JSON text makes of them."""
    if text.isascii() or not _PAIR.search(text):
        return text
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def _held(collection: Iterable[object]) -> Iterable[object]:
    """What a collection holds, not what a subclass says that it does."""
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset)
    return next((kind.__iter__(collection) for kind in kinds if isinstance(collection, kind)), collection)


def _type_name(value: object) -> str:
    """The name of the type of *value*, also where its metaclass says something else, or raises."""
    name: str = _NAME_OF_TYPE(type(value))
    return name[:100]


def _simpler(value: object) -> object:
    """One step from *value* towards a plain JSON type; *value* itself where there is none."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, decimal.Decimal):
        return _from_decimal(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (PurePath, uuid.UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(cast("bytes", value))).decode("ascii")
    if isinstance(value, (Mapping, list, tuple, Set)):
        return cast("object", value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(type(value), "model_dump", None)  # pydantic, without importing it
    if callable(dump) and hasattr(type(value), "model_fields"):
        return dump(value)
    return value


def _key(key: object) -> str | None:
    """The text of a mapping's key, or None where JSON has no such key."""
    try:
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, int) and not isinstance(key, bool):
            return str(_integer(int.__int__(key)))
    except ArgumentsError:
        raise
    except Exception:  # noqa: BLE001, S110 - as in `_Walk._other`
        pass
    return None


def _integer(value: int) -> int:
    if not -_TOO_LONG < value < _TOO_LONG:
        raise ArgumentsError(f"a number in the arguments has more than {MAX_DIGITS:,} digits")
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ArgumentsError("a number in the arguments is not finite (NaN, an infinity or an overflow)")
    return value


def _from_decimal(value: decimal.Decimal) -> int | float:
    value = decimal.Decimal(value)  # of a subclass, the number itself
    if not value.is_finite():
        return _finite(float("nan"))
    if value.adjusted() > MAX_DIGITS:
        raise ArgumentsError(f"a number in the arguments has more than {MAX_DIGITS:,} digits")
    return int(value) if value == value.to_integral_value() else float(value)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ArgumentsError(f"arguments are nested deeper than {MAX_DEPTH} levels, or hold themselves")


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    times = Counter(key for key, _ in pairs)
    twice = next(key for key, count in times.items() if count > 1)
    return FlawedObject(pairs, f"key `{twice}` stands twice in one object")


def _parse_integer(text: str) -> int | float:
    # A number of more digits is as unfit as an overflow; it must not make its neighbours unreadable.
    return int(text) if len(text.removeprefix("-")) <= MAX_DIGITS else math.inf


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_parse_integer)


def _without_depths(text: str) -> str:
    """Replace by 0 whatever nests deeper than any record can need, so that the rest can be parsed."""
    keep_levels = 2 * MAX_DEPTH
    kept: list[str] = []
    depth = start = 0
    for match in _TEXT_OR_BRACKET.finditer(text):
        token = match.group()
        if token in ("[", "{"):
            depth += 1
            if depth == keep_levels + 1:
                kept.append(text[start : match.start()] + "0")
        elif token in ("]", "}"):
            if depth == keep_levels + 1:
                start = match.end()
            depth -= 1
    # Text that never comes back up ends inside what was cut, and the parser then says so.
    return "".join(kept) + (text[start:] if depth <= keep_levels else "")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, (list, tuple, Set)):
        return "an array"
    return f"a `{_type_name(value)}`"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
