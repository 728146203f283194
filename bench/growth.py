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
from bench.long_texts import SHAPES, Shape, Words

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Growth:
    kind: str
    megabytes: float
    seconds: float
    memory: float
    """Peak memory of the process beyond the text and what a small text of the kind needs, as a multiple of the text."""

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


def _drawn(name: str, write: Shape, size: int, before: str = "", between: str = "\n", after: str = "") -> str:
    """Return a text of whole records, of at least that size."""
    words = Words(name)
    parts: list[str] = []
    have = len(before) + len(after)
    while have < size:
        parts.append(write(words, len(parts)))
        have += len(parts[-1]) + len(between)
    return before + between.join(parts) + after


def _deep_list(w: Words, at: int) -> str:
    labels = {"app": w(), "tier": w.few("front", "back")}
    ready = [{"type": "Ready", "status": w.few(*["True"] * 50, "False")}]
    record = {"id": at, "name": f"{w()}-{at}", "status": {"conditions": ready}, "labels": labels, "ms": w.number()}
    return json.dumps(record, indent=2)


def _one_line_record(w: Words, at: int) -> str:
    return f'{{"id":{at},"name":"{w()}","ok":{w.few("true", "false")},"tags":["{w()}","{w()}"],"ms":{w.number()}}}'


def _document(w: Words, at: int) -> str:
    head = f"apiVersion: v1\nkind: {w.few('Pod', 'Service')}\nmetadata:\n  name: {w()}-{at}\n  namespace: {w()}"
    return f"{head}\nspec:\n  image: {w()}:{w.number(30)}\nstatus:\n  phase: {w.few(*['Running'] * 40, 'Failed')}"


def _row_of_page(w: Words, at: int) -> str:
    link = f'<h3><a href="/{w()}">{w(4).title()}</a></h3>'
    return f'<div class="row">{link}<p>{w(30).capitalize()}. {w(12).capitalize()}.</p><ul><li>{w()}</li></ul></div>'


def _quoted_row(w: Words, at: int) -> str:
    return f'{at},{w()},"{w(6)}\n{w(5)}, ""{w()}""",{w.number()}'


LONG: dict[str, Callable[[int], str]] = {
    "json, a deep list": lambda size: _drawn(
        "deep", _deep_list, size, '{"result": {"page": {"items": [\n', ",\n", '\n], "next": null}, "ok": true}}'
    ),
    "json on one line": lambda size: _drawn("line", _one_line_record, size, '{"total":1,"items":[', ",", "]}"),
    "pairs of numbers": lambda size: _drawn(
        "pairs", lambda w, at: f"[{1_700_000_000 + at},{w.number()}]", size, '{"values":[', ",", "]}"
    ),
    "yaml documents": lambda size: _drawn("yaml", _document, size, between="\n---\n"),
    "xml": lambda size: _drawn("xml", SHAPES["xml"], size, "<suite>\n", after="\n</suite>"),
    "page": lambda size: _drawn(
        "page", _row_of_page, size, "<!DOCTYPE html><html><body><main>\n", after="\n</main></body></html>"
    ),
    "rows of a page": lambda size: _drawn(
        "rows", lambda w, at: f"<tr><td>{at}</td><td>{w()}</td><td>{w.number()}</td></tr>", size,
        "<html><body><table>\n", after="\n</table></body></html>",
    ),
    "quoted rows": lambda size: _drawn("csv", _quoted_row, size, "id,name,comment,amount\n"),
    "diff": lambda size: _drawn("diff", SHAPES["diff"], size),
    "commits": lambda size: _drawn("commits", SHAPES["commits"], size),
    "words on one line": lambda size: _drawn("words", lambda w, at: w(9), size, between=" "),
}  # fmt: skip
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

    write = (TEXTS | LONG | HOSTILE)[kind]
    # What is loaded and built once does not grow with the text.
    condense_structurally(write(20_000), 200, "What failed, and why?")
    text = write(int(megabytes * MEGABYTE))
    _forget_peak()
    before = _memory("VmRSS:")
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
