"""
What a policy calls a tool, and whether a called name is meant by it.

A tool is a server and a name. Policies read their own names in two ways. An **allow** is read
strictly: what it does not say exactly, it does not say. A **deny** or **ask** is read widely: also
other spellings of a name, on any server. Each answer is a set of truth values, see
`gatescore.truth`: where a record does not say the server, a rule about one is indeterminate.

A server is None where the record does not say, the empty text for a local tool, else its name.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gatescore.errors import PolicyError
from gatescore.policy.globs import Glob, compile_glob, has_wildcard
from gatescore.policy.places import shown
from gatescore.truth import FALSE, INDETERMINATE, TRUE, Truths

QUALIFIED: Final = "mcp:"
"""Begins a name that says its server: ``mcp:SERVER/NAME``."""

WIRE: Final = "mcp__"
"""Begins the spelling of the same that model providers accept: ``mcp__SERVER__NAME``."""

_SEPARATOR: Final = re.compile(r"(?=(__|[./:]))")  # looking ahead, since three underscores hold it twice
_MAX_TAILS: Final = 32
_FORBIDDEN: Final = frozenset("()[]{}\"'\\,;<>|&$!=%^~#`")
_MEANINGFUL: Final = frozenset("*?/:._")
"""What a pattern gives a meaning to: a look-alike of one of these would be read as it when folded."""

# Default_Ignorable_Code_Point of Unicode, as far as the category does not say it already, and the
# braille pattern without dots.
_IGNORABLE: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    r"\U000e0000-\U000e0fff]"
)
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

_REMEMBERED: Final = 256  # longer names, which a model may send at will, are not kept in memory


@dataclass(frozen=True, slots=True)
class NamePattern:
    """
    A name or glob as a policy writes it; made by `parse_pattern`. Equal where the text is.

    Attributes:
        text: As written.
        exact: It is a plain name, and an index may find it: by *text* for an allow, for a deny or ask
            by ``fold(text)`` among the folded name that is called and its tails.
        server: The part of ``mcp:SERVER/NAME`` that names servers, or None.
        name: The part that names tools.
        wire: Where the pattern speaks of a server: how model providers spell it, else None.
    """

    text: str
    exact: bool = field(compare=False)
    server: _Part | None = field(repr=False, compare=False)
    name: _Part = field(repr=False, compare=False)
    wire: _Part | None = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A server or a name in a pattern, compiled for both ways of reading."""

    glob: bool
    strict: Glob
    wide: Glob
    folded: Glob

    @classmethod
    def of(cls, text: str) -> _Part:
        return cls(
            glob=has_wildcard(text),
            strict=compile_glob(text),
            wide=compile_glob(text, wide=True),
            folded=compile_glob(fold(text), wide=True),
        )

    def is_exactly(self, called: str) -> bool:
        """Read for an allow: a glob means no name that a person could take for another one."""
        if not self.strict.matches(called):
            return False
        return not self.glob or (called != "" and _is_plain(called))

    def may_be(self, called: str, *folded: str) -> bool:
        """Read for a deny or ask: *called* as it is, or any of the spellings that are *folded*."""
        for spelling in folded:
            if self.folded.matches(spelling):
                return True
        # The glob as written is tried as well, since folding can make two characters of one.
        return self.glob and self.wide.matches(called)


def parse_pattern(text: str) -> NamePattern:
    """
    Read a tool name or glob: ``get_order``, ``search_*``, ``mcp:kb/*``.

    Wildcards are ``*``, ``**`` and ``?``. ``mcp:SERVER/NAME`` means a tool of one server, or of
    several where SERVER is a glob; SERVER ends at the first `/`.

    Raises:
        PolicyError: This is not a name or glob. Without a path; the caller knows where it stands.
    """
    _check(text)
    folded = fold(text)
    if folded.startswith(QUALIFIED):
        return _parse_qualified(text)
    part = _Part.of(text)
    if not folded.startswith(WIRE):
        return NamePattern(text, exact=not part.glob, server=None, name=part, wire=None)
    server = folded[len(WIRE) :].strip("_")
    if not part.glob and "__" not in server:
        raise PolicyError(
            f"{shown(text)} names a server and no tool: "
            f"write `mcp:{server or 'SERVER'}/*` or `mcp__{server or 'SERVER'}__*` for all of its tools"
        )
    # Not for an index: where a server is known, the name alone does not find it (see `restricts`).
    return NamePattern(text, exact=False, server=None, name=part, wire=part)


def allows(pattern: NamePattern, server: str | None, name: str) -> Truths:
    """
    Whether *pattern* means a called tool, read strictly, for an allow.

    A pattern without a server means local tools alone. A glob means no name that is empty, that
    holds invisible characters, or that is not in Unicode's NFKC form.

    Args:
        pattern: Of an allow.
        server: None where the record does not say, the empty text for a local tool.
        name: As called, character for character.
    """
    said = split_qualified(name) if server is None else None
    if pattern.server is None:
        local = server == "" or (server is None and said is None)
        return TRUE if local and pattern.name.is_exactly(name) else FALSE
    if server is not None:
        meant = server != "" and pattern.server.is_exactly(server) and pattern.name.is_exactly(name)
        return TRUE if meant else FALSE
    if said is None:
        may_be = pattern.name.is_exactly(name)
    else:  # what a name says of itself is no proof: it can rule a server out, and no more
        may_be = pattern.server.is_exactly(said[0]) and pattern.name.is_exactly(said[1])
    return INDETERMINATE if may_be else FALSE


def restricts(pattern: NamePattern, server: str | None, name: str) -> Truths:
    """
    Whether *pattern* means a called tool, read widely, for a deny or ask.

    Compared are the name as called, the folded name and each of its tails; wildcards match `/`. A
    pattern without a server means the tool on every server. One that begins with ``mcp__`` is also
    compared with ``mcp__SERVER__NAME`` of a tool whose server is known.

    Args:
        pattern: Of a deny or an ask.
        server: None where the record does not say, the empty text for a local tool. A name that
            reads ``mcp:SERVER/NAME`` says it itself then.
        name: As called.
    """
    folded, *rest = (_spellings if len(name) <= _REMEMBERED else _spellings.__wrapped__)(name)
    if pattern.server is None:
        meant = pattern.name.may_be(name, folded, *rest)
        if not meant and server and pattern.wire is not None:
            meant = pattern.wire.may_be("", f"{WIRE}{fold(server)}__{folded}")
        return TRUE if meant else FALSE
    said = split_qualified(folded)
    if said is not None and _names(pattern, split_qualified(name) or said, said):
        return TRUE  # whatever server the record says: what a name says of itself counts against it
    meant = pattern.name.may_be(name, folded, *rest) if said is None or server is not None else False
    # The wire spelling is not taken apart: where its server ends and its tool begins is a guess.
    wire = pattern.wire is not None and pattern.wire.may_be("", folded)
    if server is None:
        return INDETERMINATE if meant or wire else FALSE
    if meant and server != "" and pattern.server.may_be(server, fold(server)):
        return TRUE
    return INDETERMINATE if wire else FALSE


def _names(pattern: NamePattern, said: tuple[str, str], folded: tuple[str, str]) -> bool:
    """Whether a pattern with a server means the tool that a name of the form ``mcp:SERVER/NAME`` says it is."""
    (server, name), (folded_server, folded_name) = said, folded
    return (
        pattern.server is not None
        and pattern.server.may_be(server, folded_server)
        and pattern.name.may_be(name, folded_name, *tails(folded_name))
    )


def fold(name: str) -> str:
    """
    Reduce the spellings of a name to one: NFKC, no case, nothing invisible, no white space around.

    Folding twice changes nothing. Look-alike letters of other scripts stay what they are. The
    result is empty where nothing visible is left.
    """
    if name.isascii() and name.isprintable():  # nearly every name
        return name.strip().lower()
    before = None
    while name != before:  # what was taken out can leave letters side by side that NFKC joins
        before = name
        name = unicodedata.normalize("NFKC", name).casefold()
        name = "".join(char for char in name if not _is_unseen(char)).strip()
    return name


def tails(folded: str) -> tuple[str, ...]:
    """
    What stands behind each ``__``, ``.``, `/` or `:` of a folded name, the longest first.

    Behind the last one stands the tool's own name, before it what frameworks put there: servers, name
    spaces, and in between whatever the tool's own name is made of. At most the last 32.
    """
    starts = [match.end(1) for match in _SEPARATOR.finditer(folded)]
    return tuple(folded[start:].strip() for start in starts[-_MAX_TAILS:])


@lru_cache(maxsize=1024)
def _spellings(name: str) -> tuple[str, ...]:
    """Fold a called name once for all the patterns that it is compared with; the whole comes first."""
    folded = fold(name)
    return folded, *tails(folded)


def split_qualified(name: str) -> tuple[str, str] | None:
    """Take ``mcp:SERVER/NAME`` apart into server and name; None for every other name."""
    if not name.startswith(QUALIFIED):
        return None
    server, _, rest = name[len(QUALIFIED) :].partition("/")
    return (server, rest) if server and rest else None


def _parse_qualified(text: str) -> NamePattern:
    if not text.startswith(QUALIFIED):
        raise PolicyError(f"{shown(text)} names a server: write `mcp:` in small letters")
    server, _, name = text[len(QUALIFIED) :].partition("/")
    if not server or not name:
        lacking = "tool" if server else "server"
        raise PolicyError(
            f"{shown(text)} names no {lacking}: write `mcp:SERVER/NAME`, or `mcp:SERVER/*` for all tools"
        )
    if server != server.strip() or name != name.strip():
        raise PolicyError(f"white space around a part of {shown(text)}: remove it")
    wire = _Part.of(f"{WIRE}{server}__{name}")
    return NamePattern(text, exact=False, server=_Part.of(server), name=_Part.of(name), wire=wire)


def _check(text: str) -> None:
    """Refuse what can be neither a name nor a glob."""
    if not text:
        raise PolicyError("a tool name is empty: write a name, or a pattern such as `search_*`")
    if text != text.strip():
        raise PolicyError(f"white space around {shown(text)}: remove it")
    if "  " in text:
        raise PolicyError(f"two spaces in a row in {shown(text)}: write one")
    for char in text:
        if char in "()":
            raise PolicyError(
                f"{shown(text)} is not a tool name: conditions on arguments go under `args:`, "
                "beside the name of the tool"
            )
        if char in _FORBIDDEN:
            raise PolicyError(
                f"{shown(text)} is not a tool name or pattern, which cannot hold {shown(char)}: "
                "wildcards are `*`, `**` and `?`, and several names are a list"
            )
        if char.isascii() and char.isprintable():
            continue
        if _is_unseen(char) or char.isspace():
            raise PolicyError(f"{shown(text)} holds {_named(char)}, which cannot be seen: remove it")
        for plain in unicodedata.normalize("NFKC", char):
            if plain in _FORBIDDEN or plain in _MEANINGFUL:
                raise PolicyError(
                    f"{shown(text)} holds {_named(char)}: write {shown(plain)} if that is meant"
                )


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN or _IGNORABLE.match(char) is not None


def _is_plain(name: str) -> bool:
    """Whether *name* is in NFKC form and all of it can be seen."""
    if name.isascii():
        return name.isprintable()
    return unicodedata.is_normalized("NFKC", name) and not any(map(_is_unseen, name))


def _named(char: str) -> str:
    name = unicodedata.name(char, "").lower()
    return f"U+{ord(char):04X} ({name})" if name else f"U+{ord(char):04X}"
