"""Draws the figures of benchmark runs as SVG, from their JSON: `make plots`.

    make figures             runs the benchmarks on this commit and adds a file each (bench.record)
    python -m bench.plots

Of each benchmark's files, the one with the highest number gives the bars beside the peers; all of them, in order, the
history by version. Figures that were transcribed, because their run wrote no file, are drawn as rings and called so.
"""

import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.arguments import parser

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
PICTURES = ROOT / "docs" / "pictures"
TITLES = {"t1": "Outputs of operations tools", "t5": "Lookups, oddities, extremes", "t6": "Outputs of developer tools"}
COLORS = ("#2f6f4f", "#8aa6b8", "#c9b79c", "#b0b0b0", "#d8a0a0", "#a0a0d8")


def machine() -> str:
    """The processor and the number of its cores, as far as the system says."""
    import os

    cpus = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpus.read_text()) if cpus.exists() else []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def runs_of(name: str) -> list[dict[str, Any]]:
    """The recorded runs of a benchmark, the oldest first."""
    files = sorted(FIGURES.glob(f"{name}-*.json"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.stem)])
    return [json.loads(path.read_text("utf-8")) for path in files]


def caption(run: Mapping[str, Any]) -> str:
    """Of which version, when and where the figures are."""
    return " · ".join(str(run[key]) for key in ("version", "date", "machine") if run.get(key))


def bars(run: Mapping[str, Any]) -> str:
    """One group of bars per task and budget, one bar per engine."""
    tasks = [task for task in TITLES if task in run["scores"]]
    engines = list(dict.fromkeys(engine for task in tasks for engine in run["scores"][task]))
    width, panel, top, height = 900, 900 // max(1, len(tasks)), 76, 220
    parts = [_text(16, 24, "Share of the needed facts that are still in the text", 16, bold=True)]
    for number, task in enumerate(tasks):
        left = number * panel + 16
        parts.append(_text(left, top - 22, f"{TITLES[task]} ({run['cases'][task]})", 12))
        budgets = list(next(iter(run["scores"][task].values())))
        slot = (panel - 32) / max(1, len(budgets))
        bar = (slot - 12) / max(1, len(engines))
        for place, budget in enumerate(budgets):
            for order, engine in enumerate(engines):
                score = run["scores"][task].get(engine, {}).get(budget)
                if score is None:
                    continue
                x, tall = left + place * slot + order * bar, score * height
                parts.append(
                    f'<rect x="{x:.1f}" y="{top + height - tall:.1f}" width="{bar - 2:.1f}" height="{tall:.1f}" '
                    f'fill="{COLORS[order % len(COLORS)]}"><title>{engine} @{budget}: {score:.2f}</title></rect>'
                )
                parts.append(_text(x, top + height - tall - 3, f"{score:.2f}".lstrip("0"), 9))
            parts.append(_text(left + place * slot, top + height + 16, f"{int(budget):,} tokens", 11))
    for order, engine in enumerate(engines):
        x = 16 + order * 150
        parts.append(
            f'<rect x="{x}" y="{top + height + 28}" width="12" height="12" fill="{COLORS[order % len(COLORS)]}"/>'
        )
        parts.append(_text(x + 18, top + height + 38, engine, 12))
    parts.append(_text(16, top + height + 58, caption(run), 10))
    return _picture(width, top + height + 68, parts)


def history(runs: Sequence[Mapping[str, Any]]) -> str:
    """Our own scores at 1,000 tokens by version, one line per task."""
    width, top, height = 900, 50, 180
    parts = [_text(16, 24, "At 1,000 tokens, by version", 16, bold=True)]
    step = (width - 400) / max(1, len(runs) - 1)
    for order, task in enumerate(TITLES):
        points = [
            (60 + number * step, top + height * (1 - run["scores"][task]["tersely"]["1000"]), run)
            for number, run in enumerate(runs)
            if task in run["scores"]
        ]
        color = COLORS[order]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, y, run in points:
            inside = "#fff" if "Transcribed" in run.get("source", "") else color
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{inside}" stroke="{color}" stroke-width="2"/>')
            parts.append(
                _text(x + 6, y - 6 + 12 * order, f"{run['scores'][task]['tersely']['1000']:.2f}".lstrip("0"), 10)
            )
        parts.append(f'<rect x="{width - 200}" y="{top + 20 * order}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(width - 182, top + 10 + 20 * order, TITLES[task], 12))
    for number, run in enumerate(runs):
        parts.append(_text(50 + number * step, top + height + 20, run["version"], 11))
        parts.append(_text(50 + number * step, top + height + 34, run.get("date", "transcribed"), 10))
    return _picture(width, top + height + 46, parts)


def commands(run: Mapping[str, Any]) -> str:
    """Per way to cut: its tokens and the needles that it shows, and how many failures it hides."""
    figures = run["figures"]
    most = max(one["tokens"] for one in figures.values())
    width, left, row, top = 900, 220, 46, 62
    parts = [_text(16, 24, f"{run['commands']} commands of a coding agent", 16, bold=True)]
    for color, title, x in ((COLORS[0], "needles shown", 220), (COLORS[1], "tokens, of the whole output", 350)):
        parts.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{color}"/>')
        parts.append(_text(x + 18, 46, title, 12))
    for number, (name, one) in enumerate(figures.items()):
        y, scale = top + number * row, width - left - 220
        parts.append(_text(16, y + 20, name, 12, bold=name.startswith("tersely")))
        share = one["tokens"] / most
        for order, value in enumerate((one["needles"], share)):
            shown = f"{value:.1%}"
            parts.append(
                f'<rect x="{left}" y="{y + order * 16}" width="{value * scale:.1f}" height="13" '
                f'fill="{COLORS[order]}"><title>{name}: {shown}</title></rect>'
            )
            parts.append(_text(left + value * scale + 6, y + 11 + order * 16, shown, 11))
        if one["hidden"]:
            plural = "s" if one["hidden"] > 1 else ""
            parts.append(_text(width - 140, y + 20, f"hides {one['hidden']} failure{plural}", 12, bold=True))
    parts.append(_text(16, top + len(figures) * row + 10, caption(run), 10))
    return _picture(width, top + len(figures) * row + 20, parts)


def _text(x: float, y: float, text: str, size: int, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{weight}>{text}</text>'


def _picture(width: int, height: int, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    style = 'font-family="sans-serif" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{inside}\n</svg>\n'
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--into", type=Path, default=PICTURES, help="folder for the pictures")
    asked = options.parse_args()
    runs, of_commands = runs_of("condense"), runs_of("commands")[-1]
    if asked.smoke:
        print(len(bars(runs[-1])), len(history(runs)), len(commands(of_commands)))
        return
    (asked.into / "bench-condense.svg").write_text(bars(runs[-1]), "utf-8")
    (asked.into / "bench-history.svg").write_text(history(runs), "utf-8")
    (asked.into / "bench-commands.svg").write_text(commands(of_commands), "utf-8")
    print(f"{len(runs)} runs; the newest: {runs[-1]['version']} on {runs[-1]['machine']}")


if __name__ == "__main__":
    main()
