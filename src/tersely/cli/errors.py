"""How a command says that it cannot go on."""

import sys
from typing import NoReturn

import click


def fail(message: str) -> NoReturn:
    click.secho(f"tersely: {message}", fg="red" if sys.stderr.isatty() else None, err=True)
    raise SystemExit(2)
