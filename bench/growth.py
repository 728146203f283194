"""Growth of time and memory with the size of the text: one text, one process, one line of figures.

    python -m bench.growth log 10          a log of 10 MB
    python -m bench.growth deep-json 1     a hostile text of 1 MB

Each measurement runs in its own process, so that the peak memory belongs to it alone.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.generator.cases import draw
from bench.generator.vocabulary import ADJECTIVES, FAMILY_NAMES, FIRST_NAMES, PLACES, THINGS, pseudo_word

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Growth:
    kind: str
    megabytes: float
    seconds: float
    memory: float
    """Peak memory of the process above its level before the text existed, as a multiple of the text."""

    tokens: int

    @property
    def rate(self) -> float:
        return self.megabytes / max(self.seconds, 1e-9)


def _parts(shapes: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Endless texts of these shapes.

    After a while digits are replaced instead of generating new text: this is faster, and no line repeats.
    """
    drawn = [draw(shape, ask, 900_000 + seed).text for seed in range(4) for shape, ask in shapes]
    yield from drawn
    turn = 0
    while True:
        turn += 1
        # 0 stays 0, so that a number stays a number.
        rotated = "123456789"[turn % 9 :] + "123456789"[: turn % 9]
        letters = "bcdfghjklmnp"
        turned = letters[turn // 9 % 12 :] + letters[: turn // 9 % 12]
        exchange = str.maketrans("123456789", rotated)
        if turn % 9 == 0:
            exchange |= str.maketrans(letters.upper(), turned.upper())
        for text in drawn:
            yield text.translate(exchange)


def _filled(size: int, parts: Iterator[str], between: str = "\n") -> str:
    kept: list[str] = []
    have = 0
    while have < size:
        part = next(parts)
        kept.append(part)
        have += len(part) + len(between)
    return between.join(kept)[:size]


def _log(size: int) -> str:
    return _filled(size, _parts((("app log", "trouble"), ("app log", "topic"), ("app log", "trace"))))


def _json(size: int) -> str:
    return "[" + _filled(
        size - 2, _parts((("json list, indented", "lookup"), ("json envelope, deep", "oddity"))), ",\n"
    )


def _json_lines(size: int) -> str:
    return _filled(size, _parts((("json lines", "lookup"), ("json log lines", "trouble"))))


def _table(size: int) -> str:
    return _filled(size, _parts((("csv", "lookup"),)))


def _prose_parts() -> Iterator[str]:
    rng = Random(5)
    while True:
        sentences = []
        for _ in range(rng.randint(3, 8)):
            who = f"{rng.choice(FIRST_NAMES)} {rng.choice(FAMILY_NAMES)}"
            words = " ".join(
                rng.choice((rng.choice(ADJECTIVES), rng.choice(THINGS), pseudo_word(rng)))
                for _ in range(rng.randint(6, 18))
            )
            sentences.append(
                f"{who} said that the {words} would come to {rng.choice(PLACES)} in {rng.randint(1900, 2026)}."
            )
        yield " ".join(sentences) + "\n"


def _prose(size: int) -> str:
    return _filled(size, _prose_parts())


def _mixed(size: int) -> str:
    shapes = (
        ("app log", "trouble"),
        ("json list, indented", "lookup"),
        ("aligned table", "oddity"),
        ("yaml documents", "lookup"),
        ("json log lines", "topic"),
        ("describe blocks", "lookup"),
        ("several outputs", "lookup"),
    )
    return _filled(size, (f"$ run step-{index}\n{part}\n" for index, part in enumerate(_parts(shapes))))


def _deep_json(size: int) -> str:
    return '{"a":[' * (size // 6)


def _one_line(size: int) -> str:
    return "x7" * (size // 2)


def _distinct_lines(size: int) -> str:
    rng = Random(3)
    return _filled(size, (f"{pseudo_word(rng, 3)} {pseudo_word(rng, 3)} {pseudo_word(rng, 2)}" for _ in iter(int, 1)))


def _nothing_but_nul(size: int) -> str:
    return "\0" * size


def _blanks(size: int) -> str:
    return " " * (size // 2) + "\n" * (size - size // 2)


TEXTS: dict[str, Callable[[int], str]] = {
    "mixed": _mixed,
    "log": _log,
    "json": _json,
    "json lines": _json_lines,
    "csv": _table,
    "prose": _prose,
}
HOSTILE: dict[str, Callable[[int], str]] = {
    "deep json": _deep_json,
    "one line": _one_line,
    "distinct lines": _distinct_lines,
    "nul": _nothing_but_nul,
    "blanks": _blanks,
}


def _measure(kind: str, megabytes: float, budget: int) -> Growth:
    from tersely.condensing.structural import condense_structurally
    from tersely.text.tokens import O200K

    condense_structurally("warm up: " + "a b c\n" * 2_000, 200, "b")
    size = int(megabytes * MEGABYTE)
    text = (TEXTS | HOSTILE)[kind](size)
    _forget_peak()
    before = _memory("VmRSS:") - len(text.encode("utf-8", "replace"))
    # CPU time, not wall-clock time: the condenser uses one thread, and the machine may be busy.
    began = time.process_time()
    condensed = condense_structurally(text, budget, "What failed, and why?")
    took = time.process_time() - began
    peak = _memory("VmHWM:")
    tokens = O200K.count(condensed.text)
    return Growth(kind, len(text) / MEGABYTE, took, (peak - before) / max(1, len(text)), tokens)


_STATUS = Path("/proc/self/status")


def _forget_peak() -> None:
    """Reset the peak, where the system supports it: generating the text must not count."""
    if _STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")


def _memory(key: str) -> int:
    """Bytes, from /proc on Linux; on other systems the peak of the process."""
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(int(line.split()[1]) * 1024 for line in _STATUS.read_text().splitlines() if line.startswith(key))


def measure(kind: str, megabytes: float, *, budget: int = 1000, limit: float = 600) -> Growth | str:
    """Measure in a separate process; a message if it did not finish."""
    command = [sys.executable, "-m", "bench.growth", kind, str(megabytes), str(budget)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"{kind} {megabytes:g} MB: no answer in {limit:g} s"
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or [f"ended with {answer.returncode}"]
        return f"{kind} {megabytes:g} MB: {last[0]}"
    return Growth(**json.loads(answer.stdout))


if __name__ == "__main__":
    found = _measure(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
    print(json.dumps(found.__dict__))
