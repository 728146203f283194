"""`tersely demo`."""

from __future__ import annotations

import click

from tersely.cli.extras import check_extra


@click.command()
@click.option("--seed", type=int, default=None, help="Draw the same incident again.")
@click.option(
    "--once", is_flag=True, help="End after the report; exit code 0 only if the cause it names is the one drawn."
)
@click.option("--port", type=int, default=0, show_default="a free one", help="Port of the page.")
def demo(seed: int | None, once: bool, port: int) -> None:
    """See it work: an alert is investigated in front of your eyes. No key, no network.

    A simulated cluster and a knowledge base stand behind real MCP servers; an incident is drawn by chance, its tools
    return up to 400,000 tokens each, and the agent has to find the cause among look-alikes. With a key in the
    environment (OPENROUTER_API_KEY …) a model investigates.
    """
    check_extra("demo")

    from tersely.demo.show import show

    raise SystemExit(show(seed=seed, once=once, port=port))
