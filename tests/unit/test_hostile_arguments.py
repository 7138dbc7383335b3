"""
Arguments that were made to break whoever looks at them.

Each gets an answer: a decision, and deny wherever a limit is passed. What could end the process, or
keep it busy for good, is judged in a process of its own, so that a crash there is a failure here.
"""

import copy
import dataclasses
import datetime
import enum
import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
import uuid
import weakref
from collections import OrderedDict, UserDict, UserString, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatescore.canonical import canonical_text, digest
from gatescore.decide import decide
from gatescore.explain import explain
from gatescore.history import History
from gatescore.model import Decision, Effect, SessionStarted, ToolCall
from gatescore.policy import Policy
from gatescore.report.text import explanation_text
from gatescore.score import score_permissions

PATIENCE = 60
"""Seconds that a process may take; what is judged in it takes one or two."""

POLICIES: dict[str, dict[str, Any]] = {
    "allow": {"rules": [{"allow": "tool"}]},
    "allow args": {"rules": [{"allow": "tool", "args": {"x": {"not": {"const": "never"}}}}]},
    "allow any": {"rules": [{"allow": "tool", "args": {"*": {"not": {"const": "never"}}}}]},
    "allow anywhere": {"rules": [{"allow": "tool", "anywhere": {"not": {"const": "never"}}}]},
    "allow when": {"rules": [{"allow": "tool", "when": "args.x != 'never'"}]},
    "deny args": {"default": "allow", "rules": [{"deny": "tool", "args": {"x": {"const": "never"}}}]},
    "deny any": {"default": "allow", "rules": [{"deny": "tool", "args": {"*": {"const": "never"}}}]},
    "deny anywhere": {"default": "allow", "rules": [{"deny": "tool", "anywhere": {"const": "never"}}]},
    "deny when": {"default": "allow", "rules": [{"deny": "tool", "when": "args.x == 'never'"}]},
    "ask args": {"default": "allow", "rules": [{"ask": "tool", "args": {"x": {"const": "never"}}}]},
    "keyed": {
        "tools": {"tool": {"once_per": ["x"]}},
        "rules": [
            {
                "allow": "tool",
                "after": {"tool": "tool", "same": ["x"]},
                "limit": {"executions": 1, "key": ["x"]},
            }
        ],
    },
}
LOADED = {word: Policy.from_dict(document) for word, document in POLICIES.items()}
IN_SESSION = History([SessionStarted(session_id="s")])


def answers(arguments: object) -> dict[str, Decision]:
    """The decision of every policy, each of them explained and shown as well."""
    call = ToolCall("tool", arguments, call_id="c")
    for policy in LOADED.values():
        assert explanation_text(explain(policy, IN_SESSION, call), call)
    assert digest(call.arguments).startswith("sha256:")
    return {word: decide(policy, IN_SESSION, call) for word, policy in LOADED.items()}


def effects(arguments: object) -> dict[str, Effect]:
    return {word: decision.effect for word, decision in answers(arguments).items()}


DENIED = dict.fromkeys(POLICIES, Effect.DENY)


# --- in a process of its own ---------------------------------------------------------------------


def work(requests: Connection) -> None:
    """Answer one request after the other, in a process that a crash may end."""
    while True:
        names: dict[str, Any] = {"json": json, "Decimal": Decimal}
        making, policies = requests.recv()
        exec(making, names)  # noqa: S102 - the code stands in this file
        call = ToolCall("tool", names.pop("arguments"))
        decisions = {
            word: decide(Policy.from_dict(spec), IN_SESSION, call) for word, spec in policies.items()
        }
        requests.send(
            {
                "invalid": call.invalid,
                "effects": {word: decision.effect.value for word, decision in decisions.items()},
                "errors": {word: decision.errors for word, decision in decisions.items()},
            }
        )


class Apart:
    """A process that judges; a new one where the last has ended."""

    def __init__(self) -> None:
        self.process: SpawnProcess | None = None

    def __call__(self, making: str, policies: dict[str, Any] = POLICIES) -> dict[str, Any]:
        """What is decided about the `arguments` that the code *making* makes."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.ours, theirs = context.Pipe()
            self.process = context.Process(target=work, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
        self.ours.send((textwrap.dedent(making), policies))
        try:
            assert self.ours.poll(PATIENCE), "no answer in time"
            told: dict[str, Any] = self.ours.recv()
        except BaseException:
            self.close()
            raise
        return told

    def close(self) -> None:
        if self.process is not None:
            self.ours.close()
            self.process.kill()
            self.process.join()
            self.process = None


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    judge = Apart()
    yield judge
    judge.close()


@pytest.mark.parametrize(
    "crash",
    ["import os; os._exit(3)", "raise SystemExit", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"],
)
def test_a_crash_of_the_other_process_is_noticed(crash: str, apart: Apart):
    """The tests below would prove nothing otherwise; the next request is answered again."""
    with pytest.raises((EOFError, ConnectionError)):
        apart(crash)

    assert "allow" == apart("arguments = {'x': 1}")["effects"]["allow"]


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program by the interpreter and with the modules of this one."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


PAST_A_LIMIT = {
    "objects in objects": "arguments = {}\nfor _ in range(10_000): arguments = {'x': arguments}",
    "lists in lists": "x = []\nfor _ in range(10_000): x = [x]\narguments = {'x': x}",
    "tuples in tuples": "x = ()\nfor _ in range(10_000): x = (x,)\narguments = {'x': x}",
    "65 levels": "x = []\nfor _ in range(63): x = [x]\narguments = {'x': x}",
    "objects in the text of objects": "arguments = '{\"x\":' * 10_000 + '1' + '}' * 10_000",
    "lists in the text of lists": "arguments = '{\"x\":' + '[' * 10_000 + ']' * 10_000 + '}'",
    "a million brackets": "arguments = '{\"x\":' + '[' * 1_000_000 + ']' * 1_000_000 + '}'",
    "a million brackets that are not closed": "arguments = '{\"x\":' + '[' * 1_000_000",
    "brackets before quotes that are not closed": (
        "arguments = '{\"x\":' + '[' * 10_000 + chr(34) + (chr(92) + chr(34)) * 1_000_000"
    ),
    "brackets in text": "arguments = '{\"x\":' + '[' * 9_000 + '\"' + ']' * 9_000 + '\"' + ']' * 9_000 + '}'",
    "a text of 5 MB": "arguments = {'x': 'a' * 5_000_000}",
    "a text of 5 MB, as JSON": "arguments = json.dumps({'x': 'a' * 5_000_000})",
    "a text of 9 MB, as JSON": "arguments = json.dumps({'x': 'a' * 9_000_000})",
    "5 MB of quotes, as JSON": "arguments = json.dumps({'x': chr(34) * 4_500_000})",
    "a key of 5 MB": "arguments = {'a' * 5_000_000: 1}",
    "bytes of 5 MB": "arguments = {'x': bytes(5_000_000)}",
    "many texts": "arguments = {'x': ['a' * 1_000_000] * 5}",
    "a list of 5 million": "arguments = {'x': [None] * 5_000_000}",
    "one list many times": ("x = [0] * 1000\nfor _ in range(3): x = [x] * 1000\narguments = {'x': x}"),
    "a mapping without an end": """
        from collections.abc import Mapping
        class Endless(Mapping):
            def __getitem__(self, key): return key
            def __len__(self): return 1
            def __iter__(self):
                number = 0
                while True:
                    yield f"key {number}"
                    number += 1
        arguments = {'x': Endless()}
        """,
    "a set without an end": """
        from collections.abc import Set
        class Endless(Set):
            def __contains__(self, item): return True
            def __len__(self): return 1
            def __iter__(self):
                while True:
                    yield "a long text, since there is no end to it" * 1000
        arguments = {'x': Endless()}
        """,
    "5,000 digits": "arguments = {'x': 10 ** 5_000}",
    "5,000 digits below zero": "arguments = {'x': -(10 ** 5_000)}",
    "5,000 digits, as JSON": "arguments = '{\"x\": ' + '9' * 5_000 + '}'",
    "5 million digits, as JSON": "arguments = '{\"x\": ' + '9' * 5_000_000 + '}'",
    "5,000 digits as a key": "arguments = {10 ** 5_000: 1}",
    "a decimal of a billion digits": "arguments = {'x': Decimal('1e999999999')}",
    "a decimal of minus a billion digits": "arguments = {'x': Decimal('-1e999999999')}",
    "a decimal that lies about its size": """
        class Small(Decimal):
            def adjusted(self): return 0
            def is_finite(self): return True
        arguments = {'x': Small('1e999999999')}
        """,
    "1e999, as JSON": "arguments = '{\"x\": 1e999}'",
    "-1e999, as JSON": "arguments = '{\"x\": -1e999}'",
    "an exponent of a million digits": "arguments = '{\"x\": 1e' + '9' * 1_000_000 + '}'",
    "a dict in itself": "arguments = {}\narguments['x'] = arguments",
    "a list in itself": "x = []\nx.append(x)\narguments = {'x': x}",
    "a tuple round a list that holds it": "x = []\ny = (x,)\nx.append(y)\narguments = {'x': y}",
    "a dataclass in itself": """
        from dataclasses import dataclass
        @dataclass
        class Node:
            next: object = None
        x = Node()
        x.next = x
        arguments = {'x': x}
        """,
    "a mapping in itself": """
        from collections import UserDict
        arguments = UserDict()
        arguments['x'] = arguments
        """,
    "a key twice": 'arguments = \'{"x": 1, "x": 2}\'',
    "a key twice, deep inside": 'arguments = \'{"x": [{"y": {"z": 1, "z": 1}}]}\'',
    "a key twice among 100,000": (
        "arguments = '{' + ','.join(f'\"k{n}\": 1' for n in range(100_000)) + ', \"k99999\": 2}'"
    ),
    "a key as text and as number": "arguments = {'1': 'a', 1: 'b'}",
    "half of a surrogate pair in a key": "arguments = {chr(0xD800): 1}",
    "half of a surrogate pair in a key, deep inside": "arguments = {'x': [{'y' + chr(0xDFFF): 1}]}",
    "half of a surrogate pair in a key, as JSON": "arguments = r'{\"\\ud800\": 1}'",
    "NaN": "arguments = {'x': float('nan')}",
    "NaN, as JSON": "arguments = '{\"x\": [NaN]}'",
    "a decimal NaN": "arguments = {'x': Decimal('sNaN')}",
    "an object that cannot be looked at": """
        class Hostile:
            @property
            def __class__(self): raise SystemError
        arguments = Hostile()
        """,
}


@pytest.mark.parametrize("word", PAST_A_LIMIT)
def test_what_is_past_a_limit_is_invalid_and_denied_by_every_policy(word: str, apart: Apart):
    """Also by a policy that says nothing about arguments, and by one that allows by default."""
    told = apart(PAST_A_LIMIT[word])

    assert told["invalid"]
    assert len(told["invalid"]) < 300
    assert DENIED == told["effects"]


WITHIN_THE_LIMITS = {
    "64 levels": "x = []\nfor _ in range(62): x = [x]\narguments = {'x': x}",
    "a text of 3.9 MB": "arguments = {'x': 'a' * 3_900_000}",
    "a text of 3.9 MB, as JSON": "arguments = json.dumps({'x': '\\n' * 3_900_000})",
    "a list of 1.9 million": "arguments = {'x': [None] * 1_900_000}",
    "4,000 digits": "arguments = {'x': 10 ** 3_999}",
    "4,000 digits, as JSON": "arguments = '{\"x\": ' + '9' * 4_000 + '}'",
    "a small decimal": "arguments = {'x': Decimal('1e-999999999')}",
    "a list that pretends to have no end": """
        class Endless(list):
            def __iter__(self):
                while True: yield 1
            def __len__(self): return 10 ** 12
        arguments = {'x': Endless([1])}
        """,
    "a dict that pretends to have no end": """
        class Endless(dict):
            def items(self):
                while True: yield "a", 1
            def __iter__(self):
                while True: yield "a"
            keys = __iter__
        arguments = {'x': Endless(y=1)}
        """,
    "a model that is made of models": """
        class Model:
            model_fields = {}
            def model_dump(self): return Model()
        arguments = {'x': Model()}
        """,
    "half of a surrogate pair": "arguments = {'x': chr(0xD800)}",
    "half of a surrogate pair, as JSON": 'arguments = r\'{"x": "\\udfff"}\'',
}


@pytest.mark.parametrize("word", WITHIN_THE_LIMITS)
def test_what_is_within_the_limits_is_judged(word: str, apart: Apart):
    """The limits are where they are said to be, and nothing below them ends the process."""
    told = apart(WITHIN_THE_LIMITS[word])

    assert (None, "allow") == (told["invalid"], told["effects"]["allow"])


BIG: dict[str, tuple[dict[str, Any], str]] = {
    "contains": ({"args": {"x": {"contains": {"const": 99_999}}}}, "yes"),
    "contains nothing": ({"args": {"x": {"contains": {"const": -1}}}}, "no"),
    "contains few": ({"args": {"x": {"contains": {"minimum": 99_000}, "maxContains": 999}}}, "no"),
    "items": ({"args": {"x": {"items": {"maximum": 99_999}}}}, "yes"),
    "items of another type": ({"args": {"x": {"items": {"pattern": "a"}}}}, "?"),
    "uniqueItems": ({"args": {"x": {"uniqueItems": True}}}, "yes"),
    "maxItems": ({"args": {"x": {"maxItems": 99_999}}}, "no"),
    "anywhere": ({"anywhere": {"not": {"const": -1}}}, "yes"),
    "all": ({"when": "args.x.all(i, i <= 99999)"}, "yes"),
    "exists": ({"when": "args.x.exists(i, i == 99999)"}, "yes"),
    "exists_one": ({"when": "args.x.exists_one(i, i == 99999)"}, "yes"),
    "in": ({"when": "-1 in args.x"}, "no"),
    "size": ({"when": "size(args.x) == 100000"}, "yes"),
    "map": ({"when": "args.x.map(i, i + 1).size() == 100000"}, "?"),
    "filter": ({"when": "args.x.filter(i, i > 5).size() == 99994"}, "?"),
    "all of all": ({"when": "args.x.all(i, args.x.exists(j, i == j))"}, "?"),
}
"""Conditions on the list of the numbers below 100,000, and what is true of them: yes, no, or too much work."""

EXPECTED = {"yes": ("allow", "deny"), "no": ("deny", "allow"), "?": ("deny", "deny")}


@pytest.mark.parametrize("word", BIG)
def test_a_list_of_100_000_is_judged_or_refused_and_never_judged_wrongly(word: str, apart: Apart):
    """What would take too long has no answer, which restricts."""
    condition, truth = BIG[word]
    policies = {
        "allow": {"rules": [{"allow": "tool", **condition}]},
        "deny": {"default": "allow", "rules": [{"deny": "tool", **condition}]},
    }
    told = apart("arguments = {'x': list(range(100_000))}", policies)

    assert (None, EXPECTED[truth]) == (told["invalid"], tuple(told["effects"].values()))
    assert [truth == "?"] * 2 == [bool(errors) for errors in told["errors"].values()]


@pytest.mark.parametrize(
    "items",
    [
        "[[n] for n in range(100_000)]",
        "[{'a': n} for n in range(100_000)]",
        "[n + 0.5 for n in range(100_000)]",
        "[str(n) for n in range(100_000)]",
        "[{'a': {'b': [n]}} for n in range(100_000)]",
        "[float(n) for n in range(50_000)] + list(range(50_000, 100_000))",
    ],
)
def test_the_items_of_a_long_list_are_compared_whatever_they_are(items: str, apart: Apart):
    """Each with each would be five thousand million comparisons."""
    policies = {"allow": {"rules": [{"allow": "tool", "args": {"x": {"uniqueItems": True}}}]}}

    assert "allow" == apart(f"arguments = {{'x': {items}}}", policies)["effects"]["allow"]
    assert "deny" == apart(f"arguments = {{'x': {items} * 2}}", policies)["effects"]["allow"]


def test_an_object_of_100_000_members_is_judged(apart: Apart):
    """As many names as items above, each of them against a pattern."""
    policies = {
        "known": {"rules": [{"allow": "tool", "args": {"*": {"maximum": 99_999}}}]},
        "named": {
            "rules": [{"allow": "tool", "args": {"key_7": {"const": 7}, "*": {"not": {"pattern": "a"}}}}]
        },
        "deep": {"rules": [{"allow": "tool", "anywhere": {"not": {"pattern": "^other"}}}]},
    }
    told = apart("arguments = {f'key_{n}': n for n in range(100_000)}", policies)

    assert {"known": "allow", "named": "deny", "deep": "allow"} == told["effects"]


SLOW_PATTERNS = {
    "^(a+)+$": "",
    "^(a|aa)+$": "",
    "^(a|a?)+$": "",
    "(a*)*b": "b",
    "^(([a-z])+.)+[A-Z]([a-z])+$": "!Aa",
    "(.*)(.*)(.*)(.*)(.*)z$": "z",
}
"""Patterns, each with an end that a text of `a` needs to match it."""


@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
def test_no_pattern_is_slow_on_any_text(pattern: str, apart: Apart):
    """An engine that tries every way would take longer than the universe is old; giving up is "no match"."""
    conditions: dict[str, dict[str, Any]] = {
        "args": {"args": {"x": {"pattern": pattern}}},
        "keys": {"args": {"y": {"propertyNames": {"pattern": pattern}}}},
        "anywhere": {"anywhere": {"pattern": pattern}},
        "when": {"when": f"args.x.matches('{pattern}')"},
    }
    policies = {
        word: {"default": "allow", "rules": [{"deny": "tool", **condition}]}
        for word, condition in conditions.items()
    }
    for end, effect in (("!", "allow"), (SLOW_PATTERNS[pattern], "deny")):
        making = f"x = 'a' * 1_000_000 + {end!r}\narguments = {{'x': x, 'y': {{x: 1}}}}"
        assert dict.fromkeys(conditions, effect) == apart(making, policies)["effects"]


def test_arguments_can_be_looked_at_from_a_stack_of_any_depth():
    """A tool may be called far down in a recursion; what is left of the stack can only restrict."""
    done = python("""
import sys
from gatescore.model import ToolCall
sys.setrecursionlimit(1_000)
def down(depth):
    return ToolCall("tool", {"x": [[[[1]]]]}) if depth == 0 else down(depth - 1)
calls = [down(depth) for depth in range(985)]
print({str(call.arguments) for call in calls if call.invalid is None})
print({call.invalid for call in calls[-5:]})
""")

    assert "" == done.stderr
    assert [
        str({"{'x': [[[[1]]]]}"}),
        str({"arguments nest deeper than the stack that is left can follow"}),
    ] == done.stdout.splitlines()


# --- in a recording ------------------------------------------------------------------------------

DEEP = "[" * 10_000 + "]" * 10_000
HOSTILE_JSON = {
    "an object 10,000 deep": f'{{"x": {DEEP}}}',
    "a text of an object 10,000 deep": json.dumps(f'{{"x": {DEEP}}}'),
    "a list 10,000 deep": DEEP,
    "a text of 5 MB": json.dumps({"x": "a" * 5_000_000}),
    "a number of 5,000 digits": f'{{"x": {"9" * 5_000}}}',
    "a number past all others": '{"x": 1e999}',
    "a key twice": '{"x": 1, "x": 2}',
    "half of a surrogate pair in a key": '{"\\ud800": 1}',
    "not a number": '{"x": NaN}',
    "a list of 5 million": json.dumps({"x": [0] * 5_000_000}),
}


@pytest.mark.parametrize("word", HOSTILE_JSON)
def test_a_recorded_call_with_hostile_arguments_is_scored_and_its_neighbours_too(word: str, tmp_path: Path):
    """Read from a file, by the command line: one call is invalid, and the rest of the line is what it was."""
    policy, recording = tmp_path / "policy.json", tmp_path / "runs.jsonl"
    policy.write_text(json.dumps(POLICIES["allow"]))
    call = f'{{"id": "bad", "name": "tool", "arguments": {HOSTILE_JSON[word]}}}'
    good = '{"id": "good", "name": "tool", "arguments": {"x": 1}}'
    line = f'{{"id": "s", "proposed": [{good}, {call}, {good}], "executed": [{good}, {good}]}}\n'
    recording.write_text(line + '{"id": "t", "proposed": [], "executed": []}\n')

    done = python(
        "from gatescore.cli import main; main()",
        "score",
        str(recording),
        "-p",
        str(policy),
        "--format",
        "json",
    )

    assert (1, "") == (done.returncode, done.stderr)
    card = json.loads(done.stdout)
    assert (2, 3) == (card["planner"]["authorized"], card["planner"]["total"])
    assert (2, 2) == (card["execution"]["authorized"], card["execution"]["total"])
    assert ["bad"] == [told["call_id"] for told in card["planner"]["unauthorized"]]
    assert ["s", "t"] == [session["id"] for session in card["sessions"]]


@pytest.mark.parametrize("place", ["metadata", "expected", "prompt", "output", "catalogue", "unknown"])
def test_what_is_not_judged_in_a_line_may_be_10_000_deep(place: str, tmp_path: Path):
    """It is passed over; the calls beside it are scored."""
    policy, recording = tmp_path / "policy.json", tmp_path / "runs.jsonl"
    policy.write_text(json.dumps(POLICIES["allow"]))
    call = f'{{"id": "a", "name": "tool", "output": {DEEP if place == "output" else "null"}}}'
    recording.write_text(f'{{"id": "s", "proposed": [{call}], "executed": [{call}], "{place}": {DEEP}}}\n')

    done = python("from gatescore.cli import main; main()", "score", str(recording), "-p", str(policy))

    assert (0, "") == (done.returncode, done.stderr)


def test_a_call_10_000_deep_can_be_explained(tmp_path: Path):
    """On the command line as elsewhere."""
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICIES["allow"]))
    call = f'{{"name": "tool", "arguments": {{"x": {DEEP}}}}}'

    done = python("from gatescore.cli import main; main()", "explain", str(policy), "--call", call)

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("tool: deny - its arguments are not valid: arguments are nested deeper")


@pytest.mark.parametrize(
    "name", ["\ud800", "a\ud800", "\x1b[2J", "a\nb", "\u202etool", "a" * 100_000, "*", "a/" * 10_000]
)
def test_a_recorded_name_is_judged_and_shown_whatever_is_in_it(name: str, tmp_path: Path):
    """Names come from models; neither the engine nor the terminal may be moved by them."""
    policy, recording = tmp_path / "policy.json", tmp_path / "runs.jsonl"
    policy.write_text(
        json.dumps({"rules": [{"allow": ["tool", "mcp:kb/*"]}, {"deny": ["*secret*", "**x?z"]}]})
    )
    calls = [{"id": name, "name": name}, {"name": name, "server": name}]
    recording.write_text(json.dumps({"id": name, "proposed": calls, "executed": calls}) + "\n")

    for style in ("text", "json"):
        done = python(
            "from gatescore.cli import main; main()", "score", str(recording), "-p", str(policy), "-f", style
        )
        assert (1, "") == (done.returncode, done.stderr)
        assert not {"\x1b", "\u202e"} & set(done.stdout)


# --- objects -------------------------------------------------------------------------------------


def explode(*_: object, **__: object) -> Any:
    raise RuntimeError("hostile")


class Silent:
    """Raises at every way of looking at it that can be overridden."""

    __str__ = __repr__ = __bytes__ = __len__ = __iter__ = __bool__ = __dir__ = explode
    __int__ = __float__ = __index__ = __contains__ = __getitem__ = __call__ = __reduce__ = explode
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = explode
    __hash__ = object.__hash__
    __getattr__ = explode


class NoClass:
    """Raises where it is asked what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("hostile")


class Mask:
    """Says that it is a text."""

    __class__ = str  # type: ignore[assignment]


class NamelessType(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("hostile")


class Nameless(metaclass=NamelessType):
    """Its type does not say its name."""


class LongNameType(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return "a" * 5_000_000


class LongName(metaclass=LongNameType):
    """Its type says a name of 5 MB."""


class BadText(str):
    __slots__ = ()
    __str__ = __repr__ = __eq__ = __hash__ = __len__ = __iter__ = isascii = encode = strip = explode


class BadKey(str):
    """A text whose comparison raises, and that can be a key."""

    __slots__ = ()
    __eq__ = __str__ = explode
    __hash__ = str.__hash__


class BadInteger(int):
    __str__ = __repr__ = __eq__ = __int__ = __index__ = bit_length = explode
    __hash__ = int.__hash__


class BadFloat(float):
    __str__ = __repr__ = __eq__ = __float__ = is_integer = explode
    __hash__ = float.__hash__


class BadDecimal(Decimal):
    is_finite = adjusted = to_integral_value = __eq__ = __float__ = __int__ = explode
    __hash__ = Decimal.__hash__


class BadList(list[Any]):
    __iter__ = __len__ = __getitem__ = __eq__ = explode


class BadTuple(tuple[Any, ...]):
    __slots__ = ()
    __iter__ = __len__ = __getitem__ = __eq__ = __hash__ = explode


class BadDict(dict[Any, Any]):
    __iter__ = __len__ = __getitem__ = __eq__ = items = keys = values = get = explode


class BadSet(frozenset[Any]):
    __iter__ = __len__ = __contains__ = __eq__ = explode
    __hash__ = frozenset.__hash__


class BadBytes(bytes):
    __bytes__ = __iter__ = __len__ = explode


class RaisingMapping(Mapping[str, Any]):
    __getitem__ = __iter__ = __len__ = explode


class LateMapping(Mapping[str, Any]):
    """Raises after some of its members were given."""

    def __iter__(self) -> Iterator[str]:
        yield "a"
        raise RuntimeError("hostile")

    def __getitem__(self, key: str) -> Any:
        return key

    def __len__(self) -> int:
        return 2


class OddItems(UserDict[Any, Any]):
    """Its items are no pairs."""

    def items(self) -> Any:
        return [1, 2, 3]


class RaisingSet(Set[Any]):
    __contains__ = __iter__ = __len__ = explode


class RaisingSequence(Sequence[Any]):
    __getitem__ = __len__ = explode


class RaisingDate(datetime.datetime):
    isoformat = explode


class OddDate(datetime.date):
    """Its text is another one of its kind."""

    def isoformat(self) -> Any:
        return OddDate(2026, 11, 30)


class RaisingPath(type(PurePath())):  # type: ignore[misc]
    __str__ = explode


class RaisingId(uuid.UUID):
    __str__ = explode


@dataclasses.dataclass
class RaisingField:
    x: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "x":
            raise RuntimeError("hostile")
        return object.__getattribute__(self, name)


class RaisingModel:
    model_fields = {"x": None}  # noqa: RUF012 - as in pydantic
    model_dump = explode


class RaisingModelType(type):
    __getattr__ = explode


class RaisingModelClass(metaclass=RaisingModelType):
    """Its type raises when an attribute is looked up."""


class RaisingValue(enum.Enum):
    A = 1

    @property
    def value(self) -> Any:
        raise RuntimeError("hostile")


class Colour(str, enum.Enum):  # noqa: UP042 - this kind as well
    RED = "red"


class Point(NamedTuple):
    x: Any
    y: Any


def dead() -> Any:
    """A weak reference to what is gone."""

    class Thing:
        pass

    thing = Thing()
    proxy = weakref.proxy(thing)
    del thing
    return proxy


OPAQUE: dict[str, Callable[[], Any]] = {
    "object": object,
    "silent": Silent,
    "without a class": NoClass,
    "masked as text": Mask,
    "without a name": Nameless,
    "with a name of 5 MB": LongName,
    "mapping": RaisingMapping,
    "mapping that raises late": LateMapping,
    "mapping without pairs": lambda: OddItems(a=1),
    "set": RaisingSet,
    "sequence": RaisingSequence,
    "bytes": lambda: BadBytes(b"a"),
    "date": lambda: RaisingDate(2026, 11, 30),
    "date of dates": lambda: OddDate(2026, 11, 30),
    "path": lambda: RaisingPath("a"),
    "uuid": lambda: RaisingId(int=1),
    "field": RaisingField,
    "model": RaisingModel,
    "class of a model": RaisingModelClass,
    "enum": lambda: RaisingValue.A,
    "dead reference": dead,
    "mock": MagicMock,
    "function": lambda: explode,
    "type": lambda: int,
    "generator": lambda: (n for n in range(3)),
    "iterator": lambda: iter([1]),
    "complex": lambda: 1j,
    "ellipsis": lambda: ...,
    "range": lambda: range(10**12),
    "user string": lambda: UserString("a"),
    "huge fraction": lambda: Fraction(10**5_000, 3),
    "exception": lambda: RuntimeError("hostile"),
    "mapping with other keys": lambda: {(1, 2): 3},
    "mapping with true as a key": lambda: {True: 1},
    "mapping with null as a key": lambda: {None: 1},
    "mapping with a float as a key": lambda: {1.5: 1},
    "mapping with a hostile key": lambda: {Silent(): 1},
    "mapping with a key without a class": lambda: {NoClass(): 1},
    "mapping with a key that is an enum": lambda: {RaisingValue.A: 1},
}
"""What JSON cannot hold, or cannot be had."""


@pytest.mark.parametrize("word", OPAQUE)
@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: [1, x], lambda x: {"a": {"b": x}}, lambda x: (x,), lambda x: UserDict(a=x)],
    ids=["alone", "in a list", "in an object", "in a tuple", "in a mapping"],
)
def test_what_json_cannot_hold_has_no_answer_under_any_condition(word: str, wrap: Callable[[Any], Any]):
    """It restricts and never grants; a rule without a condition on it decides as ever."""
    arguments = {"x": wrap(OPAQUE[word]())}

    assert ToolCall("tool", arguments).opaque
    assert {**DENIED, "allow": Effect.ALLOW, "ask args": Effect.ASK} == effects(arguments)


@pytest.mark.parametrize("word", OPAQUE)
def test_what_json_cannot_hold_is_no_arguments(word: str):
    """In place of all arguments: invalid, or an object on which nothing can be judged."""
    call = ToolCall("tool", OPAQUE[word]())

    assert call.invalid is not None or call.opaque
    assert {Effect.DENY} == {
        effect for policy, effect in effects(OPAQUE[word]()).items() if policy not in {"allow", "ask args"}
    }


IN_DISGUISE: dict[str, tuple[Any, Any]] = {
    "text": (BadText("safe"), "safe"),
    "integer": (BadInteger(7), 7),
    "float": (BadFloat(7.5), 7.5),
    "decimal": (BadDecimal("7.5"), 7.5),
    "list": (BadList([1, 2]), [1, 2]),
    "tuple": (BadTuple([1, 2]), [1, 2]),
    "dict": (BadDict(a=1), {"a": 1}),
    "set": (BadSet([1, 2]), [1, 2]),
    "key": ({BadKey("a"): 1}, {"a": 1}),
    "enum that is a text": (Colour.RED, "red"),
    "named tuple": (Point(1, BadText("a")), [1, "a"]),
    "ordered": (OrderedDict(a=1), {"a": 1}),
    "with defaults": (defaultdict(list, a=1), {"a": 1}),
    "read-only": (MappingProxyType({"a": BadInteger(1)}), {"a": 1}),
}
"""Subclasses that raise or lie about themselves, and what they hold."""


@pytest.mark.parametrize("word", IN_DISGUISE)
def test_a_subclass_is_judged_as_what_it_holds(word: str):
    """Whatever its own methods say: the tool may read it without them."""
    value, plain = IN_DISGUISE[word]
    call = ToolCall("tool", {"x": value, "y": [value]})

    assert ({"x": plain, "y": [plain]}, None, False) == (call.arguments, call.invalid, call.opaque)
    assert [type(plain), list] == [type(item) for item in call.arguments.values()]
    assert effects({"x": plain}) == effects({"x": value})


def test_a_text_that_claims_to_be_another_is_judged_as_what_it_is():
    """The classic: equal to everything, and printed as harmless."""

    class Chameleon(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

        def __str__(self) -> str:
            return "never"

    policy = Policy.from_dict({"rules": [{"allow": "tool", "args": {"x": {"const": "never"}}}]})

    assert Effect.DENY == decide(policy, IN_SESSION, ToolCall("tool", {"x": Chameleon("rm -r /")})).effect


def test_a_call_is_a_snapshot():
    """What changes afterwards is another call."""
    arguments: dict[str, Any] = {"x": [{"y": 1}]}
    call = ToolCall("tool", arguments)
    arguments["x"][0]["y"] = 2

    assert {"x": [{"y": 1}]} == call.arguments
    assert call.arguments == copy.deepcopy(call.arguments)


def test_a_list_of_calls_with_hostile_arguments_is_scored():
    """Straight from Python, without a recording."""
    calls = [
        {"name": "tool", "arguments": arguments}
        for arguments in (Silent(), NoClass(), {"x": Silent()}, {"x": "a"})
    ]
    card = score_permissions(calls, LOADED["allow args"])

    assert (1, 4) == (card.planner.authorized, card.planner.total)


# --- by chance -----------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "x": "x",
    "hostile text": BadKey("y"),
    "number": 1,
    "digit": "1",
    "true": True,
    "null": None,
    "float": 1.5,
    "enum": Colour.RED,
    "hostile enum": RaisingValue.A,
    "half": "\ud800",
    "pair": ("x",),
}
NUMBERS: dict[str, Any] = {
    "of 4,000 digits": 10**3_999,
    "of 5,000 digits": 10**5_000,
    "of a billion digits": Decimal("1e999999999"),
    "next to nothing": Decimal("1e-999999999"),
}
MANY: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "hostile list": BadList,
    "hostile tuple": BadTuple,
    "point": lambda items: Point(*[*items, None, None][:2]),
}
NAMED: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "dict": dict,
    "hostile dict": BadDict,
    "mapping": UserDict,
}
Recipe = tuple[str, Any]
"""How to make an object: plain data, because the object itself could not even be printed."""


def made(recipe: Recipe) -> Any:
    kind, of = recipe
    if kind == "plain":
        return of
    if kind == "number":
        return NUMBERS[of]
    if kind == "opaque":
        return OPAQUE[of]()
    if kind == "disguise":
        return IN_DISGUISE[of][0]
    if kind in MANY:
        return MANY[kind]([made(part) for part in of])
    return NAMED[kind]({KEYS[key]: made(part) for key, part in of})


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.text(st.characters(), max_size=5),
    st.text(st.characters(categories=["Cs"]), max_size=2),
    st.binary(max_size=5),
    st.datetimes(),
    st.uuids(),
)
RECIPES: st.SearchStrategy[Recipe] = st.recursive(
    st.tuples(st.just("plain"), PLAIN)
    | st.tuples(st.just("number"), st.sampled_from(sorted(NUMBERS)))
    | st.tuples(st.just("opaque"), st.sampled_from(sorted(OPAQUE)))
    | st.tuples(st.just("disguise"), st.sampled_from(sorted(IN_DISGUISE))),
    lambda inner: (
        st.tuples(st.sampled_from(sorted(MANY)), st.lists(inner, max_size=3))
        | st.tuples(
            st.sampled_from(sorted(NAMED)),
            st.lists(st.tuples(st.sampled_from(sorted(KEYS)), inner), max_size=3),
        )
    ),
    max_leaves=8,
)
ARGUMENTS = RECIPES | st.tuples(
    st.just("dict"), st.lists(st.tuples(st.sampled_from(["x", "hostile text"]), RECIPES), max_size=1)
)


@given(ARGUMENTS)
def test_any_object_at_all_gets_an_answer(recipe: Recipe):
    """Invalid is denied by all; what cannot be judged never satisfies an allow, nor escapes a deny."""
    call = ToolCall("tool", made(recipe))
    decided = effects(made(recipe))

    if call.invalid is not None:
        assert DENIED == decided
        return
    assert Effect.ALLOW == decided["allow"]
    assert call.arguments == json.loads(canonical_text(call.arguments))
    if call.opaque:
        assert (Effect.DENY, Effect.DENY) == (decided["allow any"], decided["deny any"])
