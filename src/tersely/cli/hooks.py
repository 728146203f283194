"""What a program that runs the command line may hand in: `main(obj=Hooks(on_point=...))`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import click


@dataclass(frozen=True)
class Hooks:
    on_point: Callable[[str], None] = lambda point: None
    """Called with the name of each crash point that a session passes; tests end the process there."""

    program: Sequence[str] = field(default_factory=lambda: (sys.executable, "-m", "tersely"))
    """The command that starts this program again, for child processes."""


pass_hooks = click.make_pass_decorator(Hooks, ensure=True)
