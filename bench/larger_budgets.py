"""Search for what a larger budget loses of what a smaller one shows or counts.

    python -m bench.larger_budgets                 the yardstick's texts and the generator's, with their questions
    python -m bench.larger_budgets --only t6/find  texts whose name contains this
    python -m bench.larger_budgets --show 3        so many examples of each text
    python -m bench.larger_budgets --smoke         a few texts

Every text is condensed to 500, 1,000 and 2,000 tokens. What a budget shows or represents (lines of the source, values
of JSON, counts of values) must be shown or represented by the next larger one; a line that is shown whole is not cut.
Exits with an error if something is lost.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from bench.arguments import parser
from bench.condense import Yardstick, find_yardstick
from bench.generator.cases import all_shapes, draw
from bench.truth import Text, yardstick_texts
from tersely.condensing.account import Runs, source_lines
from tersely.condensing.budget import Condensed
from tersely.condensing.structural import condense_structurally

BUDGETS = (500, 1000, 2000)

_COUNT = re.compile(r"[^\s,\[;]+ ×\d[\d,]*")
_WORD = re.compile(r"\w")
_LEFT_OUT = re.compile(r"\n\[left out: .*\]$")


@dataclass(frozen=True)
class Regression:
    where: str
    kind: str
    budget: int
    """The larger budget, which shows less."""
    what: tuple[str, ...]


def texts(first: int, seeds: int) -> Iterator[Text]:
    yield from _yardstick()
    for seed in range(first, first + seeds):
        for shape, ask in all_shapes():
            case = draw(shape, ask, seed)
            name = f"generated/{'held out' if case.held_out else case.id}"
            yield Text(name, case.text, case.focus)


def _yardstick() -> Iterator[Text]:
    """Yield the texts with needles with their questions, the others with that of `bench.truth`."""
    path = find_yardstick()
    asked: dict[tuple[str, str], str] = {}
    task = ""

    def ask(text: str, _budget: int, focus: str) -> str:
        asked.setdefault((text, focus), task)
        return ""

    if path is not None:
        yardstick = Yardstick(path)
        for task in ("t1", "t5"):  # The questions of t6 are in its file.
            for row in yardstick.rows(task, ask):
                text, focus = next(reversed(asked))
                asked[text, focus] = f"{task}/{row['case']}"
    yield from (Text(name, text, focus) for (text, focus), name in asked.items())
    known = {text for text, _ in asked}
    yield from (text for text in yardstick_texts() if text.text not in known)


def losses(text: Text, budgets: Iterable[int] = BUDGETS) -> Iterator[Regression]:
    """Yield what each budget loses of what the one before it has."""
    lines = source_lines(text.text)
    found = [(budget, condense_structurally(text.text, budget, text.focus)) for budget in budgets]
    for (_, smaller), (budget, larger) in pairwise(found):
        if smaller.text == text.text or larger.text == text.text:
            continue
        lost = [
            *_lost_lines(smaller, larger, lines),
            *_lost_values(smaller, larger, text.text),
            *_lost_counts(smaller, larger),
        ]
        if lost:
            yield Regression(text.name, larger.kind, budget, tuple(lost))


def _numbers(*runs: Runs) -> set[int]:
    return {at for each in runs for first, last in each for at in range(first, last + 1)}


def _lost_lines(smaller: Condensed, larger: Condensed, lines: list[str]) -> Iterator[str]:
    before, after = smaller.account, larger.account
    if before.total != after.total or before.total < 2:
        return
    lost = _numbers(after.lost) - _numbers(before.lost)
    cut = _numbers(after.partial) & _numbers(before.shown)
    for at in sorted(lost | cut):
        if at <= len(lines) and _WORD.search(lines[at - 1]):
            yield f"{'lost' if at in lost else 'cut'} line {at}: {lines[at - 1].strip()[:160]}"


def _lost_values(smaller: Condensed, larger: Condensed, text: str) -> Iterator[str]:
    before, after = smaller.account.places, larger.account.places
    if not (before.lost and after.lost):
        return
    try:
        value = json.loads(text)
    except ValueError:
        return
    leaves = dict(_leaves(value, ()))
    gone = _covered(after.lost, leaves) - _covered(before.lost, leaves)
    for place in sorted(gone):
        yield f"value {'.'.join(map(str, place))}: {leaves[place]}"


def _leaves(value: object, place: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
    inside = (
        value.items()
        if isinstance(value, dict)
        else ((at, one) for at, one in enumerate(value))
        if isinstance(value, list)
        else ()
    )
    nothing = True
    for at, (key, inner) in enumerate(inside):
        nothing = False
        if isinstance(inner, (dict, list)) and inner:
            yield from _leaves(inner, (*place, at))
        else:
            yield (*place, at), f"{key}: {json.dumps(inner, ensure_ascii=False)[:100]}"
    if nothing:
        yield place, json.dumps(value)[:100]


def _covered(places: Iterable[str], leaves: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return the leaves below one of the places."""
    whole: set[tuple[int, ...]] = set()
    for place in places:
        paths: list[tuple[int, ...]] = [()]
        for step in place.split("."):
            runs = [one.partition("-") for one in step.split(",")]
            inside = [at for low, _, high in runs for at in range(int(low), int(high or low) + 1)]
            paths = [(*path, at) for path in paths for at in inside]
        whole.update(paths)
    return {leaf for leaf in leaves if any(leaf[:end] in whole for end in range(1, len(leaf) + 1))}


def _lost_counts(smaller: Condensed, larger: Condensed) -> Iterator[str]:
    before, after = (Counter(_COUNT.findall(_LEFT_OUT.sub("", one.text))) for one in (smaller, larger))
    text = " ".join(larger.text.split())
    for count in before:
        if count not in after and count not in text:
            yield f"count {count}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="", help="only texts whose name contains this")
    options.add_argument("--show", type=int, default=3, help="so many examples of each text")
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--seeds", type=int, default=1, help="generated texts per shape and ask")
    asked = options.parse_args()
    wanted: Iterable[Text] = (text for text in texts(asked.first_seed, asked.seeds) if asked.only in text.name)
    if asked.smoke:
        wanted = islice(wanted, 0, None, 60)
    count = found = 0
    kinds: Counter[str] = Counter()
    for text in wanted:
        count += len(BUDGETS) - 1
        for loss in losses(text):
            found += 1
            kinds[loss.kind] += 1
            print(f"{loss.where} @{loss.budget} ({loss.kind}): {len(loss.what)} lost", flush=True)
            if "held out" not in loss.where:
                for what in loss.what[: asked.show]:
                    print(f"    {what}", flush=True)
    print(f"{found} of {count} pairs of budgets lose something; {dict(kinds.most_common())}")
    if found:
        sys.exit(1)


if __name__ == "__main__":
    main()
