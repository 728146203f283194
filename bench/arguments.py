"""Command-line arguments that all benchmarks share.

Every benchmark has `--smoke`: the smallest run of each of its parts, in seconds. It shows that the benchmark still
works; it asserts results, never speed, and its figures mean nothing.
"""

import argparse


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser for a benchmark whose module docstring is `description`."""
    built = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    built.add_argument("--smoke", action="store_true", help="the smallest run of each part; the figures mean nothing")
    return built
