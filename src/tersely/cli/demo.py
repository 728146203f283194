"""`tersely demo`."""

from __future__ import annotations

import click


@click.command()
@click.option("--seed", type=int, default=None, help="Draw the same sample again.")
@click.option("--tokens", type=int, default=200_000, show_default=True, help="Size of the sample.")
def demo(seed: int | None, tokens: int) -> None:
    """See it work: a real MCP client calls a real `tersely serve` with a large sample. No key, no network."""
    from tersely.demo.show import show

    raise SystemExit(show(seed=seed, tokens=tokens))
