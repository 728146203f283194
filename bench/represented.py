"""Count what a condensed text shows although a count in it says the same: ordinary cases that fill a budget.

    python -m bench.represented                    the yardstick's texts and the generator's
    python -m bench.represented --only t6/pytest   texts whose name contains this
    python -m bench.represented --show 3           so many examples of each class
    python -m bench.represented --smoke            a few texts

Everything is found in the condensed text and its source alone:

- lines of passed tests below a count of them, unless the question names them;
- rows of a table that are equal to a row above them;
- values of JSON, YAML and XML that a line above gives for all records, or for four of five, beyond the first record;
- lines that are equal up to figures to a line with `×N`, unless the question names them. Some of these are shown
  because of an extreme or a rare value, so this class is not expected to be empty.

Prints how many of these pieces there are, their share of all shown tokens, and how full the budgets are.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain

from bench.arguments import parser
from bench.truth import BUDGETS, Text, generated_texts, yardstick_texts
from tersely.condensing.account import source_lines
from tersely.condensing.budget import Condensed
from tersely.condensing.focus import Focus, scan
from tersely.condensing.readers import test_runs
from tersely.condensing.structural import cleaned, condense_structurally
from tersely.condensing.templates import SAME_BUT_VALUES
from tersely.text.tokens import O200K

USUAL = 0.8
"""Share of the records whose value a count represents."""
MOST_NAMED = 0.3
"""Share of the lines with a word of the question from which on it names none of them in particular."""

_ALL = re.compile(r"^\[all (\d[\d,]*) \S+: (.*)\]$")
_COUNTED = re.compile(r"^\[(\d[\d,]*) [^;\]]+; ([^:]+): (.*)\]$")
_VALUE = re.compile(r"(?P<value>.+?) ×(?P<count>\d[\d,]*)(?:, |$)")
_TIMES = re.compile(r" ×\d[\d,]*(?: \(also .*\))?(?: \[[^\[\]]*\])?$")
_TREES = frozenset(("json", "jsonl", "json_cut", "yaml", "xml"))


def represented(condensed: Condensed, text: Text) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each piece that a shown count represents."""
    shown = condensed.text.removesuffix(condensed.closing).rstrip("\n").split("\n")
    if condensed.kind == "test_run":
        yield from _passed(shown, text)
    elif condensed.kind in ("table", "csv"):
        yield from _equal_rows(shown, text)
    elif condensed.kind in _TREES:
        yield from _usual_values(shown)
    yield from _counted_lines(shown, text)


def _named(lines: list[str], question: str) -> set[int]:
    """Return the lines that contain words of the question which few lines contain."""
    found = scan(lines, Focus.parse(question))
    few = {term for term, times in found.frequency.items() if times <= max(1.0, MOST_NAMED * len(lines))}
    return {at for at, terms in enumerate(found.terms) if terms and not few.isdisjoint(terms)}


def _passed(shown: list[str], text: Text) -> Iterator[tuple[str, str]]:
    source = source_lines(cleaned(text.text))
    named = {source[at].rstrip() for at in _named(source, text.focus)}
    for line, role in zip(shown, test_runs.roles_of(shown), strict=True):
        if role in ("passed", "started", "setup") and line.rstrip() not in named:
            yield "a line of tests that passed", line


def _equal_rows(shown: list[str], text: Text) -> Iterator[tuple[str, str]]:
    source = Counter(" ".join(line.split()) for line in source_lines(cleaned(text.text)))
    seen: Counter[str] = Counter()
    for line in shown:
        own = " ".join(_TIMES.sub("", line).split())
        if source[own] > 1 and seen[own]:
            yield "a row that is equal to a shown one", line
        seen[own] += 1


def _usual_values(shown: list[str]) -> Iterator[tuple[str, str]]:
    usual: set[str] = set()
    for line in shown:
        if (found := _ALL.match(line)) is not None:
            usual.update(_last_steps(found[2]))
        elif (found := _COUNTED.match(line)) is not None:
            total = int(found[1].replace(",", ""))
            for each in _VALUE.finditer(found[3]):
                if int(each["count"].replace(",", "")) >= USUAL * total:
                    usual.add(f"{found[2].rsplit('.', 1)[-1]}: {each['value']}")
    if not usual:
        return
    seen: Counter[str] = Counter()
    for line in shown:
        if line.startswith("["):
            continue
        for piece in re.split(r", (?=[\w.-]+: )", re.sub(r"^[\s-]*(?:[\w.-]+: (?=[\w.-]+: ))*", "", line)):
            if piece in usual:
                if seen[piece]:
                    yield "a value that all or most records have", piece
                seen[piece] += 1


def _last_steps(pattern: str) -> Iterator[str]:
    for part in re.split(r", (?=[\w.-]+: )", pattern):
        path, _, value = part.partition(": ")
        yield f"{path.rsplit('.', 1)[-1]}: {value}"


def _counted_lines(shown: list[str], text: Text) -> Iterator[tuple[str, str]]:
    counted = {_masked(_TIMES.sub("", line)) for line in shown if _TIMES.search(line)}
    if not counted:
        return
    others = [line for line in shown if not _TIMES.search(line) and _masked(line) in counted]
    named = _named(source_lines(cleaned(text.text)), text.focus) if others else set()
    lines = source_lines(cleaned(text.text)) if others else []
    words = [" ".join(lines[at].split()) for at in named]
    for line in others:
        own = " ".join(re.sub(r" \[[^\[\]]*\]$", "", line).split())
        if not any(own in each for each in words):
            yield "a line that a line with ×N counts", line


def _masked(line: str) -> str:
    return re.sub(r"\d+", "#", SAME_BUT_VALUES.sub("#", " ".join(re.sub(r" \[[^\[\]]*\]$", "", line).split())))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="", metavar="NAME", help="texts whose name contains this")
    options.add_argument("--show", type=int, default=1, metavar="N", help="examples of each class")
    chosen = options.parse_args()
    every = 60 if chosen.smoke else 1
    texts = [text for text in chain(yardstick_texts(), generated_texts()) if chosen.only in text.name][::every]
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    spent: Counter[str] = Counter()
    tokens = outputs = full = 0
    for text in texts:
        for budget in BUDGETS:
            condensed = condense_structurally(text.text, budget, text.focus)
            tokens += condensed.tokens_after
            outputs += 1
            full += condensed.tokens_after >= 0.8 * budget
            for kind, piece in represented(condensed, text):
                found[kind].append((f"{text.name} @{budget} ({condensed.kind})", piece))
                spent[kind] += O200K.count(piece) + 1
    for kind, pieces in sorted(found.items()):
        places = len({where for where, _ in pieces})
        print(f"{len(pieces):>6} × {kind} ({places} outputs, {spent[kind]} tokens)")
        for where, piece in pieces[:: max(1, len(pieces) // max(1, chosen.show))][: chosen.show]:
            print(f"         {where}: {piece[:140]}")
    share = sum(spent.values()) / max(1, tokens)
    print(
        f"{outputs} outputs, {tokens} tokens; {sum(map(len, found.values()))} represented pieces shown, {share:.2%} of "
        f"the tokens; {full} outputs use four fifths of their budget."
    )


if __name__ == "__main__":
    main()
