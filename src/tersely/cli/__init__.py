"""The command line: one module per command. A command imports what it needs when it runs, so that `--help` is fast."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from tersely.cli.ask import ask
from tersely.cli.audit import audit
from tersely.cli.backup import backup, restore
from tersely.cli.chat import chat
from tersely.cli.condense import condense
from tersely.cli.config import config
from tersely.cli.demo import demo
from tersely.cli.doctor import doctor
from tersely.cli.errors import fail
from tersely.cli.export import export
from tersely.cli.gateway import gateway
from tersely.cli.history import rate, search, triage
from tersely.cli.hook import hook
from tersely.cli.mask import mask_text
from tersely.cli.migrate import migrate
from tersely.cli.read import read
from tersely.cli.rerun import compare, rerun
from tersely.cli.research import research
from tersely.cli.run import run
from tersely.cli.serve import serve
from tersely.cli.stats import stats
from tersely.cli.up import suspects, up, work
from tersely.cli.watch import investigate, watch
from tersely.errors import TerselyError

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Commands(click.Group):
    """Reports expected errors in one or two sentences and exit code 2, without a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            outcome = super().main(*args, **{**options, "standalone_mode": False})
            raise SystemExit(outcome if isinstance(outcome, int) else 0)
        except click.exceptions.Abort:
            raise SystemExit(130) from None
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            raise SystemExit(0) from None
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "tersely"
            said = error.format_message().rstrip(".")
            fail(f"{said}{'' if said.endswith('?') else '.'} See {command} --help.")
        except click.ClickException as error:
            fail(error.format_message())
        except TerselyError as error:
            fail(str(error))
        except BrokenPipeError:
            # The reader closed the pipe, as in `tersely condense … | head`.
            _discard_output()
            raise SystemExit(0) from None
        except OSError as error:
            _discard_output()
            fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")


def _discard_output() -> None:
    """Keep the interpreter from flushing stdout again when it exits, which would report the same error twice."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(package_name="tersely", message="tersely %(version)s")
def main() -> None:
    """Tool results that fit.

    Condenses tool results to the tokens a model can spend, masks secrets, and keeps the originals.

    \b
    Try it:        tersely demo
    In a pipe:     kubectl get pods -o json | tersely condense --focus "which fail"
    A command:     tersely run -- npm test
    For a client:  tersely gateway install claude-desktop
    As a service:  tersely up
    """


for command in (
    condense,
    mask_text,
    run,
    hook,
    serve,
    gateway,
    up,
    work,
    suspects,
    ask,
    investigate,
    watch,
    chat,
    search,
    rate,
    triage,
    rerun,
    compare,
    export,
    audit,
    research,
    read,
    stats,
    config,
    migrate,
    backup,
    restore,
    doctor,
    demo,
):
    main.add_command(command)
