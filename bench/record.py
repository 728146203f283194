"""Runs benchmarks on the present commit and adds their figures to docs/figures, with commit, date, machine and command.

    make figures                          all of them, then the plots (more than an hour)
    make figures ONLY="condense hooks"    these
    python -m bench.record condense

The files are numbered; `bench.plots` draws the newest of each. Changes of the package that are not committed are
refused: nobody could repeat such a run. A run that misses its targets is recorded like any other.
"""

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.arguments import parser
from bench.plots import CLAIMS, FIGURES, ROOT, machine, runs_of

HERE, WITH_PEERS = ".venv", ".venv-bench"
BENCHMARKS = {
    "condense": (WITH_PEERS, ("bench.condense", "--task", "t1,t5,t6", "--engine", "tersely,bm25+mmr,head+tail")),
    "speed": (HERE, ("bench.condense", "--quick", "--task", "speed")),
    "tokens": (WITH_PEERS, ("bench.tokens",)),
    "chunks": (WITH_PEERS, ("bench.chunks",)),
    "masking": (WITH_PEERS, ("bench.masking",)),
    "masking-recall": (HERE, ("bench.masking_recall",)),
    "map-reduce": (HERE, ("bench.map_reduce",)),
    "pipeline": (HERE, ("bench.pipeline",)),
    "summaries": (HERE, ("bench.summaries",)),
    "busy": (HERE, ("bench.busy",)),
    "takeover": (HERE, ("tests.survival.chaos", "some", "takeover")),
    "investigations": (HERE, ("bench.investigations", "--only", "arriving,running,burst,catch_up")),
    "commands": (HERE, ("bench.commands",)),
    "hooks": (HERE, ("bench.hooks",)),
    "gateway": (HERE, ("bench.gateway",)),
    "dashboard": (HERE, ("bench.dashboard",)),
    "research": (HERE, ("bench.research", "--seeds", "549330", "88507", "838105", "273035", "824109")),
}
"""By claim: the environment, which has the peers where there are any, and the module with its arguments."""


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _version() -> str:
    """The last commit that changed the package."""
    return _git("log", "-1", "--format=%h", "--abbrev=7", "--", "src")


def run(name: str) -> dict[str, Any]:
    """The figures of a run that begins now; it ends if the package changes meanwhile."""
    environment, words = BENCHMARKS[name]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "figures.json"
        python = ROOT / environment / "bin" / "python"
        began, commit, load, nice = datetime.now(UTC), _version(), os.getloadavg()[0], os.nice(0)
        done = subprocess.run([str(python), "-m", *words, "--json", str(file)], cwd=ROOT, check=False)
        if not file.exists():
            sys.exit(f"{name} ended with {done.returncode} and wrote no figures.")
        figures = json.loads(file.read_text("utf-8"))
    if _version() != commit or _git("status", "--porcelain", "src"):
        sys.exit("The package changed during the run, so nobody knows what was measured.")
    about = {
        "version": commit,
        "date": f"{began:%Y-%m-%d}",
        "machine": machine(),
        "load": f"{load:.1f} before, {os.getloadavg()[0]:.1f} after"
        + (f", run ahead of it (nice {nice})" if nice < 0 else ""),
        "command": f"python -m {' '.join(words)}",
    }
    return {**about, **{key: value for key, value in figures.items() if key not in about}}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all by default")
    asked = options.parse_args()
    if unknown := set(asked.names) - set(BENCHMARKS):
        options.error(f"there is no {', '.join(unknown)}; known are {', '.join(BENCHMARKS)}")
    if asked.smoke:
        print({name: len(runs_of(name)) for name in CLAIMS})
        return
    if changed := _git("status", "--porcelain", "src", "bench"):
        sys.exit(f"Commit these first; the figures of a run belong to a commit:\n{changed}")
    for name in asked.names or BENCHMARKS:
        file = FIGURES / f"{name}-{len(runs_of(name)) + 1}.json"
        file.write_text(json.dumps(run(name), indent=1) + "\n", "utf-8")
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
