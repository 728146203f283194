"""The command line of the simulated servers."""

import argparse
from datetime import datetime

from tersely.demo.incidents import Incident, draw_incident


def incident_from(arguments: list[str]) -> Incident:
    parser = argparse.ArgumentParser(
        description="A simulated system behind a real MCP server, on standard input and output."
    )
    parser.add_argument(
        "--seed", type=int, required=True, help="draws the incident; the same seed gives the same one again"
    )
    parser.add_argument(
        "--at", type=datetime.fromisoformat, help="the moment it is seen at, with time zone; without it, this minute"
    )
    parser.add_argument("--cause", help="force a cause by name, e.g. disk-full, instead of drawing it")
    options = parser.parse_args(arguments)
    return draw_incident(options.seed, options.at, cause=options.cause)
