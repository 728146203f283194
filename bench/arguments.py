"""Command-line arguments that all benchmarks share.

Every benchmark has `--smoke`: the smallest run of each of its parts, in seconds. It shows that the benchmark still
works; it asserts results, never speed, and its figures mean nothing.
"""

import argparse
from pathlib import Path


def parser(description: str | None, *, figures: bool = False) -> argparse.ArgumentParser:
    """A parser for a benchmark whose module docstring is `description`; `figures` if it can write what it found."""
    built = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    built.add_argument("--smoke", action="store_true", help="the smallest run of each part; the figures mean nothing")
    if figures:
        built.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE, for bench.plots")
    return built
