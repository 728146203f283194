"""Fit the table of weights, and say whether the fit is better on kinds of texts that it has not seen.

    python -m bench.fit                     generated cases and, if the yardstick is there, its open half
    python -m bench.fit --whole             and the share of needles that the generic reader keeps with each table
    python -m bench.fit --folds 5 --size 40000
    python -m bench.fit --smoke

Each case gives pairs of a line with a needle and a line without one; the fit makes the first score higher (logistic
loss), stays near the table in `weights.GENERIC` (`--hold`) and keeps every weight at least 0. All texts are read by
the generic reader, whatever their kind. Whole kinds (a shape of the generator, a type of text of the yardstick) are
held out in turn: `held out` is the mean over kinds that the weights were not fitted on. Held-out shapes of the
generator are never fitted on; they are one more line of the result. A weight in the table changes only if the fitted
table is better on what was held out. The result is the same on every run.
"""

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from bench import condense
from bench.arguments import parser
from bench.generator.cases import all_shapes, draw, holds
from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import generic
from tersely.condensing.structural import cleaned
from tersely.condensing.weights import GENERIC, Weights
from tersely.text.tokens import O200K

NAMES = tuple(field.name for field in fields(Weights) if field.name not in ("title", "body", "roles"))
"""The features that lines of any kind have."""
HARD, EASY = 30, 10
MOST_WANTED = 4
"""Lines per case without a needle, those with the highest scores and others drawn at random; and lines with one."""
SOFTNESS = 0.5
"""A difference of scores of this size is a clear one."""
BUDGETS = (500, 1000)
STEPS = 60
STEP_SIZE = 0.4

Row = tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """One case: its kind, and the features of lines with and without a needle."""

    kind: str
    seen: bool
    """Whether its kind may be fitted on."""
    text: str
    focus: str
    needles: tuple[tuple[str, ...], ...]
    wanted: tuple[Row, ...]
    others: tuple[Row, ...]


def sample_of(kind: str, seen: bool, text: str, focus: str, needles: tuple[tuple[str, ...], ...]) -> Sample | None:
    """The features of a case, or None if no line holds a needle by itself."""
    question = Focus.parse(focus)
    lines, _ = generic.lines_of(cleaned(text))
    features, _ = generic.line_features(lines, generic.patterns_of(lines), question)
    scores = features.scores(GENERIC, question)
    normal = [" ".join(line.split()) for line in lines]
    wanted = [
        at for at, line in enumerate(normal) if any(needle[0] in line and holds(line, needle) for needle in needles)
    ]
    if not wanted or len(wanted) > 40:
        return None
    held = set(wanted)
    rest = sorted((at for at in range(len(lines)) if at not in held), key=lambda at: (-scores[at], at))
    chosen = rest[:HARD] + Random(crc32(text[:2_000].encode())).sample(rest[HARD:], min(EASY, len(rest[HARD:])))
    rows = features.rows(question)

    def row(at: int) -> Row:
        return tuple(rows[at].get(name, 0.0) for name in NAMES)

    best = sorted(wanted, key=lambda at: (-scores[at], at))[:MOST_WANTED]
    return Sample(kind, seen, text, focus, needles, tuple(map(row, best)), tuple(map(row, chosen)))


def generated(seeds: int, size: int, every: int = 1) -> Iterator[Sample]:
    for seed in range(seeds):
        for shape, ask in all_shapes()[::every]:
            case = draw(shape, ask, seed, size)
            found = sample_of(f"generated {shape}", not case.held_out, case.text, case.focus, case.needles)
            if found:
                yield found


def from_yardstick(every: int) -> Iterator[Sample]:
    """The open cases of the yardstick's lookups; needles that are more than one literal count by their parts."""
    path = condense.find_yardstick()
    if path is None:
        print("The yardstick is not here; fitting on generated cases only.")
        return
    yardstick = condense.load_yardstick(path, every)
    for task in ("t1", "t5"):
        folder, cases = yardstick.load("dev", task)
        for case in cases:
            text = yardstick.rd(folder, case["file"])
            if "edit" in case:
                edit = case["edit"]
                text = text[: edit["at"]] + edit["new"] + text[edit["at"] + len(edit["old"]) :]
            needles = tuple(needle for one in case["needles"] if (needle := literal(one)))
            found = sample_of(f"{task} {case['type']}", True, text, case["focus"], needles) if needles else None
            if found:
                yield found
    cases_of_tools = path.parent / "data" / "dev" / "t6" / "cases.jsonl.gz"
    if cases_of_tools.is_file():
        yield from from_tools(cases_of_tools)


def from_tools(path: Path) -> Iterator[Sample]:
    """Outputs of developer tools; a case without a text has that of an earlier one."""
    texts: dict[str, str] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            text = texts[case["id"]] = case["text"] if "text" in case else texts[case["text_of"]]
            needles = tuple(needle for one in case["needles"] if (needle := literal(one)))
            found = sample_of(f"t6 {case['kind']}", True, text, case["focus"], needles) if needles else None
            if found:
                yield found


def literal(needle: object) -> tuple[str, ...]:
    if isinstance(needle, str):
        return (" ".join(needle.split()),)
    parts = (needle.get("near") or needle.get("either") or ()) if isinstance(needle, dict) else ()
    return tuple(" ".join(str(part).split()) for part in parts) if len(parts) == 2 else ()


def score(row: Row, weights: Row) -> float:
    return sum(map(float.__mul__, row, weights))


def fit(samples: list[Sample], start: Row, hold: float) -> Row:
    """Gradient descent on the logistic loss of pairs, every kind counting the same."""
    kinds: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        kinds[sample.kind].append(sample)
    pairs: list[tuple[float, Row]] = []
    for same in kinds.values():
        for sample in same:
            worth = 1 / (len(kinds) * len(same) * len(sample.wanted) * len(sample.others) or 1)
            for good in sample.wanted:
                pairs += [(worth, tuple(map(float.__sub__, good, bad))) for bad in sample.others]
    scales = [max(weight, 0.7) for weight in start]
    weights = list(start)
    for step in range(STEPS):
        slope = [2 * hold * (now - begun) / scale**2 for now, begun, scale in zip(weights, start, scales, strict=True)]
        for worth, difference in pairs:
            margin = sum(map(float.__mul__, difference, weights)) / SOFTNESS
            if margin < 12:
                share = worth / (1 + math.exp(max(-30.0, margin))) / SOFTNESS
                for place, value in enumerate(difference):
                    if value:
                        slope[place] -= share * value
        pace = STEP_SIZE / (1 + step / 40)
        weights = [
            max(0.0, now - pace * scale**2 * fall) for now, scale, fall in zip(weights, scales, slope, strict=True)
        ]
    return tuple(weights)


def ranked(samples: list[Sample], weights: Row) -> dict[str, float]:
    """For each kind the share of pairs in which the line with the needle scores higher."""
    found: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        bad = [score(row, weights) for row in sample.others]
        for row in sample.wanted:
            good = score(row, weights)
            found[sample.kind].append(sum(good > other for other in bad) / max(1, len(bad)))
    return {kind: sum(shares) / len(shares) for kind, shares in found.items()}


def _table(weights: Row) -> Weights:
    changed: dict[str, Any] = dict(zip(NAMES, weights, strict=True))
    return replace(GENERIC, **changed)


def kept(samples: list[Sample], weights: Row) -> dict[str, float]:
    """For each kind the share of needles that the generic reader keeps."""
    table = _table(weights)
    found: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        question = Focus.parse(sample.focus)
        for budget in BUDGETS:
            reading = generic.read(cleaned(sample.text), question, budget, weights=table)
            seen = " ".join(pack(reading, budget, O200K, question).text.split())
            found[sample.kind].append(sum(holds(seen, needle) for needle in sample.needles) / len(sample.needles))
    return {kind: sum(shares) / len(shares) for kind, shares in found.items()}


def mean(shares: dict[str, float]) -> float:
    return sum(shares.values()) / max(1, len(shares))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--size", type=int, default=30_000, help="characters of a generated text")
    options.add_argument("--folds", type=int, default=5)
    options.add_argument("--hold", type=float, default=0.01, help="how strongly the fit is held near the table")
    options.add_argument("--whole", action="store_true", help="count the needles kept, too (minutes)")
    asked = options.parse_args()
    samples = list(generated(asked.seeds, asked.size, 17 if asked.smoke else 1))
    samples += [] if asked.smoke else list(from_yardstick(1))
    open_, closed = [one for one in samples if one.seen], [one for one in samples if not one.seen]
    start: Row = tuple(asdict(GENERIC)[name] for name in NAMES)
    kinds = sorted({one.kind for one in open_})
    print(f"{len(open_)} cases of {len(kinds)} kinds, {len(closed)} of kinds that are never fitted on")
    measures = {"pairs in order": ranked, **({"needles kept": kept} if asked.whole else {})}
    before = {name: measure(open_, start) for name, measure in measures.items()}
    after: dict[str, dict[str, float]] = {name: {} for name in measures}
    for fold in range(asked.folds):
        out = set(kinds[fold :: asked.folds])
        weights = fit([one for one in open_ if one.kind not in out], start, asked.hold)
        for name, measure in measures.items():
            after[name] |= measure([one for one in open_ if one.kind in out], weights)
    final = fit(open_, start, asked.hold)
    for name, measure in measures.items():
        better = sum(after[name][kind] > before[name][kind] + 1e-9 for kind in kinds)
        worse = sum(after[name][kind] < before[name][kind] - 1e-9 for kind in kinds)
        print(f"{name}: table {mean(before[name]):.4f}, fitted, kinds held out {mean(after[name]):.4f}, ", end="")
        print(f"fitted on all {mean(measure(open_, final)):.4f}; {better} kinds better, {worse} worse")
        if closed:
            print(f"  never fitted on: table {mean(measure(closed, start)):.4f}, ", end="")
            print(f"fitted {mean(measure(closed, final)):.4f}")
        apart = sorted(kinds, key=lambda kind: after[name][kind] - before[name][kind])
        for kind in apart[:6] + apart[-6:]:
            print(f"  {kind:<44} {before[name][kind]:.3f} → {after[name][kind]:.3f}")
    print(f"{'weight':<16} table fitted")
    for name, old, new in zip(NAMES, start, final, strict=True):
        print(f"{name:<16} {old:5.2f} {new:6.2f}")
    print(_table(tuple(round(new, 2) for new in final)))


if __name__ == "__main__":
    main()
