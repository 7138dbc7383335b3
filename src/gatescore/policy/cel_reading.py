"""
What a CEL expression reads, calls and repeats, found out without evaluating it.

The expression has parsed, so operators need no precedence here: an expression is a run of operands,
an operand is a primary with members, indices and calls behind it, and brackets nest. What this walk
sees of variables is compared with what the library sees (see `gatescore.policy.expressions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from gatescore.errors import Path, PolicyError, did_you_mean
from gatescore.policy.cel_cost import ELEMENT, Loop, Source, Work, pattern_cost
from gatescore.policy.cel_tokens import (
    ELSEWHERE,
    FIELDS,
    FUNCTIONS,
    MACROS,
    METHODS,
    ROOTS,
    TYPES,
    Token,
    place,
    string_value,
)

_COMPARISONS: Final = frozenset(("==", "!=", "in"))


@dataclass(slots=True)
class _Operand:
    chain: tuple[str, ...] = ()  # a variable and the members selected from it, where it is only that
    source: Source | None = None
    depth: int = 0
    constants: int | None = None  # of a list of constants, how many; 0 for a constant itself
    null: bool = False


class Reading:
    """
    An expression, read once.

    Attributes:
        roots: The roots that it reads.
        sources: The same, with their members.
        arguments: The arguments that it reads by name; None where it uses ``args`` as a whole.
        session_fields: The fields of ``session`` that it reads.
        depth: How deep its comprehensions nest; 0 for none.
        variables: Every variable that it reads: roots, types, and variables of comprehensions.
        patterns: The strings that it takes for regular expressions.
        untyped: The arguments that it compares with ``==``, ``!=`` or ``in``, or goes through.
        work: What it does.

    Raises:
        PolicyError: It names what is not there, or uses it in a way that could never work.
    """

    def __init__(self, text: str, tokens: list[Token], path: Path) -> None:
        self.roots: set[str] = set()
        self.sources: set[Source] = set()
        self.arguments: set[str] | None = set()
        self.session_fields: set[str] = set()
        self.variables: set[str] = set()
        self.patterns: list[Token] = []
        self.untyped: dict[str, None] = {}  # a set with an order
        self.work = Work()
        self._text = text
        self._tokens = [*tokens, Token("end", "", len(text))]
        self._path = path
        self._at = 0
        self._bound = {
            name.text
            for macro, bracket, name in zip(tokens, tokens[1:], tokens[2:], strict=False)
            if macro.text in MACROS and bracket.text == "(" and name.kind == "name"
        }
        self.depth = self._run(frozenset(), self.work, frozenset()).depth
        if self._peek().kind != "end":
            self._refuse("is not understood here", self._peek())

    def _run(self, scope: frozenset[str], work: Work, ends: frozenset[str]) -> _Operand:
        """Read operands and operators up to one of *ends*; the operand itself where there is but one."""
        operands: list[_Operand] = []
        operator: str | None = None
        while (token := self._peek()).kind != "end" and token.text not in ends:
            if token.text == "in" or (token.kind == "sign" and token.text not in "([{."):
                if token.text in ")]}":
                    self._refuse("closes nothing", token)
                self._at += 1
                work.additions += token.text == "+"
                if token.text not in "!-" or operator not in _COMPARISONS:  # not before a sign of its operand
                    operator = token.text
                continue
            operand = self._operand(scope, work)
            if operator in _COMPARISONS and operands and not (operand.null or operands[-1].null):
                self._untyped(operands[-1])
                self._untyped(operand)
            operands.append(operand)
            operator = ""
        if len(operands) == 1 and not operator:
            return operands[0]
        return _Operand(depth=max((operand.depth for operand in operands), default=0))

    def _list(self, scope: frozenset[str], work: Work, end: str) -> list[_Operand]:
        """Read what stands between commas (and colons, in a map) up to the bracket *end*."""
        ends = frozenset((",", ":", end)) if end == "}" else frozenset((",", end))
        items: list[_Operand] = []
        while (token := self._peek()).text != end:
            if token.kind == "end":
                self._refuse("comes before the last bracket is closed", token)
            items.append(self._run(scope, work, ends))
            if self._peek().text != end:
                self._take()
        self._take()
        return items

    def _operand(self, scope: frozenset[str], work: Work) -> _Operand:
        operand = self._primary(scope, work)
        while True:
            sign = self._peek()
            if sign.text == ".":
                self._at += 1
                member = self._take()
                if self._peek().text == "(":
                    operand = self._method(operand, member, scope, work)
                elif operand.chain:
                    operand.chain = (*operand.chain, member.text)
            elif sign.text == "[":
                self._at += 1
                key, after = self._peek(), self._peek(1)
                inner = self._list(scope, work, "]")
                value = string_value(key) if after.text == "]" else None
                operand.chain = (*operand.chain, value) if operand.chain and value is not None else ()
                operand.constants = None
                operand.depth = max(operand.depth, _deepest(inner))
            elif sign.text == "{":
                self._refuse(
                    "begins a message, which is not available: write a map, as in `{'key': 1}`", sign
                )
            else:
                return operand

    def _primary(self, scope: frozenset[str], work: Work) -> _Operand:
        token = self._take()
        if token.text == "(":
            group = self._run(scope, work, frozenset(")"))
            self._take()
            return group
        if token.text in ("[", "{"):
            items = self._list(scope, work, "]" if token.text == "[" else "}")
            constant = token.text == "[" and all(item.constants == 0 for item in items)
            return _Operand(depth=_deepest(items), constants=len(items) if constant else None)
        if token.kind == "name":
            if self._peek().text == "(":
                return self._function(token, scope, work)
            return self._variable(token, scope, work)
        if token.kind in ("sign", "quoted", "end"):
            self._refuse("cannot begin a value", token)
        return _Operand(constants=0, null=token.text == "null")

    def _variable(self, token: Token, scope: frozenset[str], work: Work) -> _Operand:
        name = token.text
        if name in scope:
            self.variables.add(name)
            work.items.add(name)
            return _Operand((name,), ELEMENT)
        if name in TYPES and self._peek().text not in (".", "[", "{"):
            self.variables.add(name)
            return _Operand()
        if name not in ROOTS:
            if name in self._bound:
                self._refuse("is used outside its comprehension", token)
            if name in ELSEWHERE:
                self._refuse(f"is not CEL: write `{ELSEWHERE[name]}`", token)
            hint = did_you_mean(name, ROOTS)
            if not hint.startswith("did"):
                hint = f"write `args.{name}` for an argument, or {hint}"
            self._refuse(f"is no variable: {hint}", token)
        member = self._member()
        if name in FIELDS:
            if member is None:
                choice = ", ".join(f"`{name}.{known}`" for known in sorted(FIELDS[name]))
                self._refuse(f"cannot be used as a whole: use one of {choice}", token)
            if member not in FIELDS[name]:
                hint = did_you_mean(member, FIELDS[name])
                self._refuse(f"has no field `{member}`: {hint}", token)
            if name == "session":
                self.session_fields.add(member)
        elif name == "args":
            if member is None:
                self.arguments = None
            elif self.arguments is not None:
                self.arguments.add(member)
        self.roots.add(name)
        self.variables.add(name)
        source: Source = (name, member)
        work.reads.append(source)
        self.sources.add(source)
        return _Operand((name,), source)

    def _member(self) -> str | None:
        """Which member is selected from the variable just read; None for a call, a computed key or none."""
        sign, key, after = self._peek(), self._peek(1), self._peek(2)
        if sign.text == "." and key.kind == "name" and after.text != "(":
            return key.text
        if sign.text == "[" and after.text == "]":
            return string_value(key)
        return None

    def _function(self, token: Token, scope: frozenset[str], work: Work) -> _Operand:
        name = token.text
        self._take()
        if name not in FUNCTIONS and name != "has":
            if name in METHODS or name in MACROS:
                self._refuse(f"is a method: write `x.{name}(...)`", token)
            self._refuse(f"is no function: {did_you_mean(name, (*FUNCTIONS, 'has'))}", token)
        items = self._list(scope, work, ")")
        if len(items) != 1:
            self._refuse(f"takes one argument, not {len(items)}", token)
        return _Operand(depth=_deepest(items))

    def _method(self, operand: _Operand, token: Token, scope: frozenset[str], work: Work) -> _Operand:
        name = token.text
        self._take()
        if name in MACROS:
            return self._macro(operand, token, scope, work)
        if name not in METHODS:
            if name in FUNCTIONS or name == "has":
                self._refuse(f"is a function: write `{name}(x)`", token)
            self._refuse(f"is no method: {did_you_mean(name, (*METHODS, *MACROS))}", token)
        first, after = self._peek(), self._peek(1)
        items = self._list(scope, work, ")")
        if len(items) != METHODS[name]:
            self._refuse(f"takes {METHODS[name] or 'no'} argument, not {len(items)}", token)
        if name == "matches":
            literal = first.kind == "string" and after.text == ")"
            work.patterns += pattern_cost(first.text if literal else None)
            if literal:
                self.patterns.append(first)
            elif scope:
                # Each item would compile a pattern of its own, of any cost.
                self._refuse(
                    "takes only a literal pattern inside a comprehension: write the pattern out", token
                )
        return _Operand(depth=max(operand.depth, _deepest(items)))

    def _macro(self, operand: _Operand, token: Token, scope: frozenset[str], work: Work) -> _Operand:
        name, variable = token.text, self._take()
        if variable.kind != "name" or self._take().text != ",":
            self._refuse(f"takes the name of a variable first: write `{name}(x, ...)`", token)
        if variable.text in ROOTS or variable.text in TYPES:
            self._refuse("has a meaning already: name the variable of the comprehension otherwise", variable)
        self._untyped(operand)
        body = Work()
        bodies = self._list(scope | {variable.text}, body, ")")
        if len(bodies) not in MACROS[name]:
            self._refuse(f"takes a variable and an expression: write `{name}({variable.text}, ...)`", token)
        if name == "filter":
            self.variables.add(variable.text)  # the library reads it to keep the item
        around = body.items - {variable.text}
        work.items |= around
        path = operand.chain if operand.chain[:1] and operand.chain[0] not in scope else ()
        builds = name if name in ("map", "filter") else None
        work.loops.append(Loop(operand.source, path, operand.constants, not around, builds, body))
        # What `filter` leaves is a part of what it went through; what `map` makes may be anything.
        depth = operand.depth + 1 + _deepest(bodies)
        if name == "filter":
            return _Operand(source=operand.source, depth=depth, constants=operand.constants)
        return _Operand(depth=depth)

    def _untyped(self, operand: _Operand) -> None:
        if operand.chain[:1] == ("args",) and len(operand.chain) > 1:
            self.untyped[operand.chain[1]] = None

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _refuse(self, what: str, token: Token) -> NoReturn:
        shown = f"`{token.text}`" if token.text else "the end"
        raise PolicyError(f"{place(self._text, token.start)}: {shown} {what}", path=self._path)


def _deepest(operands: list[_Operand]) -> int:
    return max((operand.depth for operand in operands), default=0)
