"""JSON and its schemas, as far as conditions need no third value: types, equality, numbers, patterns."""

from fractions import Fraction
from functools import cache

import jsonschema_rs

KINDS = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


def kind(value):
    return KINDS.get(type(value), "null")


def has_type(value, types):
    whole = kind(value) == "number" and value == int(value)
    return kind(value) in types or (whole and "integer" in types)


def equal(a, b):
    """As JSON values: 1 equals 1.0, true does not equal 1, the order of members is nothing."""
    if kind(a) != kind(b):
        return False
    if kind(a) == "array":
        return len(a) == len(b) and all(map(equal, a, b))
    if kind(a) == "object":
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


def exact(number):
    """A number as it is written: 0.3 is three tenths."""
    return Fraction(int(number)) if number == int(number) else Fraction(repr(number))


@cache
def pattern(text):
    options = jsonschema_rs.RegexOptions()  # Python's own `re` reads `$` and `\d` otherwise
    return jsonschema_rs.Draft202012Validator({"pattern": text}, pattern_options=options)


def matches(text, value):
    return pattern(text).is_valid(value)


def marker(value):
    """Whether *value* stands for one that JSON cannot hold, or that a record withholds."""
    return kind(value) == "object" and bool(value.keys() & {"$python", "$withheld"})


def opaque(value):
    """Whether a marker stands anywhere in *value*."""
    held = value if kind(value) == "array" else value.values() if kind(value) == "object" else ()
    return marker(value) or any(map(opaque, held))


PLAIN = {  # the keywords that know true and false alone, on values of the type that they are about
    "maximum": lambda value, limit: value <= limit,
    "minimum": lambda value, limit: value >= limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "multipleOf": lambda value, limit: (exact(value) / exact(limit)).denominator == 1,
    "pattern": lambda value, limit: matches(limit, value),
    **dict.fromkeys(["minLength", "minItems", "minProperties"], lambda value, limit: len(value) >= limit),
    **dict.fromkeys(["maxLength", "maxItems", "maxProperties"], lambda value, limit: len(value) <= limit),
}

ABOUT = {
    keyword: type_
    for type_, keywords in {
        "number": "maximum minimum exclusiveMaximum exclusiveMinimum multipleOf",
        "string": "pattern minLength maxLength",
        "array": "items prefixItems contains minContains maxContains uniqueItems minItems maxItems",
        "object": "properties patternProperties additionalProperties propertyNames required"
        " minProperties maxProperties",
    }.items()
    for keyword in keywords.split()
}

ANNOTATIONS = {
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
}


def conjunction(schema):
    """The schema and all that it reaches through `allOf`."""
    return (
        []
        if isinstance(schema, bool)
        else [schema, *(x for y in schema.get("allOf", []) for x in conjunction(y))]
    )


def said(schema):
    return schema.keys() - ANNOTATIONS


def listed(keyword, limit):
    return limit if keyword == "enum" else [limit] if keyword == "const" else []


def several(value):
    return value if isinstance(value, list) else [value]


def kinds(values):
    return {kind(value) for value in values}
