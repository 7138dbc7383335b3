"""The condition `when`: what is refused at load, what is read, and that evaluation never surprises."""

import copy
import itertools
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.errors import PolicyError
from gatescore.policy.cel_cost import MAX_VALUES
from gatescore.policy.cel_reading import Reading
from gatescore.policy.cel_tokens import FUNCTIONS, METHODS, TYPES, NoToken, string_value, tokenize
from gatescore.policy.expressions import MAX_LENGTH, MAX_WORK, Expression, compile_expression
from gatescore.truth import FALSE, INDETERMINATE, TRUE

PATH = ("rules", 2, "when")

VARIABLES: dict[str, object] = {
    "args": {
        "order_id": "814",
        "amount": 12.5,
        "count": 3,
        "tags": ["a", "b"],
        "note": None,
        "to": {"id": 7},
    },
    "session": {
        "id": "conv-1",
        "principal": "user:42",
        "attributes": {"owned_orders": ["814", "815"], "limit": 100},
        "labels": ["private", "untrusted"],
    },
    "call": {"name": "cancel_order", "id": "c1"},
    "tool": {"name": "cancel_order", "labels": ["side_effect"]},
    "now": 1_700_000_000_123_456_789,
}


def compiled(text: object) -> Expression:
    return compile_expression(text, PATH)


def refusal(text: object) -> str:
    with pytest.raises(PolicyError) as caught:
        compiled(text)
    error = caught.value
    assert PATH == error.path
    assert "\n" not in error.message
    return error.message


def evaluated(text: str, variables: Mapping[str, object] = VARIABLES) -> tuple[int, list[str]]:
    errors: list[str] = []
    truths = compiled(text).evaluate(variables, errors)
    assert (truths == INDETERMINATE) == bool(errors)
    return truths, errors


def with_args(**args: object) -> dict[str, object]:
    return {"args": args}


# What is refused at load


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "// only a comment", None])
def test_an_empty_expression_is_refused(text: object):
    assert "`when` is empty: write a condition such as `args.amount <= 100`" == refusal(text)


@pytest.mark.parametrize("text", [True, 5, ["true"], {"cel": "true"}], ids=repr)
def test_an_expression_is_text(text: object):
    assert f"`when` is text in CEL, not {type(text).__name__}" in refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("args.x ==", "column 10 of the expression: the end does not fit here"),
        ("args.x == 1 2", "column 13 of the expression: `2` does not fit here"),
        ("true &&\n  args.x )", "line 2, column 10 of the expression: `)` does not fit here"),
        ("'é' == 'é' ]", "column 12 of the expression: `]` does not fit here"),
        ("args.x = 1", "column 8 of the expression: `=` is not CEL: write `==`"),
        ("args.x and args.y", "column 8 of the expression: `and` is not CEL: write `&&`"),
        ("args.x == None", "column 11 of the expression: `None` is not CEL: write `null`"),
        ("args.x == 'it", "column 11 of the expression: `'` has no end, or an escape that CEL does not know"),
        (
            r'args.x == "\d"',
            'column 11 of the expression: `"` has no end, or an escape that CEL does not know',
        ),
        ("args.x\x00", "column 7 of the expression: character U+0000 is not CEL"),
        (
            "args.`a-b` == 1",
            'column 6 of the expression: backticks are not available: write `["a-b"]`, without a dot',
        ),
        ("args.x == 1e999", "column 11 of the expression: `1e999` is refused: invalid double literal"),
    ],
)
def test_what_does_not_parse_is_refused_with_its_place(text: str, message: str):
    assert message == refusal(text)


def test_half_of_a_surrogate_pair_is_refused():
    assert "half of a surrogate pair" in refusal("args.x == '\ud800'")


def test_a_long_expression_is_refused():
    room = MAX_LENGTH - len("args.x == ''")

    assert MAX_LENGTH == len(compiled(f"args.x == '{'y' * room}'").text)
    assert "longer than 2,000 characters" in refusal(f"args.x == '{'y' * (room + 1)}'")


@pytest.mark.parametrize("pair", ["()", "[]", "{}"])
def test_deep_brackets_are_refused_before_the_library_sees_them(pair: str):
    inner = "1: " if pair == "{}" else ""
    opened = (pair[0] + inner) * 33

    assert "column" in refusal(opened)
    assert "brackets nest deeper than 32: split the rule" in refusal(f"{opened}1{pair[1] * 33} == 1")


def test_brackets_within_strings_do_not_nest():
    assert frozenset({"x"}) == compiled(f"args.x == '{'(' * 100}'").arguments


DEEP = {
    "negations": "!" * 1990 + "args.x",
    "conditions": "args.x ? true : " * 120 + "true",
    "members": "args" + ".a" * 900 + " == 1",
    "indices": "args.x" + "[0]" * 600 + " == 1",
    "sums": "1" + " + 1" * 450 + " == args.x",
    "alternatives": "args.x" + " || args.x" * 180,
    "brackets": "(" * 32 + "args.x" + ")" * 32,
}


def test_no_expression_of_the_permitted_length_overflows_the_stack():
    """In a process and on a thread of its own, with the megabyte that small systems give to threads."""
    program = """
import sys, threading
from gatescore.errors import PolicyError
from gatescore.policy.expressions import compile_expression

def run():
    for text in sys.stdin.read().split(chr(10)):
        try:
            compile_expression(text, ()).evaluate({"args": {"x": False}}, [])
        except PolicyError:
            pass
    print("done")

threading.stack_size(1 << 20)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(DEEP.values()),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ("done\n", "", 0) == (done.stdout, done.stderr, done.returncode)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amount < 1", "`amount` is no variable: write `args.amount` for an argument, or use one of `args`"),
        ("arg.x == 1", "`arg` is no variable: did you mean `args`?"),
        ("sesion.id == 'x'", "`sesion` is no variable: did you mean `session`?"),
        ("session.labls == []", "`session` has no field `labls`: did you mean `labels`?"),
        ('session["atributes"].x == 1', "`session` has no field `atributes`: did you mean `attributes`?"),
        (
            "has(session.user)",
            "`session` has no field `user`: use one of `attributes`, `id`, `labels`, `principal`",
        ),
        ("call.nam == 'x'", "`call` has no field `nam`: did you mean `name`?"),
        ("tool.label == []", "`tool` has no field `label`: did you mean `labels`?"),
        ("size(session) > 1", "`session` cannot be used as a whole: use one of `session.attributes`"),
        ("session.size() > 1", "`session` cannot be used as a whole"),
        ("session[args.x] == 1", "`session` cannot be used as a whole"),
        (
            "call == tool",
            "`call` cannot be used as a whole: use one of `call.id`, `call.name`, `call.server`",
        ),
        ("optional.of(args.x).hasValue()", "`optional` is no variable"),
        ("math.greatest(1, args.x) == 1", "`math` is no variable"),
        (".args.x == 1", "`.` cannot begin a value"),
        ("args{x: 1} == 1", "`{` begins a message, which is not available: write a map, as in `{'key': 1}`"),
        ("int.x == 1", "`int` is no variable"),
    ],
)
def test_an_unknown_variable_or_field_is_refused_with_a_remedy(text: str, message: str):
    assert message in refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sise(args.x) > 1", "`sise` is no function: did you mean `size`?"),
        ("lower(args.x) == 'a'", "`lower` is no function: use one of `bytes`"),
        ("args.x.startWith('a')", "`startWith` is no method: did you mean `startsWith`?"),
        ("args.x.lowerAscii() == 'a'", "`lowerAscii` is no method"),
        ("args.x.exist(i, i == 1)", "`exist` is no method: did you mean `exists`?"),
        ("startsWith(args.x, 'a')", "`startsWith` is a method: write `x.startsWith(...)`"),
        ("exists(args.x, i, true)", "`exists` is a method: write `x.exists(...)`"),
        ("args.x.int() == 1", "`int` is a function: write `int(x)`"),
        ("args.has(x)", "`has` is a function: write `has(x)`"),
        ("size(args.x, 1) > 1", "`size` takes one argument, not 2"),
        ("args.x.contains('a', 'b')", "`contains` takes 1 argument, not 2"),
        ("now.getHours('UTC') > 8", "`getHours` takes no argument, not 1"),
        ("args.x.exists(i)", "`exists` takes the name of a variable first: write `exists(x, ...)`"),
        ("args.x.all(i, i == 1, i == 2)", "`all` takes a variable and an expression: write `all(i, ...)`"),
        ("max(1, args.x) > 1", "`max` is no function"),
    ],
)
def test_an_unknown_function_is_refused_with_a_remedy(text: str, message: str):
    assert message in refusal(text)


@pytest.mark.parametrize("root", ["args", "session", "call", "tool", "now", "int", "string"])
def test_a_comprehension_may_not_hide_what_has_a_meaning(root: str):
    message = refusal(f"args.x.exists({root}, true)")

    assert f"`{root}` has a meaning already: name the variable of the comprehension otherwise" in message


@pytest.mark.parametrize(
    "text",
    [
        "args.x.exists(i, i == 1) && i == 1",
        "i == 1 && args.x.exists(i, i == 1)",
        "i.x.exists(i, i == 1)",
        "args.x.exists(i, true) || args.y.exists(j, i == j)",
    ],
)
def test_a_variable_may_not_be_used_outside_its_comprehension(text: str):
    assert "`i` is used outside its comprehension" in refusal(text)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("args.a == 1", 0),
        ("args.a.exists(x, x == 1) || args.b.exists(x, x == 1)", 1),
        ("args.a.exists(x, args.b.exists(y, x == y))", 2),
        ("args.a.filter(x, x > 1).exists(y, y == 2)", 2),
        ("(args.a + args.b.map(x, x)).exists(y, y == 2)", 2),
        ("[args.a.map(x, x)][0].exists(y, y == 2)", 2),
        ("args.a[size(args.b.filter(x, x))].exists(y, y == 2)", 2),
        ("args.a.exists(x, size(x.map(x, x)) > 1)", 2),
    ],
)
def test_the_depth_of_comprehensions_is_counted(text: str, depth: int):
    assert depth == compiled(text).comprehension_depth


@pytest.mark.parametrize(
    "text",
    [
        "args.a.exists(x, x.exists(y, y.exists(z, z == 1)))",
        "args.a.map(x, x).filter(y, y).exists(z, z == 1)",
        "args.a.exists(x, x.filter(y, y).exists(z, z == 1))",
    ],
)
def test_comprehensions_nested_deeper_than_two_are_refused(text: str):
    assert "comprehensions nest 3 deep: at most 2 may, so split the rule" == refusal(text)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("'(a'", "unclosed group"),
        (r"r'(?=a)b'", "look-around"),
        (r"r'(a)\1'", "backreferences are not supported"),
        ("'(a{1000}){1000}'", "Compiled regex exceeds size limit of 10485760 bytes"),
    ],
)
def test_a_regular_expression_must_compile(pattern: str, reason: str):
    message = refusal(f"args.x.matches({pattern})")

    assert message.startswith(f"column 16 of the expression: {pattern} is no regular expression: ")
    assert reason in message


def test_a_computed_pattern_is_refused_in_a_comprehension_alone():
    assert frozenset({"x", "pattern"}) == compiled("args.x.matches(args.pattern)").arguments
    assert "takes only a literal pattern inside a comprehension" in refusal(
        "args.x.all(i, i.matches(args.pattern))"
    )


# What the library really has

RECEIVERS = ("1", "1u", "1.5", "'1'", "b'1'", "true", "null", "[1]", "{'a': 1}", "duration('1h')")
INSTANTS = ("timestamp('2020-01-01T00:00:00Z')", "'2020-01-01T00:00:00Z'", "'1h'")
STANDARD = (
    *(
        "abs",
        "base64",
        "bind",
        "bool",
        "ceil",
        "charAt",
        "cidr",
        "distinct",
        "encode",
        "find",
        "flatten",
        "floor",
    ),
    *(
        "format",
        "get",
        "greatest",
        "hasValue",
        "indexOf",
        "ip",
        "isNaN",
        "join",
        "last",
        "lastIndexOf",
        "least",
    ),
    *(
        "list",
        "lower",
        "lowerAscii",
        "max",
        "min",
        "none",
        "of",
        "optMap",
        "or",
        "orValue",
        "quantity",
        "range",
    ),
    *(
        "replace",
        "reverse",
        "round",
        "semver",
        "sets",
        "slice",
        "sort",
        "split",
        "sqrt",
        "substring",
        "sum",
        "trim",
    ),
    *("unix", "upper", "upperAscii", "url", "value"),
)
"""What other implementations of CEL and its extensions have, in part."""


def works(text: str) -> bool:
    """Whether the library knows what is called, be its argument good or not."""
    try:
        cel.evaluate(text)
    except Exception as error:  # noqa: BLE001 - the library raises many types
        return str(error).startswith("Function '")
    return True


def calls(name: str) -> tuple[bool, bool]:
    """Whether the library has *name* as a function of one value, and as a method."""
    values = RECEIVERS + INSTANTS
    arguments = ("", *values)
    return (
        any(works(f"{name}({value})") for value in values),
        any(
            works(f"({value}).{name}({argument})") for value, argument in itertools.product(values, arguments)
        ),
    )


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *METHODS, *STANDARD}))
def test_the_known_functions_are_those_of_the_library(name: str):
    assert (name in FUNCTIONS, name in METHODS) == calls(name)


@pytest.mark.parametrize("name", sorted({*TYPES, "timestamp", "duration", "dyn", "any", "optional", "error"}))
def test_the_known_types_are_those_of_the_library(name: str):
    assert (name in TYPES) == works(name)


@pytest.mark.parametrize(
    "text", ["!!args.t", "!!!args.f", "--args.one == 1", "!(!args.t)", "-(-args.one) == 1"]
)
def test_repeated_signs_are_each_applied(text: str):
    """Early releases of the library under CEL dropped one of two: a deny would have become an allow."""
    assert (TRUE, []) == evaluated(text, with_args(t=True, f=False, one=1))


# What is read


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("true", set()),
        ("args.x == 1 && args.y == 2", {"x", "y"}),
        ("args . x == 1", {"x"}),
        ("args. // args.z\n x == 1", {"x"}),
        ("args[\"a-b\"] == 1 && args['c'] == 1", {"a-b", "c"}),
        ("args[r'a\\b'] == 1", {"a\\b"}),
        ('args["""x"""] == 1', {"x"}),
        ("has(args.x) && has(args.y.z)", {"x", "y"}),
        ("args.x.y.exists(i, i.z == args.w)", {"x", "w"}),
        ("args.size == 1", {"size"}),
        ("(args.x) == 1", {"x"}),
        ("{args.x: args.y}[1] == 1", {"x", "y"}),
        ("args.x ? args.y : args.z", {"x", "y", "z"}),
        ("call.name == 'args.x'", set()),
        ("call.name == \"a' or args.x or 'b\"", set()),
        ("call.name == '''args.x\n''' // && args.y", set()),
        ("call.name == r'\\' && args.x", {"x"}),
        ("session.attributes.args == 'args'", set()),
        ("session.labels.exists(l, l.args == 1)", set()),
        ("b'args.x' == args.y", {"y"}),
        ("args == {}", None),
        ("size(args) > 1", None),
        ("args.size() > 1", None),
        ("'x' in args", None),
        ("args[args.x] == 1", None),
        ("args['a' + 'b'] == 1", None),
        ("args['\\x61'] == 1", None),  # an escape is read by CEL alone
        ("(args).x == 1", None),
        ("args.exists(name, args[name] == 1)", None),
        ("args.x == 1 || args == {}", None),
    ],
)
def test_the_arguments_that_are_read_are_known(text: str, arguments: set[str] | None):
    assert (None if arguments is None else frozenset(arguments)) == compiled(text).arguments


def test_the_roots_and_session_fields_that_are_read_are_known():
    expression = compiled('session.labels.exists(l, l == "now") && session["id"] != call.name && has(args.x)')

    assert frozenset({"session", "call", "args"}) == expression.reads
    assert frozenset({"labels", "id"}) == expression.session_fields


def test_an_expression_that_reads_nothing_reads_nothing():
    expression = compiled("1 < 2")

    assert (frozenset(), frozenset(), frozenset()) == (
        expression.reads,
        expression.arguments,
        expression.session_fields,
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("args.a == 1", ("a",)),
        ("1 != args.a", ("a",)),
        ("args.a.b == 1 || args['c'] != 'x'", ("a", "c")),
        ("args.a in ['x'] && 'y' in args.b", ("a", "b")),
        ("args.a == args.b", ("a", "b")),
        ("args.a == -args.b", ("a", "b")),
        ("!(args.a == 1)", ("a",)),
        ("(args.a) == 1", ("a",)),
        ("args.a.exists(x, x == args.b)", ("a", "b")),
        ("args.a.all(x, x > 1)", ("a",)),
        ("args.a < 1 && args.b.startsWith('x') && size(args.c) == 1", ()),
        ("args.a == null && null != args.b", ()),
        ("has(args.a)", ()),
        ("type(args.a) == string", ()),
    ],
)
def test_comparisons_that_do_not_raise_across_types_are_listed(text: str, names: tuple[str, ...]):
    assert names == compiled(text).untyped_comparisons


# Evaluation


@pytest.mark.parametrize(
    "text",
    [
        "args.order_id in session.attributes.owned_orders",
        'session.labels.exists(l, l == "untrusted") && session.labels.exists(l, l == "private")',
        "args.amount <= 100.0 && args.count < 4 && args.amount < 13",
        "has(args.note) && args.note == null && !has(args.missing)",
        "args.to.id == 7 && type(args.to) == map && args['to']['id'] in [7]",
        "args.tags.all(t, t.matches(r'^[a-z]$')) && args.tags.exists_one(t, t == 'a')",
        "args.tags.map(t, t + '!') == ['a!', 'b!'] && args.tags.filter(t, t > 'a') == ['b']",
        "session.id == 'conv-1' && session.principal.startsWith('user:')",
        "call.name == tool.name && 'side_effect' in tool.labels && !has(call.server)",
        "now > timestamp('2023-11-14T00:00:00Z') && now - timestamp('2023-11-14T00:00:00Z') < duration('24h')",
        "size(args) == 6 && 'amount' in args",
        "args.count == 3.0 && int(args.order_id) == 814",
    ],
)
def test_expressions_of_every_kind_are_evaluated(text: str):
    assert (TRUE, []) == evaluated(text)
    assert (FALSE, []) == evaluated(f"!({text})")


def test_now_is_cut_to_microseconds_in_utc():
    instant = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC).isoformat()

    assert (TRUE, []) == evaluated(f"now == timestamp('{instant}') && now.getHours() == 22")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("args.missing == 1", "key `missing` is absent"),
        ("args.to.missing == 1", "key `missing` is absent"),
        ("args['missing'] == 1", "key `missing` is absent"),
        ("session.attributes.groups.exists(g, g == 'x')", "key `groups` is absent"),
        ("call.server == 'x'", "key `server` is absent"),
        ("args.to[args.order_id] == 1", "a key is absent"),  # a value of the call stays out of the record
        ("args.tags[2] == 'c'", "an index is out of bounds"),
        ("args.count / 0 == 1", "division by zero"),
        ("args.count % 0 == 1", "division by zero"),
        ("args.count * 9223372036854775807 == 1", "a number is out of range"),
        ("args.order_id < 1", "an operation is not defined for the types of its values"),
        ("args.order_id + 1 == 1", "an operation is not defined for the types of its values"),
        ("args.count && true", "an operation is not defined for the types of its values"),
        ("args.count.startsWith('8')", "`startsWith` is not defined for the type of its value"),
        ("args.count.exists(x, x == 1)", "an operation is not defined for the types of its values"),
        ("size(args.count) == 1", "`size` is not defined for the type of its value"),
        ("duration(args.order_id) == duration('1h')", "`duration` cannot use its value"),
        ("args.order_id.matches(args.order_id + '(')", "`matches` cannot use its value"),
        ("args.count", "the result is neither true nor false"),
        ("args.note", "the result is neither true nor false"),
        ("'true'", "the result is neither true nor false"),
        ("[true]", "the result is neither true nor false"),
    ],
)
def test_whatever_is_neither_true_nor_false_is_indeterminate(text: str, error: str):
    assert (INDETERMINATE, [error]) == evaluated(text)


def test_errors_name_no_value_of_the_call():
    secrets = with_args(a="hunter2", b={"k": "hunter2"}, c=[1])
    for text in (
        "args.b[args.a] == 1",
        "timestamp(args.a) == now",
        "int(args.a) == 1",
        "args.a + 1 == 1",
        "args.a",
    ):
        _, errors = evaluated(text, secrets)

        assert "hunter2" not in " ".join(errors)


@pytest.mark.parametrize(
    "text", ["true || args.x", "args.x || true", "args.x.y > 1 || true", "1 / 0 == 1 || true"]
)
def test_an_error_is_absorbed_where_the_other_side_decides(text: str):
    """CEL's own rule, and Kleene's: what errs could not have changed the result."""
    assert (TRUE, []) == evaluated(text, with_args())
    assert (FALSE, []) == evaluated(f"!({text})", with_args())


@pytest.mark.parametrize("root", ["args", "session", "call", "tool", "now"])
@pytest.mark.parametrize(
    "absent", [{}, {"args": None, "session": None, "call": None, "tool": None, "now": None}]
)
def test_an_absent_variable_is_an_error_in_the_expression(root: str, absent: dict[str, object]):
    text = {"args": "args.x == 1", "now": "now > timestamp('2020-01-01T00:00:00Z')"}.get(
        root, f"{root}.id == 'x'"
    )
    text = text.replace("tool.id", "tool.name")

    assert (INDETERMINATE, [f"`{root}` is absent"]) == evaluated(text, absent)
    assert (TRUE, []) == evaluated(f"true || {text}", absent)


@pytest.mark.parametrize("args", [[], "x", 5])
def test_a_root_that_is_no_object_is_indeterminate(args: object):
    assert (INDETERMINATE, ["`args` is no object"]) == evaluated("args.x == 1", {"args": args})


def test_comparing_across_types_is_false_and_raises_nothing():
    """Why arguments are held to their declared schema, and why the comparison is linted."""
    assert (FALSE, []) == evaluated("args.x == 814", with_args(x="814"))
    assert (TRUE, []) == evaluated("args.x != 814", with_args(x="814"))
    assert (FALSE, []) == evaluated("args.x in ['814']", with_args(x=814))
    assert (FALSE, []) == evaluated("args.x == true", with_args(x=1))
    assert (TRUE, []) == evaluated("args.x == 1", with_args(x=1.0))


# Numbers


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 2**70, 10**400])
def test_an_integer_outside_of_64_bits_is_indeterminate(number: int):
    """The library takes those up to 2**64 for unsigned ones, and larger ones for the nearest double."""
    expected = (INDETERMINATE, ["`args.x` holds an integer that does not fit 64 bits"])

    assert expected == evaluated("args.x > 1", with_args(x=number))
    assert expected == evaluated("args.x[0].y[0] > 1", with_args(x=[{"y": [number]}]))
    assert expected == evaluated("true || args.x > 1", with_args(x=number))
    assert (TRUE, []) == evaluated("args.y == 1", with_args(x=number, y=1))


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**53 + 1, 0])
def test_an_integer_of_64_bits_is_compared_exactly(number: int):
    text = f"args.x == {number} && args.x <= {number}"

    assert (TRUE, []) == evaluated(text, with_args(x=number))
    assert (FALSE, []) == evaluated(text, with_args(x=number - 1 if number > 0 else number + 1))


def test_integers_and_doubles_beyond_2_to_the_53_are_not_compared():
    """The library compares them as doubles: 2**53 + 1 would be equal to 2.0**53."""
    assert cel.evaluate("9007199254740993 <= 9007199254740992.0") is True

    unfit = "holds a number that cannot be compared exactly"
    for text, args in [
        ("args.x <= 9007199254740992.0", with_args(x=2**53 + 1)),
        ("args.x <= 9007199254740993", with_args(x=2.0**53)),
        ("args.x <= args.y", with_args(x=2**53 + 1, y=2.0**53)),
        ("args.x <= args.y", with_args(x=-(2.0**53), y=-(2**53) - 1)),
    ]:
        truths, errors = evaluated(text, args)

        assert INDETERMINATE == truths
        assert unfit in errors[0]


def test_one_of_the_two_may_be_beyond_2_to_the_53():
    assert (TRUE, []) == evaluated("args.x > 1.5 && args.x > args.y", with_args(x=2**60, y=0.5))
    assert (TRUE, []) == evaluated("args.x > 1 && args.x > args.y", with_args(x=1e300, y=5))
    assert (TRUE, []) == evaluated("args.x == 1152921504606846976", with_args(x=2**60))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_indeterminate(number: float):
    assert (INDETERMINATE, ["`args.x` holds a number that is not finite"]) == evaluated(
        "args.x != 1.0", with_args(x=number)
    )


# Texts


@pytest.mark.parametrize("value", ["\ud800", ["\udfff"], {"k": "a\ud800"}, {"\ud800": 1}], ids=ascii)
def test_half_of_a_surrogate_pair_is_indeterminate(value: object):
    error = "a value is not JSON, such as half of a surrogate pair"

    assert (INDETERMINATE, [error]) == evaluated("args.x == 'a'", with_args(x=value))


def test_texts_are_compared_by_code_points():
    assert (TRUE, []) == evaluated('args.x == "é😀" && args.x.endsWith("😀")', with_args(x="é😀"))
    assert (FALSE, []) == evaluated('args.x == "é"', with_args(x="e\u0301"))
    assert (FALSE, []) == evaluated('args.x == "a"', with_args(x="a\x00"))


def test_the_size_of_a_text_is_counted_in_bytes():
    """As measured: CEL's specification says code points. A limit on it is stricter than it looks."""
    assert (TRUE, []) == evaluated("size(args.x) == 6 && args.x.size() == 6", with_args(x="é😀"))


def test_hours_are_those_of_the_timestamps_own_offset():
    """As measured: CEL's specification says UTC. The offset of an argument is chosen by who calls."""
    assert (TRUE, []) == evaluated(
        "timestamp(args.x).getHours() == 0", with_args(x="2020-01-01T00:00:00+02:00")
    )


def test_an_error_in_a_comprehension_is_not_absorbed_by_a_later_item():
    """As measured: CEL's specification would answer true. Indeterminate restricts, so this is safe."""
    truths, _ = evaluated("args.x.exists(i, 1 / i == 1)", with_args(x=[0, 1]))

    assert INDETERMINATE == truths


def test_a_pattern_matches_anywhere_and_its_dollar_only_the_very_end():
    assert (TRUE, []) == evaluated("args.x.matches('b') && !args.x.matches('^b')", with_args(x="abc"))
    assert (FALSE, []) == evaluated("args.x.matches('^b$')", with_args(x="b\n"))


# Bounds


def test_only_what_is_read_is_looked_at_and_passed_on():
    class Untouchable(dict[str, object]):
        def __iter__(self):
            raise AssertionError

    variables = {"args": {"x": 1, "big": Untouchable()}, "session": Untouchable()}

    assert (TRUE, []) == evaluated("args.x == 1", variables)


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, {1: 2}, [{None: 1}]], ids=repr)
def test_a_value_that_is_not_json_is_indeterminate(value: object):
    truths, errors = evaluated("args.x != 1", with_args(x=value))

    assert INDETERMINATE == truths
    assert "`args.x` holds a" in errors[0]


def nested(depth: int) -> object:
    value: object = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def test_a_value_that_nests_too_deep_is_indeterminate():
    assert (TRUE, []) == evaluated("args.x != 1", with_args(x=nested(64)))
    for depth in (65, 100_000):
        expected = (INDETERMINATE, ["`args.x` nests deeper than 64 levels"])

        assert expected == evaluated("args.x != 1", with_args(x=nested(depth)))


def test_a_value_that_holds_itself_is_indeterminate():
    value: list[object] = []
    value.extend([value, value])
    truths, _ = evaluated("args.x != 1", with_args(x=value))

    assert INDETERMINATE == truths


def test_too_many_values_are_indeterminate():
    truths, errors = evaluated("args.x != 1", with_args(x=[0] * MAX_VALUES))

    assert (INDETERMINATE, ["the values are too large: over 1,000,000"]) == (truths, errors)


LARGE = list(range(100_000))
TOO_LARGE = ["the values are too large: the expression could take over 1,000,000 steps"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("args.x.exists(i, i == -1)", (FALSE, [])),
        ("-1 in args.x", (FALSE, [])),
        ("args.x == args.x", (TRUE, [])),
        ("args.x.exists(i, -1 in args.x)", (INDETERMINATE, TOO_LARGE)),
        ("args.x.exists(i, args.x.exists(j, i + j == -1))", (INDETERMINATE, TOO_LARGE)),
        ("args.x.exists(i, size(args.x) == 1)", (INDETERMINATE, TOO_LARGE)),
        ("args.x.map(i, i).size() == 1", (INDETERMINATE, TOO_LARGE)),
        ("args.x.filter(i, i > 1).size() == 1", (INDETERMINATE, TOO_LARGE)),
        ("[args.x].exists(a, a.exists(i, a[0] == -1))", (INDETERMINATE, TOO_LARGE)),
        ("(args.x + args.x).exists(i, i == -1)", (FALSE, [])),
    ],
)
def test_a_hundred_thousand_items_are_answered_in_bounded_work(text: str, expected: tuple[int, list[str]]):
    assert expected == evaluated(text, with_args(x=LARGE))


ORDERS = [
    {"id": str(n), "lines": [{"price": n, "sku": "x"}] * 10, **{f"k{k}": k for k in range(6)}}
    for n in range(200)
]


@pytest.mark.parametrize(
    "text",
    [
        "args.orders.all(o, o.id in session.attributes.owned)",
        "args.orders.all(o, o.lines.all(l, l.price <= 200))",
        "args.orders.all(o, ['x', 'y', 'z'].exists(s, o.id + s != 'x'))",
        "session.attributes.tiers.exists(t, args.orders.all(o, o.k1 == t))",
        "args.orders.filter(o, o.k1 == 1).size() == 200",
    ],
)
def test_expressions_of_usual_sizes_are_within_the_bound(text: str):
    attributes = {"owned": [str(n) for n in range(500)], "tiers": [1, 2, 3]}

    assert (TRUE, []) == evaluated(text, {"args": {"orders": ORDERS}, "session": {"attributes": attributes}})


def values(value: object) -> int:
    """How many values there are in *value*, with itself."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values, parts))


Items = list[dict[str, Any]]
HEAVY: dict[str, Callable[[Items, Items], int]] = {
    "args.a.exists(x, args.b.exists(y, x.id == y.id && x.n == -1))": lambda a, b: (
        len(a) * values(b) + len(b) * values(a)
    ),
    "args.a.exists(x, args.b.exists(y, (x.id + y.id).size() == -1))": lambda a, b: (
        len(a) * values(b) + len(b) * values(a)
    ),
    "args.a.exists(x, args.b.exists(y, -1 in x.id))": lambda a, b: len(b) * values(a),
    "args.a.exists(x, args.b.map(y, x.id).size() == -1)": lambda a, b: len(b) ** 2 // 2 * values(a),
    "args.a.exists(x, x.id.exists(y, y == -1))": lambda a, b: values(a),
    "args.a.exists(x, x.id.exists(y, x.id == -1))": lambda a, b: sum(len(x["id"]) ** 2 for x in a),
    "args.a.exists(x, x.id.map(y, y).size() == -1)": lambda a, b: sum(len(x["id"]) ** 2 // 2 for x in a),
    "args.a.exists(x, [x, x].exists(y, y == -1))": lambda a, b: 2 * values(a),
    "args.a.filter(x, args.b.exists(y, y == x)).size() == -1": lambda a, b: (
        len(a) * (values(a) // 2 + values(b))
    ),
    "args.a.map(x, args.b).size() == -1": lambda a, b: len(a) ** 2 // 2 * values(b),
    "args.a.map(x, args.b).exists(y, -1 in y)": lambda a, b: len(a) ** 2 // 2 * values(b),
    "args.a.map(x, x.id).size() == -1": lambda a, b: len(a) * values(a) // 2,
    "(args.a + args.b).exists(x, x.id.exists(y, x.id == -1))": lambda a, b: sum(
        len(x["id"]) ** 2 for x in a + b
    ),
    "(args.a + args.b).exists(x, x == -1)": lambda a, b: values(a) + values(b),
    "[args.a, args.b].exists(x, x.exists(y, x == y))": lambda a, b: values(a) * len(a) + values(b) * len(b),
}
"""Expressions with the least number of values that the library copies or looks at for them."""


@pytest.mark.parametrize(
    "shape", [(1, 20_000, 3), (20, 20, 30), (400, 400, 1), (3, 300, 100), (300, 3, 300)], ids=str
)
@pytest.mark.parametrize("text", HEAVY)
def test_what_is_evaluated_is_within_the_bound(text: str, shape: tuple[int, int, int]):
    many, few, long = shape
    a: Items = [{"id": list(range(long)), "n": n} for n in range(many)]
    b: Items = [{"id": list(range(long)), "n": n} for n in range(few)]
    _, errors = evaluated(text, with_args(a=a, b=b))

    assert TOO_LARGE == errors or HEAVY[text](a, b) <= MAX_WORK


def test_the_shapes_above_are_in_part_within_the_bound():
    """Or the test above would say nothing."""
    few: Items = [{"id": [1, 2, 3], "n": n} for n in range(15)]

    assert [] == [text for text in HEAVY if TOO_LARGE == evaluated(text, with_args(a=few, b=few))[1]]


@pytest.mark.parametrize(
    ("pattern", "few", "many"),
    [
        (r"r'^[a-z.]+@example\.org$'", 5_000, 20_000),
        (r"r'^[\w.]+@example\.org$'", 500, 2_000),
        (r"r'^\w{1,64}@example\.org$'", 10, 50),  # some 40 ms each
        (r"r'^(?:\w{1,8}[.@]){1,8}org$'", 10, 50),
        (r"r'^[a-z@.]{1,64}$'", 500, 5_000),
    ],
)
def test_a_pattern_in_a_comprehension_is_counted_for_what_it_costs(pattern: str, few: int, many: int):
    """The library compiles it for each item."""
    text = f"args.x.all(i, i.matches({pattern}))"

    assert (TRUE, []) == evaluated(text, with_args(x=["a@example.org"] * few))
    assert (INDETERMINATE, TOO_LARGE) == evaluated(text, with_args(x=["a@example.org"] * many))


def test_a_computed_pattern_may_be_used_three_times():
    """Its cost is not known when the policy is loaded, and so is taken for the highest."""
    text = "args.x.matches(args.pattern)"

    assert (TRUE, []) == evaluated(" && ".join([text] * 3), with_args(x="a", pattern="a"))
    assert (INDETERMINATE, TOO_LARGE) == evaluated(" && ".join([text] * 4), with_args(x="a", pattern="a"))


# The object


def test_an_expression_survives_copying_and_pickling():
    expression = compiled("args.order_id in session.attributes.owned_orders")
    for other in (copy.copy(expression), copy.deepcopy(expression), pickle.loads(pickle.dumps(expression))):  # noqa: S301
        assert expression == other
        assert TRUE == other.evaluate(VARIABLES, [])


def test_an_expression_can_be_evaluated_on_any_thread():
    expression = compiled("args.count == 3")
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(expression.evaluate(VARIABLES, []))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [TRUE] * 8 == results


def test_a_panic_of_the_library_is_indeterminate(monkeypatch: pytest.MonkeyPatch):
    """pyo3's type for a panic derives from BaseException; an interrupt does too, and must get through."""
    panic = type("PanicException", (BaseException,), {})

    class Program:
        raised: BaseException = panic("index out of bounds")

        def execute(self, given: object) -> object:
            raise self.raised

    expression = compiled("args.count == 3")
    object.__setattr__(expression, "_program", Program())
    errors: list[str] = []

    assert INDETERMINATE == expression.evaluate(VARIABLES, errors)
    assert ["the expression cannot be evaluated"] == errors

    Program.raised = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        expression.evaluate(VARIABLES, [])


def test_the_library_is_loaded_by_the_first_expression_alone():
    program = """
import sys
from gatescore.policy.expressions import compile_expression
print("cel" in sys.modules)
compile_expression("true", ())
print("cel" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ("False\nTrue\n", "") == (done.stdout, done.stderr)


# Whatever is written

WORDS = (
    *(
        "args",
        "session",
        "call",
        "tool",
        "now",
        "x",
        "y",
        "true",
        "false",
        "null",
        "in",
        "has",
        "size",
        "type",
    ),
    *(
        "int",
        "exists",
        "all",
        "map",
        "filter",
        "matches",
        ".",
        ".",
        ".",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
    ),
    *(
        "?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        "&&",
        "||",
        "1",
        "2.5",
        "1u",
        "0x1f",
        ".5",
        "'b'",
    ),
    *(
        '"a"',
        r"r'\d'",
        "b'c'",
        '"""q"q"""',
        "`a`",
        "é",
        "\\",
        "#",
        '"',
        "'",
        "=",
        "//c\n",
        " ",
        "\n",
        ".labels",
    ),
    *(".attributes", ".id", ".name", ".exists(x,", ".map(y,", "args.a", "session.labels"),
)


def evaluates_quietly(text: str) -> None:
    try:
        expression = compiled(text)
    except PolicyError:
        return
    errors: list[str] = []
    truths = expression.evaluate(VARIABLES, errors)

    assert truths in (TRUE, FALSE, INDETERMINATE)
    assert (truths == INDETERMINATE) == bool(errors)


@given(st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_no_mixture_of_words_does_more_than_be_refused(text: str):
    evaluates_quietly(text)


@given(st.text(max_size=20))
def test_no_text_does_more_than_be_refused(text: str):
    evaluates_quietly(text)


LEAVES = st.sampled_from(
    [
        *["args.count", "args.tags", 'args["order_id"]', "args.note", "args.missing", "args"],
        *["session.labels", "session.attributes.owned_orders", "call.name", "tool.labels", "now", "x", "y"],
        *["1", "2.0", "'a'", "r'''a'b'''", "b'x'", "true", "false", "null", "[]", "{}"],
    ]
)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def written(form: str) -> st.SearchStrategy[str]:
        holes = form.count("_")
        return st.tuples(*[inner] * holes).map(lambda parts: form.replace("_", "{}").format(*parts))

    forms = ["(_)", "!_", "-_", "_ ? _ : _", "_.f", "_[_]", "[_, _]", "_ + _", "_ == _", "_ < _", "_ in _"]
    forms += [
        "_ && _",
        "_ || _",
        "_.exists(x, _)",
        "_.all(y, _)",
        "_.map(x, _)",
        "_.filter(y, _)",
        "_.map(x, _, _)",
    ]
    forms += ["size(_)", "type(_) == int", "_.contains(_)", "_.matches('a+')", "string(_)"]
    return st.sampled_from(forms).flatmap(written)


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=8)


@given(EXPRESSIONS)
def test_the_two_readings_of_an_expression_agree(text: str):
    """The names that this module finds are those that the library finds."""
    try:
        compiled(text)
    except PolicyError as error:
        refused = error.message
    else:
        refused = ""

    assert "cannot be followed" not in refused
    if not refused:
        assert set(cel.compile(text).variables()) == Reading(text, tokenize(text), PATH).variables


@given(EXPRESSIONS)
def test_what_is_left_out_does_not_change_the_answer(text: str):
    """The library, given everything, answers the same; or the bound on work was reached."""
    try:
        truths, errors = evaluated(text)
    except PolicyError:
        return
    everything = {
        **VARIABLES,
        "now": datetime.fromtimestamp(1_700_000_000, tz=UTC).replace(microsecond=123456),
    }
    try:
        answer: object = cel.evaluate(text, everything)
    except Exception:  # noqa: BLE001 - the library raises many types
        answer = None

    expected = TRUE if answer is True else FALSE if answer is False else INDETERMINATE

    assert errors == TOO_LARGE or expected == truths


QUOTED = st.text(alphabet="ab\"'\\\\rRbB+ \n/", max_size=14)


@given(QUOTED)
def test_strings_end_where_they_end_for_the_library(text: str):
    """Were they to end elsewhere, an argument could be read that is not looked at."""
    try:
        program = cel.compile(text)
    except ValueError:
        return
    tokens = tokenize(text)

    assert set(program.variables()) == {token.text for token in tokens if token.kind == "name"}
    for token in tokens:
        if (value := string_value(token)) is not None:
            assert value == cel.evaluate(token.text)


@given(QUOTED)
def test_what_is_no_token_does_not_parse(text: str):
    try:
        tokenize(text)
    except NoToken:
        with pytest.raises(ValueError, match="Failed to parse"):
            cel.compile(text)
