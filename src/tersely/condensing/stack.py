"""Stack traces inside logs: their location, and the frames to show.

A trace belongs to the line before it. Shown are its first frames, the frames of the
packages that are rarest in the text (application code, found without a list of
libraries), and every `Caused by`; the rest is counted.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

FRAME = re.compile(
    r"\s*(?:\\t)?at [\w$.<>/@-]+[(:]"  # Java, JavaScript, C#
    r"|\s*(?:\\t)?at (?:async |new )?[\w$.<>\[\] ]+ \("
    r"|\s+File \"[^\"]*\", line \d+"  # Python
    r"|\s*\.\.\. \d+ (?:more|common frames)"
    r"|\s+from \S+:\d+:in "  # Ruby
    r"|\s*#\d+ +(?:0x|\S+\(|/)"  # gdb, PHP
    r"|\s*\d+: +0x[0-9a-f]+ - "  # Rust
    r"|\t\S+\.go:\d+"
)
_CAUSE = re.compile(r"\s*(?:\\t)?(?:Caused by|Suppressed): ")
_ANY = re.compile(rf"(?m)^(?:{FRAME.pattern})")
_RUNTIME = re.compile(r"(?:java|javax|jdk|sun|kotlin|scala|System|Microsoft|node|internal|std|core|runtime|usr|lib)\b")
"""Frames of the language runtime are rarely the cause."""
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:[.:/\\][\w$<>-]+)*")

_OPENINGS = frozenset(" \t\\a#.CS0123456789")
"""Possible first characters of a frame; testing them first saves the expression for most lines."""

_FIRST = 3
_OWN = 2


@dataclass
class Traces:
    """The traces of a text: the line each belongs to → its lines."""

    after: dict[int, range] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)
    packages: Counter[str] = field(default_factory=Counter)


def find(lines: Sequence[str]) -> Traces:
    found = Traces()
    match = FRAME.match
    start = -1
    for at, line in enumerate(lines):
        if start < 0 and line[:1] not in _OPENINGS:
            continue
        continues = line[:1] in _OPENINGS and bool(match(line) or (start >= 0 and _CAUSE.match(line)))
        if (
            not continues
            and start >= 0
            and line[:1] in (" ", "\t")
            and line.strip()
            and lines[at - 1].lstrip().startswith('File "')
        ):
            continues = True  # The source line below a Python frame.
        if continues:
            if start < 0:
                start = at
            found.packages[_package(line)] += 1
        elif start >= 0:
            _keep(found, start, at)
            start = -1
    if start >= 0:
        _keep(found, start, len(lines))
    return found


def _keep(found: Traces, start: int, end: int) -> None:
    start = max(1, start)  # If the text begins inside a trace, its first frame replaces the missing line.
    if end - start < 2:
        return  # A single line is not a trace.
    found.after[start - 1] = range(start, end)
    found.inside.update(range(start, end))


def shown(lines: Sequence[str], trace: range, traces: Traces) -> str:
    """Return the frames to show, each after a blank, and the number of omitted ones."""
    chosen = set(trace[:_FIRST])
    chosen.update(at for at in trace if _CAUSE.match(lines[at]))
    by_package: dict[str, list[int]] = {}
    for at in trace:
        by_package.setdefault(_package(lines[at]), []).append(at)
    order = sorted(
        by_package, key=lambda name: (bool(_RUNTIME.match(name)), traces.packages[name], by_package[name][0])
    )
    chosen.update(by_package[order[0]][:_OWN])
    chosen.update(by_package[name][0] for name in order[1:3])
    out: dict[str, None] = {}
    for at in sorted(chosen):
        out[" " + lines[at].strip().removeprefix("\\t")] = None
    passed = len(trace) - len(out)
    return "\n".join([*out, f" … {passed} more frames"] if passed else out)


@lru_cache(maxsize=10_000)
def _package(line: str) -> str:
    """Return the first two parts of a frame's qualified name."""
    found = _CODE.search(line.replace("at ", "", 1).replace('File "', "", 1))
    return ".".join(re.split(r"[./\\:]", found.group())[:2]) if found else ""
