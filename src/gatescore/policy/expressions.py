"""
The condition `when`: an expression in CEL, the Common Expression Language.

All that can be known of an expression is found out when the policy is loaded. What is left to run
time is bounded before the library sees a value, and whatever then goes wrong is no answer, never a
wrong one: the result of an expression is exactly true, exactly false, or indeterminate.

The library is imported by the first policy that has a `when`: loading it takes a quarter of a second.

Source: DESIGN 3.3, `when`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from gatescore.errors import Path, PolicyError
from gatescore.policy.cel_cost import EXACT, Sizes, Unfit, Work, cost
from gatescore.policy.cel_reading import Reading
from gatescore.policy.cel_tokens import (
    ELSEWHERE,
    ROOTS,
    NoToken,
    Token,
    place,
    string_value,
    tokenize,
    too_deep,
)
from gatescore.truth import FALSE, INDETERMINATE, TRUE, Truths

if TYPE_CHECKING:
    from cel import Program

MAX_LENGTH: Final = 2_000
"""The longest expression, in characters."""

MAX_BRACKETS: Final = 32
"""How deep brackets of any kind may stand in each other."""

MAX_COMPREHENSIONS: Final = 2
"""How deep comprehensions may stand in each other, in a body or in what is gone through."""

MAX_WORK: Final = 1_000_000
"""The most that one evaluation may do: about as many values looked at or copied."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAULT: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDEFINED: Final = re.compile(r"Undefined variable or function: '(\w+)'")
_FAILED: Final = re.compile(r"Function '(\w+)' error")


@dataclass(frozen=True, slots=True)
class Expression:
    """
    A CEL expression that can be evaluated.

    Attributes:
        text: As it was written.
        reads: Which of ``args``, ``session``, ``call``, ``tool`` and ``now`` it reads.
        arguments: Which arguments it reads, as ``args.x``, ``args["x"]`` or ``has(args.x)``; the
            empty set for none, None where it uses ``args`` as a whole and so may read any.
        session_fields: Which of ``id``, ``principal``, ``attributes`` and ``labels`` it reads.
        comprehension_depth: How deep its comprehensions nest: 0, 1 or 2.
        untyped_comparisons: Arguments that stand beside ``==``, ``!=`` or ``in``, or are gone
            through by a comprehension: CEL answers false, and raises nothing, where such a value is
            of another type. Found by looking at what stands next to the operator, for a lint: an
            argument that is compared in a roundabout way (in brackets with something else, through
            an index, as the result of ``dyn``) is not listed, and comparing with null is no fault.
    """

    text: str
    reads: frozenset[str]
    arguments: frozenset[str] | None
    session_fields: frozenset[str]
    comprehension_depth: int
    untyped_comparisons: tuple[str, ...]
    _program: Program = field(repr=False, compare=False)
    _work: Work = field(repr=False, compare=False)
    _needs: Mapping[str, frozenset[str] | None] = field(repr=False, compare=False)
    _literals: frozenset[str] = field(repr=False, compare=False)
    _wide: int = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and sent to other processes as text: a compiled program is bound to its process."""
        return compile_expression, (self.text, ())

    def evaluate(self, variables: Mapping[str, object], errors: list[str]) -> Truths:
        """
        Evaluate the expression; always a set of one, and never an exception.

        A variable that is missing or None is absent: reading it is an error, which CEL's ``&&`` and
        ``||`` absorb where the other side decides. Members that the expression does not read are
        neither looked at nor passed on.

        Args:
            variables: A mapping for each of ``args``, ``session``, ``call`` and ``tool``, in plain
                JSON types; for ``now`` the time in nanoseconds.
            errors: Filled with one line that says why the result is indeterminate; it names no
                value. Nothing is added to it otherwise.

        Returns:
            TRUE or FALSE where that is exactly the result. INDETERMINATE for any other result, for
            whatever the library raises, and for values that it would take for others or could not
            handle in bounded time: an integer outside of 64 bits; an integer and a double that
            cannot be told apart, both beyond 2**53; nesting deeper than 64; work over `MAX_WORK`.
        """
        try:
            result: object = self._program.execute(self._given(variables))
        except Unfit as answer:
            errors.append(str(answer))
            return INDETERMINATE
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the condition has no answer
            errors.append(self._reason(error))
            return INDETERMINATE
        except BaseException as error:
            if not _is_panic(error):
                raise
            errors.append("the expression cannot be evaluated")
            return INDETERMINATE
        if result is True:
            return TRUE
        if result is False:
            return FALSE
        errors.append("the result is neither true nor false")
        return INDETERMINATE

    def _given(self, variables: Mapping[str, object]) -> dict[str, object]:
        """What the library gets: what the expression reads, where that is safe to give."""
        sizes = Sizes(self._wide)
        given: dict[str, object] = {}
        for root, members in self._needs.items():
            value = variables.get(root)
            if value is not None:
                given[root] = _instant(value) if root == "now" else sizes.take(root, value, members)
        if cost(self._work, sizes, len(self.text)) > MAX_WORK:
            raise Unfit(f"the values are too large: the expression could take over {MAX_WORK:,} steps")
        return given

    def _reason(self, error: Exception) -> str:
        """Why the library gave up, without the values that it prints."""
        if isinstance(error, KeyError):
            key = error.args[0] if error.args else None
            return f"key `{key}` is absent" if key in self._literals else "a key is absent"
        if isinstance(error, IndexError):
            return "an index is out of bounds"
        if isinstance(error, ZeroDivisionError):
            return "division by zero"
        if isinstance(error, OverflowError):
            return "a number is out of range"
        if isinstance(error, TypeError):
            return "an operation is not defined for the types of its values"
        if str(error).startswith("Conversion Error"):
            return "a value is not JSON, such as half of a surrogate pair"
        undefined = _UNDEFINED.match(str(error))
        if undefined is not None:
            name = undefined[1]
            if name in ROOTS:
                return f"`{name}` is absent"
            return f"`{name}` is not defined for the type of its value"
        failed = _FAILED.match(str(error))
        if failed is not None:
            return f"`{failed[1]}` cannot use its value"
        return "the expression cannot be evaluated"


def compile_expression(text: object, path: Path) -> Expression:
    """
    Compile the `when` found at *path* in a policy.

    Raises:
        PolicyError: *text* is no text, is empty, is too long or too deep; it is not CEL; it calls a
            function, or reads a variable or a field, that there is not; a regular expression is
            none; a comprehension hides a variable; comprehensions nest too deep.
    """
    if not isinstance(text, str):
        what = "is empty" if text is None else f"is text in CEL, not {type(text).__name__}"
        raise PolicyError(f"`when` {what}: write a condition such as `args.amount <= 100`", path=path)
    tokens = _tokens(text, path)
    program = _program(text, tokens, path)
    reading = Reading(text, tokens, path)
    if reading.depth > MAX_COMPREHENSIONS:
        message = (
            f"comprehensions nest {reading.depth} deep: at most {MAX_COMPREHENSIONS} may, so split the rule"
        )
        raise PolicyError(message, path=path)
    unseen = set(program.variables()) - reading.variables
    if unseen:
        # Two readings of one text: never guess which of them is what the author meant.
        named = ", ".join(f"`{name}`" for name in sorted(unseen))
        raise PolicyError(
            f"the expression reads {named} in a way that cannot be followed: simplify it", path=path
        )
    for pattern in reading.patterns:
        _check_pattern(text, pattern, path)
    return _expression(text, tokens, program, reading)


def _tokens(text: str, path: Path) -> list[Token]:
    if len(text) > MAX_LENGTH:
        raise PolicyError(f"`when` is longer than {MAX_LENGTH:,} characters: split the rule", path=path)
    try:
        tokens = tokenize(text)
    except NoToken as fault:
        sign = text[fault.start]
        shown = f"`{sign}`" if sign.isprintable() else f"character U+{ord(sign):04X}"
        what = "has no end, or an escape that CEL does not know" if sign in "\"'" else "is not CEL"
        hint = f": write `{ELSEWHERE[sign]}`" if sign in ELSEWHERE else ""
        message = f"{place(text, fault.start)}: {shown} {what}{hint}"
        raise PolicyError(message, path=path) from None
    if not tokens:
        raise PolicyError("`when` is empty: write a condition such as `args.amount <= 100`", path=path)
    quoted = next((token for token in tokens if token.kind == "quoted"), None)
    if quoted is not None:
        name = quoted.text.strip("`")
        message = (
            f'{place(text, quoted.start)}: backticks are not available: write `["{name}"]`, without a dot'
        )
        raise PolicyError(message, path=path)
    deep = too_deep(tokens, MAX_BRACKETS)
    if deep is not None:
        message = f"{place(text, deep.start)}: brackets nest deeper than {MAX_BRACKETS}: split the rule"
        raise PolicyError(message, path=path)
    return tokens


def _program(text: str, tokens: list[Token], path: Path) -> Program:
    import cel  # noqa: PLC0415 - it takes a quarter of a second, and most policies have no `when`

    try:
        return cel.compile(text)
    except UnicodeEncodeError:
        message = "`when` holds half of a surrogate pair, which is no character: leave it out"
    except ValueError as error:
        message = _syntax_error(
            text, tokens, str(error).removeprefix(f"Failed to parse expression '{text}': ")
        )
    except BaseException as error:
        if not _is_panic(error):
            raise
        message = "`when` is not CEL: simplify it"
    raise PolicyError(message, path=path)


def _syntax_error(text: str, tokens: list[Token], told: str) -> str:
    """The first fault that the library tells of, in one line, with the word that stands there."""
    fault = _FAULT.search(told)
    if fault is None:
        return "`when` is not CEL: simplify it"
    lines = text.split("\n")
    line = min(int(fault[1]), len(lines)) - 1
    start = sum(len(above) + 1 for above in lines[:line]) + int(fault[2]) - 1
    at = next((token for token in tokens if token.start >= start), None)
    reason = fault[3].removeprefix("Syntax error: ").partition(" expecting ")[0]
    if "Recursion limit" in reason:
        return f"{place(text, start)}: it nests too deep here: split the rule"
    if at is not None and at.text in ELSEWHERE:
        return f"{place(text, at.start)}: `{at.text}` is not CEL: write `{ELSEWHERE[at.text]}`"
    if reason.startswith(("mismatched", "extraneous", "no viable", "missing", "Incomplete", "token")):
        reason = "does not fit here"
    else:
        reason = f"is refused: {reason}"
    shown = "the end" if at is None else f"`{at.text[:40]}`"
    return f"{place(text, min(start, len(text)))}: {shown} {reason}"


def _check_pattern(text: str, pattern: Token, path: Path) -> None:
    import cel  # noqa: PLC0415 - as above

    try:
        cel.evaluate(f'"".matches({pattern.text})')
    except Exception as error:  # noqa: BLE001 - the library raises more than one type
        reason = (
            str(error).splitlines()[-1].partition(". Check function")[0].removeprefix("error: ").rstrip(".")
        )
        message = f"{place(text, pattern.start)}: {pattern.text} is no regular expression: {reason}"
        raise PolicyError(message, path=path) from None


def _expression(text: str, tokens: list[Token], program: Program, reading: Reading) -> Expression:
    arguments = None if reading.arguments is None else frozenset(reading.arguments)
    needs: dict[str, frozenset[str] | None] = {
        root: frozenset(member for source, member in reading.sources if source == root and member is not None)
        for root in sorted(reading.roots)
    }
    if "args" in needs:
        needs["args"] = arguments
    literals = {token.text for token in tokens if token.kind == "name"}
    literals.update(value for token in tokens if (value := string_value(token)) is not None)
    wide = 0
    for token in tokens:
        if (
            token.kind == "integer"
            and int(token.text.rstrip("uU"), 0 if token.text[1:2] == "x" else 10) > EXACT
        ):
            wide |= Sizes.INTEGER
        elif token.kind == "double" and float(token.text) >= EXACT:
            wide |= Sizes.DOUBLE
    return Expression(
        text=text,
        reads=frozenset(reading.roots),
        arguments=arguments,
        session_fields=frozenset(reading.session_fields),
        comprehension_depth=reading.depth,
        untyped_comparisons=tuple(reading.untyped),
        _program=program,
        _work=reading.work,
        _needs=needs,
        _literals=frozenset(literals),
        _wide=wide,
    )


def _instant(nanoseconds: object) -> datetime:
    """The time for CEL, which has microseconds: the rest is cut off."""
    if not isinstance(nanoseconds, int):
        raise Unfit("`now` is no number of nanoseconds")
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1_000)
    except OverflowError:
        raise Unfit("`now` is out of range") from None


def _is_panic(error: BaseException) -> bool:
    """Whether the library failed inside: pyo3 has a type for that which no `except Exception` sees."""
    return type(error).__name__ == "PanicException"
