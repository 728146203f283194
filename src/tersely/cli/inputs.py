"""Files and standard input of a command, as text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tersely.cli.errors import fail

STDIN = "-"

FILES = click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="[FILE]..."
)


def read_inputs(files: Sequence[str], *, verb: str, example: str) -> list[tuple[str, str]]:
    """Name and text of each file, of standard input if none is given.

    Raises:
        InputError: A file is not text; names it.
    """
    from tersely.errors import InputError
    from tersely.text.decoding import decoded

    found = []
    for name in files or (STDIN,):
        if name == STDIN and sys.stdin.isatty():
            fail(f"Nothing to {verb}. Name a file, or pipe text in: {example}")
        data: Any = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        try:
            found.append((name, decoded(data)))
        except InputError as error:
            raise InputError(f"{name}: {error}" if files else str(error)) from None
    return found
