"""The engine of three-valued conditions says what the specification says, and keeps its laws."""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gatescore.policy.arguments import compile_arguments
from gatescore.truth import AND, FALSE, INDETERMINATE, OR, TRUE, negate
from tests.properties import strategies_args as some
from tests.spec import args_spec
from tests.spec.json_spec import opaque

NAMES = {FALSE: "false", INDETERMINATE: "indeterminate", TRUE: "true"}
EFFECTS = st.sampled_from(["allow", "deny", "ask"])
VALUES = st.one_of(some.values(), some.values(markers=True))
ARGUMENTS = st.one_of(some.arguments(), some.arguments(markers=True))

# One example is cheap here, and says little.
THOROUGH = settings(max_examples=5 * settings().max_examples)


def lower(limit, text):
    """A keyword of our own, for tests: it cannot tell of texts with an accent."""
    if "é" in text:
        raise ValueError(text)
    return text.islower() is limit


class Lower:
    def compile(self, value, path):
        return lambda text: lower(value, text)


KEYWORDS = {"x-lower": Lower()}


@pytest.fixture(autouse=True, scope="module")
def custom_keyword():
    args_spec.CUSTOM["x-lower"] = lower
    yield
    del args_spec.CUSTOM["x-lower"]


def judge(args, arguments, effect="deny", anywhere=None):
    return judge_all(args, [arguments], effect, anywhere)[0]


def judge_all(args, cases, effect="deny", anywhere=None):
    """The engine's truth values; `must` and `may` asked one by one must give the same."""
    condition = compile_arguments(args, anywhere, restricting=effect != "allow", keywords=KEYWORDS)
    found = []
    for arguments in cases:
        marked = opaque(arguments)
        truths = condition.judge(arguments, opaque=marked)
        must, may = condition.must(arguments, opaque=marked), condition.may(arguments, opaque=marked)
        assert (must, may) == (truths == TRUE, truths != FALSE)
        found.append(truths)
    event(NAMES[found[0]])
    return found


def judge_value(schema, value):
    return judge({"a": schema}, {"a": value})


@THOROUGH
@given(st.data(), VALUES)
def test_engine_agrees_with_specification_on_one_schema(data, value):
    schema = data.draw(some.schemas(value))
    cases = [value, *some.SAMPLES]
    for case, truths in zip(cases, judge_all({"a": schema}, [{"a": case} for case in cases]), strict=True):
        assert args_spec.judge(schema, case) == truths, (schema, case)


@THOROUGH
@given(st.data(), ARGUMENTS, EFFECTS)
def test_engine_agrees_with_specification_on_all_arguments(data, arguments, effect):
    args = data.draw(some.conditions(arguments))
    cases = [arguments, {}, *(case for case in some.SAMPLES if isinstance(case, dict))]
    for case, truths in zip(cases, judge_all(args, cases, effect), strict=True):
        assert args_spec.judge_arguments(args, case, effect) == truths, (args, case)


@THOROUGH
@given(st.data(), ARGUMENTS, EFFECTS)
def test_engine_agrees_with_specification_on_leaves_and_keys(data, arguments, effect):
    schema = data.draw(schemas_of_leaves(arguments))
    cases = [arguments, *({"a": case} for case in some.SAMPLES)]
    for case, truths in zip(cases, judge_all(None, cases, effect, schema), strict=True):
        assert args_spec.judge_anywhere(schema, case, effect) == truths, (schema, case)


@given(st.data(), ARGUMENTS, EFFECTS)
def test_both_parts_of_a_condition_must_hold(data, arguments, effect):
    args = data.draw(some.conditions(arguments))
    anywhere = data.draw(schemas_of_leaves(arguments))
    both = judge(args, arguments, effect, anywhere)
    assert AND[judge(args, arguments, effect)][judge(None, arguments, effect, anywhere)] == both


@given(st.data(), VALUES)
def test_logic_is_kleenes(data, value):
    schema, other = data.draw(some.schemas(value)), data.draw(some.schemas(value))
    truths, others = judge_value(schema, value), judge_value(other, value)
    negated, twice = judge_value({"not": schema}, value), judge_value({"not": {"not": schema}}, value)
    either = judge_value({"anyOf": [schema, other]}, value)
    if args_spec.marker(value):  # whatever is said is indeterminate, also where logic knows better
        assert negated == twice == either == INDETERMINATE
    else:
        assert (negated, twice) == (negate(truths), truths)
        assert either <= OR[truths][others]  # below it where a branch has no say


@given(st.data(), VALUES)
def test_the_order_of_keywords_does_not_matter(data, value):
    schema = data.draw(some.schemas(value))
    if not isinstance(schema, bool):
        assert judge_value(schema, value) == judge_value(dict(reversed(schema.items())), value)


@given(st.data(), some.values())
def test_what_a_marker_hides_could_not_have_changed_a_decision(data, value):
    schema = data.draw(some.schemas(value))
    truths = judge_value(schema, data.draw(with_a_marker(value)))
    if truths != INDETERMINATE:
        assert truths == judge_value(schema, value)


@given(st.data(), ARGUMENTS)
def test_markers_are_looked_for_only_where_the_caller_says_so(data, arguments):
    """Without markers both validators say the same; with one, an object that is not to be one is plain."""
    condition = compile_arguments(data.draw(some.conditions(arguments)), restricting=True, keywords=KEYWORDS)
    if not opaque(arguments):
        assert condition.judge(arguments) == condition.judge(arguments, opaque=True)
    truths = condition.judge(arguments, opaque=True)
    withheld = condition.judge(arguments, withheld=True)
    assert withheld == (truths if truths != INDETERMINATE else FALSE | INDETERMINATE | TRUE)


@given(st.data(), ARGUMENTS, EFFECTS)
def test_an_explanation_tells_the_truth(data, arguments, effect):
    args = data.draw(some.conditions(arguments))
    condition = compile_arguments(args, restricting=effect != "allow", keywords=KEYWORDS)
    marked = opaque(arguments)
    entries = condition.failures(arguments, opaque=marked)
    assert [name for name, _, _ in entries] == [key.removesuffix("?") for key in args]
    assert min(truths for _, truths, _ in entries) == condition.judge(arguments, opaque=marked)
    assert all(text and "\n" not in text for _, _, text in entries)
    text = condition.indeterminate_text(arguments, opaque=marked)
    assert bool(text) == any(truths == INDETERMINATE for _, truths, _ in entries)


@st.composite
def schemas_of_leaves(draw, arguments):
    """Schemas that `anywhere` takes: they say something of leaves."""
    leaves = [leaf for leaf in args_spec.leaves_and_keys(arguments) if not args_spec.marker(leaf)]
    schema = draw(some.schemas(draw(st.sampled_from([*leaves, "a"])), depth=2))
    if schema is True or (isinstance(schema, dict) and not args_spec.said(schema)):
        return {"pattern": "a"}
    decided = [args_spec.decides(schema, name) for name in ("null", "boolean", "number", "string")]
    return schema if any(decided) else {"anyOf": [schema, {"pattern": "a"}]}


@st.composite
def with_a_marker(draw, value):
    """*value*, with a marker in place of some part."""
    held = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
    if not held or not draw(st.booleans()):
        return draw(st.sampled_from(some.MARKERS))
    key = draw(st.sampled_from(list(held)))
    held = {**held, key: draw(with_a_marker(held[key]))}
    return list(held.values()) if isinstance(value, list) else held
