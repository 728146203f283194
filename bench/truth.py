"""Search condensed texts for statements that are not so.

    python -m bench.truth                      the yardstick's texts and the generator's
    python -m bench.truth --only t6/git        texts whose name contains this
    python -m bench.truth --show 3             so many examples of each class
    python -m bench.truth --files DIR          every text file below a folder instead of them
    python -m bench.truth --smoke              a few texts

Each class of statement is recomputed from the source alone: the account, gaps and their sizes, counts, time ranges,
days of times, quoted lines and their order, outcomes of tests, values of JSON and XML at their paths and the counts of
them, equal lines, marks at small budgets, the use of the budget. What is derived from the account (the closing line,
notes of gateway and hooks, `--explain`, marks of the dashboard) is compared with it.
Longer texts are checked once more, read in sections as very long ones are, and texts of many thousand lines beside
those of the yardstick and the generator. Exits with an error if one is wrong. The yardstick is in a folder `shared`
beside the repository; if it is missing, the command says so and uses the other texts only.
"""

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from html import unescape
from itertools import chain, islice
from pathlib import Path

from bench import truth_marks, truth_trees, truth_views
from bench.arguments import parser
from bench.condense import find_yardstick
from bench.generator.cases import all_shapes, draw
from bench.long_texts import long_texts
from tersely.condensing.account import Account, source_lines
from tersely.condensing.budget import Condensed
from tersely.condensing.hedge import OTHER_LINES
from tersely.condensing.readers.preamble import TIME
from tersely.condensing.readers.wrapped import IN_ONE_STRING
from tersely.condensing.segments import parts_of
from tersely.condensing.structural import cleaned, condense_structurally
from tersely.condensing.templates import SAME_BUT_VALUES

BUDGETS = (300, 1000)
TREES = frozenset(("json", "jsonl", "json_cut", "xml", "html", "page", "notebook", "mixed"))
"""Kinds that are laid out anew, so that their lines are not compared with those of the source."""
GROUPED = frozenset(("grep", "findings", "blame"))
"""Kinds whose lines are shown below what several of them begin with."""
OWN_QUESTIONS = ("", "Which of them failed, and why?", "How do I book a ferry to Heligoland?")
SECTIONS = 4
LEAST_IN_SECTIONS = 12_000
"""Characters; shorter texts are checked as a whole only."""
SHORTEST_LOST = 4
"""Letters and digits; what is shown of a shorter line may be any other."""
LEAST_LOST = 400
"""Characters; less than this may be lost although there is room, because each line would be cut."""

_SIZED_MARK = re.compile(r"\[… ([\d,]+) lines\]$")
_NUMBERED_MARK = re.compile(r"…(\d+)")
_MARKS = re.compile(r"…|\[\d[\d,]* of \d|\[left out:|^\[from part ")
_OWN_LINE = re.compile(r"\[.*\]$|\s*…\d*$|… and \d+ more files$|\S.* \+\d+ -\d+(?: \(\w+\))?$|[\w.\[\]]+(?: \(.*\))?:$")
"""Marks, counts in brackets, the summary of a changed file, the path to a text inside another."""
_NUMBER = re.compile(r"^ *\d+[:-] ?")
_ALSO = r" \(also (?:[^()]|\([^()]*\))*\)"
_ENDING = re.compile(rf"(?: ×\d[\d,]*|{_ALSO}| \[[^\[\]]*\])+$")
_TIMES = re.compile(rf" ×(\d[\d,]*)(?:{_ALSO})?(?: \[[^\[\]]*\])?$")
_SHARE = re.compile(r"\[(\d[\d,]*) of (\d[\d,]*)\]")
_SHARE_AT_END = re.compile(r" \[(\d[\d,]*) of (\d[\d,]*)\]$")
_RANGE = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\S* – (\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_ZONE = re.compile(_STAMP.pattern + r"[\d.,]*(Z|[+-]\d\d:?\d\d)")
_CELL_END = re.compile(r"[ ,;|│]+")
_CUT_BLOB = re.compile(r"([\w+/=-]{24})\[… ([\d,]+) characters\]")
_PART = re.compile(r"^\[from part \d+ of \d+(?:: lines ([\d,]+)–([\d,]+))?\]$", re.M)
_SKIPPED = re.compile(r"(?:^|\n)\[… ([\d,]+) lines\]$")
"""The mark of the parts before the next title."""
_COUNTED_LINES = re.compile(r"\[?(\d+) lines; ")
_PATH = re.compile(r"^[^\s:(]+[:(]|^\w+ \(.*?\)")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:[\s/][^<>]*)?>|<![^<>]*>")
_SIGNS = re.compile(r"[\W_]+")
_RETURN = "&#xD;"
"""In XML a carriage return that is shown as it is written."""
_OWN_SIGNS = re.compile(
    r"^\s*\[… .* lines\]$| ×\d+$| \[\d+ of \d+\]$|\[… \d+ lines\]$|^\[left out:|^\[from part |^\[\d+ lines; "
    r"|^\[no line contains "
)
_TIME_OF_DAY = re.compile(r" \[(\d\d:\d\d:\d\d)(?:–\d\d:\d\d:\d\d)?\]$")
_LEVELS = re.compile(r"; ((?:[A-Za-z]+ \d+ ?){2,})(?:;|$)")
ORDERED = frozenset(("table", "csv", "log", "text", "test_run"))
"""Kinds whose lines are shown in the order of the source."""


@dataclass(frozen=True)
class Text:
    name: str
    text: str
    focus: str
    section: int = 0
    """Characters of the sections in which it is read, as very long texts are; 0 to read it as a whole."""


@dataclass(frozen=True)
class Finding:
    kind: str
    """Class of the wrong statement."""
    where: str
    what: str


def yardstick_texts() -> Iterator[Text]:
    path = find_yardstick()
    if path is None:
        print("There is no folder `shared/yardstick` beside the repository; only generated texts are checked.")
        return
    data = path.parent / "data" / "dev"
    for packed in sorted(data.glob("*/cases.jsonl.gz")):
        with gzip.open(packed, "rt", encoding="utf-8") as lines:
            seen: dict[str, str] = {}
            for line in lines:
                case = json.loads(line)
                text = seen.setdefault(case["id"], case["text"]) if "text" in case else seen[case["text_of"]]
                yield Text(f"{packed.parent.name}/{case['id']}", text, case["focus"])
    for file in sorted(data.rglob("*")):
        if file.is_file() and file.suffix != ".gz" and file.name != "cases.yaml" and file.stat().st_size < 300_000:
            text = file.read_text(encoding="utf-8", errors="replace")
            yield Text(str(file.relative_to(data)), text, "What went wrong?")


def texts_below(folder: Path) -> Iterator[Text]:
    """Yield the text files below a folder, each without a question, with a fitting one and with an unrelated one."""
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or b"\0" in (content := file.read_bytes())[:4096]:
            continue
        text = content.decode(errors="replace")  # Line ends stay as they are.
        for focus in OWN_QUESTIONS:
            yield Text(str(file.relative_to(folder)), text, focus)


def generated_texts() -> Iterator[Text]:
    for at, (shape, ask) in enumerate(all_shapes()):
        case = draw(shape, ask, at % 3, 12_000)
        yield Text(f"generated/{case.id}", case.text, case.focus)


def repeating_texts() -> Iterator[Text]:
    for name, text in truth_marks.repeating_texts():
        yield Text(f"repeating/{name}", text, "")


def texts_of_many_lines() -> Iterator[Text]:
    for at, (name, text) in enumerate(long_texts()):
        yield Text(f"long/{name}", text, "" if at % 2 else "Which of them failed, and why?")


def in_sections(texts: Iterable[Text]) -> Iterator[Text]:
    """Yield the longer texts once more, to be read in a few sections."""
    for text in texts:
        if len(text.text) >= LEAST_IN_SECTIONS:
            yield replace(text, name=f"sections/{text.name}", section=len(text.text) // SECTIONS + 1)


def without_quoted_marks(condensed: Condensed, lines: list[str]) -> Condensed:
    """Remove shown lines that are lines of the source and look like statements of the condenser."""
    quoted = {" ".join(line.split()) for line in lines if _OWN_SIGNS.search(line)}
    if not quoted:
        return condensed
    shown = [line for line in condensed.text.split("\n") if " ".join(line.split()) not in quoted]
    return replace(condensed, text="\n".join(shown))


def findings_in(text: Text, budget: int) -> Iterator[Finding]:
    """Yield every statement about one condensed text that is not so."""
    condensed = condense_structurally(text.text, budget, text.focus, section=text.section)
    lines = source_lines(text.text if condensed.text == text.text else cleaned(text.text))
    where = f"{text.name} @{budget} ({condensed.kind})"
    checks = [
        wrong_account(condensed, lines),
        wrong_line_numbers(condensed, lines),
        wrong_skips(without_quoted_marks(condensed, lines)),
        truth_views.wrong_views(condensed, text.text, budget, text.focus),
        unused_budget(condensed, lines, budget),
        wrong_blob_sizes(condensed, text.text),
        wrong_absences(without_quoted_marks(condensed, lines), lines),
    ]
    if budget == BUDGETS[0]:
        checks.append(truth_marks.texts_without_marks(text.text, text.focus, text.section))
    for said, about in _by_part(without_quoted_marks(condensed, lines), lines):
        checks += [
            wrong_counts(said, about),
            wrong_counts_of_names(said, about, text.focus),
            wrong_times(said, about),
            wrong_totals(said, about),
            wrong_levels(said, about),
            times_without_days(said, about),
            wrong_order(said, about),
            unmarked_gaps(said, about),
            wrong_gap_sizes(said, about),
            unknown_lines(said, about),
            repeated_lines(said, about),
            truth_marks.unfolded_lines(said, about),
            wrong_values(said, "\n".join(about)),
        ]
    for check in checks:
        for kind, what in check:
            yield Finding(kind, where, what)


def _by_part(condensed: Condensed, lines: list[str]) -> Iterator[tuple[Condensed, list[str]]]:
    """Yield what is said about the whole text, then what is said about each part, with the lines that it is about.

    A part that is not whole lines has none: what is said about it is not checked.
    """
    titles = list(_PART.finditer(condensed.text))
    if not titles:
        yield condensed, lines
        return
    yield replace(condensed, text=_SKIPPED.sub("", condensed.text[: titles[0].start()].rstrip("\n"))), lines
    ends = [title.start() for title in titles[1:]] + [len(condensed.text)]
    for title, end in zip(titles, ends, strict=True):
        if title[1] is None:
            continue
        first, last = (int(number.replace(",", "")) for number in title.groups())
        about = lines[first - 1 : last]
        text = condensed.text[title.end() + 1 : end].removesuffix(condensed.closing).rstrip("\n")
        lost = tuple((max(a, first) - first + 1, min(b, last) - first + 1) for a, b in condensed.account.lost
                     if a <= last and b >= first)  # fmt: skip
        text = _SKIPPED.sub("", text)
        parts = parts_of("\n".join(about))
        kind = parts[0].kind if len(parts) == 1 and not parts[0].title else "mixed"
        kind = "mixed" if condensed.kind in TREES else kind  # Pieces of a document, whatever they look like.
        yield replace(condensed, text=text, kind=kind, account=Account(lost=lost)), about


def wrong_account(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Every line is in one list exactly; what is shown is in the text, and what is lost is not."""
    account = condensed.account
    seen = Counter(at for runs in _lists(account) for first, last in runs for at in range(first, last + 1))
    if account.total != len(lines) or len(seen) != len(lines) or any(times != 1 for times in seen.values()):
        yield "the account does not add up", f"{account.total} of {len(lines)}"
        return
    output = _bare(_PART.sub("", condensed.text))  # A line may go on in the next part.
    by_path = condensed.kind in GROUPED
    if condensed.kind in ("html", "page"):
        lines = [unescape(_TAG.sub(" ", line)) for line in lines]  # What a browser shows of a line.
    whole = Counter(_bare(line) for line in condensed.text.split("\n") if "…" not in line)
    times = Counter(map(_bare, lines))
    for at in _numbers(account.shown):
        shown = _PATH.sub("", lines[at - 1]) if by_path else lines[at - 1]
        if (own := _bare(shown)) and own not in output:
            yield "said to be shown and is not", lines[at - 1]
    for at in _numbers(account.lost):
        own = _bare(lines[at - 1])
        if len(own) >= SHORTEST_LOST and times[own] == 1 and whole[own]:
            yield "said to be lost and is shown", lines[at - 1]


def wrong_absences(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """No line has a word of which the text says that no line contains it."""
    for statement in re.findall(r"^\[no line contains (.*)\]$", condensed.text, re.M):
        for word in re.findall(r'"([^"]+)"', statement):
            for line in lines:
                if word.lower() in line.lower():
                    yield "said to be in no line", f"{word}: {line}"
                    break


def wrong_counts(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """`line ×N` stands for N lines that are equal up to values; `[k of n]` counts what is shown and what there is."""
    for part, whole in _SHARE.findall(condensed.text):
        if int(part.replace(",", "")) > int(whole.replace(",", "")):
            yield "more shown than there are", f"[{part} of {whole}]"
    if condensed.kind in ("table", "csv"):
        yield from wrong_rows(condensed, lines)
        yield from rows_as_headers(condensed, lines)
    if condensed.kind == "grep":
        yield from wrong_matches(condensed, lines)
    if condensed.kind in TREES or condensed.kind in ("table", "json_lines"):
        return
    masked: list[str] = []
    for line in condensed.text.split("\n"):
        found = _TIMES.search(line)
        if found is None or _OWN_LINE.match(line):
            continue
        masked = masked or [_masked(each) for each in lines]
        piece = _masked(max(line[: found.start()].split("…"), key=len))
        equal = sum(1 for each in masked if piece in each)
        if equal < int(found[1].replace(",", "")):
            yield "counted more often than it occurs", f"{line} (occurs {equal} times)"


def wrong_counts_of_names(condensed: Condensed, lines: list[str], focus: str) -> Iterator[tuple[str, str]]:
    """`line ×N` with a name of the question, which has a digit, stands for N lines that have this name."""
    names = {word.lower() for word in re.findall(r"[\w.:/-]*\d[\w.:/-]*\w", focus)}
    if not names or condensed.kind not in ("log", "json_lines"):
        return
    for line in condensed.text.split("\n"):
        found = _TIMES.search(line)
        if found is None:
            continue
        for name in names:
            whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
            if whole.search(line[: found.start()].lower()):
                having = sum(1 for each in lines if whole.search(each.lower()))
                if having < int(found[1].replace(",", "")):
                    yield "counts lines without the name that it shows", f"{line} ({name} is in {having} lines)"


def wrong_rows(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """`header [k of n]` stands above k of the n rows that follow the header in the source."""
    if any(line.count('"') % 2 for line in lines):
        return  # Rows of several lines.
    # Comments are no rows; where every row begins with such a sign, none is a comment.
    comments = {_bare(line) for line in lines if line.lstrip().startswith("# ")}
    comments = comments if len(comments) < 0.2 * len(lines) else set()
    shown = [line for line in condensed.text.split("\n") if _bare(line) not in comments]
    lines = [line for line in lines if _bare(line) not in comments]
    counted = [(at, found) for at, line in enumerate(shown) if (found := _SHARE_AT_END.search(line))]
    places: dict[str, int] = {}
    for at, line in enumerate(lines):
        places.setdefault(_bare(line), at)
    for index, (at, found) in enumerate(counted):
        end = counted[index + 1][0] if index + 1 < len(counted) else len(shown)
        header = shown[at][: found.start()]
        start = places.get(_bare(header))
        if start is None:
            continue  # Only some of its columns are shown.
        part, whole = (int(number.replace(",", "")) for number in found.groups())
        rows = Counter(list(filter(None, map(_bare, lines[start + 1 :])))[:whole])
        exact = in_part = 0
        for line in shown[at + 1 : end]:
            if _OWN_LINE.match(line):
                continue
            if rows[own := _bare(line)] > 0:
                rows[own] -= 1
                exact += 1
            elif "…" in line:
                pieces = list(map(_bare, line.split("…")))
                in_part += any(all(piece in row for piece in pieces) for row in rows)
        if not exact <= part <= exact + in_part:
            yield "rows counted otherwise than shown", f"{shown[at]} (shown: {exact + in_part})"


def rows_as_headers(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """`header [k of n]` has no word that recurs at its place in the rows below: such a line is a row itself."""
    bare_lines = [" ".join(line.split()) for line in lines]
    for line in condensed.text.split("\n"):
        found = _SHARE_AT_END.search(line)
        header = " ".join(line[: found.start()].split()) if found is not None else ""
        if not header or header not in bare_lines or header.endswith(":"):
            continue
        at = bare_lines.index(header) + 1
        below = [row for row in bare_lines[at : at + 40] if row != header]
        key, colon, _ = header.partition(": ")
        if colon and all(row.startswith(key + colon) for row in below):
            # All lines begin with the same key, which is no cell.
            header, below = header[len(key + colon) :], [row[len(key + colon) :] for row in below]
        rows = [_CELL_END.split(row) for row in below]
        for place, word in enumerate(_CELL_END.split(header)):
            recurs = sum(1 for row in rows if place < len(row) and row[place] == word)
            if any(map(str.isalnum, word)) and len(rows) > 4 and recurs > 0.25 * len(rows):
                yield "a row shown as a header", f"{line} ({word} recurs {recurs} times)"
                break


def wrong_matches(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """`path [k of n]` stands above k matches in this file, of n in the source."""
    path, said, below = "", None, 0
    for line in [*condensed.text.split("\n"), ""]:
        found = _SHARE_AT_END.search(line)
        if line[:1] == " " or (path and line.startswith(path) and found is None):
            times = _TIMES.search(line)
            below += int(times[1].replace(",", "")) if times is not None else 1
        elif not _OWN_LINE.match(line) or found is not None:
            if said is not None and int(said[1].replace(",", "")) != below:
                yield "rows counted otherwise than shown", f"{path} {said[0]} (shown: {below})"
            path, said, below = (line[: found.start()], found, 0) if found is not None else ("", None, 0)


def wrong_times(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """A range in the head goes from the earliest to the latest time at the beginning of a line."""
    found = _RANGE.search(condensed.text.split("\n", 1)[0])
    if found is None:
        return
    if len({zone[1] for line in lines if (zone := _ZONE.match(line.lstrip("[(")))}) > 1:
        return  # Times of several zones are not compared as texts.
    times = [stamp[0].replace("T", " ") for line in lines if (stamp := _STAMP.match(line.lstrip("[("), 0, 30))]
    first, last = found[1].replace("T", " "), found[2].replace("T", " ")
    if times and (min(times) < first or max(times) > last):
        yield "times outside of the range", f"{found[0]}; really {min(times)} – {max(times)}"


def wrong_levels(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """`INFO 1372 ERROR 68` in the head of a log counts each line at most once."""
    head = condensed.text.split("\n", 1)[0]
    found = _LEVELS.search(head) if condensed.kind == "log" else None
    if found is not None and sum(map(int, found[1].split()[1::2])) > len(lines):
        yield "more levels than lines", head


def times_without_days(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Lines of a log of several days have times with their day."""
    if condensed.kind != "log":
        return
    days = {stamp[0][:10] for line in lines if (stamp := _STAMP.match(line.lstrip("[("), 0, 30))}
    for line in condensed.text.split("\n") if len(days) > 1 else ():
        if _TIME_OF_DAY.search(line) and line not in lines:
            yield "a time without its day", line


def wrong_order(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Whole lines are shown in the order of the source."""
    if condensed.kind not in ORDERED:
        return
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        places[" ".join(line.split())].append(number)
    before = 0
    for line in condensed.text.partition(OTHER_LINES)[0].split("\n"):
        stands = places.get(" ".join(line.split()), ())
        if len(stands) == 1 and len(line) >= 8:
            if stands[0] < before:
                yield "lines in another order", f"line {stands[0]} after line {before}: {line}"
            before = stands[0]


def wrong_totals(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """The head is about the whole text; what is about one section stands below a title that says so."""
    if condensed.kind in TREES:
        return  # It may be about the lines of a text inside.
    if condensed.text.startswith(IN_ONE_STRING):
        lines = source_lines(cleaned(json.loads("\n".join(lines))))
    filled = sum(1 for line in lines if line.strip())
    for line in condensed.text.split("\n"):
        found = _COUNTED_LINES.match(line)
        if found is not None and line not in lines and int(found[1]) not in (len(lines), filled):
            yield "counted lines that are not all", f"{line[:80]} (there are {len(lines)})"


def unmarked_gaps(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Between two shown lines with lost ones between them there is a mark."""
    if condensed.kind in TREES:
        return
    lost = set(_numbers(condensed.account.lost))
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        if len(own := _bare(line)) >= 6:
            places[own].append(number)
    before, marked = 0, True
    for line in condensed.text.split("\n"):
        marked = marked or bool(_MARKS.search(line))
        stands = places.get(_bare(_ENDING.sub("", line)), [])
        if len(stands) != 1:
            continue
        hidden = [at for at in range(before + 1, stands[0]) if at in lost and _bare(lines[at - 1])]
        if before and hidden and not marked:
            yield "gap without a mark", f"lines {hidden[0]}–{hidden[-1]}: {lines[hidden[0] - 1]}"
        before, marked = stands[0], bool(_MARKS.search(line))


def wrong_gap_sizes(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """`[… N lines]` between two lines of the source counts the lost lines between them."""
    if condensed.kind in TREES:
        return
    hidden = [False] * (len(lines) + 2)
    for at in _numbers(condensed.account.lost):
        hidden[at] = True
    shown = condensed.text.removesuffix(condensed.closing).rstrip("\n").split("\n")
    place = _places_by_ending(lines)
    said = 0
    for at, line in enumerate(shown):
        mark = _SIZED_MARK.match(line)
        if mark is None:
            continue
        size = int(mark[1].replace(",", ""))
        said += size
        start = 0 if at == 0 else place(shown[at - 1])
        end = len(lines) + 1 if at == len(shown) - 1 else place(shown[at + 1])
        if start is None or end is None:
            continue
        really = sum(hidden[start + 1 : end])
        if start < end and size != really:
            yield "a gap of another size", f"{line} between lines {start} and {end}, where {really} are lost"
    if said > sum(hidden):
        yield "a gap of another size", f"marks count {said} lines, {sum(hidden)} are lost"


def wrong_skips(condensed: Condensed) -> Iterator[tuple[str, str]]:
    """`[… N lines]` above the title of a part counts the lines of the parts before it that are not shown."""
    before = 0
    for title in _PART.finditer(condensed.text):
        if title[1] is None:
            return
        first, last = (int(number.replace(",", "")) for number in title.groups())
        mark = _SKIPPED.search(condensed.text[: title.start()].rstrip("\n"))
        said = int(mark[1].replace(",", "")) if mark is not None else 0
        skipped = first - before - 1
        if said != skipped and (skipped > 1 or (said and not before)):
            yield "a gap of another size", f"{said} lines before {title[0]}, after line {before}"
        before = last


def _places_by_ending(lines: list[str]) -> Callable[[str], int | None]:
    """Return a function from a shown line to the number of the only line of the source that ends with it."""
    size = 8
    ends: dict[str, list[int]] = defaultdict(list)
    bare = list(map(_bare, lines))
    for at, own in enumerate(bare):
        ends[own[-size:]].append(at)

    def place(line: str) -> int | None:
        own = _bare(_ENDING.sub("", line))
        if len(own) < size or "…" in line or _OWN_LINE.match(line):
            return None
        found = [at for at in ends.get(own[-size:], ()) if bare[at].endswith(own)]
        return found[0] + 1 if len(found) == 1 else None

    return place


def unknown_lines(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Every line that is not ours consists of pieces of one line of the source."""
    if condensed.kind in TREES or condensed.kind in ("table", "json_lines", "prose", "dialogue"):
        return
    source = "\n".join(" ".join(line.split()) for line in lines)
    if condensed.kind == "yaml":
        source += "\n" + source.replace("'", "").replace('"', "")  # A value may be shown without its quotes.
    by_words: list[str] | None = None
    for number, line in enumerate(condensed.text.split("\n")):
        shown = " ".join(_ENDING.sub("", line.removesuffix(" …")).split())
        if condensed.kind in GROUPED:
            shown = _NUMBER.sub("", shown)
        if not shown or _OWN_LINE.match(line) or shown in source or line == condensed.closing:
            continue
        by_words = by_words if by_words is not None else source.split("\n")
        pieces = [piece.strip() for piece in re.split(r"\[… [\d,]+ characters\]|…|\[…\]", shown)]
        if not any(all(piece in own for piece in pieces) for own in by_words) and number > 4:
            yield "a line that is not in the source", line


def repeated_lines(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """A line is not shown more often than it occurs; below "other lines" it may be once more, as an owner."""
    if condensed.kind in TREES or condensed.kind in GROUPED:
        return
    above = condensed.text.partition(OTHER_LINES)[0]
    shown = Counter(own for line in above.split("\n") if len(own := " ".join(line.split())) >= 8)
    often = {own: times for own, times in shown.items() if times > 1 and "…" not in own and not _OWN_LINE.match(own)}
    if often:
        source = Counter(" ".join(line.split()) for line in lines)
        for own, times in often.items():
            if 0 < source[own] < times:
                yield "shown more often than it occurs", f"{own} (occurs {source[own]} times)"


def wrong_blob_sizes(condensed: Condensed, source: str) -> Iterator[tuple[str, str]]:
    """`QUJDRE…[… N characters]` stands for a word of the source with N more characters."""
    for begin, size in _CUT_BLOB.findall(condensed.text):
        whole = len(begin) + int(size.replace(",", ""))
        words = re.findall(rf"(?<![A-Za-z0-9+/=_-]){re.escape(begin)}[A-Za-z0-9+/=_-]*", source)
        if whole not in map(len, words) and not condensed.text.startswith(IN_ONE_STRING):
            yield "a gap of another size", f"{begin}[… {size} characters]"


def wrong_line_numbers(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """The lines of source code after a mark with a number are those of the source from there on, blank ones too."""
    at: int | None = None
    for line in condensed.text.split("\n") if condensed.kind == "code" else ():
        if (mark := _NUMBERED_MARK.fullmatch(line)) is not None:
            at = int(mark[1])
        elif at is not None and at <= len(lines) and lines[at - 1].rstrip() == line.rstrip():
            at += 1
        else:
            if at is not None and "…" not in line and not _PART.match(line) and line != condensed.closing:
                yield "a line with a wrong number", f"{at}: {line}"
            at = None


def wrong_values(condensed: Condensed, source: str) -> Iterator[tuple[str, str]]:
    """Every value of JSON and XML is in the source at its path; counts of values are those of all records."""
    parse = {"json": truth_trees.of_json, "xml": truth_trees.of_xml}.get(condensed.kind)
    root = parse(source.replace(_RETURN, "")) if parse is not None else None
    if root is None:
        return
    for line in truth_trees.unknown_values(condensed.text.replace(_RETURN, ""), root):
        if line.strip() not in source:  # Lines that fill the budget are shown as they are written.
            yield "a value that is not at its path", line
    for line in truth_trees.unmarked_outcomes(condensed.text, root):
        yield "a failure shown without its outcome", line
    for line in truth_trees.wrong_value_counts(condensed.text, root):
        yield "values counted otherwise than in the source", line


def unused_budget(condensed: Condensed, lines: list[str], budget: int) -> Iterator[tuple[str, str]]:
    if condensed.kind in ("page", "html"):
        return  # Menus, links and advertisements are left out at any budget.
    lost = sum(len(lines[at - 1]) for at in _numbers(condensed.account.lost))
    if condensed.tokens_after < 0.7 * budget and lost > LEAST_LOST:
        yield "budget left although text is lost", f"{condensed.tokens_after} tokens, {lost} characters lost"


def _lists(account: Account) -> Iterable[tuple[tuple[int, int], ...]]:
    return account.shown, account.partial, account.folded, account.lost


def _numbers(runs: tuple[tuple[int, int], ...]) -> Iterator[int]:
    return (at for first, last in runs for at in range(first, last + 1))


def _bare(text: str) -> str:
    return _SIGNS.sub("", text)


def _masked(text: str) -> str:
    return SAME_BUT_VALUES.sub("#", TIME.sub("#", " ".join(text.split())))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="", metavar="NAME", help="texts whose name contains this")
    options.add_argument("--files", type=Path, metavar="DIR", help="check the text files below this folder instead")
    options.add_argument("--show", type=int, default=1, metavar="N", help="examples of each class")
    chosen = options.parse_args()
    every = 60 if chosen.smoke else 1
    own = chain(repeating_texts(), yardstick_texts(), generated_texts())
    whole = list(texts_below(chosen.files) if chosen.files else own)
    others = [] if chosen.files else texts_of_many_lines()
    named = (text for text in chain(whole, in_sections(whole), others) if chosen.only in text.name)
    checked = 0
    found: dict[str, set[str]] = defaultdict(set)
    times: Counter[str] = Counter()
    for text in islice(named, 0, None, every):
        checked += 1
        for finding in chain.from_iterable(findings_in(text, budget) for budget in BUDGETS):
            times[finding.kind] += 1
            found[finding.kind].add(finding.where)
            if times[finding.kind] <= chosen.show:
                print(f"{finding.kind}: {finding.where}: {finding.what[:160]}", flush=True)
    for kind, places in sorted(found.items()):
        print(f"{times[kind]:>6} {kind} ({len(places)} outputs)")
    budgets = " and ".join(map(str, BUDGETS))
    print(f"{checked} texts at {budgets} tokens, {times.total()} wrong statements.")
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
