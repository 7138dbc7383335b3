"""What stands between recorded text and a terminal. Light: error messages need it as well as reports."""

from __future__ import annotations


def visible(text: str) -> str:
    """Write out control and other unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
