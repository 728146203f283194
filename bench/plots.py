"""Draws the figures of benchmark runs as SVG, from their JSON: `make plots`.

    make figures             runs the benchmarks on this commit and adds a file each (bench.record)
    python -m bench.plots

Each claim of docs/benchmarks.md has a name, and a line below its marker `<!-- plot NAME -->`. If docs/figures has runs
of it, `NAME-1.json`, `NAME-2.json` and so on, the newest is drawn and shown there; if not, the line says that none was
recorded. All runs of the condenser, in order, are its history by version. Figures that were transcribed, because their
run wrote no file, are drawn as rings and called so.
"""

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.arguments import parser
from bench.bars import Bars

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "benchmarks.md"
CLAIMS = {
    "condense": "Share of the needed facts that are still in the text",
    "speed": "Speed and memory of the condenser",
    "tokens": "Counting tokens",
    "chunks": "Chunking Markdown",
    "masking": "Speed of masking",
    "masking-recall": "Secrets found, and texts without a secret that stay as they are",
    "map-reduce": "Map-reduce",
    "pipeline": "The pipeline on texts in memory",
    "summaries": "What summaries by a model cost",
    "busy": "A service with 50 large summaries at once",
    "takeover": "After a process is killed",
    "investigations": "Investigations",
    "commands": "Commands of a coding agent",
    "hooks": "CPU of a hook",
    "gateway": "The gateway",
    "dashboard": "The dashboard",
    "research": "Research",
}
"""The title of each claim's picture, by the name of its runs."""

TASKS = {"t1": "Outputs of operations tools", "t5": "Lookups, oddities, extremes", "t6": "Outputs of developer tools"}
OURS = ("#2f6f4f", "#86b89a", "#c4dccd")
PEERS = ("#8aa6b8", "#c9b79c", "#b0b0b0", "#d8a0a0", "#a0a0d8")
WIDTH, MARGIN, ROW = 900, 16, 15


def machine() -> str:
    """The processor and the number of its cores, as far as the system says."""
    cpus = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpus.read_text()) if cpus.exists() else []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def runs_of(name: str) -> list[dict[str, Any]]:
    """The recorded runs of a benchmark, the oldest first."""
    files = [path for path in FIGURES.glob(f"{name}-*.json") if re.fullmatch(r"\d+", path.stem[len(name) + 1 :])]
    files.sort(key=lambda path: int(path.stem[len(name) + 1 :]))
    return [json.loads(path.read_text("utf-8")) for path in files]


def caption(run: Mapping[str, Any]) -> str:
    """Of which version, when, where and with what load the figures are."""
    load = f"load {run['load']}" if "load" in run else ""
    return " · ".join([str(run[key]) for key in ("version", "date", "machine") if run.get(key)] + [load] * bool(load))


def panels_of(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels of a run; two benchmarks write figures of another form, from which their history is read."""
    bars = Bars()
    for task, scores in run.get("scores", {}).items():
        for engine, by_budget in scores.items():
            for budget, score in by_budget.items():
                title = f"{TASKS[task]} ({run['cases'][task]})"
                bars.add(title, f"{int(budget):,} tokens", engine, score, unit="share")
    for way, one in run.get("figures", {}).items():
        kind = way if _is_ours(way) else "other ways to cut"
        bars.add("Needles shown", way, kind, one["needles"], unit="share")
        bars.add("Tokens, including those of asking again", way, kind, one["tokens"])
        bars.add("Failures that are hidden", way, kind, one["hidden"])
        bars.add("Asked again", way, kind, one["asked_again"])
    return [*bars.panels.values(), *run.get("panels", ())]


def picture(title: str, run: Mapping[str, Any]) -> str:
    """All panels of a run, two beside each other."""
    panels = panels_of(run)
    ways = list(dict.fromkeys(way for panel in panels for group in panel["bars"].values() for way in group))
    ours = [way for way in ways if _is_ours(way)]
    others = [way for way in ways if not _is_ours(way)]
    colors = {
        way: palette[at % len(palette)] for palette, of in ((OURS, ours), (PEERS, others)) for at, way in enumerate(of)
    }
    parts = [_text(MARGIN, 26, title, 16, bold=True)]
    y = 50
    if len(ways) > 1:
        x = float(MARGIN)
        for way in ways:
            parts.append(f'<rect x="{x:.1f}" y="{y - 10}" width="12" height="12" fill="{colors[way]}"/>')
            parts.append(_text(x + 17, y, way, 12))
            x += 40 + 6.6 * len(way)
        y += 26
    columns = 1 if len(panels) == 1 else 2
    width = (WIDTH - MARGIN * (columns + 1)) / columns
    for at in range(0, len(panels), columns):
        tall = 0
        for column, panel in enumerate(panels[at : at + columns]):
            drawn, height = _panel(panel, MARGIN + column * (width + MARGIN), y, width, colors)
            parts += drawn
            tall = max(tall, height)
        y += tall + 22
    parts.append(_text(MARGIN, y, caption(run), 10))
    return _svg(y + 14, parts)


def _panel(
    panel: Mapping[str, Any], left: float, top: float, width: float, colors: Mapping[str, str]
) -> tuple[list[str], int]:
    """One panel, and its height."""
    bars, unit = panel["bars"], panel["unit"]
    wanted = {**panel.get("most", {}), **panel.get("least", {})}
    largest = (
        max([value for group in bars.values() for value in group.values()] + list(wanted.values()), default=0) or 1
    )
    names = min(0.45 * width, 14 + 6.2 * max(map(len, bars)))
    scale = (width - names - 52) / largest
    shown = f"{panel['title']}, {unit}" if unit not in ("", "share") else panel["title"]
    parts = [_text(left, top, shown, 12, bold=True)]
    y = top + 10
    figures = []
    for group, values in bars.items():
        parts.append(_text(left, y + 11, group, 11, most=names - 8))
        began = y
        for way, value in values.items():
            label = _figure(value, unit)
            parts.append(
                f'<rect x="{left + names:.1f}" y="{y + 1}" width="{max(1, value * scale):.1f}" height="{ROW - 3}" '
                f'fill="{colors[way]}"><title>{escape(" ".join(filter(None, (group, way))))}: {label}</title></rect>'
            )
            figures.append(_text(left + names + value * scale + 5, y + 11, label, 10, halo=True))
            y += ROW
        if group in wanted:
            x, word = left + names + wanted[group] * scale, "most" if group in panel.get("most", {}) else "least"
            parts.append(
                f'<line x1="{x:.1f}" y1="{began - 1}" x2="{x:.1f}" y2="{y + 1}" stroke="#b03030" stroke-width="1.5" '
                f'stroke-dasharray="3 2"><title>wanted: at {word} {_figure(wanted[group], unit)}</title></line>'
            )
        y += 5
    if wanted:
        word = "most" if panel.get("most") else "least"
        parts.append(_text(left, y + 10, f"dashed: wanted at {word}", 10, color="#b03030"))
        y += ROW
    return parts + figures, int(y - top)


def _is_ours(way: str) -> bool:
    return way.startswith("tersely")


def _figure(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.2f}".removeprefix("0")
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def history(runs: Sequence[Mapping[str, Any]]) -> str:
    """The condenser's own scores at 1,000 tokens by version, one line per task."""
    top, height = 50, 180
    parts = [_text(16, 24, "At 1,000 tokens, by version", 16, bold=True)]
    step = (WIDTH - 400) / max(1, len(runs) - 1)
    for order, task in enumerate(TASKS):
        points = [
            (60 + number * step, top + height * (1 - run["scores"][task]["tersely"]["1000"]), run)
            for number, run in enumerate(runs)
            if task in run["scores"]
        ]
        color = (OURS[0], *PEERS)[order]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, y, run in points:
            inside = "#fff" if "Transcribed" in run.get("source", "") else color
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{inside}" stroke="{color}" stroke-width="2"/>')
            parts.append(_text(x + 6, y - 6 + 12 * order, _figure(run["scores"][task]["tersely"]["1000"], "share"), 10))
        parts.append(f'<rect x="{WIDTH - 200}" y="{top + 20 * order}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(WIDTH - 182, top + 10 + 20 * order, TASKS[task], 12))
    for number, run in enumerate(runs):
        parts.append(_text(50 + number * step, top + height + 20, run["version"], 11))
        parts.append(_text(50 + number * step, top + height + 34, run.get("date", "transcribed"), 10))
    return _svg(top + height + 46, parts)


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    *,
    bold: bool = False,
    color: str = "",
    most: float | None = None,
    halo: bool = False,
) -> str:
    """A line of text, squeezed into `most` if it would be wider, with a `halo` if it has to be read over lines."""
    more = ' font-weight="bold"' if bold else ""
    more += f' fill="{color}"' if color else ""
    more += ' stroke="#fff" stroke-width="3" paint-order="stroke"' if halo else ""
    if most is not None and len(text) * size * 0.55 > most:
        more += f' textLength="{most:.0f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{more}>{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    style = 'font-family="sans-serif" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" {style}>\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>\n{inside}\n</svg>\n'
    )


def pictures() -> Iterator[tuple[str, str]]:
    """Each file of docs/pictures that is drawn here, with its content."""
    for name, title in CLAIMS.items():
        if runs := runs_of(name):
            yield f"bench-{name}.svg", picture(title, runs[-1])
    yield "bench-history.svg", history(runs_of("condense"))


def with_plots(page: str) -> str:
    """The page, with the line below each marker that shows the claim's picture or says that there is no run of it."""

    def line(found: re.Match[str]) -> str:
        name = found[1]
        if runs_of(name):
            return f"<!-- plot {name} -->\n![{CLAIMS[name]}](pictures/bench-{name}.svg)"
        none = f"No run of this has been recorded yet, so there is no plot: `python -m bench.record {name}`."
        return f"<!-- plot {name} -->\n{none}"

    return re.sub(r"<!-- plot ([a-z-]+) -->\n.*", line, page)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--into", type=Path, default=PICTURES, help="folder for the pictures")
    asked = options.parse_args()
    drawn = dict(pictures())
    if not asked.smoke:
        for name, content in drawn.items():
            (asked.into / name).write_text(content, "utf-8")
        PAGE.write_text(with_plots(PAGE.read_text("utf-8")), "utf-8")
    missing = [name for name in CLAIMS if not runs_of(name)]
    print(f"{len(drawn)} pictures; no run of: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
