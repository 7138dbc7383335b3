"""A policy's text as plain data with places: what is read, what is refused, and where that is said."""

import json
import os
from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gatescore.errors import PolicyError
from gatescore.policy.document import Document, decode, from_data, parse_json, parse_yaml, read_document
from gatescore.policy.places import MAX_COPIES, MAX_DEPTH

Parse = Callable[[str, str | None], Document]


@pytest.fixture(params=["libyaml", "python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Both parsers of PyYAML: which one is there depends on how it was installed."""
    if request.param == "libyaml" and not yaml.__with_libyaml__:
        pytest.skip("this PyYAML has no libyaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", request.param == "libyaml")


either_parser = pytest.mark.usefixtures("_parser")


def fault(text: str, parse: Parse = parse_yaml) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse(text, "policy")
    assert "policy" == caught.value.source
    return caught.value


def told(text: str, parse: Parse = parse_yaml) -> str:
    return str(fault(text, parse))


# --- what YAML means -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["no", "No", "on", "off", "y", "yes", "1:30", "1_000", "2026-11-30", "1.2.3", "0b11", "=", "<<"]
)
def test_what_only_yaml_1_1_took_for_something_else_stays_text(text: str):
    """Norway among them: `no` is a country."""
    assert [text] == parse_yaml(f"- {text}").data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("nULL", "nULL"),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("0814", 814),
        ("0o17", 15),
        ("0x1f", 31),
        ("-0x1f", "-0x1f"),
        ("0o8", "0o8"),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e3", -1500.0),
        ("1e3", 1000.0),
        (".", "."),
        ("1e", "1e"),
        ("٣", "٣"),
    ],
)
def test_plain_values_have_the_types_of_the_core_schema(text: str, value: object):
    read = parse_yaml(f"key: {text}").data

    assert {"key": value} == read
    assert isinstance(read, dict)
    assert type(value) is type(read["key"])


@pytest.mark.parametrize("text", ["'1'", '"true"', "! 'null'", "|-\n 1", ">-\n 1"])
def test_quotes_and_blocks_are_always_text(text: str):
    data = parse_yaml(f"key: {text}\n").data

    assert isinstance(data, dict)
    assert isinstance(data["key"], str)


@either_parser
def test_anchors_and_aliases_are_read():
    data = parse_yaml("first: &names [a, b]\nsecond: *names\n&key third: 1\nfourth: {*key : 2}\n").data

    assert {"first": ["a", "b"], "second": ["a", "b"], "third": 1, "fourth": {"third": 2}} == data


@either_parser
@pytest.mark.parametrize("start", ["\ufeff", "%YAML 1.2\n---\n", "---\n", "# a comment\n"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n...\n"])
def test_what_surrounds_a_document_does_not_matter(start: str, end: str):
    assert {"allow": ["a"]} == parse_yaml(f"{start}allow: [a]{end}").data


def test_a_value_that_is_no_mapping_is_data_all_the_same():
    assert ([1, "two"], "text") == (parse_json('[1, "two"]').data, parse_yaml("text").data)


# --- what is refused -----------------------------------------------------------------------------

EMPTY = "the policy is empty: write `allowed_tools: []` to allow nothing"
NOT_FINITE = "not a finite number: leave out the bound, or put text in quotes"
NO_CONTAINER = "a key is text, never a list or mapping: put it in quotes if text is meant"
TAG = "is not read: leave it out, or put text that begins with `!` in quotes"
TOO_DEEP = "lists and mappings nest more than 64 deep: write it flatter"
TOO_LONG = "a whole number of this length cannot be read: write text, in quotes"
HALF = "half of a surrogate pair is not a character: write the whole one"
TWICE = "already on line 1: keep one of the two"


@either_parser
@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1:1", EMPTY),
        ("# only a comment\n", "1:1", EMPTY),
        ("---\n", "2:1", EMPTY),
        ("a: 1\n---\nb: 2\n", "2:1", "a second document begins here: put it into a file of its own"),
        ("<<: {a: 1}\n", "1:1", "merge keys are not read: write the keys out"),
        ("a: !!str 1\n", "1:4", f"the tag `!!str` {TAG}"),
        ("a: !!python/name:os.system ''\n", "1:4", f"the tag `!!python/name:os.system` {TAG}"),
        ("a: ! [1]", "1:4", f"the tag `!` {TAG}"),
        ("1: a\n", "1:1", "the key `1` is a number, and a key is text: put it in quotes"),
        ("a: {true: 1}", "1:5", "the key `true` is a truth value, and a key is text: put it in quotes"),
        ("~: 1", "1:1", "the key `~` is null, and a key is text: put it in quotes"),
        ("a: {{ limit }}", "1:5", NO_CONTAINER),
        ("? [a]\n: b", "1:3", NO_CONTAINER),
        ("a: &x [1]\n*x : 2", "2:1", "a key is text, never a list or mapping, as `*x` is"),
        ("a: &x {b: [*x]}\n", "1:12", "`*x` contains itself: write out what it stands for"),
        ("maximum: .inf", "1:10", NOT_FINITE),
        ("maximum: -.INF", "1:10", NOT_FINITE),
        ("maximum: .nan", "1:10", NOT_FINITE),
        ("maximum: 1e999", "1:10", NOT_FINITE),
        ("a: \ud800", "1:4", HALF),
    ],
)
def test_yaml_that_a_policy_may_not_use_is_refused_with_place_and_remedy(text: str, place: str, message: str):
    assert f"policy:{place}: {message}" == told(text)


def test_a_pattern_that_reads_as_an_alias_is_explained():
    assert told("allow: *_order\n") == (
        "policy:1:8: `*_order` stands for an anchor `&_order`, and none comes before it: "
        "put it in quotes if a name or pattern is meant"
    )


@either_parser
@pytest.mark.parametrize("char", ["\0", "\x07", "\x7f", "\x85", "\u2028", "\ufffe"])
def test_a_character_that_could_hide_a_rule_is_refused(char: str):
    """PyYAML ends a line, and with it a comment, at U+0085 and U+2028; an editor need not."""
    assert told(f"# é{char}allow: a").startswith(
        f"policy:1:4: U+{ord(char):04X} cannot stand in YAML: remove it"
    )


@either_parser
def test_a_missing_key_is_refused():
    assert 'a key is missing before `:`: an empty text is written `""`' in told("? \n: 1")


@either_parser
@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("allow: *\n", "1:8", "put a name or pattern that begins with `*` or `&` in quotes"),
        ("allow: [a, *.read]\n", "1:12", "put a name or pattern that begins with `*` or `&` in quotes"),
        ("rules:\n\t- a\n", "2:1", "indent with spaces, not with tabs"),
        ("reason: Refunds: ask\n", "1:16", "put text that holds `: ` in quotes"),
        ("allow: @tool\n", "1:8", "put text that begins with `@` in quotes"),
        ("a:\n  - [b,\n  c\nd: 1\n", "4:2", "that begins on line 2"),
        ("a: [1, 2", "1:9", "',' or ']'"),
        ("a: [1, 2\n", "2:1", "',' or ']'"),
    ],
)
def test_yaml_that_does_not_parse_is_refused_with_a_hint(text: str, place: str, hint: str):
    message = told(text)

    assert message.startswith(f"policy:{place}: not YAML: ")
    assert hint in message


@either_parser
def test_an_escape_beyond_unicode_is_refused():
    assert "not YAML: " in told('a: "\\U00110000"')


@either_parser
@pytest.mark.parametrize("text", ["[", "{a: ", "- "])
def test_nesting_without_end_is_refused_quickly(text: str):
    assert TOO_DEEP in told(text * 100_000)


@pytest.mark.parametrize("parse", [parse_yaml, parse_json])
def test_nesting_is_limited_to_the_level(parse: Parse):
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH

    assert deepest == json.dumps(parse(deepest, None).data)

    error = fault(f"[{deepest}]", parse)

    assert (1, MAX_DEPTH + 1) == (error.line, error.column)


def test_an_alias_counts_as_deep_as_what_it_stands_for():
    half = "[" * 40 + "]" * 40

    assert told(f"a: &a {half}\nb: {'[' * 30}*a{']' * 30}").startswith("policy:2:34: lists and mappings nest")


@either_parser
def test_a_bomb_of_aliases_is_refused():
    text = "a0: &a0 [x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))

    assert "aliases add more than 200,000 values: write fewer, or the values themselves" in told(text)


def test_only_aliases_are_limited_in_number():
    text = "[" + "1," * (MAX_COPIES + 1) + "]"

    assert MAX_COPIES + 1 == len(parse_yaml(text).data)  # type: ignore[arg-type]


@either_parser
def test_a_key_that_stands_twice_is_refused_with_both_places():
    error = fault("rules:\n- id: a\n  allow: b\n  id: c\n")

    assert "policy:4:3: duplicate key `id`, already on line 2: keep one of the two" == str(error)
    assert (("rules", 0, "id"), True) == (error.path, error.key)


def test_keys_are_the_same_where_their_text_is():
    assert f"policy:1:8: duplicate key `a`, {TWICE}" == told("{a: 1, 'a': 2}")


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 4_200])
def test_a_number_longer_than_python_reads_is_refused(number: str):
    assert f"policy:1:2: {TOO_LONG}" == told(f"[{number}]") == told(f"[{number}]", parse_json)
    assert f"policy:1:2: {TOO_LONG}" == told(f"[0x{'f' * 5_000}]")


def test_a_long_key_is_shown_short_and_on_one_line():
    key = '"\\n\\u200b' + "x" * 1_000 + '"'
    short = "`\\n\\u200b" + "x" * 57 + "…`"

    assert f"duplicate key {short}, {TWICE}" == fault(f"{{{key}: 1, {key}: 2}}", parse_json).message


# --- JSON ----------------------------------------------------------------------------------------


def test_json_is_read_with_its_escapes():
    data = parse_json('{"a": "\\ud83d\\ude00 \\u0041\\n", "b": [1, 1.0, -0.5e1, true, null, {}, []]}').data

    assert {"a": "😀 A\n", "b": [1, 1.0, -5.0, True, None, {}, []]} == data


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1:1", EMPTY),
        (" \n", "2:1", EMPTY),
        ("null", "1:1", EMPTY),
        ('{"a": NaN}', "1:7", NOT_FINITE),
        ('{"a": -Infinity}', "1:7", NOT_FINITE),
        ("[1e999]", "1:2", NOT_FINITE),
        ('["\\ud83d"]', "1:2", HALF),
        ('{"a": 1,\r\n "\\u0061": 2}', "2:2", f"duplicate key `a`, {TWICE}"),
        ("[" * 100_000, f"1:{MAX_DEPTH + 1}", TOO_DEEP),
    ],
)
def test_json_that_a_policy_may_not_use_is_refused_with_place_and_remedy(text: str, place: str, message: str):
    assert f"policy:{place}: {message}" == told(text, parse_json)


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("{'a': 1}", 1, "put text in double quotes"),
        ('{"a": 1,\n}', None, "there is a comma too many"),
        ('["a",,"b"]', 1, "there is a comma too many"),
        ("// why\n{}", 1, "JSON has no comments, YAML has"),
        ('["a\tb"]', 1, "not JSON: invalid control character"),
        ('["\0"]', 1, "not JSON: invalid control character"),
        ("[1]\n[2]", 2, "not JSON: extra data"),
        ('["a', 1, "not JSON: unterminated string"),
    ],
)
def test_json_that_does_not_parse_is_refused_with_a_hint(text: str, line: int | None, hint: str):
    error = fault(text, parse_json)

    assert hint in error.message
    assert line is None or line == error.line  # where a comma too many is found depends on the Python


def test_json_for_which_the_stack_has_no_room_left_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Whoever calls from deep inside a program gets an error about the policy, not a crash."""

    def loads(*args: object, **options: object):
        raise RecursionError

    monkeypatch.setattr(json, "loads", loads)

    assert f"policy:1:1: {TOO_DEEP}" == told("[[1]]", parse_json)


# --- places --------------------------------------------------------------------------------------

TEXT = """\
# über
name: ünï
tools: {"é😀": {labels: [a, "b"]}}
rules:
  - id: read
    allow: &names [x, y]
  - id: twice
    deny: *names
    reason:
"""


@either_parser
@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("name",), (2, 7), (2, 1)),
        (("tools", "é😀"), (3, 15), (3, 9)),
        (("tools", "é😀", "labels"), (3, 24), (3, 16)),
        (("tools", "é😀", "labels", 1), (3, 28), (3, 28)),
        (("rules",), (5, 3), (4, 1)),
        (("rules", 1), (7, 5), (7, 5)),
        (("rules", 1, "deny"), (8, 11), (8, 5)),  # the alias itself
        (("rules", 1, "deny", 1), (6, 23), (6, 23)),  # inside: where it is written
        (("rules", 1, "reason"), (9, 12), (9, 5)),  # a value that was left out
        (("rules", 1, "allow"), (7, 5), (7, 5)),  # nothing there: its nearest ancestor
        (("rules", 7, "allow"), (5, 3), (5, 3)),
        (("rules", "1"), (5, 3), (5, 3)),
        (("name", "x"), (2, 7), (2, 7)),
        (("absent",), (2, 1), (2, 1)),
        ((), (2, 1), (2, 1)),
    ],
)
def test_places_count_lines_and_characters_from_one(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
):
    document = parse_yaml(TEXT.replace("\n", "\r\n"), "p.yaml")

    assert (value, key) == (document.place(path), document.place(path, key=True))


def test_a_byte_order_mark_takes_no_column():
    assert (1, 1) == parse_yaml("\ufeffa: 1").place(("a",), key=True)
    assert (1, 2) == parse_json('\ufeff{"a": 1}').place(("a",), key=True)


def test_an_error_is_located_by_its_path():
    document = parse_yaml("rules:\n- {allow: x, arg: 1}\n", "p.yaml")
    error = PolicyError("no such key", path=("rules", 0, "arg"), key=True)

    assert error is document.locate(error)
    assert "p.yaml:2:14: no such key" == str(error)


def test_an_error_that_has_a_place_keeps_it():
    """A policy that another file extends knows its own places."""
    error = PolicyError("bad", path=("a",)).located("other.yaml", 7, 1)

    assert "other.yaml:7:1: bad" == str(parse_yaml("a: 1", "p.yaml").locate(error))


def test_a_policy_built_in_python_has_paths_and_no_places():
    document = from_data({"rules": []})

    assert document.place(("rules",)) is None
    assert "rules: bad" == str(document.locate(PolicyError("bad", path=("rules",))))


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"], exclude_characters="\ufffe\uffff")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def paths(value: object, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(path for step, item in steps for path in paths(item, (*above, step)))]


@given(VALUES.filter(lambda value: value is not None), st.sampled_from([None, 1]))
def test_json_reads_the_same_as_json_and_as_yaml_with_the_same_places(value: object, indent: int | None):
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    as_json, as_yaml = parse_json(text), parse_yaml(text)

    assert value == as_json.data == as_yaml.data
    for path in paths(value):
        place = as_json.place(path)
        assert place is not None
        assert place == as_yaml.place(path)
        assert as_json.place(path, key=True) == as_yaml.place(path, key=True)


@given(VALUES.filter(lambda value: value is not None))
def test_the_place_of_a_value_is_where_its_text_begins(value: object):
    text = json.dumps(value, ensure_ascii=False, indent=1)
    lines = text.split("\n")
    document = parse_json(text)
    for path in paths(value):
        line, column = document.place(path) or (0, 0)
        found = value
        for step in path:
            found = found[step]  # type: ignore[index]
        written = json.dumps(found, ensure_ascii=False, indent=1).split("\n")[0]
        assert lines[line - 1][column - 1 :].startswith(written)


@given(st.text() | st.text(st.sampled_from("[]{}&*!|>-?:,'\"# \n\ta0.\\u\ufeff\x85\u2028")))
def test_any_text_is_read_or_refused_with_a_place(text: str):
    for parse in (parse_yaml, parse_json):
        data, error = None, None
        try:
            data = parse(text, "policy").data
        except PolicyError as refused:
            error = refused
        if error is None:
            assert data == from_data(data).data
        else:
            assert None not in {error.line, error.column}
            assert "\n" not in str(error)


# --- files ---------------------------------------------------------------------------------------


def test_the_name_of_a_file_says_what_it_holds(tmp_path: Path):
    for name, text in {
        "p.yaml": "a: no",
        "p": "a: no",
        "p.json": '{"a": "no"}',
        "q.JSON": '{"a": "no"}',
    }.items():
        (tmp_path / name).write_text(text)
        document = read_document(tmp_path / name)

        assert ({"a": "no"}, str(tmp_path / name)) == (document.data, document.source)

    (tmp_path / "q.json").write_text("a: no")
    with pytest.raises(PolicyError, match="not JSON"):
        read_document(str(tmp_path / "q.json"))


@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
def test_a_byte_order_mark_is_accepted(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')

    assert {"a": "é"} == read_document(tmp_path / name).data


@pytest.mark.parametrize(
    ("raw", "line", "column"),
    [
        (b"caf\xe9: 1", 1, 4),
        (b"\xc3\xa9: 1\r\nb\xff", 2, 2),
        ("a: 1".encode("utf-16"), 1, 1),
        ("a: 1".encode("utf-16-le"), 1, 2),
        (b"a: 1\n\0", 2, 1),
        (b"\x89PNG\r\n\x1a\n\0", 1, 1),
        (b"\xed\xa0\x80", 1, 1),
    ],
)
def test_what_is_not_utf_8_text_is_refused_at_its_first_such_byte(raw: bytes, line: int, column: int):
    with pytest.raises(PolicyError) as caught:
        decode(raw, "p.yaml")

    assert f"p.yaml:{line}:{column}: not a text in UTF-8: save the policy as UTF-8" == str(caught.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent.yaml", "no such file or directory"), (".", "is a directory"), ("a\0b", "embedded null")],
)
def test_a_file_that_cannot_be_opened_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError) as caught:
        read_document(name)

    assert str(caught.value).startswith(f"{name}: the policy cannot be read: {reason}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read anything")
def test_a_file_without_permission_is_named_with_the_reason(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.touch(mode=0)
    with pytest.raises(PolicyError, match="the policy cannot be read: permission denied"):
        read_document(path)


# --- built in Python -----------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Word(str, Enum):  # noqa: UP042 - the older kind, which `str` does not turn into its text
    ALLOW = "allow"


class Effect(StrEnum):
    DENY = "deny"


class Number(IntEnum):
    ONE = 1


def test_data_is_copied_and_made_plain():
    rules = [{"id": Effect.DENY, Word.ALLOW: ("a", "b"), "n": [Number.ONE, True, 1.5, None]}]
    document = from_data({"rules": rules}, "here")
    rules.clear()

    assert {"rules": [{"id": "deny", "allow": ["a", "b"], "n": [1, True, 1.5, None]}]} == document.data
    assert '{"rules": [{"id": "deny", "allow": ["a", "b"], "n": [1, true, 1.5, null]}]}' == json.dumps(
        document.data
    )
    assert "here" == document.source


ENDLESS: list[object] = []
ENDLESS.append({"again": ENDLESS})


KINDS = "a policy is made of text, numbers, true, false, null, lists and mappings, and this is a"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, EMPTY),
        ({"a": [0, {1, 2}]}, f"a[1]: {KINDS} `set`"),
        ({"a": Colour.RED}, f"a: {KINDS} `Colour`"),
        ({"a": {3: 1}}, "a: the key `3` is not text: write it in quotes"),
        ({"a": float("nan")}, f"a: {NOT_FINITE}"),
        ({"a": 10**5_000}, f"a: {TOO_LONG}"),
        ({"a": ["\ud800"]}, f"a[0]: {HALF}"),
        ({"a": {"x\udfff": 1}}, HALF),
        ([ENDLESS], TOO_DEEP),
        ({"a": float("inf"), "b": {1, 2}}, f"a: {NOT_FINITE}"),
    ],
)
def test_data_that_is_not_plain_is_refused_with_its_path(data: object, message: str):
    with pytest.raises(PolicyError) as caught:
        from_data(data)

    assert message in str(caught.value)
    assert caught.value.line is None


def test_the_order_of_a_mapping_is_kept():
    order = ["b", "a", "c"]

    assert order == list(cast("dict[str, int]", from_data(dict.fromkeys(order, 1)).data))
    assert order == list(cast("dict[str, int]", parse_yaml("{b: 1, a: 1, c: 1}").data))
