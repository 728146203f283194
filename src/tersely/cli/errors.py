"""How a command reports an error and ends."""

import sys
from typing import NoReturn

import click


def fail(message: str) -> NoReturn:
    """Print the message to stderr and exit with code 2."""
    click.secho(f"tersely: {message}", fg="red" if sys.stderr.isatty() else None, err=True)
    raise SystemExit(2)
