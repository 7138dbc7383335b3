"""The values of a policy document: each a plain value of the wanted form, or a `PolicyError`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn

from gatescore.canonical import Json
from gatescore.errors import Path, PolicyError, did_you_mean

_DURATION: Final = re.compile(
    r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII
)
_NANOSECONDS: Final = (86_400_000_000_000, 3_600_000_000_000, 60_000_000_000, 1_000_000_000, 1_000_000)


def fail(message: str, path: Path, *, key: bool = False) -> NoReturn:
    """Refuse what stands at *path*, or with *key* the key that ends it."""
    raise PolicyError(message, path=path, key=key)


def mapping(value: Json, path: Path, what: str, example: str = "") -> Mapping[str, Json]:
    """A mapping; *what* and *example* are for the message."""
    if not isinstance(value, dict):
        fail(f"{what} is a mapping{' ' + example if example else ''}, not {kind(value)}", path)
    return value


def known(data: Mapping[str, Json], keys: tuple[str, ...], path: Path) -> None:
    """Refuse a key that is none of *keys*."""
    for key in data:
        if key not in keys:
            fail(f"unknown key `{key}`: {did_you_mean(key, keys)}", (*path, key), key=True)


def choice(value: Json, words: tuple[str, ...], path: Path) -> str:
    """One of *words*."""
    if isinstance(value, str) and value in words:
        return value
    fail(f"{show(value)} is not known here: {did_you_mean(value, words)}", path)


def names_list(
    value: Json, path: Path, wanted: str, *, single: bool = False, empty: bool = False
) -> tuple[str, ...]:
    """A list of non-empty texts; one text alone where *single*, an empty list where *empty*."""
    if single and isinstance(value, str):
        if not value:
            fail(f"an empty text: write {wanted}", path)
        return (value,)
    if not isinstance(value, list):
        remedy = f": write `[{value[:60]}]`" if isinstance(value, str) else ""
        fail(f"{kind(value)} instead of {wanted}{remedy}", path)
    if not value and not empty:
        fail(f"an empty list says nothing: write {wanted}", path)
    names: list[str] = []
    for number, item in enumerate(value):
        if not isinstance(item, str) or not item:
            fail(f"{show(item)} in {wanted}: write text", (*path, number))
        names.append(item)
    return tuple(names)


def argument_names(value: Json, path: Path, wanted: str) -> tuple[str, ...]:
    """A list of names of arguments, as they are called: the ``?`` of `args` is no part of a name."""
    names = names_list(value, path, wanted)
    for number, name in enumerate(names):
        if name.endswith("?"):
            fail(f"`{name}` is the spelling of `args`: write the name without its `?`", (*path, number))
    return names


def count(value: Json, least: int, path: Path) -> int:
    """A whole number from *least*."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    fail(f"{kind(value)} is not a count: write a whole number from {least}", path)


def duration(value: Json, path: Path) -> int:
    """A duration such as ``1h30m``, in nanoseconds."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    nanoseconds = (
        sum(int(n) * unit for n, unit in zip(match.groups("0"), _NANOSECONDS, strict=True)) if match else 0
    )
    if nanoseconds <= 0:
        fail(f"{show(value)} is not a duration: write one such as `10m`, `1h30m` or `45s`", path)
    return nanoseconds


def text_or_none(data: Mapping[str, Json], key: str) -> str | None:
    """Free text under *key* (a number is read as its text); None where the key is absent."""
    if key not in data:
        return None
    value = data[key]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
        return str(value)
    fail(f"`{key}` is text, not {kind(value)}", (key,))


def kind(value: Json) -> str:
    """What *value* is, for a message: its type, with the value where it is short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the truth value `{str(value).lower()}`"
    if isinstance(value, (int, float)):
        return f"the number `{value}`"
    if isinstance(value, str):
        return f"the text `{value[:60]}`"
    return "a list" if isinstance(value, list) else "a mapping"


def show(value: Json) -> str:
    """A text as it stands, anything else by its kind."""
    return f"`{value[:60]}`" if isinstance(value, str) else kind(value)
