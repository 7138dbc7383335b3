"""What a policy calls a tool: read strictly in an allow, widely in a deny or ask."""
# ruff: noqa: RUF001 - look-alike characters are what these tests are about

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gatescore.errors import PolicyError
from gatescore.policy.globs import compile_glob
from gatescore.policy.names import allows, fold, parse_pattern, restricts, split_qualified, tails
from gatescore.truth import FALSE, INDETERMINATE, TRUE, Truths

LOCAL, UNSAID = "", None


def allow(pattern: str, name: str, server: str | None = UNSAID) -> Truths:
    return allows(parse_pattern(pattern), server, name)


def deny(pattern: str, name: str, server: str | None = UNSAID) -> Truths:
    return restricts(parse_pattern(pattern), server, name)


# --- patterns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "get_order",
        "Google Search",
        "file-read.v2",
        "a/b",
        "functions.get",
        "bücher_suchen",
        "查询",
        "@x",
        "a+b",
    ],
)
def test_a_plain_name_is_an_exact_pattern(text: str):
    pattern = parse_pattern(text)

    assert (text, True) == (pattern.text, pattern.exact)
    assert TRUE == allows(pattern, LOCAL, text) == restricts(pattern, LOCAL, text)


@pytest.mark.parametrize("text", ["search_*", "**", "?", "mcp:kb/search", "mcp:*/search", "mcp__kb__search"])
def test_what_a_name_alone_does_not_find_is_not_exact(text: str):
    assert not parse_pattern(text).exact


def test_patterns_are_equal_where_their_text_is():
    assert parse_pattern("a*") == parse_pattern("a*")
    assert 2 == len({parse_pattern("a*"), parse_pattern("a*"), parse_pattern("A*")})
    assert "NamePattern(text='a*')" == repr(parse_pattern("a*")).replace(", exact=False", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a tool name is empty: write a name, or a pattern such as `search_*`"),
        (" a", "white space around ` a`: remove it"),
        ("a\n", "white space around `a\\n`: remove it"),
        ("a  b", "two spaces in a row in `a  b`: write one"),
        ("a\tb", "`a\\tb` holds U+0009, which cannot be seen: remove it"),
        ("a\u200bb", "`a\\u200bb` holds U+200B (zero width space), which cannot be seen: remove it"),
        ("a\u00adb", "`a\\xadb` holds U+00AD (soft hyphen), which cannot be seen: remove it"),
        ("a\u00a0b", "`a\\xa0b` holds U+00A0 (no-break space), which cannot be seen: remove it"),
        ("a\ufe0f", "`a\ufe0f` holds U+FE0F (variation selector-16), which cannot be seen: remove it"),
        ("ａ＊", "`ａ＊` holds U+FF0A (fullwidth asterisk): write `*` if that is meant"),
        ("mcp：kb/x", "`mcp：kb/x` holds U+FF1A (fullwidth colon): write `:` if that is meant"),
        ("a（b", "`a（b` holds U+FF08 (fullwidth left parenthesis): write `(` if that is meant"),
        ("mcp:", "`mcp:` names no server: write `mcp:SERVER/NAME`, or `mcp:SERVER/*` for all tools"),
        ("mcp:/x", "`mcp:/x` names no server: write `mcp:SERVER/NAME`, or `mcp:SERVER/*` for all tools"),
        ("mcp:kb", "`mcp:kb` names no tool: write `mcp:SERVER/NAME`, or `mcp:SERVER/*` for all tools"),
        ("mcp:kb/", "`mcp:kb/` names no tool: write `mcp:SERVER/NAME`, or `mcp:SERVER/*` for all tools"),
        ("mcp:kb/ x", "white space around a part of `mcp:kb/ x`: remove it"),
        ("MCP:kb/x", "`MCP:kb/x` names a server: write `mcp:` in small letters"),
        (
            "mcp__git",
            "`mcp__git` names a server and no tool: write `mcp:git/*` or `mcp__git__*` for all of its tools",
        ),
    ],
)
def test_what_is_no_name_and_no_pattern_is_refused_with_a_remedy(text: str, message: str):
    with pytest.raises(PolicyError) as caught:
        parse_pattern(text)

    assert (message, (), None) == (str(caught.value), caught.value.path, caught.value.source)


def test_a_condition_in_a_name_is_sent_to_where_conditions_stand():
    """A rule that does not parse must not be passed over: fifty of them once were."""
    with pytest.raises(PolicyError) as caught:
        parse_pattern("run_shell(rm -rf /)*")

    assert str(caught.value) == (
        "`run_shell(rm -rf /)*` is not a tool name: conditions on arguments go under `args:`, "
        "beside the name of the tool"
    )


@pytest.mark.parametrize("char", "()[]{}\"'\\,;<>|&$!=%^~#`")
def test_a_character_that_no_pattern_gives_a_meaning_to_is_refused(char: str):
    """Whoever writes one expects something of it, and would wait in vain."""
    with pytest.raises(PolicyError, match="is not a tool name"):
        parse_pattern(f"a{char}b*")


# --- allow ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["Get_order", "get_order ", "get_orders", "xget_order", "get_ordеr", "ｇet_order", "a.get_order", ""],
)
def test_an_exact_name_in_an_allow_means_itself_alone(name: str):
    assert TRUE == allow("get_order", "get_order")
    assert FALSE == allow("get_order", name)


@pytest.mark.parametrize(
    ("pattern", "name", "truth"),
    [
        ("file_*", "file_read", TRUE),
        ("file_*", "file_", TRUE),
        ("file_*", "filesystem_wipe", FALSE),
        ("file*", "filesystem_wipe", TRUE),
        ("file*", "xfile_read", FALSE),
        ("*_read", "file_read", TRUE),
        ("*_read", "file_read_all", FALSE),
        ("*", "anything at all", TRUE),
        ("*", "a/b", FALSE),
        ("**", "a/b", TRUE),
        ("***", "a/b", TRUE),
        ("a/*", "a/b/c", FALSE),
        ("a/**", "a/b/c", TRUE),
        ("a/*/c", "a/b/c", TRUE),
        ("a?c", "abc", TRUE),
        ("a?c", "a/c", FALSE),
        ("a?c", "ac", FALSE),
        ("*", "", FALSE),
        ("**", "", FALSE),
        ("file_*", "FILE_read", FALSE),
        ("file_*", "file_re\u200bad", FALSE),
        ("file_*", "file_read\n", FALSE),
        ("file_*", "file_re\ufe0fad", FALSE),
        ("file_*", "file_ｒead", FALSE),
        ("file_*", "file_cafe\u0301", FALSE),
        ("file_*", "file_café", TRUE),
    ],
)
def test_a_glob_in_an_allow_is_anchored_and_stays_within_a_segment(pattern: str, name: str, truth: Truths):
    assert truth == allow(pattern, name, LOCAL) == allow(pattern, name, UNSAID)


@pytest.mark.parametrize("pattern", ["search", "sear*", "*", "**", "mcp__kb__search"])
def test_a_pattern_without_a_server_allows_no_tool_of_a_server(pattern: str):
    assert FALSE == allow(pattern, "search", "kb")


@pytest.mark.parametrize(
    ("pattern", "server", "name", "truth"),
    [
        ("mcp:kb/search", "kb", "search", TRUE),
        ("mcp:kb/search", "KB", "search", FALSE),
        ("mcp:kb/search", "kb2", "search", FALSE),
        ("mcp:kb/search", "kb", "Search", FALSE),
        ("mcp:kb/*", "kb", "search", TRUE),
        ("mcp:kb/*", "kb", "a/b", FALSE),
        ("mcp:kb/**", "kb", "a/b", TRUE),
        ("mcp:kb/*", "kb", "sear\u200bch", FALSE),
        ("mcp:kb*/search", "kb2", "search", TRUE),
        ("mcp:kb*/search", "kb\u200b2", "search", FALSE),
        ("mcp:acme.io/*", "acme_io", "wipe", FALSE),
        ("mcp:kb/search", LOCAL, "search", FALSE),
        ("mcp:*/*", LOCAL, "search", FALSE),
        ("mcp:kb/search", UNSAID, "search", INDETERMINATE),
        ("mcp:kb/search", UNSAID, "find", FALSE),
        ("mcp:kb/*", UNSAID, "find", INDETERMINATE),
    ],
)
def test_a_pattern_with_a_server_allows_tools_of_that_server(
    pattern: str, server: str | None, name: str, truth: Truths
):
    assert truth == allow(pattern, name, server)


def test_a_name_that_says_its_server_is_no_proof_of_it():
    """Whoever makes a tool chooses its name; an adapter that knows the server says so itself."""
    assert INDETERMINATE == allow("mcp:kb/search", "mcp:kb/search")
    assert FALSE == allow("mcp:kb/search", "mcp:other/search")
    assert FALSE == allow("**", "mcp:kb/search")
    assert TRUE == allow("**", "mcp:kb/search", LOCAL)


# --- deny and ask --------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [UNSAID, LOCAL, "kb"])
@pytest.mark.parametrize(
    "name",
    [
        "delete_user",
        "Delete_User",
        "ｄelete_user",
        "delete_user\u200b",
        "\u202edelete\u00ad_us\ufe0fer\U000e0100",
        "delete\u115f_\u3164user\uffa0",
        " delete_user\n",
        "mcp__github__delete_user",
        "github.delete_user",
        "github/delete_user",
        "functions.delete_user",
        "mcp:github/delete_user",
        "a:b.c__delete_user",
        "ＦＵＮＣＴＩＯＮＳ．delete＿user",
    ],
)
def test_a_name_in_a_deny_means_every_spelling_of_it_on_every_server(name: str, server: str | None):
    assert TRUE == deny("delete_user", name, server) == deny("DELETE_USER", name, server)
    assert TRUE == deny("delete_*", name, server) == deny("*_us?r", name, server)


@pytest.mark.parametrize(
    "name", ["delete_users", "xdelete_user", "delete", "user", "delete_user.v2", "delete-user", ""]
)
def test_a_name_in_a_deny_does_not_mean_other_names(name: str):
    assert FALSE == deny("delete_user", name)


@pytest.mark.parametrize(
    ("pattern", "name", "truth"),
    [
        ("*", "a/b", TRUE),
        ("*", "", TRUE),
        ("a*c", "a/b/c", TRUE),
        ("a?c", "a/c", TRUE),
        ("x*", "a/b", FALSE),
        ("*.delete", "orders.delete", TRUE),
        ("orders.*", "ORDERS.delete", TRUE),
        ("stra?e", "straße", TRUE),  # as it is, though folding makes two letters of one
        ("strasse", "straße", TRUE),
        ("straße", "STRASSE", TRUE),
        ("e*", "e\u0301", TRUE),
        ("é*", "e\u0301tat", TRUE),
    ],
)
def test_a_glob_in_a_deny_reaches_over_segments(pattern: str, name: str, truth: Truths):
    assert truth == deny(pattern, name, LOCAL)


@pytest.mark.parametrize(
    ("pattern", "server", "name", "truth"),
    [
        ("mcp:kb/delete", "kb", "delete", TRUE),
        ("mcp:KB/Delete", "kb", "delete", TRUE),
        ("mcp:kb/delete", " KB\u200b", "ＤELETE", TRUE),
        ("mcp:kb/delete", "kb", "admin.delete", TRUE),
        ("mcp:kb/delete", "other", "delete", FALSE),
        ("mcp:kb/delete", LOCAL, "delete", FALSE),
        ("mcp:kb/delete", LOCAL, "mcp:kb/delete", TRUE),
        ("mcp:k*/d*", "kb", "delete", TRUE),
        ("mcp:*/delete", "a/b", "delete", TRUE),
        ("mcp:kb/*", "kb", "a/b", TRUE),
        ("mcp:kb/delete", UNSAID, "delete", INDETERMINATE),
        ("mcp:kb/delete", UNSAID, "x.delete", INDETERMINATE),
        ("mcp:kb/delete", UNSAID, "find", FALSE),
        # what a name says of its server counts against it
        ("mcp:kb/delete", UNSAID, "mcp:kb/delete", TRUE),
        ("mcp:kb/delete", UNSAID, "MCP:KB/x.Delete", TRUE),
        ("mcp:kb/S?", UNSAID, "mcp:kb/Sß", TRUE),
        ("mcp:kb/delete", UNSAID, "mcp:other/delete", FALSE),
        ("mcp:kb/delete", UNSAID, "mcp:kb/find", FALSE),
        # how a wire name divides is a guess
        ("mcp:kb/delete", UNSAID, "mcp__kb__delete", INDETERMINATE),
        ("mcp:kb/orders.delete", UNSAID, "mcp__kb__orders.delete", INDETERMINATE),
        ("mcp:kb/get__thing", UNSAID, "mcp__kb__get__thing", INDETERMINATE),
        ("mcp:kb/orders.delete", "kb", "mcp__kb__orders.delete", TRUE),
        ("mcp:kb/orders.delete", UNSAID, "mcp__other__orders.delete", INDETERMINATE),
    ],
)
def test_a_pattern_with_a_server_restricts_tools_of_that_server(
    pattern: str, server: str | None, name: str, truth: Truths
):
    assert truth == deny(pattern, name, server)


@pytest.mark.parametrize(
    ("pattern", "server", "name", "truth"),
    [
        ("mcp__git__push", UNSAID, "mcp__git__push", TRUE),
        ("mcp__git__push", "git", "push", TRUE),
        ("mcp__git__*", "Git", "Push", TRUE),
        ("mcp__*", "git", "push", TRUE),
        ("mcp__git__push", "gitlab", "push", FALSE),
        ("mcp__git__push", LOCAL, "push", FALSE),
        ("m*", "git", "push", FALSE),
    ],
)
def test_a_wire_name_restricts_the_tool_that_it_spells(
    pattern: str, server: str | None, name: str, truth: Truths
):
    assert truth == deny(pattern, name, server)


def test_look_alike_letters_of_other_scripts_are_not_folded_here():
    assert FALSE == deny("delete_user", "dеlete_user")


# --- the parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", ()),
        ("a__b", ("b",)),
        ("a_b", ()),
        ("a___b", ("_b", "b")),
        ("a.b/c:d__e", ("b/c:d__e", "c:d__e", "d__e", "e")),
        ("mcp__kb__orders.delete", ("kb__orders.delete", "orders.delete", "delete")),
        ("a. b", ("b",)),
        ("a.", ("",)),
        ("", ()),
    ],
)
def test_the_tails_are_what_follows_each_separator(name: str, expected: tuple[str, ...]):
    assert expected == tails(name)


def test_a_name_of_very_many_parts_has_few_tails():
    assert len(tails("a." * 100_000)) == 32


def test_a_deny_finds_a_name_with_separators_of_its_own_behind_a_server():
    assert TRUE == deny("orders.delete", "mcp__kb__orders.delete")
    assert FALSE == deny("orders.delete", "mcp__kb__orders.deleted")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mcp:kb/search", ("kb", "search")),
        ("mcp:kb/a/b", ("kb", "a/b")),
        ("mcp:kb", None),
        ("mcp:/x", None),
        ("mcp:kb/", None),
        ("MCP:kb/x", None),
        ("mcp__kb__search", None),
        ("xmcp:kb/search", None),
        ("", None),
    ],
)
def test_only_the_written_form_is_taken_apart(name: str, parts: tuple[str, str] | None):
    assert parts == split_qualified(name)


def test_every_character_that_shows_nothing_folds_away():
    shown = [
        f"U+{code:04X}"
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in {"Cc", "Cf"} and fold(f"a{chr(code)}b") != "ab"
    ]

    assert [] == shown


TRICKY = st.text(
    st.sampled_from(
        "aAbkKßſıİΣςﬁΐ\u0345\u0301\u0308\u1161\u11a8\u1100가\u200b\u00ad\ufe0f\u034f\u115f ＿＊__..//::mcp\u212b\u00a0"
    )
    | st.characters(),
    max_size=8,
)


@given(TRICKY)
@example("\u1100\u200b\u1161")
def test_folding_twice_changes_nothing(name: str):
    assert fold(name) == fold(fold(name))
    assert fold(name) == fold(unicodedata.normalize("NFKC", name)) == fold(f" {name}\u200b")


def test_every_character_is_folded_for_good():
    assigned = (chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in {"Cn", "Co"})

    assert [] == [char for char in assigned if fold(char) != fold(fold(char))]


# --- what must always hold -----------------------------------------------------------------------


def written(text: str) -> bool:
    try:
        parse_pattern(text)
    except PolicyError:
        return False
    return True


WORDS = st.sampled_from(["a", "b", "A", "ß", "S", "é", "e\u0301", "kb", "\u200b", "ａ", " "])
MARKS = st.sampled_from(["_", "__", ".", "/", ":", "mcp:", "mcp__", "mcp:kb/", "mcp__kb__"])
NAMES = st.lists(WORDS | MARKS, max_size=6).map("".join)
PATTERNS = (
    st.lists(WORDS | MARKS | st.sampled_from(["*", "**", "?"]), max_size=6).map("".join).filter(written)
)
SERVERS = st.sampled_from([None, "", "kb", "KB", "a", "a/b"])


@given(PATTERNS, SERVERS, NAMES)
def test_what_an_allow_may_mean_a_deny_may_mean_too(text: str, server: str | None, name: str):
    pattern = parse_pattern(text)
    allowed, denied = allows(pattern, server, name), restricts(pattern, server, name)

    assert allowed in {FALSE, INDETERMINATE, TRUE}
    assert allowed <= denied


@given(PATTERNS)
def test_a_pattern_without_wildcards_means_what_it_says(text: str):
    if not set("*?") & set(text):
        said = split_qualified(text)
        server, name = said or (LOCAL, text)

        assert TRUE == allow(text, name, server) == deny(text, name, server)


@given(PATTERNS, SERVERS, NAMES)
def test_an_index_finds_exact_patterns(text: str, server: str | None, name: str):
    pattern = parse_pattern(text)
    if pattern.exact:
        folded = fold(name)

        assert (allows(pattern, server, name) != FALSE) <= (name == text)
        assert (restricts(pattern, server, name) == TRUE) == (fold(text) in {folded, *tails(folded)})


def as_regex(glob: str, *, wide: bool) -> str:
    parts = {"*": ".*" if wide else "[^/]*", "?": "." if wide else "[^/]"}
    return "".join(
        ".*" if token[0].startswith("**") else parts.get(token[0], re.escape(token[0]))
        for token in re.finditer(r"\*+|.", glob, re.DOTALL)
    )


@given(st.text("ab/*?\n", max_size=8), st.text("ab/\n", max_size=8), st.booleans())
def test_a_glob_matches_what_its_regular_expression_matches(glob: str, name: str, wide: bool):
    expected = re.fullmatch(as_regex(glob, wide=wide), name, re.DOTALL) is not None

    assert expected == compile_glob(glob, wide=wide).matches(name)


@pytest.mark.parametrize("pattern", ["*a" * 50 + "*b", "**a" * 50 + "?*b", "?*" * 50 + "b"])
def test_no_name_makes_a_glob_slow(pattern: str):
    """A matcher that backtracks would never come back."""
    name = "a" * 20_000

    assert FALSE == allow(pattern, name) == deny(pattern, name)
