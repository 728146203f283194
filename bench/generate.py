"""Results on generated cases: the share of the answers that each engine keeps, on questions over invented texts.

    python -m bench.generate                               our engine and BM25+MMR, every shape and ask once
    python -m bench.generate --seeds 4 --engine tersely    more cases
    python -m bench.generate --fresh                       new random seeds; prints the first one
    python -m bench.generate --shape csv --ask extreme     a part of it
    python -m bench.generate --show csv/extreme/0          one case: question, needles, our output
    python -m bench.generate --lost --shape csv            the ids of the cases that lost something
    python -m bench.generate --smoke                       csv only

Held-out shapes are counted in one total and never shown.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing import Pool
from random import SystemRandom

from bench.arguments import parser
from bench.engines import ENGINES, named
from bench.generator.cases import all_shapes, draw, find
from tersely.text.tokens import O200K

BUDGETS = (500, 1000, 2000)


@dataclass(frozen=True)
class Outcome:
    engine: str
    case: str
    shape: str
    ask: str
    held_out: bool
    budget: int
    score: float
    tokens: int
    seconds: float
    error: str


def _measure(job: tuple[str, str, int, tuple[str, ...], tuple[int, ...]]) -> list[Outcome]:
    shape, ask, seed, engines, budgets = job
    case = draw(shape, ask, seed)
    found = []
    for engine in engines:
        for budget in budgets:
            began = time.perf_counter()
            error = ""
            try:
                output = ENGINES[engine](case.text, budget, case.focus)
            except Exception as failure:  # noqa: BLE001  An engine that fails scores nothing; the others continue.
                output, error = "", f"{type(failure).__name__}: {failure}"[:160]
            took = time.perf_counter() - began
            found.append(
                Outcome(
                    engine,
                    case.id,
                    case.shape,
                    case.ask,
                    case.held_out,
                    budget,
                    case.score(output),
                    O200K.count(output),
                    took,
                    error,
                )
            )
    return found


def measure(
    engines: Iterable[str],
    seeds: range,
    *,
    shape: str = "",
    ask: str = "",
    budgets: tuple[int, ...] = BUDGETS,
    jobs: int = 1,
) -> list[Outcome]:
    work = [
        (name, asked, seed, tuple(engines), budgets)
        for seed in seeds
        for name, asked in all_shapes()
        if shape in name and ask in asked
    ]
    if jobs == 1:
        return [outcome for job in work for outcome in _measure(job)]
    with Pool(jobs) as pool:
        return [outcome for outcomes in pool.imap_unordered(_measure, work, chunksize=4) for outcome in outcomes]


def figure(share: float) -> str:
    return f"{share:.2f}".removeprefix("0") if share < 0.995 else "1.0"


def _means(outcomes: list[Outcome], budgets: tuple[int, ...]) -> str:
    shares = []
    for budget in budgets:
        scores = [outcome.score for outcome in outcomes if outcome.budget == budget]
        shares.append(figure(sum(scores) / len(scores)) if scores else "–")
    return "/".join(f"{share:>3}" for share in shares)


def _mean(outcomes: list[Outcome]) -> float:
    return sum(outcome.score for outcome in outcomes) / max(1, len(outcomes))


def without_one(scores: dict[str, list[float]]) -> str:
    """The mean over kinds, and between which values it lies if any one kind is left out.

    A total that one kind carries falls when this kind is left out; a change that wins on one kind only shows there.
    """
    means = {kind: sum(found) / len(found) for kind, found in scores.items() if found}
    if len(means) < 2:
        return "–"
    total = sum(means.values())
    left = {kind: (total - mean) / (len(means) - 1) for kind, mean in means.items()}
    low, high = min(left, key=left.__getitem__), max(left, key=left.__getitem__)
    return f"{total / len(means):.3f}, {left[low]:.3f} without {low}, {left[high]:.3f} without {high}"


def report(outcomes: list[Outcome], budgets: tuple[int, ...] = BUDGETS) -> list[str]:
    """Totals, asks, then the open shapes, worst first by our own score; `<` marks where BM25+MMR does better."""
    engines = list(dict.fromkeys(outcome.engine for outcome in outcomes))
    first = engines[0]
    width = max(18, 4 * len(budgets) + 2)

    def line(label: str, wanted: list[Outcome]) -> str:
        shown = [f"{label:<38}{len({outcome.case for outcome in wanted}):>5} "]
        shown += [
            f"{_means([outcome for outcome in wanted if outcome.engine == engine], budgets):>{width}}"
            for engine in engines
        ]
        if "tersely" in engines and "bm25+mmr" in engines:
            ours, theirs = (_mean([o for o in wanted if o.engine == engine]) for engine in ("tersely", "bm25+mmr"))
            shown.append("  <" if ours < theirs - 1e-9 else "")
        return "".join(shown)

    lines = [
        f"{'share of needles kept @' + '/'.join(map(str, budgets)):<38}cases "
        + "".join(f"{engine:>{width}}" for engine in engines)
    ]
    for held, label in ((False, "open shapes"), (True, "held-out shapes")):
        part = [outcome for outcome in outcomes if outcome.held_out is held]
        if part:
            lines.append(line(label, part))
    by_ask: dict[str, list[Outcome]] = defaultdict(list)
    by_shape: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if not outcome.held_out:
            by_ask[outcome.ask].append(outcome)
            by_shape[outcome.shape].append(outcome)
    for engine in engines:
        scores = {shape: [o.score for o in found if o.engine == engine] for shape, found in by_shape.items()}
        lines.append(f"mean of open shapes, {engine}: {without_one(scores)}")
    lines.append("by ask (open)")
    lines += [line(f"  {ask}", found) for ask, found in sorted(by_ask.items())]
    lines.append("by shape (open), worst first")
    worst_first = sorted(by_shape.items(), key=lambda item: (_mean([o for o in item[1] if o.engine == first]), item[0]))
    lines += [line(f"  {shape}", found) for shape, found in worst_first]
    for engine in engines:
        own = [outcome for outcome in outcomes if outcome.engine == engine]
        over = [outcome for outcome in own if outcome.tokens > outcome.budget]
        errors = [outcome for outcome in own if outcome.error]
        seconds = sum(outcome.seconds for outcome in own)
        lines.append(f"{engine}: {len(over)} over budget, {len(errors)} errors, {seconds:.1f} s for {len(own)} calls")
        lines += [f"  over budget: {o.case} @{o.budget}: {o.tokens}" for o in over[:5] if not o.held_out]
        lines += [f"  {o.case} @{o.budget}: {o.error}" for o in errors[:5] if not o.held_out]
        lines += sorted({f"  (a held-out case) {o.error}" for o in errors if o.held_out})[:5]
    return lines


def show(case_id: str, engine: str, budgets: tuple[int, ...]) -> None:
    case = find(case_id)
    if case.held_out:
        raise SystemExit(f"{case.shape!r} is held out and cannot be shown, so that it is not used for tuning.")
    print(f"case    {case.id} ({O200K.count(case.text):,} tokens)\nfocus   {case.focus!r}\nneedles {case.needles}\n")
    where = case.text.find(case.needles[0][0])
    print(f"--- the text around its first needle\n{case.text[max(0, where - 400) : where + 600]}\n")
    for budget in budgets:
        output = ENGINES[engine](case.text, budget, case.focus)
        print(f"--- {engine} @{budget}: {O200K.count(output)} tokens, score {case.score(output):.2f}\n{output}\n")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--engine", default="tersely,bm25+mmr", help=f"separated by commas: {', '.join(ENGINES)}")
    options.add_argument("--seeds", type=int, default=1, help="cases per shape and ask")
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--fresh", action="store_true", help="begin at a seed nobody has seen")
    options.add_argument("--shape", default="", help="only shapes whose name contains this")
    options.add_argument("--ask", default="", help="only asks whose name contains this")
    options.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--show", metavar="CASE", help="print one case and what the first engine makes of it")
    options.add_argument("--text", metavar="CASE", help="print the text of one case, nothing else")
    options.add_argument(
        "--lost", action="store_true", help="list the cases in which the first engine lost something at 1000 tokens"
    )
    asked = options.parse_args()
    if asked.smoke:
        asked.shape = asked.shape or "csv"
    budgets = tuple(int(budget) for budget in asked.budgets.split(","))
    engines = list(named(asked.engine))
    if asked.show:
        show(asked.show, engines[0], budgets)
        return
    if asked.text:
        case = find(asked.text)
        if case.held_out:
            raise SystemExit(f"{case.shape!r} is held out.")
        print(case.text)
        return
    first = SystemRandom().randrange(10_000, 10_000_000) if asked.fresh else asked.first_seed
    began = time.perf_counter()
    outcomes = measure(
        engines, range(first, first + asked.seeds), shape=asked.shape, ask=asked.ask, budgets=budgets, jobs=asked.jobs
    )
    if not outcomes:
        raise SystemExit("No shape and ask match.")
    print("\n".join(report(outcomes, budgets)))
    print(f"seeds {first} to {first + asked.seeds - 1}, {time.perf_counter() - began:.0f} s")
    if asked.lost:
        middle = budgets[len(budgets) // 2]
        for outcome in sorted(outcomes, key=lambda o: (o.score, o.case)):
            if outcome.engine == engines[0] and outcome.budget == middle and outcome.score < 1 and not outcome.held_out:
                print(f"  {outcome.score:.2f} {outcome.case}")
    if any(outcome.tokens > outcome.budget for outcome in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
