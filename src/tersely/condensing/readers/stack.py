"""Stack traces inside logs: their location, and the frames to show.

A trace belongs to the line before it. Each frame is a unit: first every `Caused by` and the first frame below it that
is application code (of the packages that are rarest in the text, found without a list of libraries), then the other
frames of application code, then all frames while there is room. A frame of two lines (Python's with its source, Go's
with its file) is one unit.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tersely.condensing.account import runs_of
from tersely.condensing.units import Unit

FRAME = re.compile(
    r"\s*(?:\\t)?at [\w$.<>/@-]+[(:]"  # Java, JavaScript, C#
    r"|\s*(?:\\t)?at (?:async |new )?[\w$.<>\[\] ]+ \("
    r"|\s+File \"[^\"]*\", line \d+"  # Python
    r"|\s*\.\.\. \d+ (?:more|common frames)"
    r"|\s+from \S+:\d+:in "  # Ruby
    r"|\s*#\d+ +(?:0x|\S+\(|/)"  # gdb, PHP
    r"|\s*#\d{1,3} +[\w:~$<>*@.-]+ (?:\(\w+=|\(\) at |\S+:\d+ \()"  # gdb without an address, ThreadSanitizer
    r"|(?:==\d+==)?\s+(?:at|by) 0x[0-9A-Fa-f]+: "  # Valgrind
    r"|\s*\d+: +0x[0-9a-f]+ - "  # Rust
    r"|\t\S+\.go:\d+"
)
_CAUSE = re.compile(r"\s*(?:\\t)?(?:Caused by|Suppressed): ")
_IN_ITS_LINE = FRAME.pattern.replace(r"\s", r"[^\S\n]").replace('[^\\"]', '[^\\"\n]')
_FRAMES = re.compile(rf"\n(?=[ \t]*+[\\abFf.#=\d]|\t)(?:{_IN_ITS_LINE})")
"""A frame and the line end before it: what begins with a letter of its own is searched faster than each line."""
_RUNTIME = re.compile(r"(?:java|javax|jdk|sun|kotlin|scala|System|Microsoft|node|internal|std|core|runtime|usr|lib)\b")
"""Frames of the language runtime are rarely the cause."""
_LIBRARY = re.compile(
    r"site-packages|dist-packages|node_modules|/lib/python\d|node:|/usr/lib|/usr/local/go|GOROOT|/rustc/|/usr/include/"
    r"|\(in /|/libsanitizer/|\.\.?/(?:sysdeps|nptl|csu|elf|malloc|stdio-common|stdlib|string|libio|signal|posix)/"
)
_CALLED_LAST = re.compile(r"\s*File \"[^\"]*\", line \d+, in ")
"""Python's tracebacks end with the call that failed; the dumps of its faulthandler begin with it."""
_ADDRESS = re.compile(r"^(?:==\d+==)?\s*(?:#\d+ +|(?:at|by) )(?:0x[0-9a-fA-F]+:? (?:in )?)?")
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:[.:/\\][\w$<>-]+)*")

_OPENINGS = frozenset(" \t\\a#.=CS0123456789")
"""Possible first characters of a frame; testing them first saves the expression for most lines."""
_GO_FILE = re.compile(r"\t\S+\.go:\d+")
_GO_CALL = re.compile(r"(?:created by )?[\w./*$-]+[\w.()*\[\]{}$-]*(?:\(.*\)|$| in goroutine \d+$)")

OWN = 1.0
"""Score of the first frame of application code below each cause, and of the cause, as a share of the trace's score."""
FIRST = 0.8
"""The same for the first frame of all below each cause."""
OTHER_OWN = 0.5
OTHER = 0.15
MOST_FRAMES = 4_000
"""Frames that become units; of further traces only the important ones do."""


@dataclass
class Traces:
    """The traces of a text: the line each belongs to → its lines."""

    after: dict[int, range] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)
    packages: Counter[str] = field(default_factory=Counter)
    made: int = 0
    """How many frames have become units."""


def find(lines: Sequence[str], text: str = "") -> Traces:
    """Find the traces in lines, which are also given as one text if there is one."""
    text = text or "\n".join(lines)
    found = Traces()
    after = 0
    for start in _possible_starts(text):
        end = start
        while start >= after and end < len(lines) and _continues(lines, end, start=start):
            found.packages[_package(lines[end])] += 1
            end += 1
        if end > start:
            _keep(found, start, end)
            after = end + 1
    return found


def _possible_starts(text: str) -> Iterator[int]:
    """Yield the lines with frames in order, each after the line before it, which may be the call of a frame of Go."""
    text = f"\n{text}"
    line = counted = 0
    for frame in _FRAMES.finditer(text):
        line += text.count("\n", counted, frame.start())
        counted = frame.start()
        if line and text.startswith("\t", counted + 1):
            yield line - 1
        yield line


def _continues(lines: Sequence[str], at: int, *, start: int) -> bool:
    """Whether a line is part of the trace that begins at `start`."""
    line = lines[at]
    inside = at > start
    if line[:1] in _OPENINGS and (FRAME.match(line) or (inside and _CAUSE.match(line))):
        return True
    if at + 1 < len(lines) and lines[at + 1][:1] == "\t" and _GO_FILE.match(lines[at + 1]) and _GO_CALL.match(line):
        return True
    if not inside or line[:1] not in (" ", "\t") or not line.strip():
        return False
    # The source line below a Python frame, or the variables below those of gdb.
    return lines[at - 1].lstrip().startswith('File "') or lines[start].startswith("#0 ")


def _keep(found: Traces, start: int, end: int) -> None:
    start = max(1, start)  # If the text begins inside a trace, its first frame replaces the missing line.
    if end - start < 2:
        return  # A single line is not a trace.
    found.after[start - 1] = range(start, end)
    found.inside.update(range(start, end))


def units_of(
    lines: Sequence[str], trace: range, traces: Traces, *, owner: int, score: float, number: Callable[[int], int]
) -> list[Unit]:
    """Return the frames of a trace as units below the unit `owner`; `number` gives the source line of an index."""
    units: list[Unit] = []
    for part in _parts(lines, trace):
        frames = _frames(lines, part)
        worth = _worth(lines, frames, traces)
        again = _repeated(lines, frames)
        for index, (frame, share) in enumerate(zip(frames, worth, strict=True)):
            if index not in again or (share <= OTHER and traces.made >= MOST_FRAMES):
                continue
            traces.made += 1
            text = "\n".join(" " + lines[at].strip().removeprefix("\\t") for at in frame)
            copies = [frames[at] for at in again[index]]
            if copies:
                text += f" ×{len(copies) + 1}"
            units.append(
                Unit(
                    text,
                    number(frame[0]),
                    number(frame[-1]),
                    share * score,
                    parent=owner,
                    count=len(frame) * (len(copies) + 1),
                    folded=runs_of((number(copy[0]), number(copy[-1])) for copy in copies),
                )
            )
    return units


def worth_of_lines(lines: Sequence[str], traces: Traces, *, of_owner: float = 0.0) -> list[float]:
    """Return 1 for the frame of application code that is nearest to what each trace is about.

    Other frames of application code and the lines below them have less, the line that a trace belongs to `of_owner`,
    all other lines nothing; empty if there are no traces.
    """
    if not traces.after:
        return []
    found = [0.0] * len(lines)
    for owner, trace in traces.after.items():
        found[owner] = max(found[owner], of_owner)
        for part in _parts(lines, trace):
            frames = _frames(lines, part)
            for frame, share in zip(frames, _worth(lines, frames, traces), strict=True):
                if share != FIRST and share > OTHER:
                    found[frame[0]] = share
                    for at in frame[1:]:
                        found[at] = share if len(frame) == 2 else OTHER * share
    return found


def _repeated(lines: Sequence[str], frames: list[range]) -> dict[int, list[int]]:
    """Return the first of equal frames → the others, as a recursion repeats them."""
    first: dict[tuple[str, ...], int] = {}
    again: dict[int, list[int]] = {}
    for index, frame in enumerate(frames):
        key = tuple(lines[at].strip() for at in frame)
        if key in first:
            again[first[key]].append(index)
        else:
            first[key] = index
            again[index] = []
    return again


def _parts(lines: Sequence[str], trace: range) -> list[range]:
    """Divide a trace before each cause."""
    starts = [trace[0], *(at for at in trace[1:] if _CAUSE.match(lines[at]))]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], trace[-1] + 1], strict=True)]


def _frames(lines: Sequence[str], part: range) -> list[range]:
    """Join the lines of one frame: Python's source below its place, Go's file below its call, gdb's variables."""
    frames: list[range] = []
    with_variables = lines[part[0]].startswith("#0 ")
    for at in part:
        before = lines[at - 1] if frames else ""
        joins = bool(frames) and (
            ((with_variables or before.lstrip().startswith('File "')) and not FRAME.match(lines[at]))
            or (bool(_GO_FILE.match(lines[at])) and not _GO_FILE.match(before))
        )
        if joins:
            frames[-1] = range(frames[-1].start, at + 1)
        else:
            frames.append(range(at, at + 1))
    return frames


def _worth(lines: Sequence[str], frames: list[range], traces: Traces) -> list[float]:
    """Return the share of the trace's score that each frame has."""
    packages = [_package(lines[frame[-1] if len(frame) == 1 else frame[0]]) for frame in frames]
    is_cause = [bool(_CAUSE.match(lines[frame[0]])) for frame in frames]
    is_own = [
        not cause and bool(name) and not _RUNTIME.match(name) and not _LIBRARY.search(lines[frame[0]])
        for frame, name, cause in zip(frames, packages, is_cause, strict=True)
    ]
    rarest = min((traces.packages[name] for name, own in zip(packages, is_own, strict=True) if own), default=0)
    own = [at for at, yes in enumerate(is_own) if yes and traces.packages[packages[at]] <= 4 * rarest]
    worth = [OTHER_OWN if at in own else OTHER for at in range(len(frames))]
    calls_last = any(_CALLED_LAST.match(lines[frame[0]]) for frame in frames)
    plain = [at for at, cause in enumerate(is_cause) if not cause]
    if plain:
        nearest = plain[-1] if calls_last else plain[0]
        worth[nearest] = max(worth[nearest], FIRST)
    if own:
        worth[own[-1] if calls_last else own[0]] = OWN
    for at, cause in enumerate(is_cause):
        if cause:
            worth[at] = OWN
    return worth


@lru_cache(maxsize=10_000)
def _package(line: str) -> str:
    """Return the first two parts of a frame's qualified name."""
    found = _CODE.search(_ADDRESS.sub("", line).replace("at ", "", 1).replace('File "', "", 1))
    return ".".join(re.split(r"[./\\:]", found.group())[:2]) if found else ""
