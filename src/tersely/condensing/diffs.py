"""Unified diffs: the changed files with their counts, and verbatim the changes that matter to the question.

The head lists the files with the number of added and removed lines. Blocks of changed
lines are the units, under their hunk and their file; context lines only fill remaining
space. Files that are rarely read line by line (lock files, minified or generated text) score low.
"""

import re
from dataclasses import dataclass, field

from tersely.condensing.focus import Focus, scan
from tersely.condensing.units import Reading, Unit

_FILE = re.compile(r"diff --git (?:a/)?(.+?) (?:b/)?(\S+)$|diff (?:-\S+ )*(\S+) (\S+)$|Index: (\S+)$")
_OLD = re.compile(r"--- (?:a/)?([^\t\n]+)")
_NEW = re.compile(r"\+\+\+ (?:b/)?([^\t\n]+)")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_RARELY_READ = re.compile(
    r"(?:[\w.-]*lock(?:file)?(?:\.\w+)?|go\.sum|.*\.(?:min\.\w+|map|svg|snap|pb\.go|lock)|.*(?:generated|vendor|node_modules).*)$",
    re.I,
)
_LONGEST_BLOCK = 12


@dataclass(slots=True)
class _File:
    name: str
    at: int
    notes: list[str] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    hunks: list[tuple[str, int, list[tuple[int, str]]]] = field(default_factory=list)

    def note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    def summary(self) -> str:
        notes = f" ({', '.join(self.notes)})" if self.notes else ""
        return f"{self.name} +{self.added} -{self.removed}{notes}"


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the changes as units under their files, or None if there is no hunk."""
    files, before = _files(text.split("\n"))
    if not any(file.hunks for file in files):
        return None
    units: list[Unit] = [Unit(line, at, at, 0.5) for at, line in before if line.strip()]
    blocks: list[int] = []
    for file in files:
        owner = len(units)
        units.append(Unit(file.summary(), file.at, file.at, 0.3, count=0))
        factor = 0.15 if _RARELY_READ.match(file.name.rsplit("/", 1)[-1]) or _RARELY_READ.fullmatch(file.name) else 1.0
        for header, at, lines in file.hunks:
            hunk = len(units)
            units.append(Unit(header, at, at, 0.1, parent=owner, count=0))
            for block in _blocks(lines):
                if not any(line[1:].strip() for _, line in block):
                    continue
                changed = block[0][1][:1] in ("+", "-")
                blocks.append(len(units))
                score = (0.6 if changed else 0.15) * factor
                joined = "\n".join(line for _, line in block)
                units.append(Unit(joined, block[0][0], block[-1][0], score, parent=hunk, count=len(block)))
    found = scan([units[index].text for index in blocks], focus)
    for index, relevance, severity in zip(blocks, found.relevance, found.severity, strict=True):
        unit = units[index]
        unit.score += (2.4 * relevance + 0.15 * severity) * min(1.0, unit.score / 0.6 + 0.3)
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    most = max(3, budget // 100)
    listed = sorted(files, key=lambda file: -(file.added + file.removed))[:most]
    head = f"diff: {len(files)} files, +{added} -{removed}"
    if len(files) > 1:
        head += "\n" + "\n".join(file.summary() for file in files if file in listed)
        if len(files) > most:
            head += f"\n… and {len(files) - most} more files"

    return Reading("diff", units, head=head)


def _files(lines: list[str]) -> tuple[list[_File], list[tuple[int, str]]]:
    """Return the files of a diff, and the lines before the first one (a commit message)."""
    files: list[_File] = []
    before: list[tuple[int, str]] = []
    old = ""
    hunk: list[tuple[int, str]] | None = None
    for at, line in enumerate(lines, 1):
        if match := _FILE.match(line):
            files.append(_File(next(part for part in reversed(match.groups()) if part), at))
            hunk = None
        elif (match := _OLD.match(line)) and at < len(lines) and _NEW.match(lines[at]):
            old, hunk = match[1].strip(), None
        elif hunk is None and (match := _NEW.match(line)):
            name = match[1].strip() if match[1].strip() != "/dev/null" else old
            if not files or files[-1].hunks:
                files.append(_File(name, at))
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
        elif not files:
            before.append((at, line))
        elif line.startswith(("rename ", "Binary files", "new file", "deleted file")) and not files[-1].hunks:
            files[-1].note(line if line.startswith("rename") else line.split(" ")[0].lower())
        elif hunk is not None and line:
            hunk = None
    return files, before


def _blocks(lines: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Split a hunk into runs of changed and unchanged lines; a removal and the addition after it stay together."""
    blocks: list[list[tuple[int, str]]] = []
    for at, line in lines:
        changed = line[:1] in ("+", "-")
        if blocks and (blocks[-1][0][1][:1] in ("+", "-")) == changed and len(blocks[-1]) < _LONGEST_BLOCK:
            blocks[-1].append((at, line))
        else:
            blocks.append([(at, line)])
    return blocks
