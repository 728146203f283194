"""What a program that runs the command line may hand in: `main(obj=Hooks(on_point=...))`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Hooks:
    on_point: Callable[[str], None] = lambda point: None
    """Called with the name of each crash point that a session passes; tests end the process there."""


pass_hooks = click.make_pass_decorator(Hooks, ensure=True)
