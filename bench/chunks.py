"""Compare chunking with other splitters, in one run: speed, elements kept whole, chunks over the size.

    .venv-bench/bin/python -m bench.chunks [MEGABYTES] [--smoke]

One generated Markdown text (seeded, no line twice, so caches gain nothing) goes
through every splitter at 400, 800 and 8000 tokens of o200k_base. Everybody
counts with the same tiktoken encoding, built from the vocabulary in our wheel;
semantic-text-splitter has its own inside, chonkie would download another one by
default. Overlap is off. Speed is the best of three rounds; loading vocabularies is
not part of it. A peer that is not installed is named and left out.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.arguments import parser
from bench.bars import Bars
from tersely.text.chunks import chunk
from tersely.text.tokens import O200K, _encoding

SIZES = (400, 800, 8000)

VOCABULARY = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you
were all
her she there would their we him been has when who will no more if out so up said what its about than into them can
only other
time new some could these two may first then do any like my now over such our man me even most made after also did
many off before
must well back through years where much your way down should because long each just state those people too under while
being world
still here between life both during without own another never service request latency cluster replica partition
timeout database
connection memory process thread queue worker retry budget deployment rollback certificate gateway header payload
schema migration
index transaction commit snapshot backup restore throughput threshold alert incident investigation timeline evidence
hypothesis
configuration environment variable container namespace scheduler controller operator endpoint probe
"""
WORDS = VOCABULARY.split()


@dataclass(frozen=True)
class Corpus:
    text: str
    fences: list[str]
    tables: list[str]


def corpus(characters: int, seed: int = 7) -> Corpus:
    """Markdown as in manuals and incident reports: nested headings, prose, lists, code, tables, rules."""
    rng = random.Random(seed)
    parts: list[str] = []
    fences: list[str] = []
    tables: list[str] = []
    written = 0

    def some_words(low: int, high: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(low, high)))

    def sentence() -> str:
        number = f" {rng.randint(2, 99_999)}" if rng.random() < 0.2 else ""
        return some_words(5, 22).capitalize() + number + rng.choice(["."] * 8 + ["?", "!"])

    def paragraph() -> str:
        return " ".join(sentence() for _ in range(rng.randint(2, 7)))

    def bullets() -> str:
        return "\n".join(f"{'  ' * rng.choice((0, 0, 1))}- {sentence()}" for _ in range(rng.randint(3, 10)))

    def fence() -> str:
        body = [f"# {some_words(3, 8)}"]
        for number in range(rng.choice((4, 8, 12, 30, 60, 150))):
            name = f"{rng.choice(WORDS)}_{rng.randint(1, 9_999)}"
            body.append(
                rng.choice(
                    (
                        f"def {name}(value: int) -> int:",
                        f"    {name} = load({rng.randint(1, 99)}, '{some_words(1, 3)}')",
                        f"    return {name} + {number}",
                        f"    # {some_words(3, 9)}",
                        "",
                    )
                )
            )
        fences.append("```python\n" + "\n".join(body) + "\n```")
        return fences[-1]

    def table() -> str:
        rows = ["| name | state | count | note |", "|---|---|---:|---|"]
        rows += [
            (
                f"| {rng.choice(WORDS)}-{rng.randint(1, 99_999)} | {rng.choice(WORDS)} | {rng.randint(1, 9_999)} | "
                f"{some_words(1, 5)} |"
            )
            for _ in range(rng.choice((3, 6, 10, 20, 40, 120)))
        ]
        tables.append("\n".join(rows))
        return tables[-1]

    def heading() -> str:
        return f"{'#' * rng.choice((1, 2, 2, 3, 3, 3))} {some_words(2, 6).capitalize()}"

    kinds: list[Callable[[], str]] = (
        [paragraph] * 10 + [bullets] * 3 + [fence] * 2 + [table] * 2 + [heading] * 4 + [lambda: "---"]
    )
    while written < characters:
        parts.append(rng.choice(kinds)())
        written += len(parts[-1]) + 2
    return Corpus("\n\n".join(parts) + "\n", fences, tables)


def count(text: str) -> int:
    return len(_encoding("o200k_base").encode_ordinary(text))


def ours(text: str, size: int) -> list[str]:
    return [part.text for part in chunk(text, size=size, overlap=0)]


def by_chonkie(text: str, size: int) -> list[str]:
    from chonkie import RecursiveChunker

    # A new one each time: it remembers the counts of what it has seen.
    return [part.text for part in RecursiveChunker(tokenizer=_encoding("o200k_base"), chunk_size=size).chunk(text)]


def by_langchain(text: str, size: int) -> list[str]:
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter.from_language(
        Language.MARKDOWN, chunk_size=size, chunk_overlap=0, length_function=count
    )
    return splitter.split_text(text)


def by_semchunk(text: str, size: int) -> list[str]:
    import semchunk

    # A new function each time, since it remembers by function.
    return semchunk.chunk(text, size, lambda part: count(part))


def by_semantic_text_splitter(text: str, size: int) -> list[str]:
    from semantic_text_splitter import MarkdownSplitter

    return MarkdownSplitter.from_tiktoken_model("gpt-4o", size).chunks(text)


SPLITTERS: dict[str, Callable[[str, int], list[str]]] = {
    "tersely": ours,
    "chonkie RecursiveChunker": by_chonkie,
    "langchain Markdown": by_langchain,
    "semchunk": by_semchunk,
    "semantic-text-splitter": by_semantic_text_splitter,
}
SLOW = {"semantic-text-splitter", "semchunk"}
"""One round is enough here."""
ROUNDS = 3


def whole(blocks: list[str], size: int, parts: list[str]) -> float:
    """The share of the blocks that fit into a part and are in one."""
    fitting = [block for block in blocks if count(block) <= size]
    everything = "\0".join(parts)
    kept = sum(block in everything for block in fitting)
    return kept / len(fitting)


def installed(sample: str) -> dict[str, Callable[[str, int], list[str]]]:
    """The splitters that can run here, each run once so that lazy loading is not measured."""
    found = {}
    for name, split in SPLITTERS.items():
        try:
            split(sample, 400)
        except ImportError as missing:
            print(f"{name} is left out: {missing}. `make bench` installs the peers in .venv-bench.")
        else:
            found[name] = split
    return found


def main(megabytes: float, *, smoke: bool = False, to: Path | None = None) -> None:
    bars = Bars()
    made = corpus(int(megabytes * 1_000_000))
    tokens = count(made.text)
    splitters = installed(made.text[:20_000])
    print(
        f"Chunking: {len(made.text) / 1e6:.1f} MB of Markdown, {tokens:,} tokens, {len(made.fences)} fences, "
        f"{len(made.tables)} tables\n"
    )
    print(
        f"{'size':>5}  {'':25}{'MB/s':>6}  {'chunks':>6}  {'fill':>5}  {'over':>5}  {'fences whole':>12}  "
        f"{'tables whole':>12}"
    )
    for size in SIZES:
        best = dict.fromkeys(splitters, float("inf"))
        parts: dict[str, list[str]] = {}
        # Round by round rather than one after the other, so that a busy moment of the machine hits everybody.
        for turn in range(1 if smoke else ROUNDS):
            for name, split in splitters.items():
                if turn and name in SLOW:
                    continue
                started = time.perf_counter()
                parts[name] = split(made.text, size)
                best[name] = min(best[name], time.perf_counter() - started)
        speed = {name: len(made.text) / took / 1e6 for name, took in best.items()}
        for name in splitters:
            sizes = [O200K.count(part) for part in parts[name]]
            over = sum(found > size for found in sizes)
            fill = sum(sizes) / len(sizes) / size
            fences, tables = whole(made.fences, size, parts[name]), whole(made.tables, size, parts[name])
            for title, value, unit in (
                ("Speed", speed[name], "MB/s"),
                ("Chunks over the limit", over, ""),
                ("Fences that stay whole", fences, "share"),
                ("Tables that stay whole", tables, "share"),
            ):
                bars.add(title, f"{size:,} tokens", name, value, unit=unit)
            print(
                f"{size:>5}  {name:25}{speed[name]:>6.1f}  {len(sizes):>6}  {fill:>5.0%}  {over:>5}"
                f"  {fences:>12.1%}  {tables:>12.1%}"
            )
        if "chonkie RecursiveChunker" in speed:
            ratio = speed["tersely"] / speed["chonkie RecursiveChunker"]
            print(f"       → {ratio:.2f} × chonkie's speed (we promise 0.8)\n")
    bars.write(to)


if __name__ == "__main__":
    options = parser(__doc__, figures=True)
    options.add_argument("megabytes", type=float, nargs="?", help="size of the text (2, smoke: 0.1)")
    given = options.parse_args()
    main(given.megabytes or (0.1 if given.smoke else 2.0), smoke=given.smoke, to=given.json)
