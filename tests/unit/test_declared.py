"""The schemas that tools declare: what is refused at load, and which argument does not fit."""

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.canonical import Json
from gatescore.errors import Path, PolicyError
from gatescore.policy.declared import ArgumentSchemas

PATH = ("tools", "cancel_order", "schema")

PROPERTIES: dict[str, object] = {
    "order_id": {"type": "string", "pattern": "^[0-9]+$"},
    "amount": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
    "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
    "anything": True,
    "nothing": False,
}
SCHEMA: dict[str, object] = {
    "type": "object",
    "title": "CancelOrder",
    "properties": PROPERTIES,
    "required": ["order_id"],
    "additionalProperties": False,
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"$ref": "#/properties/order_id"}, "parts": {"$ref": "#/properties/lines"}},
            "required": ["sku"],
        },
    },
}


def compiled(schema: object = SCHEMA) -> ArgumentSchemas:
    return ArgumentSchemas.compile(schema, PATH)


def refusal(schema: object) -> tuple[Path, str]:
    with pytest.raises(PolicyError) as caught:
        compiled(schema)
    assert PATH == caught.value.path[:3]
    assert "\n" not in caught.value.message
    return caught.value.path[3:], caught.value.message


@pytest.mark.parametrize(
    ("arguments", "unfit"),
    [
        ({}, None),
        ({"order_id": "814"}, None),
        ({"order_id": 814}, "order_id"),
        ({"order_id": "x"}, "order_id"),
        ({"order_id": None}, "order_id"),
        ({"amount": None}, None),
        ({"amount": 5}, None),
        ({"amount": 0}, "amount"),
        ({"amount": True}, "amount"),
        ({"amount": "5"}, "amount"),
        ({"lines": [{"sku": "1", "parts": [{"sku": "2"}]}]}, None),
        ({"lines": [{"sku": "1", "parts": [{"sku": 2}]}]}, "lines"),
        ({"lines": [{}]}, "lines"),
        ({"lines": {}}, "lines"),
        ({"anything": [None]}, None),
        ({"nothing": None}, "nothing"),
        ({"unheard_of": object}, None),
        ({"nothing": 1, "lines": 1, "amount": "x", "order_id": 1}, "order_id"),
    ],
)
def test_the_first_argument_that_does_not_fit_is_named(arguments: dict[str, Json], unfit: str | None):
    assert unfit == compiled().unfit(arguments, None)


def test_only_the_arguments_asked_for_matter():
    schemas = compiled()
    arguments: dict[str, Json] = {"order_id": 1, "amount": "x", "lines": []}

    assert None is schemas.unfit(arguments, frozenset())
    assert None is schemas.unfit(arguments, frozenset({"lines", "missing", "unheard_of"}))
    assert "amount" == schemas.unfit(arguments, frozenset({"amount", "lines"}))
    assert "order_id" == schemas.unfit(arguments, None)


def test_what_a_tool_requires_or_forbids_beside_its_properties_is_not_judged():
    """A missing argument is an error of the expression that reads it; another is none of its business."""
    assert None is compiled().unfit({"unheard_of": 1}, None)


def test_the_names_that_have_a_schema_are_known():
    assert frozenset(PROPERTIES) == compiled().names


@pytest.mark.parametrize("schema", [{"type": "object"}, {"properties": {}}, {"required": ["a"]}], ids=str)
def test_a_schema_may_say_nothing_of_arguments(schema: object):
    schemas = compiled(schema)

    assert frozenset() == schemas.names
    assert None is schemas.unfit({"a": 1}, None)


@pytest.mark.parametrize(
    "name", ["", "a/b", "~", "~1", "%25", "a b", "é", "$ref", "const", "properties", "#", "'"]
)
def test_an_argument_may_have_any_name(name: str):
    schemas = compiled(
        {"properties": {name: {"$ref": "#/$defs/text"}}, "$defs": {"text": {"type": "string"}}}
    )

    assert None is schemas.unfit({name: "x"}, None)
    assert name == schemas.unfit({name: 1}, None)


def test_an_integer_may_be_written_as_a_double_and_have_any_size():
    schemas = compiled({"properties": {"n": {"type": "integer"}}})

    assert None is schemas.unfit({"n": 1.0}, None)
    assert None is schemas.unfit({"n": 10**400}, None)
    assert "n" == schemas.unfit({"n": 1.5}, None)


def test_formats_are_not_checked():
    assert None is compiled({"properties": {"to": {"format": "email"}}}).unfit({"to": "nobody"}, None)


def test_a_text_that_is_no_text_does_not_fit():
    """Half of a surrogate pair; deeper within a value only what the schema speaks about is looked at."""
    schemas = compiled({"properties": {"x": {}, "y": {"items": {"pattern": "a"}}}})

    assert "x" == schemas.unfit({"y": ["a"], "x": "\ud800"}, None)
    assert "y" == schemas.unfit({"y": ["a", "\udfff"]}, None)


def test_a_schema_that_only_refers_to_itself_holds_of_everything():
    schemas = compiled(
        {"properties": {"x": {"$ref": "#/properties/y"}, "y": {"allOf": [{"$ref": "#/properties/x"}]}}}
    )

    assert None is schemas.unfit({"x": 1, "y": "z"}, None)


def test_the_root_may_be_referred_to():
    schemas = compiled({"properties": {"parent": {"$ref": "#"}, "n": {"type": "integer"}}})

    assert None is schemas.unfit({"parent": {"parent": {"n": 1}}}, None)
    assert "parent" == schemas.unfit({"parent": {"parent": {"n": "1"}}}, None)


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
    ],
)
def test_an_older_draft_is_read_as_it_names_itself(draft: str):
    """Common generators of tool schemas still write draft 7, where a list of `items` goes by position."""
    schemas = compiled({"$schema": draft, "properties": {"x": {"items": [{"type": "string"}]}}})

    assert None is schemas.unfit({"x": ["a", 1]}, None)
    assert "x" == schemas.unfit({"x": [1]}, None)


@pytest.mark.parametrize("schema", [None, [], "object", 5, True], ids=repr)
def test_a_declared_schema_is_a_mapping(schema: object):
    path, message = refusal(schema)

    assert () == path
    assert "a declared schema is a mapping" in message


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ({"properties": []}, ("properties",), "is not JSON Schema"),
        ({"properties": {"x": 5}}, ("properties", "x"), "is not JSON Schema"),
        ({"properties": {"x": {"type": "strng"}}}, ("properties", "x", "type"), "is not JSON Schema"),
        ({"properties": {"x": {"minimum": "1"}}}, ("properties", "x", "minimum"), "is not JSON Schema"),
        ({"properties": {"x": {"required": "y"}}}, ("properties", "x", "required"), "is not JSON Schema"),
        ({"properties": {"x": {"items": [{}]}}}, ("properties", "x", "items"), "is not JSON Schema"),
        ({"properties": {1: {}}}, ("properties",), 'write `"1"`'),
        ({"properties": {"x": {"const": float("nan")}}}, ("properties", "x", "const"), "not a finite number"),
        ({"properties": {"x": {"const": {1}}}}, ("properties", "x", "const"), "no JSON value"),
    ],
    ids=str,
)
def test_what_is_no_json_schema_is_refused_with_its_place(schema: object, path: Path, message: str):
    place, told = refusal(schema)

    assert path == place
    assert message in told


@pytest.mark.parametrize("reference", ["http://example.com/x", "other.json", "#anchor", "x#/y", ""])
def test_a_reference_may_not_leave_the_schema(reference: str):
    place, message = refusal({"properties": {"x": {"items": {"anyOf": [{"$ref": reference}]}}}})

    assert ("properties", "x", "items", "anyOf", 0, "$ref") == place
    assert f"`{reference}` does not point into this schema" in message


@pytest.mark.parametrize("reference", ["#/nope", "#/properties/x/0", "#/$defs/a/b", "#/$defs/list/7"])
def test_a_reference_may_not_point_to_nothing(reference: str):
    schema = {"properties": {"x": {"$ref": reference}}, "$defs": {"list": {"enum": [1]}}}

    assert (
        ("properties", "x", "$ref"),
        f"`{reference}` points to nothing in this schema: add it",
    ) == refusal(schema)


def test_a_reference_within_data_is_data():
    schema = {
        "properties": {"x": {"const": {"$ref": "http://example.com"}}, "$ref": {"default": {"$ref": "x"}}}
    }

    assert "x" == compiled(schema).unfit({"x": 1, "$ref": 1}, None)


@pytest.mark.parametrize("draft", ["http://example.com/schema", "2020-12", 5, None])
@pytest.mark.parametrize("place", [(), ("properties", "x")], ids=str)
def test_an_unknown_draft_is_refused_and_never_fetched(draft: object, place: tuple[str, ...]):
    part = {"$schema": draft}
    schema = {"properties": {"x": part}} if place else part

    assert (
        (*place, "$schema"),
        "unknown version of JSON Schema: leave `$schema` out for 2020-12",
    ) == refusal(schema)


@pytest.mark.parametrize("pattern", ["(a", "(?=a)b", r"(a)\1", "(a{1000}){1000}"])
def test_a_pattern_that_is_not_linear_is_refused_with_its_place(pattern: str):
    """Compiling part by part leaves such a part out without a word."""
    inner = {"properties": {"x": {"items": {"pattern": pattern}}, "y": {}}}
    place, message = refusal(inner)

    assert ("properties", "x", "items", "pattern") == place
    assert "a regular expression of the declared schema is none, or looks around or back" in message


def test_a_schema_that_nests_too_deep_is_refused():
    schema: dict[str, object] = {}
    for _ in range(100_000):
        schema = {"not": schema}
    _, message = refusal({"properties": {"x": schema}})

    assert "nests deeper than" in message


def test_the_schema_is_copied():
    schema = copy.deepcopy(SCHEMA)
    schemas = compiled(schema)
    schema["properties"] = {}

    assert "order_id" == schemas.unfit({"order_id": 1}, None)
    assert "properties" in schemas.schema
    assert SCHEMA == schemas.schema


def test_schemas_survive_copying_and_pickling():
    schemas = compiled()
    for other in (copy.copy(schemas), copy.deepcopy(schemas), pickle.loads(pickle.dumps(schemas))):  # noqa: S301
        assert schemas == other
        assert "order_id" == other.unfit({"order_id": 1}, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*PROPERTIES, "other"]), JSON))
def test_no_arguments_raise(arguments: dict[str, Json]):
    unfit = compiled().unfit(arguments, None)

    assert unfit is None or unfit in arguments


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "$ref", "items", "pattern", "$schema", "x"]), JSON)
)
def test_no_schema_does_more_than_be_refused(schema: dict[str, Json]):
    for declared in (schema, {"properties": {"x": schema}}):
        try:
            schemas = compiled(declared)
        except PolicyError:
            continue
        schemas.unfit({"x": 1}, None)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"propertes": {"x": {"type": "string"}}}, "unknown keyword `propertes`"),
        ({"properties": {"x": {"tpe": "string"}}}, "did you mean `type`?"),
        ({"properties": {"x": {"anyOf": [{"maxium": 1}]}}}, "did you mean `maximum`?"),
    ],
)
def test_a_misspelt_keyword_is_refused(schema: dict[str, object], message: str) -> None:
    """A validator passes over it, and a `when` would go on without the type it counts on."""
    with pytest.raises(PolicyError, match=re.escape(message)):
        ArgumentSchemas.compile(schema, ())


def test_names_of_arguments_are_no_keywords() -> None:
    schemas = ArgumentSchemas.compile({"properties": {"tpe": {"type": "string", "x-note": 1}}}, ())

    assert "tpe" == schemas.unfit({"tpe": 1}, None)


def test_an_empty_schema_is_refused() -> None:
    with pytest.raises(PolicyError, match="is empty"):
        ArgumentSchemas.compile({}, ())
