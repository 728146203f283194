"""Every benchmark runs: its smallest run, as a process, as `make bench` starts it.

Only results count here; what a benchmark says about speed depends on the machine.
Those that start services or read many texts are marked `long`: `make test-long` runs them, `make test` the others.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import plots, record
from bench.bars import Bars

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS: dict[str, tuple[str, ...]] = {
    "busy": (),
    "chunks": (),
    "commands": (),
    "conclusions": (),
    "condense": ("--engine", "tersely"),
    "dashboard": (),
    "files": ("--engine", "tersely"),
    "fit": (),
    "gallery": (),
    "gateway": (),
    "gateway_walkthrough": (),
    "generate": (),
    "hooks": (),
    "investigations": ("--store", "sqlite"),
    "larger_budgets": (),
    "linearity": ("--only", "log,diff,open brackets"),
    "map_reduce": (),
    "masking": (),
    "masking_recall": (),
    "masking_stability": (),
    "pipeline": (),
    "plots": (),
    "quality": (),
    "record": (),
    "research": (),
    "scale": (),
    "summaries": (),
    "tokens": (),
    "truth": (),
}
"""By module, with the arguments that keep the run small."""

STARTS_SERVICES = {"busy", "gateway", "gateway_walkthrough", "investigations", "research", "scale", "summaries"}
READS_MANY_TEXTS = {"commands", "condense", "larger_budgets", "masking_stability", "truth"}

PARTS_OF_BENCHMARKS = {
    "gateway_chatty",
    "gateway_upstream",
    "growth",
    "investigations_model",
    "investigations_tools",
    "summaries_model",
}
"""Programs that benchmarks start as processes of their own."""


def is_program(module: Path) -> bool:
    """Whether the module does something when it is run with `python -m`."""
    return any(
        isinstance(node, ast.If | ast.For) and (isinstance(node, ast.For) or "__main__" in ast.unparse(node.test))
        for node in ast.parse(module.read_text("utf-8")).body
    )


def run(module: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TERSELY_")}
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", "--smoke", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"
    return done.stdout


def test_every_program_in_bench_is_listed_here_and_in_the_makefile() -> None:
    programs = {path.stem for path in (ROOT / "bench").glob("*.py") if is_program(path)}
    assert programs == BENCHMARKS.keys() | PARTS_OF_BENCHMARKS
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = set(re.findall(r"-m bench\.(\w+)", makefile))
    named |= {name for names in re.findall(r"for name in ([\w ]+); do", makefile) for name in names.split()}
    by_hand = {"files", "fit", "gallery", "gateway_walkthrough", "generate"}
    assert BENCHMARKS.keys() - named == by_hand, "these are run by hand"


def test_every_claim_has_a_benchmark_and_its_plot_or_says_that_none_was_recorded(tmp_path: Path) -> None:
    """Plots are drawn from recorded runs, so what `make plots` would write is what is there."""
    assert plots.CLAIMS.keys() == record.BENCHMARKS.keys()
    page = plots.PAGE.read_text("utf-8")
    assert sorted(re.findall(r"<!-- plot (.*) -->", page)) == sorted(plots.CLAIMS)
    assert plots.with_plots(page) == page, "`make plots`"
    drawn = dict(plots.pictures())
    assert set(re.findall(r"pictures/(bench-[\w-]+\.svg)", page)) == drawn.keys()
    for name, content in drawn.items():
        assert (plots.PICTURES / name).read_text("utf-8") == content, f"`make plots`: {name} is not that of its run"
        ElementTree.fromstring(content)
    for _, words in record.BENCHMARKS.values():
        assert (
            "figures=True" in (text := (ROOT / f"{words[0].replace('.', '/')}.py").read_text("utf-8"))
            or "--json" in text
        )


def test_a_plot_shows_every_bar_and_what_is_wanted(tmp_path: Path) -> None:
    bars = Bars()
    bars.add("A small call", "old <era>", "direct", 10, unit="ms", most=16)
    bars.add("A small call", "old <era>", "tersely gateway", 18.25, unit="ms", most=16)
    bars.add("Found", "class", "tersely", 0.5, unit="share", least=0.9)
    bars.write(tmp_path / "run.json", version="abc1234", date="2026-11-16", machine="a machine")
    drawn = plots.picture("The gateway", json.loads((tmp_path / "run.json").read_text("utf-8")))
    texts = [text for one in ElementTree.fromstring(drawn).iter() for text in (one.text or "",) if text.strip()]
    assert {"A small call, ms", "old <era>", "10", "18.2", ".50", "abc1234 · 2026-11-16 · a machine"} <= set(texts)
    assert {"wanted: at most 16", "wanted: at least .90", "old <era> tersely gateway: 18.2"} <= set(texts)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(module, marks=pytest.mark.long if module in STARTS_SERVICES | READS_MANY_TEXTS else ())
        for module in sorted(BENCHMARKS.keys() - {"dashboard", "quality"})
    ],
)
def test_a_benchmark_runs(module: str) -> None:
    assert run(module, *BENCHMARKS[module]) or module == "gallery"


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_quality_harness_scores_what_the_model_answered() -> None:
    """With a model that answers from what it sees, a way that shows more of what matters scores more."""
    ways = dict(re.findall(r"(?m)^  ([\w-]+) +needles answered (\d\.\d\d), ", run("quality")))
    assert list(ways) == ["whole", "head", "structural", "summary", "read-back"]
    assert float(ways["structural"]) > float(ways["head"])


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(600)
def test_the_benchmark_of_the_dashboard_runs() -> None:
    from tests.browser.chromium import find_chromium  # Imports Playwright.

    if find_chromium() is None:
        pytest.skip("no Chromium on this machine (`make browser` installs one)")
    assert "events, opened" in run("dashboard")
