"""Read a mixed text in parts of one kind: outputs of several commands, JSON after a sentence, stderr at the end.

Cuts only at explicit boundaries: a prompt with a command, `stdout:`, a ruled title, a
file name of `tail`, the beginning or end of a JSON document. A text without such
boundaries is one part.
"""

import re
from dataclasses import dataclass, replace

from tersely.condensing.detect import Reader, detect, kind_of, read_as, readers
from tersely.condensing.equal_units import fold_equal
from tersely.condensing.focus import Focus
from tersely.condensing.merge import merge, moved, put_title
from tersely.condensing.readers import logs, wrapped
from tersely.condensing.units import Reading
from tersely.shapes import json_tree

MOST_PARTS = 60
FEW_PARTS = 4
_SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (("text", ("text", "prose")), ("config", ("config",)))

_TITLE = re.compile(
    r"\n(?=[$%>#=~/.a-zA-Z-])((?:(?:(?!-{1,3}>)[\w.@:~/-]*[$%>]|[\w.-]+@[\w.:~/-]+#|#{2,4}) (?=[a-z])[^\n]{2,300}"
    r"|(?:stdout|stderr|output|stdin|command|result|exit code|return code)\b[^\n:]{0,20}:[^\n{\[]{0,80}"
    r"|(?:kubectl|docker|helm|git|systemctl|journalctl|aws|gcloud|az|oc|curl|terraform) (?!is |has |was "
    r")[a-z][^\n]{2,300}"
    r"|={3,} ?[^=\n]{1,120} ?={3,}|-{3,} [^-\n]{1,120} -{3,}|#{3,} [^#\n]{1,120} #{3,}|==> [^\n]{1,200} <==)"
    r"[ \t]*+)(?![^\n])",
)
"""A line end and the line after it, which is a title."""

_LONGEST_TITLE = 320
_JSON_INSIDE = re.compile(r"\{\s*[\"']|\[\s*[{\[\"]")


@dataclass(frozen=True)
class Part:
    kind: str
    text: str
    line: int
    """The source line on which the part begins, counted from 1."""
    title: str = ""
    """The line above that names the part; empty if there is none."""


def read_any(
    text: str, focus: Focus, budget: int, *, kind: str = "", titles: bool = True, in_section: bool = False
) -> Reading:
    """Read a text of any kind, split into parts, as one reading.

    A section of a longer text is read as the `kind` of the whole, unless it has parts: where a section begins is
    chance, and one that begins with the lines of a document is no document. It is not split at titles if the whole
    text is not.
    """
    content = json_tree.one_string(text)
    if content is not None:
        return wrapped.in_one_string(read_any(content, focus, budget))
    parts = parts_of(text, titles=titles)
    if not parts:
        return Reading("text", [])
    if kind and len(parts) == 1:
        parts = [replace(parts[0], kind=kind)]
    readings = [_read_part(part, focus, budget, in_section=in_section) for part in parts]
    return readings[0] if len(readings) == 1 else merge(readings)


def _read_part(part: Part, focus: Focus, budget: int, *, in_section: bool) -> Reading:
    may_repeat = readers()[part.kind].may_repeat
    repeats = may_repeat and logs.mostly_repeats(part.text, part.kind)
    reading = read_as("log" if repeats else part.kind, part.text, focus, budget)
    fold_equal(reading, part.text, in_section=in_section)
    reading.span = 1, part.text.count("\n") + (not part.text.endswith("\n"))
    if part.line > 1:
        moved(reading, lambda line: line + part.line - 1)
    if part.title:
        put_title(reading, part.title, part.line - 1)
    return reading


def parts_of(text: str, *, titles: bool = True) -> list[Part]:
    whole = detect(text)
    if whole.splits_at == "nothing" or (whole.splits_at == "files" and "\n==> " not in text):
        return [Part(whole.kind, text, 1, "")]
    parts: list[Part] = []
    line = 1
    for title, body in _titled(text) if titles else [("", text)]:
        if title:
            line += 1
        offset = 0
        for kind, piece in _by_kind(body, whole if body is text else None):
            if piece.strip():
                # Blank lines before the next title separate the parts.
                parts.append(Part(kind, piece.rstrip() if title else piece, line + body.count("\n", 0, offset), title))
            offset += len(piece)
        if title and not body.strip():
            parts.append(Part("text", "", line, title))
        line += body.count("\n")
    if len(parts) > FEW_PARTS and "\n==> " not in text:
        for kind, alike in _SECTIONS:
            if sum(len(part.text) for part in parts if part.kind in alike) > 0.7 * len(text):
                # Sections of one text, not outputs of several commands: their lines are compared with each other.
                return [Part(kind, text, 1, "")]
    return parts


def is_split_at_titles(text: str) -> bool:
    """Whether lines of the text are titles of its parts."""
    return len(_titled(text)) > 1


def _titled(text: str) -> list[tuple[str, str]]:
    """Return pairs of a title line (possibly empty) and the text below it."""
    titles: list[tuple[int, int]] = []
    lines = f"\n{text}"
    for found in _TITLE.finditer(lines):
        if len(found[1]) < _LONGEST_TITLE:
            titles.append((found.start(), found.end() - 1))
            if len(titles) > MOST_PARTS:
                return [("", text)]  # With so many "titles" they are the text itself.
    headings = sum(lines.count(f"\n{signs} ") for signs in ("##", "###", "####"))
    headings -= sum(text.startswith(("## ", "### ", "#### "), start) for start, _ in titles)
    if headings >= 3:
        # Most of them do not name a command, so none of them does.
        titles = [(start, end) for start, end in titles if text[start] != "#"]
    if not titles:
        return [("", text)]
    pairs: list[tuple[str, str]] = []
    if titles[0][0] > 0:
        pairs.append(("", text[: titles[0][0]]))
    for (start, end), following in zip(titles, [*titles[1:], None], strict=True):
        body = text[end + 1 : following[0] if following else len(text)]
        pairs.append((text[start:end].rstrip(), body))
    # Titles with hardly a line between them are lines of a log or a script that look like titles.
    if len(pairs) > 8 and sum(1 for _, body in pairs if body.count("\n") <= 2) > len(pairs) / 2:
        return [("", text)]
    return pairs


def _by_kind(text: str, known: Reader | None) -> list[tuple[str, str]]:
    """Separate JSON documents from the text around them; `known` saves detecting the whole."""
    found: list[tuple[str, str]] = []
    rest = text
    for _ in range(6):
        reader, known = known or detect(rest), None
        if reader.kind == "json":
            end = json_tree.end_of(rest)
            if end >= 0.97 * len(rest.rstrip()) or len(rest) - end < 20:
                found.append(("json", rest))
                return found
            if end > 100:
                found.append(("json", rest[:end]))
                rest = rest[end:]
                continue
            reader = detect(rest, json=False)
        if reader.holds_json and (begin := _json_begins(rest)):
            at, end = begin
            found.append((kind_of(rest[:at]), rest[:at]))
            found.append(("json", rest[at:end]))
            rest = rest[end:]
            if not rest.strip():
                return found
            continue
        found.append((reader.kind, rest))
        return found
    found.append((kind_of(rest), rest))
    return found


def _json_begins(text: str) -> tuple[int, int] | None:
    """Return start and end of a larger JSON document inside other text."""
    places = sorted(at + len(sign) - 1 for sign in ("\n{", "\n[", ": {", ": [") if (at := text.find(sign)) >= 0)
    for start in places:
        if not _JSON_INSIDE.match(text, start):
            continue
        end = json_tree.end_of(text, start)
        size = end - start
        if size > 300 and size > 0.2 * len(text) and (size > 0.5 * len(text) or "\n" in text[start:end].strip()):
            return start, end
    return None
