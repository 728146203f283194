"""Configuration files: directives on lines of their own, each with the comment that explains it.

redis.conf, sysctl, INI, nginx.conf, .env, postgresql.conf, sshd_config: the lines are the units, verbatim. A directive
is scored by its own words, by the words that its name abbreviates, and by the comment above it, so that a question in
plain words finds the setting that it describes. A commented-out directive is a comment that scores like a directive.
Without a question the active directives are shown and the comments are left out.
"""

import re
from dataclasses import dataclass

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.features import near_features
from tersely.condensing.focus import Focus, scan
from tersely.condensing.readers.generic import MOST_UNITS
from tersely.condensing.readers.source_code import begins_statement
from tersely.condensing.units import Reading, Unit, best_with_owners
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.pieces import LONGEST_LINE, pieces_of

LARGEST_BLOCK = 60
"""Lines of comment that are scored as one; a longer one is scored in parts."""

LEAST_DIRECTIVES = 0.85
"""Least share of the lines outside of comments that have the form of directives."""

_COMMENT = re.compile(r"\s*(?:#(?!\d+ )|;|//|!)")
_SECTION = re.compile(r"\s*(?:\[[^\]=,\"]{1,80}\]|</?\w[^<>]{0,100}>)\s*$")
_BRACE = re.compile(r"\s*(?:[\w.$~^/*\"'-]+(?:\s+[^;{}]{0,160})?\{|\}\s*;?)\s*(?:#.*)?$")
_ASSIGNED = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][\w.\-/*@]*)\s*(?:=(?![=>~])|:=)(?P<value>[^=]*)")
_SPACED = re.compile(r"\s*(?P<name>[A-Za-z_@*$-][\w.\-/*@]*)(?P<value>(?:\s+[^\s#]\S*){0,12})\s*;?\s*(?:#.*)?$")
_DISABLED = re.compile(
    r"\s*(?:#|;|//)\s?(?P<name>[A-Za-z_][\w.\-/]*)(?:\s*=\s*\S.*|(?:[ \t]+[^\s#]\S*){1,5}\s*;?|[ \t]+<[^>]*>.*)$"
)
_SENTENCE = re.compile(r".*(?:[a-z]{2}[.,:!?]|\.\.\.)$|.*[a-z], [a-z]")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_RULE = re.compile(r"[#;/]*\s*[-=#*]{3,}\s*(?P<title>[^-=#*]*[^-=#*\s])?\s*[-=#*]*")
_VARIABLE = re.compile(r"\d[\w.]*")
_UNCOMMENTED = re.compile(r"[\s#;/!*-]+")

ABBREVIATED = {
    "acct": "account",
    "addr": "address",
    "aof": "append only file",
    "auth": "authentication",
    "buf": "buffer",
    "cert": "certificate",
    "conf": "configuration",
    "conn": "connection",
    "conns": "connections",
    "ctl": "control",
    "db": "database",
    "dest": "destination",
    "dev": "device",
    "dir": "directory",
    "dirs": "directories",
    "dst": "destination",
    "env": "environment",
    "err": "error",
    "exec": "execute command",
    "fd": "file descriptor",
    "fds": "file descriptors",
    "fs": "file system",
    "gc": "garbage collection",
    "hist": "history",
    "id": "identifier",
    "idx": "index",
    "init": "initial start",
    "interv": "interval",
    "intvl": "interval",
    "kex": "key exchange",
    "len": "length",
    "lim": "limit",
    "lru": "least recently used",
    "max": "maximum largest most limit",
    "maxlen": "maximum length",
    "mem": "memory",
    "min": "minimum smallest least",
    "msg": "message",
    "mq": "message queue",
    "neigh": "neighbour neighbor",
    "nofile": "open files descriptors",
    "nproc": "number processes",
    "nr": "number count",
    "num": "number count",
    "param": "parameter",
    "passwd": "password",
    "perm": "permission",
    "pid": "process",
    "pkt": "packet",
    "proc": "process",
    "proto": "protocol",
    "pw": "password",
    "qlen": "queue length",
    "recv": "receive",
    "repl": "replication",
    "req": "request",
    "resp": "response",
    "rmem": "receive read buffer memory",
    "rto": "retransmission timeout",
    "sched": "scheduler",
    "sec": "seconds",
    "secs": "seconds",
    "sem": "semaphore",
    "shm": "shared memory",
    "shmall": "shared memory",
    "shmmax": "shared memory maximum segment",
    "somaxconn": "maximum socket listen backlog queue connections",
    "src": "source",
    "srv": "server",
    "stat": "statistics",
    "stats": "statistics",
    "swappiness": "swap swapping",
    "syn": "connection request",
    "sync": "synchronous",
    "sys": "system",
    "temp": "temporary",
    "tmp": "temporary",
    "ttl": "time to live",
    "tw": "time wait",
    "usr": "user",
    "ver": "version",
    "vm": "virtual memory",
    "wal": "write ahead log",
    "wmem": "send write buffer memory",
}
"""Words that the parts of a setting's name stand for."""


@dataclass(slots=True)
class _Line:
    number: int
    text: str
    sort: str
    """One of directive, disabled, comment, section."""
    parent: int = -1
    block: int = -1
    """The comment that explains it, or that it belongs to."""


def detect(lines: list[str]) -> float:
    """Return how certain it is (0..1) that these sampled lines are a configuration file."""
    names: list[str] = []
    comments = formed = assigned = total = sentences = 0
    for line in lines:
        if _COMMENT.match(line):
            comments += 1
            continue
        total += 1
        if _SECTION.match(line) or _BRACE.match(line):
            formed += 1
        elif match := _ASSIGNED.match(line):
            formed += 1
            assigned += 1
            names.append(match["name"])
        elif len(line) < 200 and (match := _SPACED.match(line)):
            formed += 1
            names.append(match["name"])
            sentences += bool(_SENTENCE.match(line)) and line.rstrip()[-1:] != ";"
        elif total - formed > (1 - LEAST_DIRECTIVES) * len(lines):
            return 0.0  # Whatever follows.
    disabled = sum(1 for line in lines if _DISABLED.match(line) and not _SENTENCE.match(line)) if comments else 0
    if comments >= 0.85 * len(lines) and disabled >= 2 and formed == total:
        return 0.9  # Everything is commented out.
    if not names or total < 3 or formed < LEAST_DIRECTIVES * total or sentences > 0.1 * total:
        return 0.0
    many = len(names)
    different = len(set(names)) / many
    # Names that end alike below different prefixes are the fields of records.
    fields = len({name.rpartition(".")[2] for name in names}) / many
    if assigned >= 0.9 * many and many >= 4 and fields >= 0.4:
        return formed / total if different >= 0.8 or (comments >= 0.2 * total and different >= 0.5) else 0.0
    ended = sum(1 for line in lines if line.rstrip()[-1:] in "{};" and not _COMMENT.match(line))
    if ended >= 0.85 * total and assigned <= 0.1 * total and sum(1 for line in lines if line.rstrip()[-1:] == ";") >= 3:
        return formed / total if not _has_calls(lines) else 0.0
    commented = comments >= 0.35 * (comments + total) and (different >= 0.4 or comments > 3 * total)
    return formed / total if commented and _are_words(names) and not _has_statements(lines) else 0.0


def _has_statements(lines: list[str]) -> bool:
    plain = [line for line in lines if not _COMMENT.match(line)]
    return sum(1 for line in plain if begins_statement(line)) > 0.1 * len(plain)


_CALL = re.compile(r"\w\([^)]*\)")


def _has_calls(lines: list[str]) -> bool:
    return sum(1 for line in lines if "(" in line and _CALL.search(line)) > 0.1 * len(lines)


def _are_words(names: list[str]) -> bool:
    """Whether the names look like settings and not like words of a sentence or commands of a script."""
    settings = sum(1 for name in names if len(name) > 2 and (name[0].islower() or _PART.fullmatch(name) is None))
    return settings >= 0.5 * len(names) or sum(name[0].isupper() and len(name) > 4 for name in names) >= 0.8 * len(
        names
    )


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the lines as units, or None if there are no directives."""
    lines, blocks = _lines_and_blocks(text)
    if not any(line.sort in ("directive", "disabled") for line in lines):
        return None
    features = near_features([_with_words(line) for line in lines], focus)
    explained = scan(blocks, focus).relevance if focus and blocks else [0.0] * len(blocks)
    about = [explained[line.block] if line.block >= 0 else 0.0 for line in lines]
    names = [line.sort in ("directive", "disabled") for line in lines]
    features.title = [each * is_name for each, is_name in zip(about, names, strict=True)]
    features.body = [each * (line.sort == "comment") for each, line in zip(about, lines, strict=True)]
    features.roles = [line.sort if line.sort in ("disabled", "comment") else "active" for line in lines]
    return Reading("config", _units(lines, features.scores(WEIGHTS["config"], focus), budget))


def _with_words(line: _Line) -> str:
    """Return the text by which a line is scored: with the words that the parts of its name abbreviate."""
    if line.sort not in ("directive", "disabled"):
        return line.text
    name = _UNCOMMENTED.sub("", line.text, count=1)[:120].partition("=")[0].split(None, 1)
    words = (
        [ABBREVIATED[part] for part in map(str.lower, _PART.findall(name[0])) if part in ABBREVIATED] if name else []
    )
    return f"{line.text} {' '.join(words)}" if words else line.text


class _Comments:
    """Collects the comments as blocks of text, each with the ruled heading above it."""

    def __init__(self) -> None:
        self.blocks: list[list[str]] = []
        self.prose = -1
        """The last block with more than commented-out directives."""
        self.heading = ""
        self.ruled = False
        self.open = False

    def add(self, content: str, *, disabled: bool) -> int:
        """Add a line of comment; return the block that explains it."""
        rule = _RULE.fullmatch(content)
        title = (rule["title"] or "") if rule else content if self.ruled else ""
        self.heading = title.strip("#;/-=* ") or self.heading
        self.ruled = rule is not None and not title
        if not self.open or len(self.blocks[-1]) >= LARGEST_BLOCK:
            self.blocks.append([self.heading])
            self.open = True
        self.blocks[-1].append(content)
        if not disabled:
            self.prose = len(self.blocks) - 1
        return self.explaining

    @property
    def explaining(self) -> int:
        """The block that explains a directive in the present line."""
        return self.prose if self.prose >= 0 else len(self.blocks) - 1


def _lines_and_blocks(text: str) -> tuple[list[_Line], list[str]]:
    """Return the lines with their sections, and the comments as blocks of text."""
    lines: list[_Line] = []
    comments = _Comments()
    around: list[int] = []
    """The sections around the present line."""
    for number, raw in enumerate(text.split("\n"), 1):
        content = raw.strip()
        if not content:
            comments.open = False
        elif _COMMENT.match(raw):
            disabled = bool(_DISABLED.match(raw)) and not _SENTENCE.match(content)
            block = comments.add(content, disabled=disabled)
            _add(lines, number, raw, "disabled" if disabled else "comment", around, block)
        elif content[0] == "}" or content.startswith("</"):
            del around[-1:]
            _add(lines, number, raw, "section", around, -1)
        elif content[-1] == "{" or _SECTION.match(raw):
            if content[0] == "[":
                around.clear()
            _add(lines, number, raw, "section", around, comments.explaining)
            around.append(len(lines) - 1)
            del around[:-20]
            comments.open = False
        else:
            _add(lines, number, raw, "directive", around, comments.explaining)
            comments.open = False
    return lines, [" ".join(block) for block in comments.blocks]


def _add(lines: list[_Line], number: int, raw: str, sort: str, around: list[int], block: int) -> None:
    parent = around[-1] if around else -1
    texts = [raw.rstrip()] if len(raw) <= LONGEST_LINE else pieces_of(raw)
    lines.extend(_Line(number, text, sort, parent, block) for text in texts)


def _units(lines: list[_Line], scores: list[float], budget: int) -> list[Unit]:
    most = min(MOST_UNITS, 2_000 + 4 * budget)
    chosen = best_with_owners(scores, [one.parent for one in lines], most)
    place = {at: index for index, at in enumerate(chosen)}
    return [
        Unit(
            lines[at].text,
            lines[at].number,
            lines[at].number,
            scores[at],
            place.get(lines[at].parent) if lines[at].parent >= 0 else None,
            family=_VARIABLE.sub("#", lines[at].text.strip()[:60]),
        )
        for at in chosen
    ]


def _is_configuration(sample: Sample) -> bool:
    return sample.is_written and detect(sample.lines) > 0


READER = Reader("config", Signs((0.84, _is_configuration)), read, splits_at="files")
