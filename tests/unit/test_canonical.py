"""The canonical form of arguments: what becomes what, what is refused, and when two values are equal."""

import base64
import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.canonical import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_SIZE,
    FlawedObject,
    canonical,
    canonical_text,
    digest,
    equal,
    is_marked,
    key_text,
    parse_json,
)
from gatescore.errors import ArgumentsError


def of(value: object) -> Any:
    """The canonical form of one argument."""
    return canonical({"x": value})["x"]


def refusal(arguments: object) -> str:
    with pytest.raises(ArgumentsError) as caught:
        canonical(arguments)
    return str(caught.value)


def ids(values: list[Any]) -> list[str]:
    return [f"{number}-{str(value)[:30]}" for number, value in enumerate(values)]


# --- what becomes what ---------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)
    NESTED = {"a": Decimal(1)}  # noqa: RUF012 - a value like any other


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Flags(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: Any


@dataclasses.dataclass
class Order:
    number: str
    lines: list[Any]
    total: Decimal = Decimal("9.5")


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    at: datetime.date


class Refund(pydantic.BaseModel):
    order: str
    amount: Decimal
    due: datetime.date | None = None
    shop: uuid.UUID = uuid.UUID(int=1)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Float(float):
    pass


NOON = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.UTC)

CONVERSIONS: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (0, 0),
    (-7, -7),
    (10**3_999, 10**3_999),
    (2**53 + 1, 2**53 + 1),
    (1.0, 1.0),
    (-0.0, -0.0),
    (1e308, 1e308),
    ("", ""),
    ("grün 😀", "grün 😀"),
    ("\ud800", "\ud800"),
    ("\0", "\0"),
    ([], []),
    ({}, {}),
    ([1, [2, [3]]], [1, [2, [3]]]),
    ({"a": {"b": []}}, {"a": {"b": []}}),
    # numbers
    (Decimal(100), 100),
    (Decimal("100.00"), 100),
    (Decimal("1e3"), 1_000),
    (Decimal("0.5"), 0.5),
    (Decimal("-0"), 0),
    (Decimal("1e-400"), 0.0),
    (Decimal(10**30), 10**30),
    (Fraction(1, 2), 0.5),
    (Number(7), 7),
    (Float(7.5), 7.5),
    # members of enumerations
    (Colour.RED, "red"),
    (Colour.PAIR, [1, 2]),
    (Colour.NESTED, {"a": 1}),
    (Level.HIGH, 3),
    (Word.YES, "yes"),
    (Flags.A | Flags.B, 3),
    # texts
    (Text("a"), "a"),
    (PurePosixPath("/srv/a"), "/srv/a"),
    (PureWindowsPath("C:\\a"), "C:\\a"),
    (Path("a") / "b", str(Path("a") / "b")),
    (uuid.UUID(int=10), "00000000-0000-0000-0000-00000000000a"),
    (NOON, "2026-11-30T12:00:00+00:00"),
    (NOON.replace(tzinfo=None, microsecond=5), "2026-11-30T12:00:00.000005"),
    (NOON.date(), "2026-11-30"),
    (datetime.time(1, 30), "01:30:00"),
    (b"\xff\x00", "/wA="),
    (b"", ""),
    (bytearray(b"ab"), "YWI="),
    (memoryview(b"abcd")[::2], base64.b64encode(b"ac").decode()),
    # arrays
    ((), []),
    ((1, (2,)), [1, [2]]),
    (Point(1, (2,)), [1, [2]]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    ({1, "a", None, (2, 1)}, ["a", 1, [2, 1], None]),
    ({"a": 1, "b": 2}.keys(), ["a", "b"]),
    (set(), []),
    # objects
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (defaultdict(int, a=1), {"a": 1}),
    (MappingProxyType({"a": (1,)}), {"a": [1]}),
    (UserDict(a={1}), {"a": [1]}),
    ({1: "a", -2: "b"}, {"1": "a", "-2": "b"}),
    ({Word.YES: 1, Level.HIGH: 2, Text("t"): 3}, {"yes": 1, "3": 2, "t": 3}),
    (Order("814", [Point(1, 2)]), {"number": "814", "lines": [[1, 2]], "total": 9.5}),
    (Frozen(NOON.date()), {"at": "2026-11-30"}),
    (
        Refund(order="814", amount=Decimal(5)),
        {"order": "814", "amount": 5, "due": None, "shop": "00000000-0000-0000-0000-000000000001"},
    ),
]


@pytest.mark.parametrize(("value", "plain"), CONVERSIONS, ids=ids(CONVERSIONS))
def test_a_value_becomes_the_plain_value_that_it_stands_for(value: Any, plain: Any):
    """Wherever it stands: alone, in an array, in an object."""
    assert (plain, [plain], {"a": plain}) == (of(value), of([value]), of({"a": value}))
    assert type(plain) is type(of(value))


@pytest.mark.parametrize(("value", "plain"), CONVERSIONS, ids=ids(CONVERSIONS))
def test_a_canonical_value_is_its_own_canonical_form(value: Any, plain: Any):
    """And survives being written and read again, as a record does."""
    once = canonical({"x": value})

    assert once == canonical(once) == canonical(canonical_text(once))
    assert not is_marked(once)


MARKED: list[tuple[Any, str]] = [
    (object(), "object"),
    (1j, "complex"),
    (range(3), "range"),
    (iter([1]), "list_iterator"),
    (canonical, "function"),
    (int, "type"),
    (Order, "type"),
    (Refund, "ModelMetaclass"),
    (SimpleNamespace(a=1), "SimpleNamespace"),
    (NotImplemented, "NotImplementedType"),
    (datetime.timedelta(days=1), "timedelta"),
    ({True: 1}, "dict"),
    ({None: 1}, "dict"),
    ({1.5: 1}, "dict"),
    ({(1, 2): 1}, "dict"),
    ({b"a": 1}, "dict"),
    (UserDict({None: 1}), "UserDict"),
]


@pytest.mark.parametrize(("value", "name"), MARKED, ids=ids(MARKED))
def test_what_json_cannot_hold_becomes_a_marker_with_the_name_of_its_type(value: Any, name: str):
    """Every condition on it is indeterminate; what stands beside it can still be judged."""
    arguments = canonical({"x": [1, value], "y": 2})

    assert {"x": [1, {"$python": name}], "y": 2} == arguments
    assert [True, True, False] == [is_marked(item) for item in (arguments, arguments["x"], arguments["y"])]


def test_a_recorded_object_with_the_key_of_a_marker_is_one():
    """Nobody can tell it from a marker, and no condition may grant on it."""
    assert is_marked(canonical('{"x": {"$python": "object"}}'))


# --- whole arguments -----------------------------------------------------------------------------


NOTHING: list[object] = [None, "", " \n", "null", " null ", {}, "{}", b"{}", b"null", UserDict()]


@pytest.mark.parametrize("nothing", NOTHING, ids=ids(NOTHING))
def test_no_arguments_are_an_empty_object(nothing: object):
    """Absent, null and an empty text: providers write all three for a call without arguments."""
    assert {} == canonical(nothing)


@pytest.mark.parametrize(
    "arguments",
    ['{"a": [1, 2.5, "x"]}', b'{"a": [1, 2.5, "x"]}', {"a": (1, 2.5, "x")}, UserDict(a=[1, 2.5, "x"])],
    ids=["text", "bytes", "object", "mapping"],
)
def test_arguments_are_an_object_or_the_text_of_one(arguments: object):
    """The text is parsed once: a text inside of it stays a text."""
    assert {"a": [1, 2.5, "x"]} == canonical(arguments)
    assert {"a": '{"b": 1}'} == canonical({"a": '{"b": 1}'})


@pytest.mark.parametrize(
    "model", [Order("1", []), Refund(order="1", amount=Decimal(1))], ids=["fields", "model"]
)
def test_an_object_with_fields_can_be_all_the_arguments(model: object):
    """Some tools take one model."""
    assert "1" in canonical(model).values()


def test_the_canonical_form_shares_nothing_with_its_source():
    """It is a snapshot."""
    inner: list[Any] = [1]
    arguments = {"x": inner}
    taken = canonical(arguments)
    inner.append(2)
    arguments["y"] = inner

    assert {"x": [1]} == taken


NOT_OBJECTS: list[tuple[Any, str]] = [
    ([], "arguments are not an object but an array"),
    ((1,), "arguments are not an object but an array"),
    ({1}, "arguments are not an object but an array"),
    (5, "arguments are not an object but a number"),
    (1.5, "arguments are not an object but a number"),
    (True, "arguments are not an object but a truth value"),
    (object(), "arguments are not an object but a `object`"),
    (Decimal(1), "arguments are not an object but a `Decimal`"),
    ("[1]", "arguments are not an object but an array"),
    ('"text"', "arguments are not an object but a text"),
    ("5", "arguments are not an object but a number"),
    ("true", "arguments are not an object but a truth value"),
]


@pytest.mark.parametrize(("arguments", "message"), NOT_OBJECTS, ids=ids(NOT_OBJECTS))
def test_what_is_no_object_is_refused(arguments: object, message: str):
    """Positions and single values have no names that a rule could speak of."""
    assert message == refusal(arguments)


@pytest.mark.parametrize(
    "text",
    ["{", "}", '{"a": 1}}', '{"a": 1} {"b": 2}', '{"a": 1,}', "{'a': 1}", "{a: 1}", '{"a": 01}', '{"a": 1 // x\n}', "x", '{"a": "\n"}', b"\xff", b'{"a": "\xff"}'],
)  # fmt: skip
def test_text_that_is_not_json_is_refused(text: str | bytes):
    """So is JSON with something behind it: another reader might take the rest."""
    assert refusal(text).startswith("arguments are not JSON: ")


FINITE = "a number in the arguments is not finite (NaN, an infinity or an overflow)"
DIGITS = f"a number in the arguments has more than {MAX_DIGITS:,} digits"
DEPTH = f"arguments are nested deeper than {MAX_DEPTH} levels, or hold themselves"
SIZE = f"arguments are larger than {MAX_SIZE:,}"
HALF = "a key of the arguments holds a lone surrogate"


def nested(levels: int) -> Any:
    """Arguments with so many levels of objects and arrays, themselves included."""
    value: Any = []
    for _ in range(levels - 2):
        value = [value]
    return {"x": value}


def itself() -> Any:
    value: dict[str, Any] = {}
    value["x"] = [value]
    return value


REFUSED: list[tuple[Any, str]] = [
    ({"x": math.nan}, FINITE),
    ({"x": [{"y": math.inf}]}, FINITE),
    ({"x": -math.inf}, FINITE),
    ({"x": Float(math.nan)}, FINITE),
    ({"x": Decimal("NaN")}, FINITE),
    ({"x": Decimal("sNaN")}, FINITE),
    ({"x": Decimal("-Infinity")}, FINITE),
    ('{"x": NaN}', FINITE),
    ('{"x": -Infinity}', FINITE),
    ('{"x": 1e999}', FINITE),
    ('{"x": -1e999}', FINITE),
    ({"x": 10**MAX_DIGITS}, DIGITS),
    ({"x": -(10**MAX_DIGITS)}, DIGITS),
    ({"x": Number(10**MAX_DIGITS)}, DIGITS),
    ({10**MAX_DIGITS: 1}, DIGITS),
    ({"x": Decimal("1e4000")}, DIGITS),
    ({"x": Decimal("1e999999999")}, DIGITS),
    ('{"x": 1, "x": 1}', "key `x` stands twice in one object"),
    ('{"y": [{"x": 1, "z": 2, "x": 3}]}', "key `x` stands twice in one object"),
    ('{"x": 1, "\\u0078": 2}', "key `x` stands twice in one object"),
    ({1: "a", "1": "b"}, "key `1` stands twice in the arguments"),
    ({Word.YES: 1, Text("no"): 2, Colour.RED: 3, "red": 4}, "key `red` stands twice in the arguments"),
    (nested(MAX_DEPTH + 1), DEPTH),
    (json.dumps(nested(MAX_DEPTH + 1)), DEPTH),
    (itself(), DEPTH),
    ({"x": "a" * MAX_SIZE}, SIZE),
    ({"a" * MAX_SIZE: 1}, SIZE),
    ({"x": [0] * MAX_SIZE}, SIZE),
    ({"x": bytes(MAX_SIZE)}, SIZE),
    (" " * (2 * MAX_SIZE) + "{}", SIZE),
    ({"\ud800": 1}, HALF),
    ({"x": [{"a\udfff": 1}]}, HALF),
    ('{"\\udc00": 1}', HALF),
    ({Text("\ud800"): 1}, HALF),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=ids(REFUSED))
def test_what_no_policy_can_judge_is_refused_with_the_reason(arguments: object, message: str):
    """The call is invalid then, and on the record."""
    assert message == refusal(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        nested(MAX_DEPTH),
        json.dumps(nested(MAX_DEPTH)),
        {"x": 10**MAX_DIGITS - 1},
        {"x": 1 - 10**MAX_DIGITS},
        '{"x": ' + "9" * MAX_DIGITS + "}",
        '{"x": -' + "9" * MAX_DIGITS + "}",
        {"x": Decimal("9e3999")},
        {"x": "a" * (MAX_SIZE - 3)},
        {"x": [0] * (MAX_SIZE - 3)},
        {"": 1},
        {"\U0001f600": 1},
        '{"\\ud83d\\ude00": 1}',
    ],
    ids=[
        "64 levels",
        "64 levels, as text",
        "4,000 digits",
        "4,000 digits below zero",
        "4,000 digits, as text",
        "4,000 digits below zero, as text",
        "a decimal of 4,000 digits",
        "a long text",
        "a long list",
        "an empty key",
        "a key of one wide character",
        "a key of one wide character, as text",
    ],
)
def test_what_just_fits_is_taken(arguments: object):
    """Each limit is where its constant says."""
    assert canonical(arguments)


@pytest.mark.parametrize("text", ["\ud83d\ude00", "a\ud83d\ude00b", "\ud83d\ud83d\ude00\ude00"])
def test_two_halves_side_by_side_are_the_character_that_their_text_is(text: str):
    """Or two values would have one text and one digest, and not be equal."""
    [inside, *_] = [canonical({"x": value})["x"] for value in (text, [text], {"y": text})]
    assert "\N{GRINNING FACE}" in str(inside)
    for value in (text, [text], {"y": text}):
        found = canonical({"x": value})
        assert found == json.loads(canonical_text(found))
    assert canonical({"x": "\ud83d"}) == {"x": "\ud83d"}


def test_a_whole_pair_of_surrogates_is_one_character():
    """As a key in JSON text it is no lone surrogate."""
    assert ["😀"] == list(canonical('{"\\ud83d\\ude00": 1}'))


# --- parsing -------------------------------------------------------------------------------------


def test_an_object_with_a_key_twice_is_parsed_and_remembered():
    """So that the calls beside it can be read, and nobody takes the last value for the only one."""
    flawed = parse_json('{"a": {"x": 1, "x": 2}, "b": 3}')["a"]

    assert isinstance(flawed, FlawedObject)
    assert "key `x` stands twice in one object" == flawed.flaw
    assert {"x": 2} == flawed


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_text_of_any_depth_is_parsed_and_cut_below_every_limit(text: str):
    """So that `canonical` still refuses it, and what stands beside it can be read."""
    assert DEPTH == refusal({"x": parse_json(text)})
    assert [1, 2] == [parse_json(f'{{"a": {text}, "b": 2, "c": 1}}')[key] for key in "cb"]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "]" * 100_000, '["' * 100_000, "[" * 100_000 + '"', "[" * 100_000 + '"\\']
)
def test_deep_text_that_is_not_json_is_refused(text: str):
    """Cutting it must not make it good."""
    with pytest.raises(ValueError, match="line 1 column"):
        parse_json(text)


def test_brackets_inside_of_texts_do_not_nest():
    """Where deep text is cut, a text is one piece."""
    deep = "[" * 9_000 + '"]]\\"]]"' + "]" * 9_000

    assert [7] == parse_json(f"[[{deep}], [7]]")[1]


# --- equality, keys and digests ------------------------------------------------------------------

SAME: list[tuple[Any, Any]] = [
    (1, 1.0),
    (0, -0.0),
    (0.0, -0.0),
    (10**20, 1e20),
    (2**53, float(2**53)),
    ([1, {"a": 2}], [1.0, {"a": 2.0}]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ("\ud800", "\ud800"),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (0, False),
    (1.0, True),
    (1, "1"),
    (None, False),
    (None, 0),
    (None, ""),
    (None, "null"),
    ([], {}),
    ([], None),
    ([1], 1),
    ([1], [True]),
    ([1, 2], [2, 1]),
    ([1], [1, 1]),
    ([1], [1, None]),
    ({"a": None}, {}),
    ({"a": 1}, {"a": True}),
    ({"a": [{"b": 0}]}, {"a": [{"b": False}]}),
    ({"a": 1}, {"A": 1}),
    (2**53 + 1, float(2**53)),
    (0.1 + 0.2, 0.3),
    ("a", "A"),
    ("é", "e\u0301"),
    ("1", "1.0"),
]


@pytest.mark.parametrize(("left", "right"), SAME, ids=ids(SAME))
def test_equal_json_values_are_equal_have_one_key_and_one_digest(left: Any, right: Any):
    """1 is 1.0, and an object has no order."""
    assert equal(left, right)
    assert equal(right, left)
    assert (key_text(left), digest(left)) == (key_text(right), digest(right))


@pytest.mark.parametrize(("left", "right"), DIFFERENT, ids=ids(DIFFERENT))
def test_other_json_values_are_not_equal_and_have_other_keys_and_digests(left: Any, right: Any):
    """True is not 1, missing is not null, and a text is not the number in it."""
    assert not equal(left, right)
    assert not equal(right, left)
    assert key_text(left) != key_text(right)
    assert digest(left) != digest(right)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, 1e20, 1e300, float(2**53)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "1", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(VALUES, VALUES)
def test_two_values_are_equal_exactly_if_their_keys_are(left: Any, right: Any):
    """A budget by key and a comparison of values must never disagree."""
    assert equal(left, right) == (key_text(left) == key_text(right)) == (digest(left) == digest(right))
    assert equal(left, left)


def test_the_canonical_text_is_ascii_sorted_exact_and_without_blanks():
    """It goes into records and digests: one value, one text."""
    value = {"b": [1, 2.5, None, True], "a": "é\n", "ä": 2**70, "\U0001f600": "\ud800"}

    assert (
        r'{"a":"\u00e9\n","b":[1,2.5,null,true],"\u00e4":1180591620717411303424,"\ud83d\ude00":"\ud800"}'
        == canonical_text(value)  # type: ignore[arg-type]
    )


def test_the_digest_is_sha_256_of_the_key_text():
    """Anybody can compute it."""
    assert "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" == digest({})
    assert digest({"a": 1}) == digest({"a": 1.0}) != digest({"a": "1"})


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), VALUES, max_size=3))
def test_the_text_of_canonical_arguments_reads_as_the_same_arguments(arguments: Mapping[str, Any]):
    """Nothing is lost in a record."""
    taken = canonical(arguments)

    assert equal(taken, canonical(canonical_text(taken)))
    assert taken == arguments


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_keys_changes_no_digest(keys: list[str]):
    """At any depth."""
    value: Any = {key: dict.fromkeys(keys, 1) for key in keys}

    assert digest({key: dict.fromkeys("abcd", 1) for key in "abcd"}) == digest(value)


@given(st.sets(st.integers() | st.text(max_size=3), max_size=6))
def test_a_set_has_one_canonical_form_whatever_its_order(items: set[Any]):
    """Python's own order of a set changes from run to run."""
    forwards, backwards = dict.fromkeys(items), dict.fromkeys(reversed(list(items)))

    assert of(items) == of(frozenset(items)) == of(forwards.keys()) == of(backwards.keys())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_the_text_is_that_of_the_standard_library(value):
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    assert expected == canonical_text(value)


@given(VALUES)
def test_equal_values_have_equal_keys(value):
    """Read back, whole numbers are integers, and everything else is what it was."""
    assert equal(json.loads(key_text(value)), value)
    assert key_text(json.loads(key_text(value))) == key_text(value)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}])
def test_a_number_that_is_not_finite_has_no_text(value):
    with pytest.raises(ValueError, match="not finite"):
        canonical_text(value)


@pytest.mark.parametrize("value", [b"x", {"a": object()}, [()]])
def test_what_is_not_canonical_has_no_text(value):
    with pytest.raises(TypeError, match="no canonical value"):
        canonical_text(value)
