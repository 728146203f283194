"""Compare token counting with plain tiktoken, in one run.

    .venv-bench/bin/python -m bench.tokens [--smoke]

Plain tiktoken gets each text as a whole, with the same vocabulary. "More than N?" is
asked for 9 MB; plain tiktoken has to count all of it to answer. Each figure is the
best of three, on one core.
"""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from bench.arguments import parser
from bench.bars import Bars
from bench.chunks import WORDS
from tersely.text.tokens import O200K, _encoding

JAPANESE = "ディスク サーバー 再起動 容量 正午 夜中 障害 記録 確認 しました が いっぱい になり を 増やし 調査 担当者 は 原因 の"


def prose(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=18)).capitalize() + rng.choice((". ", "? ", ".\n\n"))


def json_record(rng: random.Random) -> str:
    record = {
        "id": rng.randrange(10**9),
        "name": rng.choice(WORDS),
        "ok": rng.random() < 0.5,
        "load": rng.random(),
        "tags": rng.choices(WORDS, k=3),
    }
    return json.dumps(record) + ", "


def log_line(rng: random.Random) -> str:
    when = f"2026-11-15T{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(1000):03}Z"
    level, said = rng.choice(("INFO", "WARN", "ERROR")), " ".join(rng.choices(WORDS, k=7))
    return f"{when} {level} [worker-{rng.randrange(64)}] {said} id={rng.getrandbits(48):x}\n"


def japanese(rng: random.Random) -> str:
    return "".join(rng.choices(JAPANESE.split(), k=12)) + rng.choice(("。", "、", "。\n"))


def grown(make: Callable[[random.Random], str], characters: int) -> str:
    rng = random.Random(11)
    parts: list[str] = []
    length = 0
    while length < characters:
        parts.append(make(rng))
        length += len(parts[-1])
    return "".join(parts)


def seconds(act: Callable[..., object], *arguments: object, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        act(*arguments)
        best = min(best, time.perf_counter() - started)
    return best


def main(*, smoke: bool = False, to: Path | None = None) -> None:
    bars = Bars()
    encoding = _encoding("o200k_base")
    characters, rounds = (20_000, 1) if smoke else (2_000_000, 3)
    print(f"Counting: o200k_base, {characters:,} characters each\n")
    print(f"{'':12}{'tokens':>10}{'exact':>8}{'tiktoken MB/s':>15}{'tersely MB/s':>14}{'ratio':>8}")
    for make in (prose, json_record, log_line, japanese):
        text = grown(make, characters)
        size = len(text.encode()) / 1e6
        plain = size / seconds(encoding.encode_ordinary, text, rounds=rounds)
        ours = size / seconds(O200K.count, text, rounds=rounds)
        exact = "yes" if O200K.count(text) == len(encoding.encode_ordinary(text)) else "NO"
        bars.add("Counting", make.__name__.replace("_", " "), "tiktoken", plain, unit="MB/s")
        bars.add("Counting", make.__name__.replace("_", " "), "tersely", ours, unit="MB/s")
        print(f"{make.__name__:12}{O200K.count(text):>10,}{exact:>8}{plain:>15.1f}{ours:>14.1f}{ours / plain:>8.2f}")

    text = grown(prose, 90_000 if smoke else 9_000_000)
    whole = seconds(encoding.encode_ordinary, text, rounds=rounds)
    print(f"\nMore than N?  on {len(text) / 1e6:.2g} MB (plain tiktoken: {whole * 1000:,.0f} ms, whatever N is)\n")
    for limit in (1_000, 5_000, 100_000):
        took = seconds(O200K.exceeds, text, limit, rounds=rounds)
        print(f"  N = {limit:>7,}{took * 1000:>9.2f} ms")
        bars.add("More than N tokens?", f"N = {limit:,}", "tiktoken", whole * 1000, unit="ms")
        bars.add("More than N tokens?", f"N = {limit:,}", "tersely", took * 1000, unit="ms")
    bars.write(to)
    print()


if __name__ == "__main__":
    given = parser(__doc__, figures=True).parse_args()
    main(smoke=given.smoke, to=given.json)
