"""Long texts of many shapes, drawn with a fixed seed: more lines than a reader makes units of.

    for name, text in long_texts(): ...

Each shape is written by a function from the number of a line to the line, or to several. Nothing is planted in them:
`bench.truth` compares what is said about them with the texts themselves.
"""

from collections.abc import Callable, Iterator
from itertools import count
from random import Random

FEWEST, MOST = 8_000, 20_000
"""Lines."""

_LETTERS = "abcdefghijklmnoprstuw"


class Words:
    """Draws words, numbers and names for one text."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)
        self.words = ["".join(self.rng.choices(_LETTERS, k=self.rng.randint(3, 9))) for _ in range(3_000)]

    def __call__(self, many: int = 1, sign: str = " ") -> str:
        return sign.join(self.rng.choice(self.words) for _ in range(many))

    def few(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self, most: int = 1_000) -> int:
        return self.rng.randrange(most)

    def hash(self, size: int = 40) -> str:
        return f"{self.rng.getrandbits(4 * size):0{size}x}"


Shape = Callable[[Words, int], str]
SHAPES: dict[str, Shape] = {}


def shape(name: str) -> Callable[[Shape], Shape]:
    def keep(write: Shape) -> Shape:
        SHAPES[name] = write
        return write

    return keep


def _clock(at: int) -> str:
    return f"{at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d}"


LINES: dict[str, Shape] = {
    "numbers": lambda w, at: str(at + 1),
    "words": lambda w, at: w(3),
    "words below prompts": lambda w, at: f"$ {w(2)}" if at % 2_500 == 9 else w(3),
    "paths": lambda w, at: f"./{w(3, '/')}.py",
    "few paths": lambda w, at: f"./{w.few('src', 'lib', 'doc')}/{w.few('a', 'b')}/{w()}.{w.few('py', 'c', 'md')}",
    "settings": lambda w, at: f"{w()}.{w()}.{at} = {w()}",
    "sections of settings": lambda w, at: f"[{w()}{at}]" if at % 10 == 0 else f"{w()}={w()}",
    "settings with comments": lambda w, at: f"# {w(9)}" if at % 4 else f"{w()} {w.number()}",
    "commands": lambda w, at: f"gcc -c {w()}.c -o {w()}.o",
    "same line": lambda w, at: "same line here",
    "same line with its number": lambda w, at: f"{at}: all is well",
    "few lines": lambda w, at: f"{w.few('worker', 'server', 'client')}: {w.few('connection refused', 'ready')}",
    "few lines and others": lambda w, at: w(4) if at % 40 == 7 else f"Retrying in {w.number(9)} seconds...",
    "log": lambda w, at: f"2026-11-16T{_clock(at)}Z {w.few('INFO', 'INFO', 'WARN', 'ERROR')} {w(3)}",
    "log of templates": lambda w, at: f"Nov 16 {_clock(at)} host app[{w.number()}]: "
    f"job {w.number(99)} took {w.number()} ms",
    "log in two orders": lambda w, at: f"2026-11-16 {_clock((at * 7919) % 80_000)} DEBUG {w(2)} id={w.number(10**6)}",
    "logfmt": lambda w, at: f"time=2026-11-16T{_clock(at)}Z level=info msg=\"{w(3)}\" user={w()} ms={w.number()}",
    "access log": lambda w, at: f"10.0.{w.number(9)}.{w.number(250)} - - [16/Nov/2026:{_clock(at)} +0000] "
    f'"GET /{w(2, "/")} HTTP/1.1" {w.few("200", "200", "404", "500")} {w.number(9_999)}',
    "log with traces": lambda w, at: (
        f"2026-11-16 {_clock(at)} ERROR {w(3)}",
        f"java.lang.{w().title()}Exception: {w(4)}",
        *(f"\tat com.{w(2, '.')}.{w().title()}.{w()}({w().title()}.java:{w.number()})" for _ in range(2)),
    )[at % 4],
    "grep": lambda w, at: f"src/{w.few(*w.words[:300])}.py:{at}: {w(5)}",
    "findings": lambda w, at: f"src/{w.words[at // 40]}.py:{at % 40}:4: "
    f"{w.few('error', 'warning')}: {w(4)}  [{w.few('arg', 'misc')}]",
    "tests": lambda w, at: f"tests/test_{w.words[at // 30]}.py::test_{w(2, '_')} "
    f"{w.few(*['PASSED'] * 40, 'FAILED')} [{at % 100:3d}%]",
    "unittest": lambda w, at: f"test_{w(2, '_')} (pkg.{w.words[at // 30]}.Test) ... "
    f"{w.few(*['ok'] * 60, 'FAIL', 'skipped')}",
    "table": lambda w, at: f"{w():<12} {w.number():>6} {w.few('Running', 'Pending'):<10} {w.number(60)}m",
    "comma": lambda w, at: f"{at},{w()},{w.number()},{w.few('a', 'b')}" if at else "id,name,size,class",
    "tabs": lambda w, at: f"{at}\t{w()}\t{w.number()}\t{w.few('a', 'b')}" if at else "id\tname\tsize\tclass",
    "psql": lambda w, at: (
        f" {at:>5} | {w():<10} | {w.number():>6}"
        if at > 1
        else (" id    | name       |   size", "-------+------------+-------")[at]
    ),
    "dpkg": lambda w, at: f"ii  {w() + str(at):<30} {w.number(9)}.{w.number(30):<10} amd64        {w(4)}",
    "files": lambda w, at: f"-rw-r--r-- 1 root root {w.number(99_999):>6} Nov 16 10:{at % 60:02d} {w()}.c",
    "blame": lambda w, at: f"{w.hash(8)} ({w.few('Ann', 'Bob')} 2026-0{1 + w.number(9)}-11 10:00:00 +0000 "
    f"{at + 1:>5}) {w(4)}",
    "json lines": lambda w, at: f'{{"id": {at}, "name": "{w()}", "level": '
    f'"{w.few("info", "error")}", "ms": {w.number()}}}',
    "trace": lambda w, at: f'openat(AT_FDCWD, "/{w(2, "/")}", O_RDONLY) = '
    f"{w.few('3', '4', '-1 ENOENT (No such file or directory)')}",
    "metrics": lambda w, at: f'{w.few("requests_total", "errors_total")}{{pod="{w()}-{at}",'
    f'code="{w.number(600)}"}} {w.number()}',
    "sentences": lambda w, at: f"{w(9).capitalize()}. {w(7).capitalize()}." if at % 5 else "",
    "speakers": lambda w, at: f"{w.few('Ann', 'Bob', 'Cy')}: {w(12).capitalize()}.",
    "items": lambda w, at: f"- {w(6)}" if at % 12 else f"## {w(2).title()}",
    "indented": lambda w, at: "  " * (at % 4) + w(2),
    "long lines": lambda w, at: w(90) if at % 20 == 3 else w(6),
    "blank lines": lambda w, at: w(4) if at % 2 else "",
}  # fmt: skip


@shape("source code")
def _code(w: Words, at: int) -> str:
    body = "\n".join(f"    {w()} = {w()}({w()}, {w.number()})" for _ in range(5))
    return f"def {w(2, '_')}({w()}, {w()}):\n{body}\n    return {w()}\n"


@shape("diff")
def _diff(w: Words, at: int) -> str:
    name = f"src/{w(2, '/')}.py"
    lines = "\n".join(f"{w.few(' ', ' ', '-', '+')}{w(5)}" for _ in range(14))
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -{at},14 +{at},14 @@ def {w()}():\n{lines}"


@shape("commits")
def _commit(w: Words, at: int) -> str:
    author = f"Author: {w().title()} <{w()}@example.com>\nDate:   Mon Nov 16 {_clock(at)} 2026 +0000"
    return f"commit {w.hash()}\n{author}\n\n    {w(6)}\n\n    {w(11)}\n"


@shape("yaml documents")
def _yaml(w: Words, at: int) -> str:
    labels = f"  labels:\n    app: {w()}\n    size: {w.number()}"
    return f"- name: {w()}-{at}\n  kind: {w.few('Pod', 'Job')}\n{labels}\n  ready: {w.few('true', 'false')}"


@shape("xml")
def _xml(w: Words, at: int) -> str:
    return f'  <case name="{w(2, "_")}" time="0.{w.number()}">\n    <out>{w(4)}</out>\n  </case>'


@shape("json records")
def _json(w: Words, at: int) -> str:
    tags = f'    "tags": ["{w()}", "{w()}"],\n    "on": {w.few("true", "false")}'
    return f'  {{\n    "id": {at},\n    "name": "{w()}",\n{tags}\n  }},'


@shape("directories")
def _directory(w: Words, at: int) -> str:
    files = "\n".join(f"-rw-r--r-- 1 root root {w.number(99_999):>6} Nov 16 10:00 {w()}.c" for _ in range(9))
    return f"./{w(2, '/')}:\ntotal {w.number()}\n{files}\n"


@shape("blocks of events")
def _event(w: Words, at: int) -> str:
    return f"Event {at} at 2026-11-16 {_clock(at)}\n  source: {w()}\n  message: {w(5)}\n  code: {w.number()}\n"


@shape("plan")
def _plan(w: Words, at: int) -> str:
    change = f'        id   = "{w.hash(12)}"\n      ~ size = {w.number()} -> {w.number()}'
    return f'  # aws_{w()}.{w()} will be updated\n  ~ resource "aws_{w()}" "{w()}" {{\n{change}\n    }}\n'


@shape("log of steps")
def _steps(w: Words, at: int) -> str:
    lines = "\n".join(f"2026-11-16T{_clock(at)}.0Z {w(5)}" for _ in range(20))
    return f"2026-11-16T{_clock(at)}.0Z ##[group]{w(2)}\n{lines}\n2026-11-16T{_clock(at)}.0Z ##[endgroup]"


_AROUND = {"xml": ("<suite>\n", "\n</suite>"), "json records": ("[\n", '\n  {"id": -1}\n]')}


def long_texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each shape."""
    for name, write in {**LINES, **SHAPES}.items():
        words = Words(name)
        most = words.rng.randint(FEWEST, MOST)
        lines: list[str] = []
        size = 0
        for at in count():
            lines.append(write(words, at))
            size += lines[-1].count("\n") + 1
            if size >= most:
                break
        before, after = _AROUND.get(name, ("", ""))
        yield name, before + "\n".join(lines) + after
