"""Score the masker on invented secrets by class: what it finds, what it spoils, what it breaks.

    .venv/bin/python -m bench.masking_recall [--smoke] [--misses N] [--only FAMILY]

Prints the table of docs/reference/masking.md. `--misses` shows open cases only: the rules are written without a look at
those held out. A secret counts as found when no half of it is left; a text without a secret counts as spoiled when it
changed at all.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench.arguments import parser
from bench.bars import Bars
from bench.secrets.cases import PlainCase, SecretCase, plain_texts, positives
from tersely.masking.mask import Masker


@dataclass
class Tally:
    """Counts of one family, open and held out: [good, all]."""

    open: list[int] = field(default_factory=lambda: [0, 0])
    held_out: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, good: bool, *, held_out: bool) -> None:
        counts = self.held_out if held_out else self.open
        counts[0] += good
        counts[1] += 1


@dataclass
class Score:
    found: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    unspoiled: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    missed: list[SecretCase] = field(default_factory=list)
    spoiled: list[tuple[PlainCase, str]] = field(default_factory=list)
    broken: list[SecretCase] = field(default_factory=list)
    lost: list[SecretCase] = field(default_factory=list)
    unstable: list[SecretCase | PlainCase] = field(default_factory=list)


def leaks(case: SecretCase, out: str) -> bool:
    for secret in case.secrets:
        half = max(8, min(len(secret), 64) // 2)
        if secret in out or any(secret[at : at + half] in out for at in range(len(secret) - half + 1)):
            return True
    return False


def parses(text: str, form: str) -> bool:
    try:
        json.loads(text) if form == "json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return False
    return True


def score(masker: Masker, secret_cases: Iterable[SecretCase], plain_cases: Iterable[PlainCase]) -> Score:
    result = Score()
    for case in secret_cases:
        out = masker.mask(case.text)
        is_found = not leaks(case, out)
        result.found[case.family].add(is_found, held_out=case.held_out)
        if not is_found:
            result.missed.append(case)
        if case.form and parses(case.text, case.form) and not parses(out, case.form):
            result.broken.append(case)
        if any(word in case.text and word not in out for word in case.keep):
            result.lost.append(case)
        if masker.mask(out) != out:
            result.unstable.append(case)
    for plain in plain_cases:
        out = masker.mask(plain.text)
        result.unspoiled[plain.family].add(out == plain.text, held_out=plain.held_out)
        if out != plain.text:
            result.spoiled.append((plain, out))
    return result


def table(tallies: dict[str, Tally], heading: str, *, rest: bool = False) -> str:
    def cell(counts: list[int]) -> str:
        good, total = counts
        return f"{total - good if rest else good} of {total}" + ("" if rest or not total else f" = {good / total:.3f}")

    rows = [f"| {family} | {cell(tally.open)} | {cell(tally.held_out)} |" for family, tally in tallies.items()]
    totals = [
        [sum(getattr(tally, half)[at] for tally in tallies.values()) for at in (0, 1)] for half in ("open", "held_out")
    ]
    return "\n".join(
        (f"| {heading} | open | held out |", "|---|---|---|", *rows, f"| all | {cell(totals[0])} | {cell(totals[1])} |")
    )


def main(*, smoke: bool, misses: int, only: str, to: Path | None = None) -> None:
    cases = [case for case in positives(smoke=smoke) if only in case.family]
    result = score(Masker(key=b"bench"), cases, plain_texts(smoke=smoke))
    bars = Bars()
    for title, tallies in (
        ("Secrets found, by class", result.found),
        ("Texts without a secret that stay as they are", result.unspoiled),
    ):
        for family, tally in tallies.items():
            for half, (good, total) in (("open cases", tally.open), ("held-out cases", tally.held_out)):
                if total:
                    bars.add(title, family, half, good / total, unit="share")
    bars.write(to)
    print(table(result.found, "secrets found, by class"), "\n")
    print(table(result.unspoiled, "texts without a secret that changed", rest=True), "\n")
    print(
        f"Of {len(cases)} documents with a secret, {len(result.broken)} no longer parse as JSON or "
        f"YAML, {len(result.lost)} lost"
    )
    print(f"a word next to it, {len(result.unstable)} change when they are masked again.")
    for case in [case for case in result.missed if not case.held_out][:misses]:
        print("\nmissed:", case.family, repr(case.text[:400]))
    for plain, out in [pair for pair in result.spoiled if not pair[0].held_out][:misses]:
        print("\nspoiled:", plain.family, repr(plain.text), "→", repr(out))
    for label in ("broken", "lost", "unstable"):
        for other in [case for case in getattr(result, label) if not case.held_out][:misses]:
            print(f"\n{label}:", other.family, repr(other.text[:300]))


if __name__ == "__main__":
    arguments = parser(__doc__, figures=True)
    arguments.add_argument("--misses", type=int, default=0)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    main(smoke=options.smoke, misses=options.misses, only=options.only, to=options.json)
