"""
Public faults of kind A: what a policy says by default, and which of its rules goes before which.

Each test has the id of a fault in its name, and goes through the whole kind of it. Absent, empty,
unknown and erroneous are four states, and none of them means allow.
"""

import builtins
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gatescore.cli import run
from gatescore.decide import decide
from gatescore.errors import PolicyError
from gatescore.history import History
from gatescore.model import Decision, Effect, Facts, SessionStarted, ToolCall
from gatescore.policy import Policy
from gatescore.score import PermissionCard, score_permissions
from gatescore.traces import read_session

Document = dict[str, Any]
Call = tuple[str, dict[str, Any]]
Score = Callable[..., PermissionCard]
Place = tuple[str | int, ...]


def judged(policy: Policy | Document, name: str, arguments: object = None) -> Decision:
    """The verdict on a call that is the first of its session."""
    made = policy if isinstance(policy, Policy) else Policy.from_dict(policy)
    return decide(made, History([SessionStarted(session_id="s")]), ToolCall(name, arguments), Facts(now=0))


def effect(policy: Policy | Document, name: str, arguments: object = None) -> Effect:
    return judged(policy, name, arguments).effect


@pytest.fixture(params=["recorded as not invoked", "not recorded as an execution"])
def score(request: pytest.FixtureRequest) -> Score:
    """Scores a run of which some calls were blocked, in each of the two ways to record that."""

    def scored(policy: Policy | Document, calls: Sequence[Call], blocked: Sequence[int]) -> PermissionCard:
        proposed = [
            {"seq": number, "id": f"c{number}", "name": name, "arguments": arguments}
            for number, (name, arguments) in enumerate(calls)
        ]
        executed = [{**call, "invoked": call["seq"] not in blocked} for call in proposed]
        if request.param.startswith("not"):
            executed = [call for call in executed if call["invoked"]]
        session = read_session({"id": "s", "proposed": proposed, "executed": executed})
        return score_permissions(session, policy if isinstance(policy, Policy) else Policy.from_dict(policy))

    return scored


def shares(card: PermissionCard) -> tuple[tuple[float | None, int, int], tuple[float | None, int, int]]:
    """Score, authorized and total, of the planner check and of the execution check."""
    planner, execution = card.planner, card.execution
    return (
        (planner.score, planner.authorized, planner.total),
        (execution.score, execution.authorized, execution.total),
    )


BLOCKED = ((0.0, 0, 1), (1.0, 0, 0))
"""The shares of a run of one call that was blocked: proposed and not authorized, and never executed."""


def refusal(document: object) -> PolicyError:
    """Why a document is no policy; there being one fails the test."""
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict(document)  # type: ignore[arg-type]
    return caught.value


def ids(values: Sequence[object]) -> list[str]:
    return [f"{number}-{str(value)[:40]}" for number, value in enumerate(values)]


# --- A01: an empty list of allowed tools ---------------------------------------------------------


def in_yaml(folder: Path) -> Policy:
    (folder / "policy.yaml").write_text("allowed_tools: []\n")
    return Policy.load(folder / "policy.yaml")


def in_json(folder: Path) -> Policy:
    (folder / "policy.json").write_text('{"allowed_tools": []}')
    return Policy.load(folder / "policy.json")


EMPTY = {
    "yaml": in_yaml,
    "json": in_json,
    "python": lambda _: Policy(allowed_tools=[]),
    "a mapping": lambda _: Policy.from_dict({"allowed_tools": []}),
    "beside a list of denied tools": lambda _: Policy(allowed_tools=[], denied_tools=["other"]),
    "below a layer that allows all": lambda _: Policy.layered(
        Policy(rules=[{"allow": "**"}]), Policy(allowed_tools=[])
    ),
    "above a layer that allows all": lambda _: Policy.layered(
        Policy(allowed_tools=[]), Policy(rules=[{"allow": "**"}])
    ),
}


@pytest.mark.parametrize("form", EMPTY)
def test_a01_an_empty_list_of_allowed_tools_allows_nothing(form: str, score: Score, tmp_path: Path):
    """Truthiness would make one state of "nothing" and "not said"."""
    policy = EMPTY[form](tmp_path)

    assert (Effect.DENY, "no rule allows it") == (
        effect(policy, "search_kb"),
        judged(policy, "search_kb").reason,
    )
    assert BLOCKED == shares(score(policy, [("search_kb", {})], blocked=[0]))


def test_a01_the_score_of_a_list_of_calls_knows_the_empty_list_from_none():
    """The lists may be given to the score itself."""
    calls = [{"name": "search_kb"}]
    empty = score_permissions(calls, allowed_tools=[])
    none = score_permissions(calls, denied_tools=["other"])

    assert (0, 1, False) == (empty.planner.authorized, empty.planner.total, empty.passed)
    assert (1, 1, True) == (none.planner.authorized, none.planner.total, none.passed)
    assert ("only `denied_tools` was given, so every other tool is allowed",) == tuple(none.notes)


def test_a01_a_list_left_out_is_told_apart_from_an_empty_one():
    """In the loaded policy, in its digest, and in what it decides."""
    left_out = Policy(denied_tools=["other"], default="allow")
    empty = Policy(allowed_tools=[], denied_tools=["other"])

    assert ["denied_tools"] == [rule.id for rule in left_out.layers[0].rules]
    assert ["allowed_tools", "denied_tools"] == [rule.id for rule in empty.layers[0].rules]
    assert left_out.digest != empty.digest
    assert (Effect.ALLOW, Effect.DENY) == (effect(left_out, "search_kb"), effect(empty, "search_kb"))


NOTHING_SAID: list[object] = [
    {},
    {"rules": []},
    {"denied_tools": []},
    {"allowed_tools": None},
    {"allowed_tools": ""},
    {"allowed_tools": {}},
    {"allowed_tools": False},
    {"allowed_tools": 0},
    {"allowed_tools": [""]},
    {"allowed_tools": [None]},
    {"allowed_tools": [[]]},
    {"allowed_tools": [], "default": "allow"},
    {"allowed_tools": ["search_kb"], "default": "allow"},
    {"denied_tools": None, "default": "allow"},
    {"rules": None, "default": "allow"},
    {"rules": {}, "default": "allow"},
    {"default": "allow"},
    {"rules": [{"allow": []}]},
    {"rules": [{"allow": None}]},
    {"rules": [{"allow": {}}]},
    {"rules": [{"allow": {"labels": []}}]},
    {"rules": [{"deny": []}], "default": "allow"},
    {"rules": [{"deny": {"labels": []}}], "default": "allow"},
    {"rules": [{"ask": []}], "default": "allow"},
    {"rules": [{"allow": "search_kb", "after": {"tool": []}}]},
    {"rules": [{"allow": "search_kb", "after": {"tool": "x", "same": []}}]},
    {"rules": [{"allow": "search_kb", "after": {"tool": "x", "same": {}}}]},
    {"rules": [{"allow": "search_kb", "limit": {"executions": 1, "key": []}}]},
    {"rules": [{"allow": "search_kb"}], "tools": {"search_kb": {"once_per": []}}},
]


@pytest.mark.parametrize("document", NOTHING_SAID, ids=ids(NOTHING_SAID))
def test_a01_no_empty_list_and_no_absent_value_is_read_as_everything(document: Document):
    """An empty list inside of a rule narrows nothing, so nobody can have meant it."""
    assert refusal(document).message


def test_a01_an_empty_list_of_denied_tools_leaves_the_default_as_it_is_written():
    """It is a rule that matches nothing; the default still has to be said."""
    assert Effect.DENY == effect({"denied_tools": [], "default": "deny"}, "search_kb")
    assert Effect.ALLOW == effect({"denied_tools": [], "default": "allow"}, "search_kb")


def test_a01_no_labels_and_unknown_labels_are_two_states():
    """`labels: []` says that there are none; no entry says nothing, and a deny by label may hit."""
    document = {
        "default": "allow",
        "tools": {"plain": {"labels": []}},
        "rules": [{"deny": {"labels": ["out"]}}],
    }

    assert (Effect.ALLOW, Effect.DENY) == (effect(document, "plain"), effect(document, "unheard_of"))


def test_a01_an_empty_catalogue_offers_no_tool_and_an_absent_one_says_nothing():
    """Whether a name is unknown is a remark; the rules decide all the same."""
    policy = Policy(allowed_tools=[])
    line = {"id": "s", "proposed": [{"name": "search_kb"}], "executed": []}
    empty = score_permissions(read_session({**line, "catalog": []}), policy)
    absent = score_permissions(read_session(line), policy)

    assert [True, False] == [card.planner.unauthorized[0].unknown_tool for card in (empty, absent)]
    assert [0, 0] == [card.planner.authorized for card in (empty, absent)]


# --- A03: a misspelt key -------------------------------------------------------------------------

FULL: Document = {
    "gatescore": 1,
    "name": "support",
    "version": "7",
    "default": "deny",
    "allowed_tools": ["get_order"],
    "denied_tools": ["drop_table"],
    "tools": {
        "cancel_order": {
            "labels": ["external"],
            "once_per": ["order_id"],
            "safe_to_repeat": ["failed"],
            "schema": {"properties": {"order_id": {"type": "string"}}},
        }
    },
    "rules": [
        {
            "id": "narrow",
            "allow": ["cancel_order", "run_shell"],
            "args": {
                "order_id": {"type": "string", "pattern": "^[0-9]+$", "minLength": 1, "maxLength": 9},
                "amount": {"minimum": 1, "maximum": 9, "multipleOf": 1, "not": {"const": 5}},
                "rate": {"anyOf": [{"exclusiveMinimum": 1}, {"exclusiveMaximum": 0}]},
                "lines": {
                    "items": {"enum": ["a", "b"]},
                    "contains": {"const": "a"},
                    "minContains": 1,
                    "maxContains": 2,
                    "minItems": 1,
                    "maxItems": 3,
                    "uniqueItems": True,
                },
                "pair": {"prefixItems": [{"minimum": 1}]},
                "address": {
                    "properties": {"city": {"maxLength": 9}},
                    "patternProperties": {"^x": {"maximum": 9}},
                    "required": ["city"],
                    "propertyNames": {"maxLength": 9},
                    "minProperties": 1,
                    "maxProperties": 3,
                    "additionalProperties": False,
                },
                "note?": {"allOf": [{"maxLength": 9}]},
                "*": False,
            },
            "when": "args.amount < 9",
            "after": {
                "tool": "get_order",
                "args": {"deep": {"const": 1}},
                "same": ["order_id"],
                "within": {"calls": 5},
            },
            "limit": {"executions": 1, "per": "session", "key": ["order_id"], "window": "1h"},
            "reason": "Orders are cancelled one by one.",
        },
        {"id": "counted", "allow": {"labels": ["external"]}, "limit": {"calls": 9}},
        {"id": "gate", "ask": "issue_refund", "approval": {"attempts": 2}},
        {
            "id": "wall",
            "deny": ["*"],
            "anywhere": {"pattern": "secret"},
            "limit": {"proposals": 3, "then": "stop"},
        },
    ],
}

NAMING = {"tools", "args", "properties", "patternProperties"}
"""Below these keys stand names that an author chooses; a word that is not known there is no fault."""


def written_keys(value: object, path: Place = ()) -> Iterator[Place]:
    """The paths of all keys whose words the format gives."""
    if isinstance(value, dict) and path[-1:] != ("schema",):
        for key, item in value.items():
            if not NAMING & set(path[-1:]):
                yield (*path, key)
            yield from written_keys(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from written_keys(item, (*path, position))


def renamed(value: Any, path: Place, name: str) -> Any:
    """A copy of a document, the key at *path* being called *name*, in the same position."""
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return [renamed(item, rest, name) if number == step else item for number, item in enumerate(value)]
    return {
        (name if key == step and not rest else key): renamed(item, rest, name)
        if key == step and rest
        else item
        for key, item in value.items()
    }


KEYS = list(written_keys(FULL))


def test_a03_the_document_with_every_key_is_a_policy():
    """The tests below would pass on any document that is refused for another reason."""
    assert 6 == len(Policy.from_dict(FULL).layers[0].rules)
    assert 60 < len(KEYS)


@pytest.mark.parametrize("path", KEYS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize(
    "misspell", [lambda key: key + key[-1], str.upper], ids=["doubled letter", "capitals"]
)
def test_a03_a_misspelt_key_is_refused_by_name_wherever_it_stands(
    path: Place, misspell: Callable[[str], str]
):
    """A narrowing that is not read would leave the rule to allow everything."""
    wrong = misspell(str(path[-1]))
    error = refusal(renamed(FULL, path, wrong))

    assert f"`{wrong}`" in error.message
    assert ((*path[:-1], wrong), True) == (error.path, error.key)


@pytest.mark.parametrize("path", KEYS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a03_a_misspelt_key_in_a_file_is_shown_with_line_and_column(path: Place, suffix: str, tmp_path: Path):
    """Among fifty rules, the author has to find the one."""
    wrong = f"{path[-1]}x"
    text = json.dumps(renamed(FULL, path, wrong), indent=1)
    before = text.split(f'"{wrong}"')[0]
    file = tmp_path / f"policy.{suffix}"
    file.write_text(text)

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert (before.count("\n") + 1, len(before.split("\n")[-1]) + 1) == (
        caught.value.line,
        caught.value.column,
    )


MISSPELT_WORDS: list[tuple[Place, object]] = [
    (("default",), "dney"),
    (("tools", "cancel_order", "safe_to_repeat"), ["fialed"]),
    (("rules", 0, "args"), {"order_id": {"type": "strin"}}),
    (("rules", 0, "when"), "arg.amount < 9"),
    (("rules", 0, "when"), "args.amount.lessThan(9)"),
    (("rules", 0, "when"), "session.principle == 'user:1'"),
    (("rules", 0, "after", "within"), "10 minuts"),
    (("rules", 0, "limit", "per"), "sesion"),
    (("rules", 0, "limit", "window"), "1hr"),
    (("rules", 3, "limit", "then"), "halt"),
]


@pytest.mark.parametrize(("path", "word"), MISSPELT_WORDS, ids=ids(MISSPELT_WORDS))
def test_a03_a_misspelt_word_is_refused_as_a_misspelt_key_is(path: Place, word: object):
    """What narrows may stand on the right of the colon as well."""

    def put(value: Any, steps: Place) -> Any:
        if not steps:
            return word
        copy: Any = list(value) if isinstance(value, list) else dict(value)
        copy[steps[0]] = put(value[steps[0]], steps[1:])
        return copy

    error = refusal(put(FULL, path))

    assert path == error.path[: len(path)]


def test_a03_a_rule_with_a_misspelt_narrowing_is_never_the_rule_without_it(tmp_path: Path):
    """The published case: an allow of a shell for one command only."""
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n  - {allow: run_shell, arg: {command: {const: make lint}}}\n")

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert f"{file}:2:24: unknown key `arg`: did you mean `args`?" == str(caught.value)


def test_a03_a_misspelt_argument_narrows_to_nothing(score: Score):
    """Names of arguments are free, so this loads; the argument is absent, and that never allows."""
    policy = {"rules": [{"id": "lint", "allow": "run_shell", "args": {"comand": {"const": "make lint"}}}]}
    decision = judged(policy, "run_shell", {"command": "rm -r build"})

    assert Effect.DENY == decision.effect
    assert ("`lint`: comand is absent",) == decision.errors
    assert BLOCKED == shares(score(policy, [("run_shell", {"command": "rm -r build"})], blocked=[0]))


# --- A04: a rule that does not parse -------------------------------------------------------------

NO_NAMES = [
    "run_shell(rm -rf /)*",
    "run_shell(rm -rf /)",
    "run_shell(*)",
    "(run_shell)",
    "run_shell(",
    "run_shell)",
    "run_shell[rm]",
    "run_shell{rm}",
    "run_shell:<rm>",
    "run_shell|rm",
    "run_shell,rm",
    "run_shell; rm",
    "!run_shell",
    "^run_shell$",
    "run_shell\\*",
    '"run_shell"',
    "run_shell=rm",
    "run_shell\n",
    "run\u200bshell",
    "run_shell ",
    " ",
    "mcp:kb",
    "mcp:/search",
    "mcp__kb",
]
PLACES: dict[str, Callable[[str], Document]] = {
    "denied_tools": lambda name: {"denied_tools": [name], "default": "allow"},
    "allowed_tools": lambda name: {"allowed_tools": ["a", name]},
    "deny": lambda name: {"rules": [{"deny": name}], "default": "allow"},
    "ask": lambda name: {"rules": [{"ask": ["a", name]}], "default": "allow"},
    "allow": lambda name: {"rules": [{"allow": name}]},
    "after": lambda name: {"rules": [{"deny": "a", "after": {"tool": name}}], "default": "allow"},
    "tools": lambda name: {"rules": [{"allow": "a"}], "tools": {name: {"labels": []}}},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NO_NAMES, ids=ids(NO_NAMES))
def test_a04_what_is_no_name_of_a_tool_is_refused_in_every_place(place: str, name: str):
    """Fifty deny rules that are skipped with a warning are fifty holes."""
    assert refusal(PLACES[place](name)).message


def test_a04_a_condition_behind_a_name_is_answered_with_where_conditions_stand(tmp_path: Path):
    """It is how other systems write it."""
    file = tmp_path / "policy.yaml"
    file.write_text("default: allow\ndenied_tools:\n  - drop_table\n  - run_shell(rm -rf /)*\n")

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert (
        f"{file}:4:5: `run_shell(rm -rf /)*` is not a tool name: conditions on arguments go under `args:`, "
        "beside the name of the tool"
    ) == str(caught.value)


UNREADABLE: list[Document] = [
    {"args": {"command": "rm"}},
    {"args": {"command": {"pattern": "("}}},
    {"args": {"command": {"pattern": "(?=rm)"}}},
    {"args": {"command": {"pattern": 5}}},
    {"args": {"command": {"starts_with": "rm"}}},
    {"args": {"command": {"format": "uri"}}},
    {"args": {"command": {"oneOf": [{"const": "rm"}]}}},
    {"args": {"command": {"enum": "rm"}}},
    {"args": {"command": {"x-command": {"programs": ["rm"]}}}},
    {"args": ["command"]},
    {"args": "command"},
    {"anywhere": "rm"},
    {"when": "args.command startsWith 'rm'"},
    {"when": "args.command ="},
    {"when": "command == 'rm'"},
    {"when": "args.command.matches('(')"},
    {"when": {"args.command": "rm"}},
    {"when": ["args.command == 'rm'"]},
    {"after": "get_order"},
    {"after": {"same": ["command"]}},
    {"after": {"tool": "get_order", "within": "soon"}},
    {"after": {"tool": "get_order", "within": -5}},
    {"limit": 5},
    {"limit": {"executions": "five"}},
    {"reason": {"text": "no"}},
    {"id": ["a", "b"]},
]


@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
@pytest.mark.parametrize("part", UNREADABLE, ids=ids(UNREADABLE))
def test_a04_a_rule_with_a_part_that_cannot_be_read_refuses_the_policy(kind: str, part: Document):
    """The whole policy: not the rule alone, and not the part alone."""
    error = refusal({"default": "allow", "rules": [{kind: "other"}, {kind: "run_shell", **part}]})

    assert ("rules", 1, next(iter(part))) == error.path[:3]


# --- A05 and A06: arguments that are missing, or of another type ---------------------------------

VALUES: dict[str, dict[str, Any]] = {
    "absent": {},
    "null": {"x": None},
    "boolean": {"x": True},
    "number": {"x": 5000},
    "string": {"x": "5000"},
    "array": {"x": [5000]},
    "object": {"x": {"value": 5000}},
}

CONDITIONS: dict[str, tuple[Document, set[str]]] = {
    "maximum": ({"maximum": 1000}, {"number"}),
    "exclusiveMinimum": ({"exclusiveMinimum": 1000}, {"number"}),
    "multipleOf": ({"multipleOf": 7}, {"number"}),
    "const": ({"const": 5000}, {"number"}),
    "enum": ({"enum": ["example.com", "example.org"]}, {"string"}),
    "not in": ({"not": {"enum": ["example.com"]}}, {"string"}),
    "neither": ({"enum": [1, "1"]}, {"number", "string"}),
    "pattern": ({"pattern": "^5"}, {"string"}),
    "minLength": ({"minLength": 2}, {"string"}),
    "items": ({"items": {"maximum": 9}}, {"array"}),
    "contains": ({"contains": {"const": 5000}}, {"array"}),
    "uniqueItems": ({"uniqueItems": True}, {"array"}),
    "prefixItems": ({"prefixItems": [{"maximum": 9}]}, {"array"}),
    "properties": ({"properties": {"value": {"maximum": 9}}}, {"object"}),
    "required": ({"required": ["value"]}, {"object"}),
    "minProperties": ({"minProperties": 1}, {"object"}),
    "type beside a bound": ({"type": "number", "maximum": 1000}, {"number"}),
    "type in a conjunction": ({"allOf": [{"type": "string"}, {"pattern": "^5"}]}, {"string"}),
    "either": ({"anyOf": [{"maximum": 9}, {"pattern": "^9"}]}, {"number", "string"}),
}


def rule_over_default(kind: str, rule: Document, **parts: Any) -> Document:
    """A policy that would decide otherwise if the rule did not restrict, or did grant."""
    return {
        "default": "deny" if kind == "allow" else "allow",
        "rules": [{"id": "r", kind: "pay", **rule}],
        **parts,
    }


FAIL_SAFE = {"deny": Effect.DENY, "ask": Effect.ASK, "allow": Effect.DENY}


@pytest.mark.parametrize("kind", FAIL_SAFE)
@pytest.mark.parametrize("negated", [False, True], ids=["plain", "negated"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a05_a06_a_value_that_a_condition_is_not_about_restricts_and_never_grants(
    name: str, kind: str, *, negated: bool
):
    """Absent, null, or of another type: a deny and an ask hit, an allow does not."""
    schema, about = CONDITIONS[name]
    policy = rule_over_default(kind, {"args": {"x": {"not": schema} if negated else schema}})
    others = [value for value in VALUES if value not in about]

    assert dict.fromkeys(others, FAIL_SAFE[kind]) == {
        value: effect(policy, "pay", VALUES[value]) for value in others
    }


@pytest.mark.parametrize("kind", FAIL_SAFE)
@pytest.mark.parametrize("name", CONDITIONS)
def test_a05_a06_a_condition_decides_the_values_that_it_is_about(name: str, kind: str):
    """A gate that restricts whatever comes would pass the test above: one of the two negations grants."""
    schema, about = CONDITIONS[name]
    plain, negated = (
        {
            value: effect(rule_over_default(kind, {"args": {"x": condition}}), "pay", VALUES[value])
            for value in about
        }
        for condition in (schema, {"not": schema})
    )

    assert [{FAIL_SAFE[kind], Effect.ALLOW}] * len(about) == [
        {plain[value], negated[value]} for value in about
    ]


@pytest.mark.parametrize("kind", FAIL_SAFE)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a05_a_member_that_is_missing_deep_inside_restricts_and_never_grants(kind: str, depth: int):
    """Three values at every depth, not at the first alone."""
    schema: Document = {"not": {"enum": ["example.com"]}}
    value: Any = {}
    for _ in range(depth):
        schema = {"properties": {"in": schema}}
    for _ in range(depth - 1):
        value = {"in": value}

    assert FAIL_SAFE[kind] == effect(rule_over_default(kind, {"args": {"x": schema}}), "pay", {"x": value})


@pytest.mark.parametrize("kind", FAIL_SAFE)
@pytest.mark.parametrize("arguments", [{}, {"x": None}], ids=["absent", "null"])
def test_a05_an_argument_that_may_be_left_out_satisfies_an_allow_and_hits_nothing(
    kind: str, arguments: dict[str, Any]
):
    """The question mark is how an author says that absence is no fault."""
    policy = rule_over_default(kind, {"args": {"x?": {"not": {"enum": ["example.com"]}}}})

    assert Effect.ALLOW == effect(policy, "pay", arguments)


def test_a05_a_deny_by_exclusion_hits_where_the_argument_is_left_out(score: Score):
    """The published case: mail to any domain but one's own."""
    outside = {"args": {"domain": {"not": {"enum": ["example.com"]}}}}
    policy = {"default": "allow", "rules": [{"id": "outside", "deny": "send_email", **outside}]}
    calls = [
        ("send_email", {"to": "x@evil.test"}),
        ("send_email", {"domain": "example.com", "to": "y@example.com"}),
    ]
    first, second = (judged(policy, *call) for call in calls)

    assert (Effect.DENY, ("outside",), ("`outside`: domain is absent",)) == (
        first.effect,
        first.rules,
        first.errors,
    )
    assert (Effect.ALLOW, (), ()) == (second.effect, second.rules, second.errors)
    assert ((0.5, 1, 2), (1.0, 1, 1)) == shares(score(policy, calls, blocked=[0]))
    assert Effect.DENY == effect({"rules": [{"allow": "send_email", **outside}]}, *calls[0])


def test_a06_a_deny_that_cannot_be_evaluated_denies_and_says_so(score: Score):
    """The published case: an amount wrapped in an object, over a default that allows."""
    policy = {
        "default": "allow",
        "rules": [{"id": "large", "deny": "wire_transfer", "args": {"amount": {"exclusiveMinimum": 1000}}}],
    }
    call: Call = ("wire_transfer", {"amount": {"value": 5000}})
    decision = judged(policy, *call)
    card = score(policy, [call], blocked=[0])

    assert (Effect.DENY, ("large",)) == (decision.effect, decision.rules)
    assert "a rule may deny it, and could not be judged" == decision.reason
    assert BLOCKED == shares(card)
    [told] = card.planner.unauthorized
    assert (decision.rules, decision.errors, decision.reason) == (told.rules, told.errors, told.reason)
    assert ["`large`: amount"] == [error[:15] for error in told.errors]


RAISING = [
    "args.x > 1000",
    "!(args.x <= 1000)",
    "args.missing > 1000",
    "args.x.y.z == 1",
    "args.list[5] == 1",
    "args.map['b'] == 1",
    "1 / args.zero == 1",
    "args.big * args.big > 0",
    "args.text > 5",
    "args.text + 1 == 2",
    "args.text.startsWith(5)",
    "args.x",
    "args.text",
    "args.list",
    "args.text.matches(args.pattern)",
    "int(args.text) > 5",
    "timestamp(args.text) > now",
    "session.attributes.missing == 1",
    "session.principal == 'user:1'",
    "args.list.all(i, i > 'a')",
]
ODD_ARGUMENTS = {
    "x": {"value": 5000},
    "list": [1],
    "map": {"a": 1},
    "zero": 0,
    "big": 2**62,
    "text": "abc",
    "pattern": "(",
}


@pytest.mark.parametrize("kind", FAIL_SAFE)
@pytest.mark.parametrize("expression", RAISING)
def test_a06_an_expression_without_an_answer_restricts_and_never_grants(kind: str, expression: str):
    """Whatever raises inside, and whatever is not exactly true or false."""
    decision = judged(rule_over_default(kind, {"when": expression}), "pay", ODD_ARGUMENTS)

    assert FAIL_SAFE[kind] == decision.effect
    assert [True] == [error.startswith("`r`: `when`: ") for error in decision.errors]


@pytest.mark.parametrize("kind", FAIL_SAFE)
@pytest.mark.parametrize(
    "expression", ["args.x != 'example.com'", "!(args.x in ['example.com'])", "args.x == '5000'"]
)
def test_a06_a_comparison_across_types_has_no_answer_where_the_type_is_declared(kind: str, expression: str):
    """CEL says false, and raises nothing, where it compares values of two types."""
    declared = {"tools": {"pay": {"schema": {"properties": {"x": {"type": "string"}}}}}}
    policy = rule_over_default(kind, {"when": expression}, **declared)
    others = [value for value in VALUES if value != "string"]

    assert dict.fromkeys(others, FAIL_SAFE[kind]) == {
        value: effect(policy, "pay", VALUES[value]) for value in others
    }


@pytest.mark.parametrize("kind", FAIL_SAFE)
def test_a06_a_value_that_json_cannot_hold_has_no_answer(kind: str):
    """Nobody can compare what nobody can read."""
    opaque = {"x": object()}
    conditions = [{"args": {"x": schema}} for schema, _ in CONDITIONS.values()] + [{"when": "args.x == 1"}]

    assert {FAIL_SAFE[kind]} == {effect(rule_over_default(kind, rule), "pay", opaque) for rule in conditions}


# --- A07: no rule matches ------------------------------------------------------------------------


def test_a07_what_no_rule_speaks_about_is_denied(score: Score):
    """Undefined is not "not false"."""
    policy = {"rules": [{"allow": "get_order"}]}
    call: Call = ("cancel_order", {"id": "814"})
    decision = judged(policy, *call)

    assert (Effect.DENY, (), (), "no rule allows it") == (
        decision.effect,
        decision.rules,
        decision.errors,
        decision.reason,
    )
    assert BLOCKED == shares(score(policy, [call], blocked=[0]))


NO_POLICIES: list[object] = [
    {},
    None,
    [],
    "",
    "allow",
    True,
    1,
    {"result": True},
    {"result": {"allow": True}},
    {"allow": True},
    {"decision": "allow"},
    {"default": "allow"},
    [{"allow": "cancel_order"}],
]


@pytest.mark.parametrize("answer", NO_POLICIES, ids=ids(NO_POLICIES))
@pytest.mark.parametrize("form", ["python", "policy.yaml", "policy.json"])
def test_a07_whatever_is_not_a_policy_is_refused(answer: object, form: str, tmp_path: Path):
    """An empty answer of whoever keeps the policies must not be taken for consent."""
    if form == "python":
        assert refusal(answer).message
        return
    file = tmp_path / form
    file.write_text(json.dumps(answer))

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert (str(file), 1) == (caught.value.source, caught.value.line)


@pytest.mark.parametrize("content", ["", "\n", "# allow everything\n", "---\n", "null", "~", "--- \n...\n"])
def test_a07_an_empty_file_is_refused(content: str, tmp_path: Path):
    """A file that was cut to nothing says nothing."""
    file = tmp_path / "policy.yaml"
    file.write_text(content)

    with pytest.raises(PolicyError, match="the policy is empty: write `allowed_tools:") as caught:
        Policy.load(file)

    assert str(file) == caught.value.source


NOT_QUITE_ALLOW = [
    "Allow",
    "ALLOW",
    "allow ",
    "allowed",
    "permit",
    "yes",
    "ok",
    "",
    "none",
    None,
    True,
    1,
    ["allow"],
]


@pytest.mark.parametrize("default", NOT_QUITE_ALLOW, ids=ids(NOT_QUITE_ALLOW))
def test_a07_a_default_is_one_of_three_words_exactly(default: object):
    """Any value that is not exactly allow is not allow, and is not silently something else either."""
    error = refusal({"default": default, "rules": [{"deny": "x"}]})

    assert ("default",) == error.path


@pytest.mark.parametrize(
    "expression", ["args.yes", "args.one", "args.text", "args.none", "args.list", "args.map"]
)
def test_a07_an_expression_allows_only_if_it_is_exactly_true(expression: str):
    """Neither 1, nor the text `true`, nor anything else that is not nothing."""
    policy = {"rules": [{"allow": "pay", "when": expression}]}
    arguments = {"yes": True, "one": 1, "text": "true", "none": None, "list": [True], "map": {"allow": True}}

    assert (Effect.ALLOW if expression == "args.yes" else Effect.DENY) == effect(policy, "pay", arguments)


def test_a07_a_default_that_asks_does_not_allow(score: Score):
    """And without anybody's yes, what ran is not authorized."""
    policy = {"default": "ask", "rules": [{"allow": "get_order"}]}
    card = score(policy, [("cancel_order", {})], blocked=[])

    assert Effect.ASK == effect(policy, "cancel_order")
    assert ((1.0, 1, 1), (0.0, 0, 1)) == shares(card)


# --- A08: the policy cannot be had ---------------------------------------------------------------


def unreadable(error: OSError) -> Callable[[Path, pytest.MonkeyPatch], Path]:
    """A policy file that is there, and that fails when it is read."""

    def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        file = folder / "policy.yaml"
        file.write_text("default: allow\ndenied_tools: [refund]\n")
        opened = builtins.open

        def failing(name: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(name, str) and Path(name) == file:
                raise error
            return opened(name, *arguments, **options)

        monkeypatch.setattr(builtins, "open", failing)
        return file

    return make


def containing(content: bytes) -> Callable[[Path, pytest.MonkeyPatch], Path]:
    def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        file = folder / "policy.yaml"
        file.write_bytes(content)
        return file

    return make


def missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return folder / "nowhere" / "policy.yaml"


def broken_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "policy.yaml").symlink_to(folder / "nowhere")
    return folder / "policy.yaml"


def link_to_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "policy.yaml").symlink_to(folder / "policy.yaml")
    return folder / "policy.yaml"


def extending_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "policy.yaml").write_text("extends: base.yaml\ndefault: allow\n")
    return folder / "policy.yaml"


OUTAGES: dict[str, Callable[[Path, pytest.MonkeyPatch], Path]] = {
    "missing": missing,
    "folder": lambda folder, _: folder,
    "broken link": broken_link,
    "link to itself": link_to_itself,
    "binary": containing(b"\x7fELF\x02\x01\x01\x00\x00"),
    "utf-16": containing("default: allow\n".encode("utf-16")),
    "latin-1": containing("name: gr\xfcn\ndefault: allow\nrules: []\n".encode("latin-1")),
    "zeros": containing(b"\0" * 4096),
    "cut in the middle": containing(b"default: allow\ndenied_tools: [refund, "),
    "extends a missing file": extending_nothing,
    "time-out": unreadable(TimeoutError(110, "Connection timed out")),
    "no permission": unreadable(PermissionError(13, "Permission denied")),
    "broken disk": unreadable(OSError(5, "Input/output error")),
    "gone": unreadable(OSError(116, "Stale file handle")),
    "without a word": unreadable(TimeoutError()),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_a08_a_policy_that_cannot_be_read_is_never_a_policy(
    outage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No engine is built, so there is none that could let a call pass."""
    file = OUTAGES[outage](tmp_path, monkeypatch)

    with pytest.raises(PolicyError) as caught:
        Policy.load(file)

    assert caught.value.source is not None


@pytest.mark.parametrize("outage", OUTAGES)
def test_a08_no_run_is_scored_without_its_policy(
    outage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Exit status 2: unusable, which is neither passed nor failed."""
    recording = tmp_path / "runs.jsonl"
    recording.write_text(
        '{"id": "s", "proposed": [{"name": "refund", "arguments": {"amount": 10}}], "executed": []}\n'
    )
    file = OUTAGES[outage](tmp_path, monkeypatch)

    assert 2 == run(["score", str(recording), "--policy", str(file)])

    told = capsys.readouterr()
    assert ("", 1) == (told.out, len(told.err.splitlines()))
    assert told.err.startswith("gatescore: ")


def test_a08_a_reader_that_fails_in_another_way_yields_no_policy_either(monkeypatch: pytest.MonkeyPatch):
    """Whatever is raised, nothing comes back."""

    def failing(*arguments: Any, **options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(builtins, "open", failing)

    with pytest.raises(MemoryError):
        Policy.load("policy.yaml")


# --- A09: an allow of a session, a deny of the configuration -------------------------------------

KEYS_RULE = {"id": "keys", "deny": "write_file", "args": {"path": {"pattern": "^/srv/keys/"}}}
GRANTS: dict[str, Document] = {
    "a folder": {"allow": "write_file", "args": {"path": {"pattern": "^/srv/"}}},
    "the very file": {"allow": "write_file", "args": {"path": {"const": "/srv/keys/a"}}},
    "the tool": {"allow": "write_file"},
    "everything": {"allow": "**"},
    "an expression": {"allow": "write_file", "when": "args.path.startsWith('/srv/')"},
    "any arguments": {"allow": "*", "args": {"*": True}},
}
WRITE: Call = ("write_file", {"path": "/srv/keys/a"})


@pytest.mark.parametrize("grant", GRANTS)
def test_a09_no_allow_overrides_a_deny_whatever_their_order(grant: str, score: Score):
    """A deny is final; it does not matter which of the two is narrower."""
    rules = [{"id": "grant", **GRANTS[grant]}, KEYS_RULE]
    for ordered in itertools.permutations(rules):
        decision = judged({"rules": list(ordered)}, *WRITE)
        assert (Effect.DENY, ("keys",)) == (decision.effect, decision.rules)

    assert Effect.ALLOW == effect({"rules": rules[:1]}, *WRITE)
    assert BLOCKED == shares(score({"rules": rules}, [WRITE], blocked=[0]))


@pytest.mark.parametrize("grant", GRANTS)
def test_a09_no_layer_overrides_the_deny_of_another(grant: str):
    """A grant that is kept for a session is one layer more, and a layer only narrows."""
    configured = Policy.from_dict({"name": "organisation", "default": "allow", "rules": [KEYS_RULE]})
    granted = Policy.from_dict({"name": "session", "rules": [{"id": "grant", **GRANTS[grant]}]})
    idle = Policy.from_dict({"name": "team", "rules": [{"allow": "**"}]})

    for layers in itertools.permutations([configured, granted, idle]):
        decision = judged(Policy.layered(*layers), *WRITE)
        assert (Effect.DENY, ("keys",)) == (decision.effect, decision.rules)


def test_a09_a_file_that_extends_another_cannot_take_back_its_deny(tmp_path: Path):
    """Nor can it allow what the other does not."""
    (tmp_path / "base.yaml").write_text(json.dumps({"default": "allow", "rules": [KEYS_RULE]}))
    (tmp_path / "session.yaml").write_text(
        json.dumps(
            {"extends": "base.yaml", "default": "allow", "rules": [{"id": "grant", **GRANTS["everything"]}]}
        )
    )
    decision = judged(Policy.load(tmp_path / "session.yaml"), *WRITE)

    assert (Effect.DENY, ("keys",)) == (decision.effect, decision.rules)


def test_a09_nobody_can_say_yes_to_what_is_denied():
    """An approval on the record answers an ask, and nothing else."""
    policy = Policy.from_dict({"rules": [{"ask": "write_file"}, KEYS_RULE]})
    call = {"name": "write_file", "arguments": {"path": "/srv/keys/a"}, "approval": {"by": "ann"}}
    card = score_permissions(read_session({"id": "s", "proposed": [call], "executed": [call]}), policy)

    assert ((0.0, 0, 1), (0.0, 0, 1)) == shares(card)
    assert ["deny", "deny"] == [
        told.effect for told in card.planner.unauthorized + card.execution.unauthorized
    ]


# --- A10: on the list of denials and on the list of questions ------------------------------------

THREE: list[Document] = [
    {"id": "no", "deny": "list_dir"},
    {"id": "anything", "ask": "*"},
    {"id": "yes", "allow": "list_dir"},
]
ORDERS = list(itertools.permutations(range(3)))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("default", ["deny", "ask", "allow"])
def test_a10_what_is_denied_is_never_asked_about(order: tuple[int, ...], default: str, score: Score):
    """Deny before ask before allow; a question would invite a yes."""
    policy = {"default": default, "rules": [THREE[number] for number in order]}
    call: Call = ("list_dir", {"path": "/"})
    decision = judged(policy, *call)
    card = score(policy, [call], blocked=[0])

    assert (Effect.DENY, ("no",)) == (decision.effect, decision.rules)
    assert BLOCKED == shares(card)
    assert 0 == card.planner.asked


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a10_what_one_layer_denies_is_never_asked_about_for_another(order: tuple[int, ...]):
    """The same, each rule in a policy of its own."""
    layers = [Policy.from_dict({"default": "allow", "rules": [rule]}) for rule in THREE]
    decision = judged(Policy.layered(*(layers[number] for number in order)), "list_dir", {"path": "/"})

    assert (Effect.DENY, ("no",)) == (decision.effect, decision.rules)


def test_a10_what_is_asked_about_is_not_allowed_by_another_rule():
    """The second half of the order."""
    decision = judged({"rules": THREE[1:]}, "list_dir", {"path": "/"})

    assert (Effect.ASK, ("anything",)) == (decision.effect, decision.rules)


def test_a10_a_deny_that_cannot_be_judged_is_not_asked_about_either():
    """It may be meant, and nobody should be asked to overrule it."""
    doubtful = {"id": "doubtful", "deny": "list_dir", "args": {"depth": {"maximum": 3}}}
    decision = judged({"rules": [*THREE[1:], doubtful]}, "list_dir", {"path": "/"})

    assert (Effect.DENY, ("doubtful",)) == (decision.effect, decision.rules)


# --- A11: two tools allowed, all denied ----------------------------------------------------------


@pytest.mark.parametrize("everything", ["*", "**", "get_*", "?et_order", "GET_ORDER", "get_order"])
@pytest.mark.parametrize("first", ["allow", "deny"])
def test_a11_a_deny_of_everything_wins_and_is_named(everything: str, first: str, score: Score):
    """It only looks like a working list of allowed tools; the decision says which rule it was."""
    rules = [
        {"id": "two-tools", "allow": ["get_order", "find_order"]},
        {"id": "wall", "deny": everything, "reason": "Nothing runs here."},
    ]
    policy = {"rules": rules if first == "allow" else rules[::-1]}
    call: Call = ("get_order", {"id": "1"})
    decision = judged(policy, *call)
    card = score(policy, [call], blocked=[0])

    assert (Effect.DENY, ("wall",), "Nothing runs here.") == (
        decision.effect,
        decision.rules,
        decision.reason,
    )
    assert BLOCKED == shares(card)
    assert [("get_order", "deny", ("wall",))] == [
        (told.tool, told.effect, told.rules) for told in card.planner.unauthorized
    ]


def test_a11_every_decision_names_the_rules_that_made_it_and_no_others():
    """All that determined it, in the order of the policy; none where the default decided."""
    policy = {
        "rules": [
            {"id": "a1", "allow": "get_*"},
            {"id": "d1", "deny": "get_secret"},
            {"id": "a2", "allow": "get_order"},
            {"id": "q1", "ask": "get_price"},
            {"id": "d2", "deny": "*secret"},
        ]
    }
    names = ["get_order", "get_price", "get_secret", "put_order"]

    assert [
        (Effect.ALLOW, ("a1", "a2")),
        (Effect.ASK, ("q1",)),
        (Effect.DENY, ("d1", "d2")),
        (Effect.DENY, ()),
    ] == [(decision.effect, decision.rules) for decision in (judged(policy, name) for name in names)]


# --- A13: a gate that is half configured ---------------------------------------------------------

MALFORMED_GATES: list[Document] = [
    {"ask": {"tool": "send_money", "decisions": ["aprove", "reject"]}},
    {"ask": {"tool": "send_money"}},
    {"ask": {"name": "send_money"}},
    {"ask": {"labels": "money"}},
    {"ask": {"labels": []}},
    {"ask": {"labels": None}},
    {"ask": {}},
    {"ask": []},
    {"ask": ""},
    {"ask": None},
    {"ask": True},
    {"ask": [{"tool": "send_money"}]},
    {"ask": ["send_money", None]},
    {"ask": "send_money", "decisions": ["approve", "reject"]},
    {"ask": "send_money", "allowed_decisions": []},
    {"ask": "send_money", "approvers": []},
    {"ask": "send_money", "approval": None},
    {"ask": "send_money", "approval": {}},
    {"ask": "send_money", "approval": []},
    {"ask": "send_money", "approval": True},
    {"ask": "send_money", "approval": 2},
    {"ask": "send_money", "approval": "always"},
    {"ask": "send_money", "approval": {"attempt": 2}},
    {"ask": "send_money", "approval": {"attempts": 2, "by": "ann"}},
    {"ask": "send_money", "approval": {"attempts": 0}},
    {"ask": "send_money", "approval": {"attempts": -1}},
    {"ask": "send_money", "approval": {"attempts": 1.5}},
    {"ask": "send_money", "approval": {"attempts": "2"}},
    {"ask": "send_money", "approval": {"attempts": True}},
    {"ask": "send_money", "approval": {"attempts": None}},
    {"ask": "send_money", "allow": "send_money"},
    {"ask": "send_money", "deny": "send_money"},
    {"ask": "send_money", "reason": ""},
    {"ask": "send_money", "reason": None},
    {"ask": "send_money", "reason": ["a", "b"]},
    {"ask": "send_money", "args": {}},
    {"ask": "send_money", "args": None},
    {"ask": "send_money", "args": {"amount": None}},
    {"ask": "send_money", "when": ""},
    {"ask": "send_money", "when": None},
    {"ask": "send_money", "limit": {}},
    {"ask": "send_money", "limit": {"proposals": 1, "then": "ask"}},
    {"allow": "send_money", "approval": {"attempts": 2}},
    {"deny": "send_money", "approval": {"attempts": 2}},
]


@pytest.mark.parametrize("gate", MALFORMED_GATES, ids=ids(MALFORMED_GATES))
@pytest.mark.parametrize("default", ["allow", "deny"])
def test_a13_a_gate_that_is_not_wholly_understood_is_no_gate_and_no_policy(gate: Document, default: str):
    """Switched off without a word, it would let money go."""
    error = refusal({"default": default, "rules": [{"allow": "get_rate"}, gate]})

    assert ("rules", 1) == error.path[:2]


def test_a13_no_run_is_scored_under_a_gate_that_is_half_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The fault is shown with its place; there is no card."""
    file, recording = tmp_path / "policy.yaml", tmp_path / "runs.jsonl"
    file.write_text("rules:\n  - ask: {tool: send_money, decisions: [aprove, reject]}\n")
    recording.write_text('{"id": "s", "proposed": [{"name": "send_money"}], "executed": []}\n')

    assert 2 == run(["score", str(recording), "--policy", str(file)])
    assert ("", f"gatescore: {file}:2:11: unknown key `tool`: use one of `labels`\n") == capsys.readouterr()


def test_a13_a_gate_that_is_understood_asks_and_takes_the_yes_that_is_on_record():
    """The rest of the list says nothing if no gate works."""
    policy = Policy.from_dict({"rules": [{"id": "money", "ask": "send_money", "approval": {"attempts": 1}}]})
    call = {"id": "a", "name": "send_money", "arguments": {"amount": 1}}
    cards = [
        score_permissions(
            read_session({"id": "s", "proposed": [call], "executed": [{**call, **yes}]}), policy
        )
        for yes in ({}, {"approval": {"by": "ann"}})
    ]

    assert [((1.0, 1, 1), (0.0, 0, 1)), ((1.0, 1, 1), (1.0, 1, 1))] == [shares(card) for card in cards]
    assert [1, 1] == [card.planner.asked for card in cards]


# --- A14: a condition that is always true --------------------------------------------------------

ALWAYS: dict[str, Document] = {
    "a star": {"deny": "*"},
    "two stars": {"deny": "**"},
    "a list": {"deny": ["*", "other"]},
    "the name": {"deny": "ping"},
    "any arguments": {"deny": "*", "args": {"*": True}},
    "any arguments, written out": {"deny": "*", "args": {"*": {}}},
    "no other arguments": {"deny": "*", "args": {"*": False}},
    "true": {"deny": "*", "when": "true"},
    "an equation": {"deny": "*", "when": "1 == 1"},
    "not false": {"deny": "*", "when": "!false"},
    "what nobody has": {"deny": "*", "when": "!has(args.nobody)"},
}


@pytest.mark.parametrize("always", ALWAYS)
@pytest.mark.parametrize("first", ["allow", "deny"])
def test_a14_a_deny_that_matches_everything_is_a_deny_like_any_other(always: str, first: str, score: Score):
    """No short cut for "always true" may skip the effect of the rule that is."""
    rules = [{"id": "wall", **ALWAYS[always]}, {"id": "ping", "allow": "ping"}]
    policy = {"rules": rules if first == "deny" else rules[::-1]}
    decision = judged(policy, "ping", {})

    assert (Effect.DENY, ("wall",)) == (decision.effect, decision.rules)
    assert BLOCKED == shares(score(policy, [("ping", {})], blocked=[0]))


EMPTY_CONDITIONS: list[Document] = [
    {"when": {}},
    {"when": ""},
    {"when": "  "},
    {"when": []},
    {"when": None},
    {"when": True},
    {"when": "// always"},
    {"args": {}},
    {"args": []},
    {"args": None},
    {"args": True},
    {"args": None, "anywhere": {"const": 1}},
    {"args": {"x": {"const": 1}}, "anywhere": None},
    {"args": {"x": None}},
    {"anywhere": {}},
    {"anywhere": None},
    {"anywhere": True},
    {"after": {}},
    {"after": None},
    {"after": {"tool": "x", "args": {}}},
    {"after": {"tool": "x", "within": {}}},
    {"after": {"tool": "x", "within": ""}},
    {"after": {"tool": "x", "within": None}},
    {"limit": {}},
    {"limit": None},
]


@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
@pytest.mark.parametrize("condition", EMPTY_CONDITIONS, ids=ids(EMPTY_CONDITIONS))
def test_a14_an_empty_condition_is_neither_always_true_nor_always_false_but_refused(
    kind: str, condition: Document
):
    """Its author may have meant either."""
    error = refusal({"default": "allow", "rules": [{kind: "ping", **condition}]})

    assert ("rules", 0) == error.path[:2]
    assert error.path[2] in condition
