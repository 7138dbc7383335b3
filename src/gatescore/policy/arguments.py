"""
Conditions on the arguments of a call: `args` and `anywhere` of a rule.

A condition is compiled when its policy is loaded, into one validator that knows where it must be
true and one that knows where it may be; a decision asks each at most once, however many arguments
are named. How schemas become three-valued is the business of `gatescore.policy.three_valued`.

Source: DESIGN 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from gatescore.canonical import Json
from gatescore.errors import Path, PolicyError
from gatescore.policy.explanation import Explainer
from gatescore.policy.keywords import KEYWORDS, Keyword
from gatescore.policy.readings import Pair
from gatescore.policy.schema_check import check_schema, plain_copy
from gatescore.policy.schema_reading import LEAVES, asserts, decides
from gatescore.policy.three_valued import Compiler, Plain
from gatescore.truth import INDETERMINATE, UNKNOWN, Truths

REST: Final = "*"
"""The key of `args` that stands for every argument which the other keys do not name."""


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentsCondition:
    """
    What a rule asks of the arguments of a call: `args` and `anywhere`, both.

    Arguments are canonical (see `gatescore.canonical`): plain JSON, nested at most 64 deep. Where the
    caller says *opaque*, objects with the key ``$python`` or ``$withheld`` are markers of values that
    cannot be judged, and whatever is said about one is indeterminate; a marker in place of all the
    arguments makes the whole condition so. Without *opaque* they are objects like any other.

    Attributes:
        args: Schemas by key of `args`, ``name?`` and ``*`` among them; empty for none.
        anywhere: The schema of leaves and keys, or None.
        restricting: The condition stands in a deny or an ask: an absent ``name?`` does not meet it,
            and of leaves and keys some are enough.
    """

    args: Mapping[str, Any]
    anywhere: Any
    restricting: bool
    _keywords: Mapping[str, Keyword] = field(repr=False)
    _path: Path = field(repr=False)
    _plain: Pair = field(repr=False)
    # Made when first asked for. Two threads may both make one, and make the same.
    _opaque: list[Pair] = field(default_factory=list[Pair], init=False, repr=False)
    _explainers: dict[bool, Explainer] = field(default_factory=dict[bool, Explainer], init=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and sent to other processes as data: validators are bound to their process."""
        keywords = None if self._keywords is KEYWORDS else self._keywords
        return _compile_again, (self.args or None, self.anywhere, self.restricting, self._path, keywords)

    def must(
        self, arguments: dict[str, Json], errors: list[str] | None = None, *, opaque: bool = False
    ) -> bool:
        """
        Whether the condition is true of *arguments*.

        What goes wrong in a keyword or in the library is added to *errors*, and makes the answer False.
        """
        return self._pair(opaque=opaque).must.holds(arguments, errors)

    def may(
        self, arguments: dict[str, Json], errors: list[str] | None = None, *, opaque: bool = False
    ) -> bool:
        """
        Whether the condition is true of *arguments*, or indeterminate.

        What goes wrong in a keyword or in the library is added to *errors*, and makes the answer True.
        """
        return self._pair(opaque=opaque).may.holds(arguments, errors)

    def judge(
        self,
        arguments: dict[str, Json],
        errors: list[str] | None = None,
        *,
        opaque: bool = False,
        withheld: bool = False,
    ) -> Truths:
        """
        Judge *arguments*: true, false or indeterminate.

        Args:
            arguments: Canonical arguments.
            errors: Filled with what went wrong, each text once.
            opaque: Markers may stand in *arguments*.
            withheld: Some markers, at least, stand for values that the record does not tell. What is
                not decided whatever they are is unknown then: any of the three.
        """
        pair = self._pair(opaque=opaque or withheld)
        return pair.judge(arguments, errors, UNKNOWN if withheld else INDETERMINATE)

    def failures(self, arguments: dict[str, Json], *, opaque: bool = False) -> list[tuple[str, Truths, str]]:
        """
        Say of each part of the condition how *arguments* fare, for a person to read.

        One entry for each key of `args` (without its ``?``), then one called ``anywhere`` if there is
        one: the name, the truth value, and one line, such as ``amount = 5000: `maximum: 100` is not
        met``. Values are shown, and cut to 60 characters.
        """
        return list(self._explainer(opaque=opaque).explain(arguments, values=True))

    def indeterminate_text(self, arguments: dict[str, Json], *, opaque: bool = False) -> str:
        """
        Say why *arguments* cannot be judged: one line about the first part that is indeterminate.

        Values are not shown: the line goes into records that may not hold them. Empty where every
        part can be judged.
        """
        for _, truths, text in self._explainer(opaque=opaque).explain(arguments, values=False):
            if truths == INDETERMINATE:
                return text
        return ""

    def _pair(self, *, opaque: bool) -> Pair:
        if not opaque:
            return self._plain
        if not self._opaque:
            compiler = Compiler(self._keywords, self._path, opaque=True)
            self._opaque.append(_compile(compiler, self.args, self.anywhere, restricting=self.restricting))
        return self._opaque[0]

    def _explainer(self, *, opaque: bool) -> Explainer:
        if opaque not in self._explainers:
            self._explainers[opaque] = Explainer(
                self.args,
                self.anywhere,
                restricting=self.restricting,
                compiler=partial(Compiler, self._keywords, self._path, opaque=opaque),
                opaque=opaque,
            )
        return self._explainers[opaque]


def compile_arguments(
    args: object,
    anywhere: object = None,
    *,
    restricting: bool,
    path: Path = (),
    keywords: Mapping[str, Keyword] = KEYWORDS,
) -> ArgumentsCondition:
    """
    Compile `args`, `anywhere`, or both, of one rule.

    Args:
        args: A mapping of argument names to schemas; None for none. A name stands for itself and must
            be there; ``name?`` may be absent or null; ``*`` stands for all arguments not named.
        anywhere: A schema for leaves (null, booleans, numbers, strings) and keys; None for none.
        restricting: True in a deny or an ask, False in an allow.
        path: The place of the mapping in which the two stand.
        keywords: The ``x-`` keywords that may be used.

    Raises:
        PolicyError: With the path to what is wrong; also where both are None or empty.
    """
    schemas: dict[str, Any] = {}
    if args is not None or anywhere is None:
        schemas = _checked_args(args, (*path, "args"), keywords)
    leaves: Any = None
    if anywhere is not None:
        leaves = _checked_anywhere(anywhere, (*path, "anywhere"), keywords)
    pair = _compile(Compiler(keywords, path, opaque=False), schemas, leaves, restricting=restricting)
    return ArgumentsCondition(schemas, leaves, restricting, keywords, path, pair)


def _compile_again(
    args: object, anywhere: object, restricting: bool, path: Path, keywords: Mapping[str, Keyword] | None
) -> ArgumentsCondition:
    known = KEYWORDS if keywords is None else keywords
    return compile_arguments(args, anywhere, restricting=restricting, path=path, keywords=known)


def _checked_args(args: object, path: Path, keywords: Mapping[str, Keyword]) -> dict[str, Any]:
    copy = plain_copy(args, path)
    if copy is None or copy == {}:
        raise PolicyError("`args` is empty: name an argument, or leave `args` out", path=path)
    if not isinstance(copy, dict):
        raise PolicyError("`args` takes a mapping of argument names to schemas", path=path)
    checked: dict[str, Any] = {}
    for key, schema in copy.items():
        place = (*path, key)
        if key == f"{REST}?":
            raise PolicyError(
                f"`{REST}` stands for any arguments, also for none: write `{REST}`", path=place, key=True
            )
        if key == "?" or key.endswith("??"):
            raise PolicyError("`?` stands once, behind the name of an argument", path=place, key=True)
        if f"{key}?" in copy:
            raise PolicyError(
                f"`{key}` and `{key}?` are one argument: keep one of them", path=(*path, f"{key}?"), key=True
            )
        checked[key] = check_schema(schema, place, keywords)
    return checked


def _checked_anywhere(schema: object, path: Path, keywords: Mapping[str, Keyword]) -> Any:
    checked = check_schema(schema, path, keywords)
    if checked is True or (isinstance(checked, dict) and not asserts(checked)):
        raise PolicyError("`anywhere` says nothing: describe a value, or leave `anywhere` out", path=path)
    if not any(decides(checked, name) for name in LEAVES):
        raise PolicyError(
            "`anywhere` judges leaves and keys, and this says nothing about null, booleans, numbers or strings",
            path=path,
        )
    return checked


def _compile(compiler: Compiler, args: Mapping[str, Any], anywhere: Any, *, restricting: bool) -> Pair:
    """Make one pair of validators for everything that a rule says about arguments."""

    def whole(may: bool) -> Plain:
        parts = [_arguments(compiler, args, may=may, restricting=restricting)]
        if anywhere is not None:
            parts.append(compiler.every(anywhere, may=may, restricting=restricting))
        return compiler.known({"allOf": parts} if len(parts) > 1 else parts[0], may)

    return compiler.pair(whole)


def _arguments(compiler: Compiler, args: Mapping[str, Any], *, may: bool, restricting: bool) -> Plain:
    properties: dict[str, Plain] = {}
    required: list[str] = []
    plain: dict[str, Any] = {"properties": properties, "required": required}
    for key, schema in args.items():
        condition = compiler.schema(schema, may=may)
        if key == REST:
            plain["additionalProperties"] = condition
            continue
        name, optional = key.removesuffix("?"), key.endswith("?")
        if optional:
            # A marker may stand for null. That grants nothing, and keeps no restriction from hitting.
            null = compiler.null(marked=may != restricting)
            condition = {"if": null, "then": not restricting, "else": condition}
        properties[name] = condition
        if restricting if optional else not may:
            required.append(name)
    return plain
