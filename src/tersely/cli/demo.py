"""`tersely demo`: investigates a simulated incident."""

from __future__ import annotations

import click

from tersely.cli.extras import check_extra


@click.command()
@click.option("--seed", type=int, default=None, metavar="N", help="Repeat the incident with this number.")
@click.option("--once", is_flag=True, help="Exit after the report, with code 0 only if it names the right cause.")
@click.option("--port", type=int, default=0, metavar="PORT", show_default="a free port", help="Port of the dashboard.")
def demo(seed: int | None, once: bool, port: int) -> None:
    """Investigate a simulated incident.

    Needs neither a key nor a network. Real MCP servers simulate a cluster and a knowledge base with a random incident.
    Their tools return up to 400,000 tokens per call. Two agents look for the cause among decoys, in parallel; their
    results are combined into one verdict, and one follow-up question is answered. With a key in the environment
    (OPENROUTER_API_KEY …) a model investigates. If the output is not a terminal, it ends by itself.
    """
    check_extra("demo")

    from tersely.demo.show import show

    raise SystemExit(show(seed=seed, once=once, port=port))
