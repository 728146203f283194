"""Unified diffs: the changed files with their counts, and verbatim the changes that matter to the question.

The head lists the files with the number of added and removed lines, the largest if there are many. Lines are the
units, under their hunk, their file and, in a history, their commit. A small change (removed lines and those that
replace them) is shown as a whole, so that both sides stay together; context only fills remaining space. The
words of a path and of a hunk's header count for the lines below them. Files that are rarely read line by line (lock
files, minified or generated text) score low.
"""

import re
from dataclasses import dataclass, field

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.features import Features, nearness
from tersely.condensing.focus import Focus, scan
from tersely.condensing.readers.line_records import short_hashes
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS

RARELY_READ = 0.15
"""Factor for lines of lock files and the like."""
SMALL = 8
"""Largest change, in lines, that is shown as a whole or not at all."""
LONGEST_LINE = 400
MOST_UNITS = 60_000

_FILE = re.compile(r"diff --git (?:a/)?(.+?) (?:b/)?(\S+)$|diff (?:-\S+ )*(\S+) (\S+)$|Index: (\S+)$")
_OLD = re.compile(r"--- (?:a/)?([^\t\n]+)")
_NEW = re.compile(r"\+\+\+ (?:b/)?([^\t\n]+)")
_DIGITS = re.compile(r"\d+")
_COMMIT = re.compile(r"commit [0-9a-f]{7,64}\b|From [0-9a-f]{40} ")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_RARELY_READ = re.compile(
    r"(?:[\w.-]*lock(?:file)?(?:\.\w+)?|go\.sum|.*\.(?:min\.\w+|map|svg|snap|pb\.go|lock)|.*(?:generated|vendor|node_modules).*)$",
    re.I,
)


@dataclass(slots=True)
class _File:
    name: str
    at: int
    notes: list[str] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    hunks: list[tuple[str, int, list[tuple[int, str]]]] = field(default_factory=list)
    above: list[tuple[int, str]] = field(default_factory=list)
    """The lines above the file that belong to no other: a commit and its message."""

    def note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    def summary(self) -> str:
        notes = f" ({', '.join(self.notes)})" if self.notes else ""
        return f"{self.name} +{self.added} -{self.removed}{notes}"


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the changes as units under their files, or None if there is no hunk."""
    files, below = _files(text.split("\n"))
    if not any(file.hunks for file in files):
        return None
    return Reading("diff", _Units(files, below, focus).units, head=_head(files, budget))


def _head(files: list[_File], budget: int) -> str:
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    most = max(3, budget // 100)
    names = {file.name for file in files}
    head = f"diff: {len(names)} files, +{added} -{removed}"
    if 1 < len(files) == len(names):
        listed = sorted(files, key=lambda file: -(file.added + file.removed))[:most]
        head += "\n" + "\n".join(file.summary() for file in files if file in listed)
        if len(files) > most:
            head += f"\n… and {len(files) - most} more files"
    return head


class _Units:
    """Makes the units of a diff."""

    def __init__(self, files: list[_File], below: list[tuple[int, str]], focus: Focus) -> None:
        self.units: list[Unit] = []
        self.focus = focus
        lines = [line for file in files for _, _, body in file.hunks for _, line in body]
        found = scan([line[1:LONGEST_LINE] for line in lines], focus)
        self.weights = WEIGHTS["diff"]
        self.scores = Features(found, nearness(found)).scores(self.weights, focus)
        self.paths = scan([file.name for file in files], focus, names_of=found).relevance
        sections = [header.rpartition("@@")[2] for file in files for header, _, _ in file.hunks]
        headers = scan(sections, focus, names_of=found).relevance
        self.at = hunk = 0
        commit: int | None = None
        for index, file in enumerate(files):
            if file.above:
                commit = self._add_message(file.above)
            factor = RARELY_READ if _is_rarely_read(file.name) else 1.0
            owner = len(self.units)
            roles, of_path = self.weights.roles, self.weights.title * self.paths[index]
            score = roles["file"] * factor + of_path
            self.units.append(Unit(file.summary(), file.at, file.at, score, parent=commit, count=0))
            for header, at, body in file.hunks:
                gain = of_path + self.weights.body * headers[hunk]
                hunk += 1
                self.units.append(Unit(header, at, at, roles["hunk"] * factor + gain, parent=owner, count=0))
                self._add_hunk(body, factor, gain * factor)
        if below:
            self._add_message(below)

    def _add_message(self, lines: list[tuple[int, str]]) -> int | None:
        """Add the lines of a commit; return its first one, which is shown with each of its files."""
        lines = [(at, line) for at, line in lines if line.strip()]
        if not lines:
            return None
        first = len(self.units)
        owned = bool(_COMMIT.match(lines[0][1]))
        features = Features(scan([line for _, line in lines], self.focus))
        features.roles = ["message" if index and owned else "commit" for index in range(len(lines))]
        subject = next((index for index, (_, line) in enumerate(lines) if owned and line.startswith("    ")), None)
        if subject is not None:
            features.roles[subject] = "subject"
        scores = features.scores(self.weights, self.focus)
        if subject is not None and lines[0][1].split()[1][:7] not in self.focus.text:
            scores[0] = -1.0  # A hash that was not asked for says nothing alone.
        for index, (at, line) in enumerate(lines):
            self.units.append(
                Unit(short_hashes(_cut(line)), at, at, scores[index], parent=first if index and owned else None)
            )
        return first if owned else None

    def _add_hunk(self, lines: list[tuple[int, str]], factor: float, gain: float) -> None:
        owner = len(self.units) - 1
        for block in _blocks(lines):
            start, self.at = self.at, self.at + len(block)
            changed = block[0][1][:1] in ("+", "-")
            base = self.weights.roles["changed" if changed else "context"]
            scores = [factor * (base + score) for score in self.scores[start : self.at]]
            together = changed and len(block) <= SMALL
            if together:
                # Only the last line is chosen for itself; the others are shown with it.
                scores = [-1.0 - gain] * (len(block) - 1) + [max(scores)]
            # The same change in many places gives way to others.
            shape = _DIGITS.sub("#", "\n".join(line for _, line in block)) if together else ""
            for index, (number, line) in enumerate(block):
                # The words of the path speak for what was changed, hardly for the lines around it.
                score = scores[index] + gain * (1.0 if changed else 0.2)
                parent = len(self.units) - 1 if together and index else owner
                family = (shape or _DIGITS.sub("#", line)) if changed else None
                self.units.append(Unit(_cut(line), number, number, score, parent=parent, family=family))


def _is_rarely_read(name: str) -> bool:
    return bool(_RARELY_READ.match(name.rsplit("/", 1)[-1]) or _RARELY_READ.fullmatch(name))


def _cut(line: str) -> str:
    return line.rstrip() if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + " …"


def _files(lines: list[str]) -> tuple[list[_File], list[tuple[int, str]]]:
    """Return the files of a diff with the lines above them, and the lines below the last one."""
    files: list[_File] = []
    above: list[tuple[int, str]] = []
    old = ""
    hunk: list[tuple[int, str]] | None = None
    for at, line in enumerate(lines, 1):
        sign = line[:1]
        if hunk is not None and (sign in ("+", " ", "\\") or (sign == "-" and line[:4] != "--- ")):
            hunk.append((at, line))
            files[-1].added += sign == "+"
            files[-1].removed += sign == "-"
        elif match := _FILE.match(line):
            files.append(_File(next(part for part in reversed(match.groups()) if part), at, above=above))
            hunk, above = None, []
        elif (match := _OLD.match(line)) and at < len(lines) and _NEW.match(lines[at]):
            old, hunk = match[1].strip(), None
        elif hunk is None and (match := _NEW.match(line)):
            name = match[1].strip() if match[1].strip() != "/dev/null" else old
            if not files or files[-1].hunks:
                files.append(_File(name, at, above=above))
                above = []
            if match[1].strip() == "/dev/null":
                files[-1].note("deleted")
            elif old == "/dev/null":
                files[-1].note("new")
        elif _HUNK.match(line) and files:
            hunk = []
            files[-1].hunks.append((line, at, hunk))
        elif hunk is not None and line[:1] in ("+", "-", " ", "\\"):
            hunk.append((at, line))
            files[-1].added += line[:1] == "+"
            files[-1].removed += line[:1] == "-"
        elif not files or above or _COMMIT.match(line):
            above.append((at, line))
            hunk = None
        elif line.startswith(("rename ", "Binary files", "new file", "deleted file")) and not files[-1].hunks:
            files[-1].note(line if line.startswith("rename") else line.split(" ")[0].lower())
        elif hunk is not None and line:
            # Not a line of a hunk: what the tool or a shell wrote below it.
            hunk = None
            above.append((at, line))
    return files, above


def _blocks(lines: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Split a hunk into runs of changed and unchanged lines; a removal and the addition after it stay together."""
    blocks: list[list[tuple[int, str]]] = []
    for at, line in lines:
        changed = line[:1] in ("+", "-", "\\")
        if blocks and (blocks[-1][0][1][:1] in ("+", "-")) == changed:
            blocks[-1].append((at, line))
        else:
            blocks.append([(at, line)])
    return blocks


_CHANGES = re.compile(r"^(?:diff --git |@@ -\d+(?:,\d+)? \+\d+|--- \S.*\n\+\+\+ \S)", re.M)


def _has_changes(sample: Sample) -> bool:
    return _CHANGES.search(sample.text[:20_000]) is not None


READER = Reader("diff", Signs((0.95, _has_changes)), read, by_line=True)
