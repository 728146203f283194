"""What kind of text this is, from a sample of its lines.

Cheap and careful: a kind is only named on good grounds, because a reader of the
wrong kind does worse than the generic one. The readers look again at the whole
text and may still decline.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import Literal

from tersely.condensing.logs import looks_repetitive, looks_timed
from tersely.condensing.pages import looks_like_page

Kind = Literal[
    "json",
    "json_cut",
    "jsonl",
    "yaml",
    "xml",
    "html",
    "csv",
    "table",
    "outline",
    "metrics",
    "log",
    "grep",
    "diff",
    "dialogue",
    "page",
    "prose",
    "text",
]

SAMPLE_LINES = 400
LONGEST_SAMPLED = 2_000
"""What a line is shows in its beginning; patterns with several repeats stay cheap on it."""

_JSON_START = re.compile(
    r"\s*(?:\{\s*(?:[\"'}]|\w+\s*:)|\[\s*(?:[{\[\"\]]|-?\d+(?:\.\d+)?\s*[,\]]|(?:true|false|null)\s*[,\]]))"
)
_JSON_LINE = re.compile(r'\s*(?:"[^"]{1,120}"\s*:\s*(?:"|[\d{\[-]|true|false|null)|[}\]]+,?\s*$|[{\[]\s*$|\}, ?\{$)')
_JSON_FIELD = re.compile(r'(?<=[{,\s])"[^"\n]{1,60}"\s*:\s*["\d{\[tfn-]')
_OBJECT_BEHIND = re.compile(r"[^{}\"']{1,160}\s\{\"[^\"]{1,120}\"\s*:(?:.*\}\s*$|.{1500})")
"""Who wrote it, then an object, as the logs of several sources are shown together."""

_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?"
_DAY = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ](?:\d{1,2}|[A-Z][a-z]{2})[-/. ]\d{2,4}|(?:[A-Z][a-z]{2},? "
    r")?[A-Z][a-z]{2} +\d{1,2}"
)
_TIME_START = re.compile(
    rf"[\[(<]?(?:(?:{_DAY})[T ,:_-]+(?:\d{{4}} +)?{_CLOCK}|{_CLOCK}[.,:]\d+|{_CLOCK}\b"
    rf"|\d{{8}}[ T-]{_CLOCK}|\d{{10,13}}(?:\.\d+)?\b|[IWEF]\d{{4}} {_CLOCK}| {{0,8}}\d{{1,8}}\.\d{{6}}\])"
)
_TIME_INSIDE = re.compile(
    rf"(?:{_DAY})[T ,:_-]+(?:\d{{4}} +)?{_CLOCK}|\b{_CLOCK}[.,]\d{{3}}\b|\b\d\d:\d\d:\d\d\b|\b1\d{{9}}(?:\d{{3}})?\b"
)
_LEVEL = re.compile(
    r"(?<![\w.-])(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRIT(?:ICAL)?|SEVERE|PANIC)(?![\w-])|\blevel=\w+|\[(?:info|warn|error|debug|notice)\]"
)
_FRAME = re.compile(r"\s+at [\w$.<>]+\(|\s*File \"[^\"]+\", line \d+|\s+\.\.\. \d+ more|Caused by: |Traceback ")
_GREP = re.compile(r"(?:\.{0,2}/)?[\w.@+-]+(?:/[\w.@ +-]+)*\.?[\w-]*[:-]\d+[:-](?!\d\d[:.,])")
_GREP_PATH = re.compile(
    r"(?:\.{0,2}/)?(?:[\w.@+-]+/)+[\w.@+-]+(?::\d+)?:|[\w-]+\.(?:py|go|js|ts|java|c|h|cpp|rs|rb|md|txt|ya?ml|json|sh|cfg|toml|xml|html|css|tsx|jsx|kt|php|cs):\d+:"
)
_DIFF = re.compile(r"^(?:diff --git |@@ -\d+(?:,\d+)? \+\d+|--- \S.*\n\+\+\+ \S)", re.M)
_METRIC = re.compile(
    r"# (?:HELP|TYPE|UNIT|EOF)\b|[a-zA-Z_:][\w:.]*(?:\{[^}]*\})?\s+(?:[-+]?(?:\d[\d.eE+-]*|Inf)|NaN)(?:\s+\d+)?\s*$"
)
_KEY_LINE = re.compile(r"\s*(?:- +)*(?:[\"']?[A-Za-z_/.$<*0-9][^:\"'#{}\[\]]{0,80}[\"']?)\s*:(?:\s|$)")
_ITEM_LINE = re.compile(r"\s*[-*•+–] \S|\s*-$")
_SECTION = re.compile(r"\s*\[[^\]]{1,80}\]\s*$")
_ASSIGN = re.compile(r"\s*[A-Za-z_][\w.\-/ ]{0,60}?\s*(?:=(?!=)|[-=]>|\s[^\w\s\"'()\[\]{}<>,;|]{1,3}\s\s*\S+$)")
_SPEAKER = re.compile(r"[A-Z][\w .'()-]{0,40}: \S")
_FIELDS = re.compile(r"[A-Za-z_][\w-]*(?:: |=)")
_TIGHT_FIELDS = re.compile(r"(?<![\w:/.])[A-Za-z_][\w-]*:(?=[^\s/:])")
_BRANCH = re.compile(r"[\s│┃|]*(?:[├└┣┗][─━]{1,3}|[|`]-- )")
_RECORD_RULE = re.compile(r"[-=*]+\s*\[?\s*(?:record\s*#?\d+|\d+\. row)\b", re.I)
_HTML = re.compile(r"<(?:!doctype html|html|head|body|div|p|span|table|a href|script|meta)\b", re.I)
_TAG = re.compile(r"<[A-Za-z_][\w:.-]*(?:\s[^<>]*)?/?>")
_MARKDOWN = re.compile(r"#{1,6} \S|!?\[[^\]]*\]\([^)\s]+|\* \[|={3,}$|```")
_SENTENCE_END = re.compile(r"[a-zà-ÿ,\"')]\s?[.!?][\"')]?(?:\s|$)|[。！？]")
_CELLS = re.compile(r"\S+(?: \S+)*")


def sample_of(text: str) -> list[str]:
    """Lines from the beginning and from the middle, none of them blank, long ones only by their beginning."""
    start = [line[:LONGEST_SAMPLED] for line in text[:120_000].split("\n") if line and not line.isspace()][
        : SAMPLE_LINES * 3 // 4
    ]
    if len(text) > 240_000:
        middle = text[len(text) // 2 : len(text) // 2 + 60_000].split("\n")[1:-1]
        start += [line[:LONGEST_SAMPLED] for line in middle if line and not line.isspace()][: SAMPLE_LINES // 4]
    return start


def sniff(text: str, *, json: bool = True) -> Kind:
    """The kind of the text; with `json` off it is known not to be JSON, whatever it begins with."""
    opening = text[:4_000].lstrip("\ufeff \t\r\n\0")
    lines = sample_of(text)
    if not lines:
        return "text"
    many = len(lines)

    def share(pattern: re.Pattern[str]) -> float:
        return sum(1 for line in lines if pattern.match(line)) / many

    if opening.startswith("<"):
        if _HTML.match(opening) or len(_HTML.findall(text[:20_000])) >= 5:
            return "html"
        if opening.startswith("<?xml") or _TAG.match(opening):
            return "xml"
    objects = (
        sum(
            1
            for line in lines
            if line.lstrip()[:1] == "{" and (len(line) == LONGEST_SAMPLED or line.rstrip()[-1:] == "}")
        )
        / many
    )
    if many >= 2 and (objects >= 0.7 or (objects < 0.3 and share(_OBJECT_BEHIND) >= 0.7)):
        return "jsonl"
    if json and _JSON_START.match(opening):
        return "json"
    if json and (
        (many >= 4 and share(_JSON_LINE) >= 0.85)
        or len(_JSON_FIELD.findall(text[:20_000])) * 45 > min(len(text), 20_000)
    ):
        return "json_cut"
    if _DIFF.search(text[:20_000]):
        return "diff"
    if share(_BRANCH) >= 0.5 or sum(1 for line in lines if _RECORD_RULE.match(line)) >= 2:
        return "outline"
    timed = sum(1 for line in lines if _TIME_START.match(line)) / many
    if share(_GREP) >= 0.6 and share(_GREP_PATH) >= 0.5 and timed < 0.3:
        return "grep"
    if share(_METRIC) >= 0.7 and (
        any(line.startswith("# ") for line in lines) or sum(1 for line in lines if "{" in line) >= many * 0.3
    ):
        return "metrics"
    inside = sum(1 for line in lines if _TIME_INSIDE.search(line[:200])) / many
    leveled = sum(1 for line in lines if _LEVEL.search(line[:160])) / many
    framed = sum(1 for line in lines if _FRAME.match(line)) / many
    columns = column_table(lines)
    keys, items, sections, assigns = share(_KEY_LINE), share(_ITEM_LINE), share(_SECTION), share(_ASSIGN)
    sentences = sum(1 for line in lines if _SENTENCE_END.search(line) and line.rstrip()[-1:] in ".!?。！？") / many
    words_apart = sum(line.count(" ") for line in lines) / max(1, sum(map(len, lines)))
    in_sentences = (sentences > 0.6 and words_apart > 0.12) or looks_like_page(lines)
    fields = sum(1 for line in lines if len(_FIELDS.findall(line[:600])) >= 3) / many
    if columns == "csv" and fields > 0.9 and max(timed, leveled) < 0.3 and len(_FIELDS.findall(lines[0])) >= 3:
        return "text"  # Each value has its name beside it; a reader of tables would take the first row for the names.
    if columns == "csv" and framed < 0.2 and not _TIME_START.match(lines[0]) and not in_sentences:
        return "csv"
    if (
        timed + framed > 0.5
        or (leveled > 0.5 and (columns != "table" or inside > 0.6))
        or (timed > 0.25 and leveled > 0.25)
    ):
        return "log"
    if _is_dialogue(lines):
        return "dialogue"
    if columns == "table" and keys + items + assigns + sections < 0.7:
        return "table"
    tight = sum(1 for line in lines if len(_TIGHT_FIELDS.findall(line[:600])) >= 3) / many
    if inside > 0.6 and many >= 3 and keys < 0.6:
        early = sum(1 for line in lines if _TIME_INSIDE.search(line[:40])) / many
        return "text" if max(fields, tight) > 0.7 and max(leveled, timed, early) < 0.3 else "log"
    if framed > 0.2:
        return "log"
    long_lines = sum(1 for line in lines if len(line) > 160) / many
    marked = share(_MARKDOWN) + sum(1 for line in lines if "](" in line) / many
    if sentences > 0.6 and words_apart > 0.12 and marked < 0.15:
        return "prose"
    if looks_like_page(lines):
        return "page"  # Copied as plain text: sentences on lines of their own among menus and captions.
    if keys + items >= 0.75 and long_lines < 0.3 and marked < 0.2:
        return "yaml" if _yaml_like(lines) else "outline"
    if sections and sections + assigns >= 0.7:
        return "outline"
    if keys + items + sections + assigns >= 0.7 and long_lines < 0.2 and marked < 0.2:
        return "outline"
    if keys >= 0.3 and marked < 0.15 and sum(1 for line in lines[:12] if _KEY_LINE.match(line)) >= 0.75 * min(12, many):
        return "outline"  # Described things often end in a table of events.
    if marked >= 0.15:
        return "page"
    sentences = sum(1 for line in lines if _SENTENCE_END.search(line)) / many
    average = sum(map(len, lines)) / many
    if sentences > 0.4 and average > 60:
        return "prose"
    if leveled + inside > 0.5:
        return "log"
    if keys + assigns + sections > 0.5:
        return "outline"
    if max(fields, tight) <= 0.7 and (looks_timed(lines) or looks_repetitive(lines)):
        return "log"  # Without a level or a time that we know, yet messages that come again.
    return "text"


def _is_dialogue(lines: list[str]) -> bool:
    """Turns of a few speakers: a name, a colon, spoken sentences."""
    speakers = [match.group().split(":")[0] for line in lines if (match := _SPEAKER.match(line))]
    many = len(lines)
    if len(speakers) < 0.8 * many or many < 8 or not 1 < len(set(speakers)) <= max(4, many // 4) or _repeats(speakers):
        return False
    return sum(1 for line in lines if line.rstrip()[-1:] in ".?!…") > 0.5 * many


def _repeats(speakers: list[str]) -> bool:
    """Whether the "speakers" follow each other in a fixed cycle, as the keys of records do."""
    first = speakers[0]
    distances: Counter[int] = Counter()
    last = None
    for index, name in enumerate(speakers):
        if name == first:
            if last is not None:
                distances[index - last] += 1
            last = index
    return (
        bool(distances)
        and distances.most_common(1)[0][0] > 2
        and distances.most_common(1)[0][1] >= 0.8 * sum(distances.values())
        and len(distances) < 3
    )


def _yaml_like(lines: list[str]) -> bool:
    """YAML nests under a bare `key:` by two blanks or `- `; described things align their values instead."""
    aligned = sum(1 for line in lines if re.match(r"\s*[^:\s][^:]{0,40}:\s{3,}\S", line))
    nested = 0
    for before, after in pairwise(lines):
        if before.rstrip().endswith(":"):
            step = (len(after) - len(after.lstrip())) - (len(before) - len(before.lstrip()))
            nested += step == 2 or after.lstrip().startswith("- ") or step == 4
    documents = sum(1 for line in lines if line.rstrip() == "---")
    spaced = sum(1 for line in lines if re.match(r"\s*(?:- )?[^:]{1,40}\s+:\s", line))
    return aligned < 0.1 * len(lines) and spaced < 0.1 * len(lines) and (documents > 0 or nested > 0)


def column_table(lines: list[str]) -> Literal["csv", "table"] | None:
    """Whether the lines are rows: separated by a sign, drawn with lines, or set in columns."""
    rows = [line.strip("\t") for line in lines if not re.fullmatch(r"[\s|+=:\-─│┼┬┴├┤╋━┃]+", line)]
    if len(rows) < 3:
        return None
    for sign in dict.fromkeys(re.findall(r"(?<=\w)[^\w\s\"'.:/@()\[\]{}<>=-]{1,4}(?=\w)", rows[0])):
        counts = Counter(row.count(sign) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if (most >= 2 and times >= 0.9 * len(rows)) or (most == 1 and times == len(rows) >= 4):
            return "csv"
    for sign in (",", "\t", ";", "|"):
        counts = Counter(_cells_between(row, sign) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if most >= (1 if sign == "\t" else 2) and times >= 0.8 * len(rows):
            if sign == "|":
                return "table"
            # Prose has commas too, but not the same number in every line.
            if sign == "\t" or len(counts) <= 3 or times >= 0.9 * len(rows):
                return "csv"
    if sum(1 for row in rows if row.lstrip()[:1] in "|│┃" and row.strip()) >= 0.7 * len(rows):
        return "table"
    # The header may stand below a few lines of something else.
    return "table" if any(_aligned(rows[skip:]) for skip in range(min(8, len(rows) - 2))) else None


def _cells_between(row: str, sign: str) -> int:
    if '"' in row and sign != "|":
        row = re.sub(r'"[^"]*"', "", row)
    return row.count(sign)


def _aligned(rows: list[str]) -> bool:
    """Columns set with blanks: the words of the header start (or end) where the cells below do."""
    header = rows[0]
    starts = [match.start() for match in re.finditer(r"(?:(?<=\s\s)|^)\S", header)]
    single = [match.start() for match in re.finditer(r"(?:(?<=\s)|^)\S", header)]
    ends = [match.end() for match in re.finditer(r"\S+", header)]
    body = rows[1 : 1 + 60]
    if len(single) < 2 or len(body) < 2:
        return False
    if len(starts) >= 2:
        good = 0
        for row in body:
            fits = sum(1 for at in starts[1:] if at < len(row) and row[at] != " " and row[at - 1] == " ")
            good += fits >= 0.6 * (len(starts) - 1)
        if good >= 0.7 * len(body):
            return True
    right = 0
    for row in body:
        fits = sum(
            1 for end in ends if end <= len(row) and row[end - 1] != " " and (end == len(row) or row[end] == " ")
        )
        begin = sum(1 for at in single if at < len(row) and row[at] != " " and (at == 0 or row[at - 1] == " "))
        right += max(fits, begin) >= 0.7 * len(single)
    if right >= 0.7 * len(body) and len(single) >= 3:
        return True
    cells = Counter(len(_CELLS.findall(re.sub(r"\s{2,}", "\0", row).replace("\0", "\n"))) for row in rows)
    most, times = max(cells.items(), key=lambda pair: (pair[1], pair[0]))
    if most >= 3 and times >= 0.85 * len(rows):
        return True
    words = Counter(len(row.split()) for row in rows)
    most, times = max(words.items(), key=lambda pair: (pair[1], pair[0]))
    return most >= 4 and times >= 0.9 * len(rows) and len(rows) >= 5
