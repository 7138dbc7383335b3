"""Conditions on arguments by example: what is true, false and indeterminate, and what is refused at load."""

import copy
import enum
import pickle
import sys
import threading
import time
from typing import Any

import pytest

from gatescore.errors import PolicyError
from gatescore.policy.arguments import ArgumentsCondition, compile_arguments
from gatescore.policy.schema_check import check_schema
from gatescore.truth import FALSE, INDETERMINATE, TRUE, UNKNOWN

T, F, I = TRUE, FALSE, INDETERMINATE  # noqa: E741


def judge(args, arguments, *, allow=False, **options):
    return compile_arguments(args, restricting=not allow).judge(arguments, **options)


def anywhere(schema, arguments, *, allow=False, **options):
    return compile_arguments(None, schema, restricting=not allow).judge(arguments, **options)


# The rules, one by one: (schema, value, truth).
Case = tuple[Any, Any, int]

OTHER_TYPE: list[Case] = [
    ({"maximum": 100}, 5, T),
    ({"maximum": 100}, 5000, F),
    ({"maximum": 100}, "5000", I),
    ({"maximum": 100}, None, I),
    ({"maximum": 100}, True, I),
    ({"pattern": "^a"}, "abc", T),
    ({"pattern": "^a"}, ["abc"], I),
    ({"minItems": 1}, {"a": 1}, I),
    ({"required": ["a"]}, [], I),
    ({"minLength": 2}, "é", F),
    ({"multipleOf": 0.1}, 0.3, T),
    ({"multipleOf": 0.1}, 0.35, F),
    ({"exclusiveMinimum": 5}, 5.0, F),
    ({"maximum": 2**53}, 2**53 + 1, F),
]

ABSENT: list[Case] = [
    ({"properties": {"a": {"const": 1}}}, {"a": 1}, T),
    ({"properties": {"a": {"const": 1}}}, {}, I),
    ({"properties": {"a": True}}, {}, I),
    ({"properties": {"a": {"const": 1}}}, {"a": 2}, F),
    ({"properties": {"a": {"const": 1}, "b": {"const": 1}}}, {"b": 2}, F),
    ({"prefixItems": [{"const": 1}, {"const": 2}]}, [1, 2, 3], T),
    ({"prefixItems": [{"const": 1}, {"const": 2}]}, [1], I),
    ({"prefixItems": [{"const": 1}, {"const": 2}]}, [2], F),
    ({"prefixItems": [True], "items": {"const": 2}}, [1, 2, 2], T),
    ({"items": {"const": 2}}, [], T),
    ({"required": ["a"]}, {"b": 1}, F),
    ({"required": ["a"], "properties": {"a": {"const": 1}}}, {}, I),
    ({"required": ["a"], "allOf": [{"properties": {"a": {"const": 1}}}]}, {}, I),
    ({"required": ["a"], "not": {"properties": {"a": {"const": 1}}}}, {}, F),
    ({"additionalProperties": False, "properties": {"a": True}}, {"a": 1}, T),
    ({"additionalProperties": False, "properties": {"a": True}}, {"a": 1, "b": 1}, F),
    ({"additionalProperties": False, "patternProperties": {"^x": {"const": 1}}}, {"x1": 1}, T),
    ({"propertyNames": {"pattern": "^a"}}, {"a": 1, "b": 1}, F),
]

LISTED: list[Case] = [
    ({"const": 1}, 1.0, T),
    ({"const": 1}, True, I),
    ({"const": True}, 1, I),
    ({"const": "1"}, 1, I),
    ({"enum": ["a", "b"]}, "c", F),
    ({"enum": ["a", 1]}, 2, F),
    ({"enum": ["a", 1]}, None, I),
    ({"const": None}, None, T),
    ({"const": None}, "a", F),
    ({"enum": [None, "a"]}, 1, I),
    ({"const": [1, {"a": None}]}, [1.0, {"a": None}], T),
    ({"const": {"a": None}}, {}, F),
    ({"enum": [1], "const": True}, 1, I),
    ({"enum": [1], "const": True}, True, I),
    ({"const": 10**30}, 10**30 + 1, F),
]

TYPES: list[Case] = [
    ({"type": "string"}, "a", T),
    ({"type": "string"}, 1, F),
    ({"type": "string", "title": "a note"}, 1, F),
    ({"type": "string", "maxLength": 3}, 1, I),
    ({"type": "string", "maxLength": 3}, "long", F),
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, 1, I),
    ({"allOf": [{"type": "string"}]}, 1, F),
    ({"type": ["string", "null"]}, None, T),
    ({"type": "integer"}, 2.0, T),
    ({"type": "integer"}, 2.5, F),
    ({"type": "integer", "maximum": 9}, 2.5, I),
    ({"type": "number"}, True, F),
]

BRANCHES: list[Case] = [
    ({"anyOf": [{"const": 1}, {"const": 2}]}, 2, T),
    ({"anyOf": [{"maximum": 9}, {"pattern": "^a"}]}, 50, F),  # the branch about strings has no say
    ({"anyOf": [{"maximum": 9}, {"pattern": "^a"}]}, "b", F),
    ({"anyOf": [{"maximum": 9}, {"pattern": "^a"}]}, None, I),  # nobody is about null
    ({"anyOf": [{"type": "null"}, {"pattern": "^a"}]}, "b", F),
    ({"anyOf": [{"type": "null"}, {"pattern": "^a"}]}, ["b"], I),
    ({"anyOf": [{"const": None}, {"pattern": "^a"}]}, 5, I),
    ({"anyOf": [{"type": "integer"}, {"pattern": "^a"}]}, 2.5, F),
    ({"anyOf": [True, {"pattern": "^a"}]}, 5, T),
    ({"anyOf": [{"not": {"pattern": "^a"}}, {"maximum": 9}]}, 50, I),  # `not` is about all types
]

LOGIC: list[Case] = [
    ({"not": {"maximum": 9}}, 50, T),
    ({"not": {"maximum": 9}}, "50", I),
    ({"not": {}}, 1, F),
    ({"not": {"properties": {"a": {"const": 1}}}}, {}, I),
    ({"allOf": [{"maximum": 9}, {"minimum": 1}]}, 0, F),
    ({"maximum": 9, "pattern": "a"}, 50, F),  # one false part is enough
    ({"maximum": 9, "pattern": "a"}, 5, I),
    (True, None, T),
    ({}, None, T),
    (False, None, F),
]

ARRAYS: list[Case] = [
    ({"contains": {"const": 1}}, [1, "x"], T),
    ({"contains": {"const": 1}}, [2, "x"], I),
    ({"contains": {"const": 1}}, [2, 3], F),
    ({"contains": {"const": 1}}, [], F),
    ({"contains": {"const": 1}, "minContains": 2}, [1, "x"], I),
    ({"contains": {"const": 1}, "minContains": 0}, [], T),
    ({"contains": {"const": 1}, "maxContains": 1}, [1, 2], T),
    ({"contains": {"const": 1}, "maxContains": 1}, [1, "x"], I),
    ({"contains": {"const": 1}, "maxContains": 1}, [1, 1], F),
    ({"items": {"maximum": 9}}, [1, "x"], I),
    ({"items": {"maximum": 9}}, [50, "x"], F),
    ({"uniqueItems": True}, [1, True, "1"], T),
    ({"uniqueItems": True}, [1, 1.0], F),
    ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], F),
    ({"uniqueItems": False}, [1, 1], T),
]

PATTERNS: list[Case] = [
    ({"pattern": "^a$"}, "a\n", F),
    ({"pattern": r"^\d$"}, "\u0663", F),
    ({"pattern": r"^\w$"}, "é", F),
    ({"pattern": "^(a+)+$"}, "a" * 40 + "b", F),
]


@pytest.mark.parametrize(
    ("schema", "value", "truth"),
    OTHER_TYPE + ABSENT + LISTED + TYPES + BRANCHES + LOGIC + ARRAYS + PATTERNS,
)
def test_a_schema_is_true_false_or_indeterminate(schema, value, truth):
    assert truth == judge({"a": schema}, {"a": value})
    assert truth == judge({"a": schema}, {"a": value}, opaque=True)


@pytest.mark.parametrize(
    ("args", "arguments", "allow", "restrict"),
    [
        ({"a": True}, {"a": None}, T, T),
        ({"a": {}}, {"a": 1}, T, T),
        ({"a": {}}, {}, I, I),
        ({"a?": {"const": 1}}, {"a": 1}, T, T),
        ({"a?": {"const": 1}}, {"a": 2}, F, F),
        ({"a?": {"const": 1}}, {"a": "1"}, I, I),
        ({"a?": {"const": 1}}, {}, T, F),
        ({"a?": {"const": 1}}, {"a": None}, T, F),
        ({"a?": False}, {"a": 1}, F, F),
        ({"a": {"const": 1}, "b?": True}, {}, I, F),
        ({"a": {"const": 1}, "*": False}, {"a": 1}, T, T),
        ({"a": {"const": 1}, "*": False}, {"a": 1, "b": 1}, F, F),
        ({"a?": {"const": 1}, "*": False}, {"a": 1}, T, T),
        ({"*": {"maximum": 9}}, {}, T, T),
        ({"*": {"maximum": 9}}, {"a": 5, "b": 50}, F, F),
        ({"*": {"maximum": 9}}, {"a": "5"}, I, I),
        ({"a": {"const": 1}, "b": {"const": 1}}, {"b": 2}, F, F),
    ],
)
def test_arguments_are_named_optional_or_the_rest(args, arguments, allow, restrict):
    assert (allow, restrict) == (judge(args, arguments, allow=True), judge(args, arguments))


@pytest.mark.parametrize(
    ("schema", "arguments", "allow", "restrict"),
    [
        ({"pattern": "evil"}, {"to": "evil.example"}, F, T),
        ({"pattern": "evil"}, {"evil": 1}, T, T),  # keys are strings
        ({"pattern": "evil"}, {"a": [1, {"b": ["x", "evil"]}]}, F, T),
        ({"pattern": "evil"}, {"a": 1}, F, F),  # the number is passed over, the key is not
        ({"not": {"pattern": "evil"}}, {"a": [1, None, "x"]}, T, T),
        ({"not": {"pattern": "evil"}}, {"a": [1, "evil"]}, F, T),
        ({"anyOf": [{"pattern": "^[a-z]$"}, {"maximum": 9}]}, {"a": ["b", 5, True]}, T, T),
        ({"anyOf": [{"pattern": "^[a-z]$"}, {"maximum": 9}]}, {"a": ["b", 50]}, F, T),
        ({"maximum": 9}, {"a": 5}, T, T),
        ({"maximum": 9}, {"a": "5"}, T, F),  # nothing that it could judge
        ({"type": "string"}, {"a": 5}, F, T),  # alone it is a condition, and decides
        ({"type": "string", "pattern": "^a$"}, {"a": 5}, T, T),
        ({"const": None}, {"a": None}, F, T),
        (False, {}, T, F),
        (False, {"a": []}, F, F),
        ({"pattern": "x"}, {}, T, F),
    ],
)
def test_anywhere_is_every_leaf_and_key_in_an_allow_and_some_in_a_deny(schema, arguments, allow, restrict):
    assert (allow, restrict) == (anywhere(schema, arguments, allow=True), anywhere(schema, arguments))
    assert (allow, restrict) == (
        anywhere(schema, arguments, allow=True, opaque=True),
        anywhere(schema, arguments, opaque=True),
    )


def test_args_and_anywhere_of_a_rule_must_both_hold():
    condition = compile_arguments({"a": {"maximum": 9}}, {"pattern": "evil"}, restricting=True)
    assert condition.judge({"a": 5, "b": "evil"}) == T
    assert condition.judge({"a": 5, "b": "good"}) == F
    assert condition.judge({"a": "5", "b": "evil"}) == I


PYTHON: Any = {"$python": "Decimal"}
WITHHELD: Any = {"$withheld": {"size": 12}}


@pytest.mark.parametrize(
    ("schema", "value", "truth"),
    [
        *((schema, PYTHON, I) for schema in ({"type": "object"}, {"minProperties": 1}, {"const": None})),
        *(
            (schema, WITHHELD, I)
            for schema in ({"maximum": 9}, {"not": {"type": "array"}}, {"anyOf": [False]})
        ),
        ({"const": PYTHON}, PYTHON, I),
        ({"required": ["x"]}, {"$python": "x", "x": 1}, I),  # having the key is enough
        ({}, PYTHON, T),
        (False, PYTHON, F),
        ({"const": [PYTHON]}, [PYTHON], I),
        ({"enum": [[1], "a"]}, [2, PYTHON], I),
        ({"const": None}, [PYTHON], F),
        ({"enum": ["a"]}, [PYTHON], I),
        ({"uniqueItems": True}, [1, 1, {"a": PYTHON}], I),
        ({"uniqueItems": True}, [PYTHON, PYTHON], I),
        ({"uniqueItems": False}, [PYTHON, PYTHON], T),
        ({"minItems": 2}, [PYTHON, PYTHON], T),  # how many there are is known
        ({"required": ["a"]}, {"a": PYTHON}, T),
        ({"items": {"maximum": 9}}, [50, PYTHON], F),
        ({"contains": {"const": 1}}, [1, PYTHON], T),
        ({"contains": {"const": 1}}, [2, PYTHON], I),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, PYTHON], I),
        ({"properties": {"a": {"const": 1}}, "additionalProperties": False}, {"a": 1, "b": PYTHON}, F),
    ],
)
def test_nothing_said_of_a_marker_is_true_or_false(schema, value, truth):
    assert truth == judge({"a": schema}, {"a": value}, opaque=True)


def test_a_marker_may_stand_for_null_where_null_matters():
    for value in (PYTHON, WITHHELD):
        assert judge({"a?": False}, {"a": value}, allow=True, opaque=True) == I
        assert judge({"a?": {}}, {"a": value}, allow=True, opaque=True) == T
        assert judge({"a?": False}, {"a": value}, opaque=True) == F
        assert judge({"a?": {}}, {"a": value}, opaque=True) == I


def test_a_marker_in_place_of_all_arguments_makes_every_condition_indeterminate():
    for args in ({"a?": True}, {"*": False}, {"*": True}, {"$withheld": True}):
        assert judge(args, WITHHELD, allow=True, opaque=True) == I
        assert judge(args, WITHHELD, opaque=True) == I


def test_a_marker_is_a_leaf_that_anywhere_cannot_judge():
    for schema in ({"pattern": "evil"}, {"not": {"pattern": "evil"}}, {"maximum": 9}):
        assert anywhere(schema, {"a": PYTHON}, allow=True, opaque=True) in (I, F)
        assert anywhere(schema, {"a": PYTHON}, opaque=True) in (I, T)
    assert anywhere({"pattern": "evil"}, {"a": PYTHON, "b": "evil"}, opaque=True) == T
    assert anywhere({"pattern": "^[ab]$"}, {"a": PYTHON, "b": "evil"}, allow=True, opaque=True) == F
    assert anywhere({"pattern": "python"}, {"a": PYTHON}, opaque=True) == I  # its own key is not looked at


def test_objects_are_no_markers_where_the_caller_knows_of_none():
    assert judge({"a": {"const": PYTHON}}, {"a": PYTHON}) == T
    assert judge({"a": {"type": "object"}}, {"a": WITHHELD}) == T


def test_what_the_record_withholds_is_unknown_unless_it_does_not_matter():
    args = {"a": {"maximum": 9}, "b": {"maximum": 9}}
    assert judge(args, {"a": 5, "b": WITHHELD}, withheld=True) == UNKNOWN
    assert judge(args, {"a": 50, "b": WITHHELD}, withheld=True) == F
    assert judge({"a": {"maximum": 9}}, {"a": 5, "b": WITHHELD}, withheld=True) == T


# What is refused at load: (args, path to the fault, part of the message, the fault is a key).

REFUSED: list[tuple[Any, tuple[Any, ...], str, bool]] = [
    ({}, ("args",), "`args` is empty", False),
    (None, ("args",), "`args` is empty", False),
    (["a"], ("args",), "mapping of argument names", False),
    ({"a": {}, "a?": {}}, ("args", "a?"), "`a` and `a?` are one argument", True),
    ({"*?": {}}, ("args", "*?"), "write `*`", True),
    ({"?": {}}, ("args", "?"), "behind the name", True),
    ({"a??": {}}, ("args", "a??"), "stands once", True),
    ({1: {}}, ("args",), 'write `"1"`', False),
    ({"a": 100}, ("args", "a"), "write `{const: ...}`", False),
    ({"a": ["x"]}, ("args", "a"), "write `{enum: [...]}`", False),
    ({"a": None}, ("args", "a"), "null is no schema", False),
    ({"a": {"maximun": 1}}, ("args", "a", "maximun"), "did you mean `maximum`?", True),
    ({"a": {"order": {"const": 1}}}, ("args", "a", "order"), "under `properties`", True),
    ({"a": {"x-color": 1}}, ("args", "a", "x-color"), "unknown keyword `x-color`", True),
    ({"a": {"oneOf": [{}]}}, ("args", "a", "oneOf"), "use `anyOf`", True),
    ({"a": {"format": "email"}}, ("args", "a", "format"), "use `pattern`", True),
    ({"a": {"if": {}}}, ("args", "a", "if"), "use `anyOf`", True),
    ({"a": {"then": {}}}, ("args", "a", "then"), "use `anyOf`", True),
    ({"a": {"$ref": "#"}}, ("args", "a", "$ref"), "write the schema out", True),
    ({"a": {"$defs": {}}}, ("args", "a", "$defs"), "write the schema out", True),
    ({"a": {"unevaluatedItems": False}}, ("args", "a", "unevaluatedItems"), "use `items`", True),
    ({"a": {"dependentRequired": {}}}, ("args", "a", "dependentRequired"), "use `anyOf`", True),
    ({"a": {"regex": "a"}}, ("args", "a", "regex"), "use `pattern`", True),
    ({"a": {"nullable": True}}, ("args", "a", "nullable"), "list the types", True),
    ({"a": {"type": "strin"}}, ("args", "a", "type"), "did you mean `string`?", False),
    ({"a": {"type": None}}, ("args", "a", "type"), 'write `"null"`', False),
    ({"a": {"type": []}}, ("args", "a", "type"), "`type` is empty", False),
    ({"a": {"type": ["string", "string"]}}, ("args", "a", "type", 1), "listed twice", False),
    ({"a": {"type": ["string", 5]}}, ("args", "a", "type", 1), "no name of a type", False),
    ({"a": {"enum": []}}, ("args", "a", "enum"), "`enum` is empty", False),
    ({"a": {"enum": "x"}}, ("args", "a", "enum"), "takes a list of values", False),
    ({"a": {"maximum": "5"}}, ("args", "a", "maximum"), "takes a number", False),
    ({"a": {"maximum": True}}, ("args", "a", "maximum"), "takes a number", False),
    ({"a": {"maximum": float("inf")}}, ("args", "a", "maximum"), "not a finite number", False),
    ({"a": {"const": [1, float("nan")]}}, ("args", "a", "const", 1), "not a finite number", False),
    ({"a": {"exclusiveMaximum": True}}, ("args", "a", "exclusiveMaximum"), "the limit itself", False),
    ({"a": {"multipleOf": 0}}, ("args", "a", "multipleOf"), "over 0", False),
    ({"a": {"minLength": -1}}, ("args", "a", "minLength"), "a whole number from 0", False),
    ({"a": {"maxItems": 1.5}}, ("args", "a", "maxItems"), "a whole number from 0", False),
    ({"a": {"maxItems": True}}, ("args", "a", "maxItems"), "a whole number from 0", False),
    ({"a": {"uniqueItems": "yes"}}, ("args", "a", "uniqueItems"), "true or false", False),
    ({"a": {"pattern": 5}}, ("args", "a", "pattern"), "as text", False),
    ({"a": {"pattern": "["}}, ("args", "a", "pattern"), "not a regular expression", False),
    ({"a": {"pattern": "a{1000}{1000}"}}, ("args", "a", "pattern"), "repeats too much", False),
    ({"a": {"pattern": "a" * 10_001}}, ("args", "a", "pattern"), "at most 10,000", False),
    ({"a": {"pattern": "(?!a)b"}}, ("args", "a", "pattern"), "looks around", False),
    ({"a": {"pattern": "(?<=a)b"}}, ("args", "a", "pattern"), "looks around", False),
    ({"a": {"pattern": r"(a)\1"}}, ("args", "a", "pattern"), "refers back", False),
    ({"a": {"pattern": "\ud800"}}, ("args", "a", "pattern"), "surrogate", False),
    ({"a": {"items": [{}]}}, ("args", "a", "items"), "use `prefixItems`", False),
    ({"a": {"items": {"maxi": 1}}}, ("args", "a", "items", "maxi"), "unknown keyword", True),
    ({"a": {"prefixItems": []}}, ("args", "a", "prefixItems"), "is empty", False),
    ({"a": {"prefixItems": [{}, 1]}}, ("args", "a", "prefixItems", 1), "no schema", False),
    ({"a": {"allOf": []}}, ("args", "a", "allOf"), "is empty", False),
    ({"a": {"anyOf": []}}, ("args", "a", "anyOf"), "is empty", False),
    ({"a": {"anyOf": {}}}, ("args", "a", "anyOf"), "takes a list", False),
    ({"a": {"anyOf": [{}, {"not": 1}]}}, ("args", "a", "anyOf", 1, "not"), "no schema", False),
    ({"a": {"minContains": 1}}, ("args", "a", "minContains"), "add `contains`", True),
    ({"a": {"maxContains": 1}}, ("args", "a", "maxContains"), "add `contains`", True),
    ({"a": {"properties": []}}, ("args", "a", "properties"), "takes a mapping", False),
    ({"a": {"properties": {"b": 1}}}, ("args", "a", "properties", "b"), "no schema", False),
    ({"a": {"patternProperties": {"(": {}}}}, ("args", "a", "patternProperties", "("), "pattern `(`", True),
    ({"a": {"required": "b"}}, ("args", "a", "required"), "takes a list of names", False),
    ({"a": {"required": ["b", "b"]}}, ("args", "a", "required", 1), "listed twice", False),
    ({"a": {"required": [1]}}, ("args", "a", "required", 0), "no name", False),
    ({"a": {"const": object()}}, ("args", "a", "const"), "no JSON value", False),
]


@pytest.mark.parametrize(("args", "path", "message", "key"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_its_place(args, path, message, key):
    with pytest.raises(PolicyError) as caught:
        compile_arguments(args, restricting=True, path=("rules", 2))
    error = caught.value
    assert ("rules", 2, *path) == error.path
    assert message in error.message
    assert key == error.key
    assert not error.message.endswith(".")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "says nothing"),
        (True, "says nothing"),
        ({"title": "a note"}, "says nothing"),
        ({"minItems": 1}, "judges leaves and keys"),
        ({"maximun": 1}, "did you mean"),
    ],
)
def test_anywhere_must_say_something_of_leaves(schema, message):
    with pytest.raises(PolicyError, match=message) as caught:
        compile_arguments(None, schema, restricting=True, path=("rules", 0))
    assert caught.value.path[:3] == ("rules", 0, "anywhere")


def test_schemas_nest_as_deep_as_the_limit_and_no_deeper():
    schema: Any = {"const": 1}
    for level in range(31):
        wrap: list[Any] = [
            {"allOf": [schema], "type": "number"},
            {"not": schema, "type": "object", "minItems": 2, "maximum": 3},
            {"properties": {"x": schema}, "required": ["y"], "enum": [[1], 2], "const": {}},
            {"contains": schema, "maximum": 3, "pattern": "a"},
            {"anyOf": [schema, {"pattern": "a"}]},
        ]
        schema = wrap[level % 5]
    condition = compile_arguments({"a": schema, "b?": schema, "*": schema}, restricting=True)
    assert condition.judge({"a": 1}, opaque=True) in (T, F, I)
    with pytest.raises(PolicyError, match="deeper than 32"):
        compile_arguments({"a": {"not": schema}}, restricting=True)


def test_a_schema_that_holds_itself_or_grows_without_bound_is_refused():
    schema: dict[str, Any] = {}
    schema["not"] = schema
    with pytest.raises(PolicyError, match="holds itself"):
        check_schema(schema, ())
    shared: Any = {"const": 1}
    for _ in range(31):
        shared = {"allOf": [shared, shared]}
    with pytest.raises(PolicyError, match="too large"):
        check_schema(shared, ())
    counted: Any = {"const": 1}
    for _ in range(31):
        counted = {"contains": counted, "maxContains": 1}
    with pytest.raises(PolicyError, match="fewer `maxContains`"):
        compile_arguments({"a": counted}, restricting=True)


def test_a_number_that_cannot_be_written_is_refused():
    with pytest.raises(PolicyError, match="more digits"):
        compile_arguments({"a": {"maximum": 10**5000}}, restricting=True)


def test_annotations_say_nothing():
    schema = {
        "maximum": 9,
        "title": "t",
        "description": 5,
        "default": {"$ref": "x"},
        "examples": [],
        "$comment": "",
    }
    assert judge({"a": {**schema, "deprecated": True, "readOnly": 1, "writeOnly": 2}}, {"a": 5}) == T


def test_names_that_mean_something_to_json_schema_are_names_here():
    args = {"$ref": {"const": {"$ref": "#/nowhere"}}, "$id": {"properties": {"$schema": {"const": 1}}}}
    assert judge(args, {"$ref": {"$ref": "#/nowhere"}, "$id": {"$schema": 1}}) == T


def test_a_condition_keeps_nothing_of_what_it_was_made_from():
    limits = [1, 2]
    args: dict[str, Any] = {"a": {"enum": limits}}
    condition = compile_arguments(args, restricting=True)
    limits.append(3)
    args["b"] = True
    assert condition.judge({"a": 3}) == F
    assert condition.failures({"a": 3}) == [("a", F, "a = 3: `enum: [1, 2]` is not met")]
    assert condition.judge({"a": 3}, opaque=True) == F


def test_schemas_may_be_built_of_subclasses_of_json_types():
    class Kind(str, enum.Enum):  # noqa: UP042 - an older kind, that people still have
        STRING = "string"

    class Limit(enum.IntEnum):
        FEW = 3

    args = {"a": {"type": Kind.STRING, "maxLength": Limit.FEW, "enum": ("a", "long")}}
    assert judge(args, {"a": "a"}) == T
    assert judge(args, {"a": "long"}) == F


def test_a_copy_of_a_condition_judges_alike():
    condition = compile_arguments(
        {"a?": {"maximum": 9}}, {"pattern": "^a$"}, restricting=False, path=("rules", 0)
    )
    for other in (copy.copy(condition), copy.deepcopy(condition), pickle.loads(pickle.dumps(condition))):  # noqa: S301
        assert isinstance(other, ArgumentsCondition)
        cases: list[Any] = [{}, {"a": 5}, {"a": 50}, {"a": "a"}, {"b": 1}]
        assert [other.judge(arguments) for arguments in cases] == [T, T, F, I, F]


def test_many_threads_may_judge_at_once():
    condition = compile_arguments({"a": {"maximum": 9}}, restricting=True)
    found: list[object] = []

    def work() -> None:
        found.extend((condition.judge({"a": PYTHON}, opaque=True), condition.indeterminate_text({"a": "x"})))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [I, "a is a string, `maximum` speaks about numbers"] * 8


def test_large_arguments_are_judged_at_once():
    args = {
        "numbers": {"uniqueItems": True, "items": {"maximum": 10**6}, "contains": {"const": 99_999}},
        "text": {"pattern": "((a*)*)*b?$"},
        "*": False,
    }
    arguments: Any = {"numbers": list(range(100_000)), "text": "a" * 5_000_000}
    condition = compile_arguments(args, {"not": {"pattern": "(x+x+)+y"}}, restricting=False)
    start = time.process_time()
    assert condition.judge(arguments) == T
    assert condition.judge(arguments, opaque=True) == T
    assert time.process_time() - start < 20  # it takes a tenth of a second; quadratic work would take hours


# When the library or a keyword fails.


def test_half_a_surrogate_pair_restricts_and_never_grants():
    for args in ({"a": {"pattern": "x"}}, {"a": {"not": {"pattern": "x"}}}, {"a": {"const": "x"}}):
        errors: list[str] = []
        condition = compile_arguments(args, restricting=True)
        arguments: Any = {"a": "\ud800"}
        assert not condition.must(arguments, errors)
        assert condition.may(arguments, errors)
        assert condition.judge(arguments, errors) == I
        assert len(errors) == 1
        assert "could not be judged" in errors[0]
        assert condition.failures(arguments)[0][1] == I


class Strict:
    """A keyword for tests: equal to its value; a text that begins with ``!`` makes it raise."""

    def compile(self, value, path):
        if not isinstance(value, str):
            raise PolicyError("`x-strict` takes a text", path=path)

        def check(text):
            if text.startswith("!"):
                raise {"!": ValueError("cannot tell"), "!!": KeyboardInterrupt(), "!s": SystemExit(3)}[text]
            return None if text == "none" else text == value

        return check


STRICT = {"x-strict": Strict()}


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        ("a", T),
        ("b", F),
        ("!", I),
        ("none", I),
        (["a", "a"], T),
        (["a", "b"], I),
        (["b", "b"], F),
        (["a", "!"], I),
        (["b", "!"], I),
        ([], I),
        (["a", 1], I),
        ([["a"]], I),
        (5, I),
        (None, I),
        ({"a": "a"}, I),
        ({"$python": "x"}, I),
    ],
)
@pytest.mark.parametrize("opaque", [False, True])
def test_a_keyword_of_ours_judges_strings_and_arrays_of_strings(value, truth, opaque):
    opposite = {T: F, F: T, I: I}[truth]
    for schema, expected in (
        ({"x-strict": "a"}, truth),
        ({"not": {"x-strict": "a"}}, opposite),
        ({"not": {"not": {"x-strict": "a"}}}, truth),
        ({"allOf": [{"x-strict": "a"}, {"x-strict": "a"}]}, truth),
    ):
        condition = compile_arguments({"a": schema}, restricting=True, keywords=STRICT)
        assert expected == condition.judge({"a": value}, opaque=opaque)


def test_what_a_keyword_raises_is_told_once_and_never_read_as_an_answer():
    for schema in (
        {"x-strict": "a"},
        {"not": {"x-strict": "a"}},
        {"contains": {"x-strict": "a"}, "maxContains": 0},
    ):
        errors: list[str] = []
        value: Any = ["!"] if "contains" in schema else "!"
        condition = compile_arguments({"a": schema}, restricting=True, keywords=STRICT)
        assert condition.judge({"a": value}, errors) == I
        assert errors == ["`x-strict`: cannot tell"]
    errors = []
    condition = compile_arguments({"a": {"x-strict": "a"}}, restricting=True, keywords=STRICT)
    assert condition.judge({"a": "none"}, errors) == I
    assert errors == ["`x-strict`: answered with a NoneType, not with true or false"]


def test_what_a_keyword_raises_is_told_in_one_short_line():
    class Wordy:
        def compile(self, value, path):
            def check(text):
                raise ValueError("a\n" * 10**6)

            return check

    errors: list[str] = []
    condition = compile_arguments({"a": {"x-wordy": 1}}, restricting=True, keywords={"x-wordy": Wordy()})
    assert condition.judge({"a": "b"}, errors) == I
    assert len(errors) == 1
    assert len(errors[0]) < 400
    assert "\n" not in errors[0]


@pytest.mark.parametrize(("text", "interrupt"), [("!!", KeyboardInterrupt), ("!s", SystemExit)])
def test_an_interrupt_inside_a_keyword_is_not_swallowed(text, interrupt):
    for schema in ({"x-strict": "a"}, {"not": {"x-strict": "a"}}):
        condition = compile_arguments({"a": schema}, restricting=True, keywords=STRICT)
        with pytest.raises(interrupt):
            condition.judge({"a": text})


def test_a_keyword_says_itself_what_it_takes():
    with pytest.raises(PolicyError, match="takes a text") as caught:
        compile_arguments({"a": {"not": {"x-strict": 5}}}, restricting=True, keywords=STRICT)
    assert caught.value.path == ("args", "a", "not", "x-strict")
    with pytest.raises(PolicyError, match="did you mean `x-strict`"):
        compile_arguments({"a": {"x-strikt": "a"}}, restricting=True, keywords=STRICT)


# Words for people.


@pytest.mark.parametrize(
    ("args", "arguments", "text"),
    [
        ({"amount": {"maximum": 100}}, {"amount": 5000}, "amount = 5000: `maximum: 100` is not met"),
        ({"amount": {"maximum": 100}}, {}, "amount is absent"),
        ({"amount": {"maximum": 100}}, {"amount": "5000"}, 'amount = "5000" is a string, `maximum` speaks about numbers'),
        ({"amount": {"maximum": 100}}, {"amount": 50}, "amount = 50 meets its condition"),
        ({"a": {"type": ["string", "integer"], "minLength": 1}}, {"a": []}, "a = [] is an array, and the condition is about strings and integers"),
        ({"a": {"enum": ["x", 1]}}, {"a": None}, "a is null, `enum` lists numbers and strings"),
        ({"a?": True}, {"a": None}, "a is null"),
        ({"*": False}, {"b": 1}, "b = 1 is not allowed"),
        ({"*": False}, {}, "there are no other arguments"),
        ({"o": {"properties": {"x": {"items": {"maximum": 3}}}}}, {"o": {"x": [1, 5]}}, "o.x[1] = 5: `maximum: 3` is not met"),
        ({"o": {"properties": {"x": True}, "additionalProperties": False}}, {"o": {"x": 1, "y": 2}}, "o.y = 2 is not allowed"),
        ({"o": {"prefixItems": [True, True]}}, {"o": [1]}, "o[1] is absent"),
        ({"a": {"not": {"pattern": "x"}}}, {"a": 5}, "a = 5 is a number, `pattern` speaks about strings"),
        ({"a": {"allOf": [{"minimum": 1}, {"maximum": 3}]}}, {"a": 5}, "a = 5: `maximum: 3` is not met"),
        ({"a b\n": {"maximum": 3}}, {"a b\n": 5}, r'"a b\n" = 5: `maximum: 3` is not met'),
    ],
)  # fmt: skip
def test_failures_say_what_is_not_met(args, arguments, text):
    assert text == compile_arguments(args, restricting=True).failures(arguments)[0][2]


def test_failures_show_no_more_than_sixty_characters_of_a_value():
    condition = compile_arguments({"a": {"const": "x" * 1000}}, restricting=True)
    assert len(condition.failures({"a": list("y" * 1000)})[0][2]) < 150


def test_failures_of_anywhere_name_the_leaf_or_key():
    schema = {"not": {"pattern": "evil"}}
    condition = compile_arguments(None, schema, restricting=False)
    assert condition.failures({"a": {"b": ["x", "evil"]}}) == [
        ("anywhere", F, 'a.b[1] = "evil": `not: {"pattern": "evil"}` is not met')
    ]
    assert condition.failures({"evil": 1})[0][2].startswith('the key evil = "evil"')
    assert condition.failures({"a": 1}) == [("anywhere", T, "every leaf and key meets `anywhere`")]
    condition = compile_arguments(None, {"pattern": "evil"}, restricting=True)
    assert condition.failures({"a": 1}) == [("anywhere", F, "no leaf or key meets `anywhere`")]
    assert condition.failures({"a": ["evil"]}) == [("anywhere", T, 'a[0] = "evil" meets `anywhere`')]


def test_the_reason_for_an_indeterminate_condition_shows_no_value():
    condition = compile_arguments({"a": {"maximum": 9}, "b": {"pattern": "x"}}, restricting=True)
    assert (
        condition.indeterminate_text({"a": 5, "b": ["secret"]})
        == "b is an array, `pattern` speaks about strings"
    )
    assert condition.indeterminate_text({"a": 5, "b": "x"}) == ""
    assert condition.indeterminate_text({"a": PYTHON, "b": "x"}, opaque=True) == (
        'a is a value of type "Decimal", which JSON cannot hold'
    )
    assert (
        condition.indeterminate_text({"a": WITHHELD, "b": "x"}, opaque=True) == "a is withheld by the record"
    )
    assert condition.indeterminate_text(PYTHON, opaque=True) == "the arguments are not there to be judged"


def test_the_package_itself_does_not_import_the_validator():
    code = "import sys, gatescore.errors; sys.exit('jsonschema_rs' in sys.modules)"
    import subprocess

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
