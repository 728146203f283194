"""The name that somebody probably meant."""

import difflib
from collections.abc import Collection


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A question with the nearest of the names, and a space before it; empty if none is near."""
    near = difflib.get_close_matches(name[:200], list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
