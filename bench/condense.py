"""Compare the structural condenser with other engines: the share of important content each keeps, and its cost.

    python -m bench.condense                       everything (minutes)
    python -m bench.condense --quick               a fifth of the cases, small sizes
    python -m bench.condense --smoke               a case or two of each part
    python -m bench.condense --task t1,t6          parts: t1 t2 t3 t3b t4 t5 t6, generator, speed, fold
    python -m bench.condense --engine tersely      only these engines
    python -m bench.condense --task t6 --lost      list each needle that our own engine loses, too, and why

The kinds in which BM25+MMR keeps more than our own engine are listed, and how many needles ours loses for which reason.

Tasks t1 to t6 are the yardstick: independent texts with the needles that must
survive. It is in a folder `shared` beside the repository and not part of it; if it is
missing, the command says so and continues. The generator, speed and fold need no data;
speed also measures the texts of t6 if they are there.

Exits with an error if any output was over its budget, or if our own engine failed.
"""

import importlib.util
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from statistics import mean, median
from types import ModuleType
from typing import Any

from bench import generate, growth
from bench.arguments import parser
from bench.bars import Bars
from bench.engines import ENGINES, Engine, NotInstalled, named
from bench.generate import figure, without_one
from bench.generator.logs import LOG_SHAPES, draw_story
from bench.plots import machine
from tersely.condensing.account import source_lines
from tersely.condensing.structural import cleaned, condense_structurally
from tersely.text.tokens import O200K

YARDSTICK_TASKS = ("t1", "t2", "t3", "t3b", "t4", "t5", "t6")
NEEDLE_TASKS = ("t1", "t5", "t6")
"""The tasks whose cases have a kind and list their needles."""
OWN_TASKS = ("generator", "speed", "fold")
SMOKE_EVERY = 1_000
"""Larger than any task of the yardstick: only its first case."""
PEERS = "tersely,head+tail,bm25+mmr,bm25,drain3,sumy"

Row = dict[str, Any]

LEAST_RATE = 5
"""Megabytes a second that are wanted of a mixed text."""

SMALL_TEXT = 4_000
"""In characters."""
MOST_MILLISECONDS = 5
"""Wanted for a small text."""

FEWEST_CASES = 3
"""A kind with fewer cases says nothing about which engine is better at it."""

FLOORS_AND_AIMS: dict[str, tuple[str, str]] = {
    "t1": (".80/.89/.95", ".88/.95/.98"),
    "t1 json": ("@1000 .84", "@1000 .88"),
    "t2 alerts": (".83/.95/.97", ".84/.98/.99"),
    "t2 templates": ("@1000 .52", "@1000 .56"),
    "t3 rouge": ("27.5/8/24", "30/9/26"),
    "t3b": (".68/.35", ".70/.45"),
    "t4 article-extraction-benchmark": (".88/.06/.88", ".93/.05/.90"),
    "t5": (".87/.91/.93", ".92/.95/.97"),
    "t6": (".81/.87/.91", ".88/.93/.96"),
}
"""Wanted on the sealed half of the yardstick, whose cases nobody has inspected; the open half must be above them."""


# --- The yardstick


def find_yardstick(start: Path = Path(__file__)) -> Path | None:
    """The yardstick in a `shared` folder beside the repository or one of its parent folders."""
    for folder in start.resolve().parents:
        candidate = folder / "shared" / "yardstick" / "yardstick.py"
        if candidate.is_file():
            return candidate
    return None


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded as a module.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_yardstick(path: Path, every: int) -> ModuleType:
    """The module of tasks t1 to t5; with `every` > 1 it uses only every n-th case."""
    module = load_module(path)
    if every > 1:
        whole = module.load
        module.load = lambda split, task: (lambda found: (found[0], found[1][::every]))(whole(split, task))  # type: ignore[attr-defined]
    return module


class Yardstick:
    """The tasks of the yardstick; with `every` > 1, every n-th case of each."""

    def __init__(self, path: Path, every: int = 1) -> None:
        self._tasks = load_yardstick(path, every)
        self._t6 = load_module(path.with_name("t6.py"))
        self._t6_data = path.parent / "data" / "dev" / "t6"
        self._every = every

    def rows(self, task: str, engine: Engine, *, explain: bool = False) -> Iterator[Row]:
        """Score one engine; a row of a task with needles has those that it `lost`, and `why` if asked to explain."""
        if task == "t6":
            yield from self._t6_rows(engine, explain=explain)
            return
        source = written = ""

        def remember(text: str, budget: int, focus: str) -> str:
            nonlocal source, written
            source, written = text, engine(text, budget, focus)
            return written

        cases = {case["id"]: case for case in self._tasks.load("dev", task)[1]} if task in NEEDLE_TASKS else {}
        for row in self._tasks.TASKS[task](remember, "dev", None):
            if task in NEEDLE_TASKS:
                case = cases[row["case"]]
                said = _said(self._tasks.norm, "" if row["err"] else written, case["focus"])
                row["lost"] = [needle for needle in case["needles"] if not self._tasks.has_needle(said, needle)]
                if explain:
                    row["why"] = why_lost(source, row["budget"], case["focus"], row["lost"])
            yield row

    def t6_cases(self) -> Iterator[dict[str, Any]]:
        return islice(self._t6.load_cases(self._t6_data), 0, None, self._every)

    def _t6_rows(self, engine: Engine, *, explain: bool) -> Iterator[Row]:
        for case in self.t6_cases():
            for budget in (500, 1000, 2000):
                if case["tokens"] <= budget:
                    continue
                written, seconds, error = self._tasks.call(engine, case["text"], budget, case["focus"])
                said = _said(self._t6.norm, written, case["focus"])
                lost = [needle for needle in case["needles"] if not self._t6.has_needle(said, needle)]
                tokens = self._tasks.count(written)
                yield {
                    "task": "t6",
                    "case": case["id"],
                    "type": case["kind"],
                    "ask": case["ask"],
                    "budget": budget,
                    "score": 1 - len(lost) / len(case["needles"]),
                    "lost": lost,
                    "why": why_lost(case["text"], budget, case["focus"], lost) if explain else [],
                    "tokens": tokens,
                    "in_budget": tokens <= budget,
                    "sec": seconds,
                    "err": error,
                }


def _said(norm: Callable[[str], str], text: str, focus: str) -> str:
    """The text with single blanks, without the question: an engine that repeats it has found nothing."""
    return norm(text).replace(norm(focus), " ") if focus else norm(text)


def why_lost(text: str, budget: int, focus: str, needles: list[Any]) -> list[str]:
    """Say for each needle that our own engine loses what happened to the lines of the source that contain it."""
    if not needles:
        return []
    account = condense_structurally(text, budget, focus).account
    lines = [" ".join(line.split()) for line in source_lines(cleaned(text))]
    reasons = []
    for needle in needles:
        words = [" ".join(word.split()) for word in _strings(needle)]
        places = [at for at, line in enumerate(lines, 1) if any(word in line for word in words)]
        reasons.append(
            next(
                (
                    reason
                    for reason, runs in (
                        ("its line is shown, but in another form", account.shown),
                        ("its line is shown in part", account.partial),
                        ("its line is counted by another one", account.folded),
                        ("its line is left out", account.lost),
                    )
                    if any(first <= at <= last for first, last in runs for at in places)
                ),
                "no line of the source contains all of it",
            )
        )
    return reasons


def _strings(needle: Any) -> Iterator[str]:
    """The texts of a needle, which may have alternatives."""
    if isinstance(needle, str):
        yield needle
    else:
        for part in needle.values() if isinstance(needle, dict) else needle if isinstance(needle, list) else ():
            yield from _strings(part)


def run_yardstick(yardstick: Yardstick, engines: dict[str, Engine], tasks: Iterable[str]) -> list[Row]:
    rows: list[Row] = []
    for task in tasks:
        if task == "t3" and importlib.util.find_spec("rouge_score") is None:
            print("t3 is left out: rouge-score is not installed. `make bench` installs it in .venv-bench.")
            continue
        for name, engine in engines.items():
            began = time.perf_counter()
            found = [row | {"engine": name} for row in yardstick.rows(task, engine, explain=name == "tersely")]
            rows += found
            print(f"  {task} {name}: {len(found)} calls, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return rows


def _average(rows: list[Row], key: str, budget: int | None = None) -> float | None:
    values = [row[key] for row in rows if row.get(key) is not None and budget in (None, row["budget"])]
    return sum(values) / len(values) if values else None


def _shares(*values: float | None) -> str:
    return "/".join("–" if value is None else figure(value) for value in values)


def _by_budget(rows: list[Row], key: str = "score") -> str:
    return _shares(*(_average(rows, key, budget) for budget in (500, 1000, 2000)))


def _rouge(rows: list[Row]) -> str:
    return "/".join(f"{_average(rows, key) or 0:.1f}" for key in ("rouge1", "rouge2", "rougeLsum"))


def _pages(rows: list[Row]) -> str:
    return _shares(*(_average(rows, key) for key in ("score", "boiler", "precision")))


def _of(task: str, key: str = "task", value: str = "") -> Callable[[Row], bool]:
    return lambda row: row["task"] == task and (key == "task" or row[key] == value)


def yardstick_report(rows: list[Row], engines: list[str]) -> list[str]:
    """Scores by task and kind, with minimum and target."""
    widths = [max(16, len(engine) + 2) for engine in engines]
    lines = [
        f"{'':<34}{'n':>4} "
        + "".join(f"{engine:>{width}}" for engine, width in zip(engines, widths, strict=True))
        + f"{'floor':>15}{'aim':>15}"
    ]

    def line(label: str, wanted: Callable[[Row], bool], show: Callable[[list[Row]], str], goal: str = "") -> None:
        part = [row for row in rows if wanted(row)]
        if not part:
            return
        cells = [
            f"{show([row for row in part if row['engine'] == engine]):>{width}}"
            for engine, width in zip(engines, widths, strict=True)
        ]
        floor, aim = FLOORS_AND_AIMS.get(goal, ("", ""))
        lines.append(
            f"{label:<34}{len({row['case'] for row in part}):>4} " + "".join(cells) + f"{floor:>15}{aim:>15}".rstrip()
        )

    def kinds(task: str, key: str = "type") -> list[str]:
        return sorted({row[key] for row in rows if row["task"] == task})

    line("t1 needles @500/1000/2000", _of("t1"), _by_budget, "t1")
    for kind in kinds("t1"):
        line(f"   {kind}", _of("t1", "type", kind), _by_budget, f"t1 {kind}")
    line("t2 alerts @500/1000/2000", _of("t2"), _by_budget, "t2 alerts")
    line("t2 templates", _of("t2"), lambda found: _by_budget(found, "templates"), "t2 templates")
    line("t3 ROUGE-1/2/Lsum", _of("t3"), _rouge, "t3 rouge")
    line(
        "t3b words/precision",
        _of("t3b"),
        lambda found: _shares(_average(found, "score"), _average(found, "span_prec")),
        "t3b",
    )
    line("t4 gold/boilerplate/precision", _of("t4"), _pages)
    for kind in kinds("t4"):
        line(f"   {kind}", _of("t4", "type", kind), _pages, f"t4 {kind}")
    for task in ("t5", "t6"):
        line(f"{task} needles @500/1000/2000", _of(task), _by_budget, task)
        for ask in kinds(task, "ask"):
            line(f"   asks: {ask}", _of(task, "ask", ask), _by_budget)
        for kind in kinds(task):
            line(f"   {kind}", _of(task, "type", kind), _by_budget)
    for task in NEEDLE_TASKS:
        for engine in engines:
            own = [row for row in rows if row["task"] == task and row["engine"] == engine and row["score"] is not None]
            if own:
                scores = {kind: [row["score"] for row in own if row["type"] == kind] for kind in kinds(task)}
                lines.append(f"{task} mean of kinds, {engine}: {without_one(scores)}")
    line(
        "within budget",
        lambda row: True,
        lambda found: f"{sum(row['in_budget'] for row in found) / max(1, len(found)):.1%}",
    )
    line("errors", lambda row: True, lambda found: str(sum(1 for row in found if row["err"])))
    line("seconds per call", lambda row: True, lambda found: f"{_average(found, 'sec') or 0:.3f}")
    return lines


def _version() -> str:
    """As written in pyproject.toml: the package is not installed where the peers are."""
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
    return next(line.split('"')[1] for line in project.splitlines() if line.startswith("version = "))


def needle_scores(rows: list[Row], engines: list[str]) -> dict[str, Any]:
    """What `bench.plots` draws: version, machine, and the mean score by task, engine and budget."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for task in NEEDLE_TASKS:
        for engine in engines:
            part = [row for row in rows if row["task"] == task and row["engine"] == engine]
            found = {str(budget): _average(part, "score", budget) for budget in sorted({row["budget"] for row in part})}
            kept = {budget: round(score, 4) for budget, score in found.items() if score is not None}
            if kept:
                scores.setdefault(task, {})[engine] = kept
    cases = {task: len({row["case"] for row in rows if row["task"] == task}) for task in scores}
    return {"version": _version(), "machine": machine(), "cases": cases, "scores": scores}


def below_the_simple_thing(rows: list[Row]) -> list[str]:
    """The kinds of at least three cases in which we keep less than BM25+MMR at a budget."""
    lines = []
    for task in NEEDLE_TASKS:
        for kind in sorted({row["type"] for row in rows if row["task"] == task}):
            part = [row for row in rows if row["task"] == task and row["type"] == kind]
            if len({row["case"] for row in part}) < FEWEST_CASES:
                continue
            for budget in sorted({row["budget"] for row in part}):
                ours, theirs = (
                    _average([row for row in part if row["engine"] == engine], "score", budget)
                    for engine in ("tersely", "bm25+mmr")
                )
                if ours is not None and theirs is not None and ours < theirs - 1e-9:
                    lines.append(f"below BM25+MMR: {task} {kind} @{budget}: {ours:.3f} against {theirs:.3f}")
    return lines


def still_lost(rows: list[Row], *, each: bool) -> list[str]:
    """The needles that our own engine loses, counted by task and reason; with `each`, one by one with their budgets."""
    budgets: dict[tuple[str, str, str, str, str], list[int]] = {}
    for row in rows:
        if row["engine"] == "tersely":
            for needle, why in zip(row.get("lost", ()), row.get("why", ()), strict=True):
                key = (row["task"], row["type"], row["case"], json.dumps(needle, ensure_ascii=False), why)
                budgets.setdefault(key, []).append(row["budget"])
    reasons = Counter((task, why) for (task, _, _, _, why), found in budgets.items() for _ in found)
    lines = [f"lost: {task}: {times} times {why}" for (task, why), times in sorted(reasons.items())]
    if each:
        lines += [
            f"lost: {task} {kind} {case} @{'/'.join(map(str, found))}: {needle}: {why}"
            for (task, kind, case, needle, why), found in sorted(budgets.items())
        ]
    return lines


# --- Speed and growth


def speed(sizes: tuple[float, ...], hostile: float, bars: Bars) -> list[str]:
    lines = [
        "",
        f"{'speed and growth, 1000 tokens':<30}" + "".join(f"{f'{size} MB':>26}" for size in sizes) + f"{'growth':>10}",
    ]
    for kind in growth.TEXTS:
        found = [growth.measure(kind, size) for size in sizes if size <= 10 or kind != "prose"]
        cells = [
            f"{f'{one.seconds:.2f} s {one.rate:.1f} MB/s {one.memory:.1f}×':>26}"
            if not isinstance(one, str)
            else f"{one:>26}"
            for one in found
        ]
        good = [one for one in found if not isinstance(one, str)]
        for grown in good:
            way, least = f"tersely, {grown.megabytes:.0f} MB", LEAST_RATE if kind == "mixed" else None
            bars.add("Speed", kind, way, grown.rate, unit="MB/s", least=least)
            bars.add("Peak of memory", kind, way, grown.memory, unit="times the text")
        grew = f"{good[0].rate / good[-1].rate:.2f}" if len(good) > 1 else ""
        lines.append(f"   {kind:<27}" + "".join(cells) + f"{'':>{26 * (len(sizes) - len(found))}}{grew:>10}")
    for kind in (*growth.LONG, *growth.HOSTILE):
        one = growth.measure(kind, hostile if kind in growth.HOSTILE else 2 * hostile)
        shown = (
            one
            if isinstance(one, str)
            else f"{one.megabytes:g} MB in {one.seconds:.2f} s, {one.memory:.1f} × memory, {one.tokens} tokens"
        )
        name = kind if kind in growth.LONG else f"hostile: {kind}"
        lines.append(f"   {name:<27}{shown}")
    lines.append(
        "   × is the peak of memory beyond the text, and beyond what a small one needs, as a multiple of the text; "
        "growth is the time per MB at the largest size over that at the smallest"
    )
    return lines


def small_texts(yardstick: Yardstick, runs: int) -> list[str]:
    """CPU time for the outputs of developer tools, and for the first 4 kB of each; the least of several runs."""
    cases = list(yardstick.t6_cases())
    whole = [_least_time(case["text"], 1000, case["focus"], max(1, runs // 3)) for case in cases]
    small = [_least_time(case["text"][:SMALL_TEXT], 300, case["focus"], runs) * 1e3 for case in cases]
    size = sum(len(case["text"].encode()) for case in cases) / 1e6
    over = sum(1 for each in small if each > MOST_MILLISECONDS)
    return [
        f"   {'t6, 1000 tokens':<27}{size:.1f} MB in {sum(whole):.2f} s, {size / sum(whole):.1f} MB/s",
        f"   {'the first 4 kB, 300 tokens':<27}mean {mean(small):.1f} ms, median {median(small):.1f} ms, most "
        f"{max(small):.1f} ms; {over} of {len(small)} over {MOST_MILLISECONDS} ms",
    ]


def _least_time(text: str, budget: int, focus: str, runs: int) -> float:
    condense_structurally(text, budget, focus)
    times = []
    for _ in range(runs):
        began = time.process_time()
        condense_structurally(text, budget, focus)
        times.append(time.process_time() - began)
    return min(times)


# --- Fold


def fold_report(tokens: int) -> list[str]:
    """Tokens before and after folding, on a log of a service that mostly repeats its messages."""
    from tersely.condensing.summarize.fold import fold

    lines = ["", f"{'fold':<30}{'before':>10}{'after':>10}{'share':>8}"]
    for shape in (
        "app log",
        "system log",
        "json log lines",
        "logfmt",
        "java log with stack traces",
        "log without levels",
    ):
        source = _repetitive_log(shape, tokens)
        before, after = O200K.count(source), O200K.count(fold(source))
        lines.append(f"   {shape:<27}{before:>10,}{after:>10,}{figure(after / before):>8}")
    return lines


def _repetitive_log(shape: str, tokens: int) -> str:
    """A log in which every line has its own time and 95 % of the messages are one of forty."""
    rng = Random(shape)
    events = draw_story(rng, "trouble", tokens // 25, with_stacks="stack" in shape).events
    few = events[:40]
    for event in events[40:]:
        if rng.random() < 0.95:
            again = rng.choice(few)
            event.message, event.part, event.level, event.stack = again.message, again.part, again.level, again.stack
    return LOG_SHAPES[shape].write(rng, events)


def main() -> None:
    options = parser(__doc__, figures=True)
    options.add_argument("--quick", action="store_true", help="a fifth of the cases, sizes up to 10 MB")
    options.add_argument(
        "--task", default="all", help=f"separated by commas: {', '.join((*YARDSTICK_TASKS, *OWN_TASKS))}"
    )
    options.add_argument("--engine", default=PEERS, help=f"separated by commas: {', '.join(ENGINES)}")
    options.add_argument("--seeds", type=int, default=0, help="generated cases per shape and ask (quick: 1, else 3)")
    options.add_argument("--lost", action="store_true", help="list every needle that our own engine loses, and why")
    asked = options.parse_args()
    quick = asked.quick or asked.smoke
    tasks = (
        (*YARDSTICK_TASKS, *OWN_TASKS) if asked.task == "all" else tuple(task.strip() for task in asked.task.split(","))
    )
    for task in tasks:
        if task not in (*YARDSTICK_TASKS, *OWN_TASKS):
            raise SystemExit(f"No task {task!r}; there are {', '.join((*YARDSTICK_TASKS, *OWN_TASKS))}.")
    engines = available(named(asked.engine))
    broken: list[str] = []
    bars, scores = Bars(), {}

    wanted = [task for task in YARDSTICK_TASKS if task in tasks]
    path = find_yardstick()
    every = SMOKE_EVERY if asked.smoke else 5 if asked.quick else 1
    if wanted and path is None:
        print(
            "The yardstick is missing (no folder `shared/yardstick` beside the repository); skipped: "
            + ", ".join(wanted)
            + ".\n"
        )
    elif wanted and path is not None:
        rows = run_yardstick(Yardstick(path, every), engines, wanted)
        print("\n".join(yardstick_report(rows, list(engines))))
        print("\n".join(below_the_simple_thing(rows)))
        scores = needle_scores(rows, list(engines))
        print("\n".join(still_lost(rows, each=asked.lost)))
        broken += [
            f"{row['engine']} {row['case']} @{row['budget']}: {row['tokens']} tokens"
            for row in rows
            if not row["in_budget"]
        ]
        broken += [
            f"{row['case']} @{row['budget']}: {row['err']}" for row in rows if row["err"] and row["engine"] == "tersely"
        ]
    if "generator" in tasks:
        # sumy and the plain BM25 show nothing new here, and cost minutes.
        chosen = [name for name in engines if name not in ("sumy", "bm25")] or list(engines)
        seeds = range(asked.seeds or (1 if quick else 3))
        outcomes = generate.measure(chosen, seeds, shape="csv" if asked.smoke else "")
        print("\n" + "\n".join(generate.report(outcomes)))
        broken += [f"{o.engine} {o.case} @{o.budget}: {o.tokens} tokens" for o in outcomes if o.tokens > o.budget]
        broken += [f"{o.case} @{o.budget}: {o.error}" for o in outcomes if o.error and o.engine == "tersely"]
    if "speed" in tasks:
        sizes = (0.1,) if asked.smoke else (1, 10) if asked.quick else (1, 10, 100)
        print("\n".join(speed(sizes, 0.1 if asked.smoke else 1 if asked.quick else 10, bars)))
        if path is not None:
            print("\n".join(small_texts(Yardstick(path, every), 1 if asked.smoke else 9)))
    if "fold" in tasks:
        print("\n".join(fold_report(2_000 if asked.smoke else 20_000 if asked.quick else 200_000)))
    bars.write(asked.json, **scores)
    if broken:
        print("\nViolated guarantees:\n  " + "\n  ".join(broken[:20]))
        sys.exit(1)


def available(engines: dict[str, Engine]) -> dict[str, Engine]:
    """The engines that are installed; prints the names of the others."""
    kept = {}
    for name, engine in engines.items():
        try:
            engine("one line\nanother line\n" * 40, 50, "another")
        except NotInstalled as missing:
            print(f"{name} is left out: {missing}")
        else:
            kept[name] = engine
    return kept


if __name__ == "__main__":
    main()
