"""The command line: one module per command, each importing what it needs when it runs, so that `--help` answers at
once.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from tersely.cli.condense import condense
from tersely.cli.config import config
from tersely.cli.demo import demo
from tersely.cli.doctor import doctor
from tersely.cli.errors import fail
from tersely.cli.export import export
from tersely.cli.gateway import gateway
from tersely.cli.migrate import migrate
from tersely.cli.read import read
from tersely.cli.research import research
from tersely.cli.serve import serve
from tersely.cli.stats import stats
from tersely.cli.up import up, work
from tersely.cli.watch import investigate, watch
from tersely.errors import TerselyError

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Commands(click.Group):
    """Mistakes that somebody can act on end in one or two sentences, not in a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            outcome = super().main(*args, **{**options, "standalone_mode": False})
            raise SystemExit(outcome if isinstance(outcome, int) else 0)
        except click.exceptions.Abort:
            raise SystemExit(130) from None
        except click.UsageError as mistake:
            helped = mistake.ctx.command_path if mistake.ctx else "tersely"
            fail(f"{mistake.format_message()} See {helped} --help.")
        except click.ClickException as mistake:
            fail(mistake.format_message())
        except TerselyError as mistake:
            fail(str(mistake))
        except BrokenPipeError:
            # Whoever read us has seen enough: `tersely condense … | head`.
            _forget_output()
            raise SystemExit(0) from None
        except OSError as problem:
            _forget_output()
            fail(f"{problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}")


def _forget_output() -> None:
    """What could not be written must not be tried again when the interpreter ends: it would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(package_name="tersely", message="tersely %(version)s")
def main() -> None:
    """Tool results that fit.

    Masked, kept whole, and handed to the model in the size and with the emphasis it needs.

    \b
    Try it:     tersely demo
    With a pipe: kubectl get pods -A -o json | tersely condense --budget 1000 --focus "which pods fail, and why"
    As a service: tersely serve
    """


for command in (
    condense,
    serve,
    gateway,
    up,
    work,
    investigate,
    watch,
    export,
    research,
    read,
    stats,
    config,
    migrate,
    doctor,
    demo,
):
    main.add_command(command)
