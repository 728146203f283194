"""`tersely run` in the list of commands. `tersely.launch` starts it without this module, which would take too long."""

from __future__ import annotations

import click

UNPARSED = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""The command reads its own words: its help and errors are the same, whichever way it is started."""


@click.command(context_settings=UNPARSED, add_help_option=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def run(words: tuple[str, ...]) -> None:
    """Run a command; if its output is large, condense it."""
    from tersely.coding.run import run as run_command
    from tersely.settings.environment import process_environment

    raise SystemExit(run_command(words, process_environment()))
