"""
The words of a CEL expression: enough of a lexer to know what stands where, without evaluating it.

The library that evaluates CEL tells which variables an expression reads, but neither which of their
members nor how its loops nest. So the text is split here, by the lexical rules of CEL's own grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

ROOTS: Final = ("args", "call", "now", "session", "tool")
"""The variables that an expression may read."""

FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "session": frozenset(("id", "principal", "attributes", "labels")),
    "call": frozenset(("id", "name", "server")),
    "tool": frozenset(("labels", "name", "server")),
}
"""The fields of the variables whose fields are known."""

TYPES: Final = frozenset(
    ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint")
)
"""The names of types that the library knows, to compare with ``type(x)``."""

FUNCTIONS: Final = frozenset(
    ("bytes", "double", "duration", "dyn", "int", "size", "string", "timestamp", "type", "uint")
)
"""The functions of the library, each of one argument."""

METHODS: Final[Mapping[str, int]] = {
    "contains": 1,
    "endsWith": 1,
    "matches": 1,
    "size": 0,
    "startsWith": 1,
    "getDate": 0,
    "getDayOfMonth": 0,
    "getDayOfWeek": 0,
    "getDayOfYear": 0,
    "getFullYear": 0,
    "getHours": 0,
    "getMilliseconds": 0,
    "getMinutes": 0,
    "getMonth": 0,
    "getSeconds": 0,
}
"""The methods of the library, with the number of their arguments."""

MACROS: Final[Mapping[str, tuple[int, ...]]] = {
    "all": (1,),
    "exists": (1,),
    "existsOne": (1,),
    "exists_one": (1,),
    "filter": (1,),
    "map": (1, 2),
}
"""The comprehensions, with the number of arguments behind the variable."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "None": "null",
    "True": "true",
    "False": "false",
    "=": "==",
    "&": "&&",
    "|": "||",
}
"""What other languages write, and what CEL writes instead."""

_ESCAPE: Final = (
    r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
)
_STRING: Final = (
    r'[rR]"""(?:.|\n)*?"""'
    r"|[rR]'''(?:.|\n)*?'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN: Final = re.compile(
    r"(?P<blank>[\t \r\n\f]+|//[^\n]*)"  # a carriage return alone does not end a comment
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<integer>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]?)"
    r"|(?P<word>(?:true|false|null|in)(?![A-Za-z0-9_]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<quoted>`[A-Za-z0-9_./ -]+`)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


class Token(NamedTuple):
    """
    One word of an expression.

    Attributes:
        kind: ``name``, ``word`` (true, false, null, in), ``string``, ``bytes``, ``double``,
            ``integer``, ``quoted`` (in backticks) or ``sign``.
        text: As it is written.
        start: Its position in the expression, from 0.
    """

    kind: str
    text: str
    start: int


class NoToken(Exception):  # noqa: N818 - no error of the program, but an answer about a text
    """What stands at *start* begins no word of CEL."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def tokenize(text: str) -> list[Token]:
    """
    Split an expression into its words, without blanks and comments; the empty list for none.

    Raises:
        NoToken: Where the text is no longer CEL, such as a single ``=`` or a string without an end.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NoToken(position)
        kind = str(match.lastgroup)
        if kind != "blank":
            tokens.append(Token(kind, match.group(), position))
        position = match.end()
    return tokens


def too_deep(tokens: list[Token], limit: int) -> Token | None:
    """The first bracket that stands inside *limit* others, or None."""
    depth = 0
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text in _OPENING:
            depth += 1
            if depth > limit:
                return token
        elif token.text in _CLOSING:
            depth -= 1
    return None


def place(text: str, start: int) -> str:
    """Where in the expression *start* is, as a person counts: ``column 5 of the expression``."""
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    before = f"line {line}, " if line > 1 else ""
    return f"{before}column {column} of the expression"


def string_value(token: Token) -> str | None:
    """What a string stands for; None where it has escapes (or is no string), which only CEL reads."""
    if token.kind != "string":
        return None
    body = token.text
    if body[0] in "rR":
        body = body[1:]
    elif "\\" in body:
        return None
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    return body[quotes:-quotes]
