"""Detection of the kind of a text from a sample of its lines.

Cheap and careful: returns a specific kind only on strong evidence, because a reader of
the wrong kind does worse than the generic one. The readers examine the whole text and
may still decline.
"""

import re
from collections import Counter
from functools import cached_property
from itertools import pairwise
from typing import Literal

from tersely.condensing.readers import (
    blame,
    ci_logs,
    config_files,
    findings,
    line_records,
    manuals,
    source_code,
    test_runs,
)
from tersely.condensing.readers.logs import looks_repetitive, looks_timed
from tersely.condensing.readers.pages import looks_like_page

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
    "blame",
    "ci_log",
    "findings",
    "records",
    "test_run",
    "dialogue",
    "page",
    "prose",
    "text",
    "code",
    "config",
    "manual",
]

SAMPLE_LINES = 400
LONGEST_SAMPLED = 2_000
"""The beginning of a line shows its kind; the limit keeps patterns with several repeats cheap."""

_JSON_START = re.compile(
    r"\s*(?:\{\s*(?:[\"'}]|\w+\s*:)|\[\s*(?:[{\[\"\]]|-?\d+(?:\.\d+)?\s*[,\]]|(?:true|false|null)\s*[,\]]))"
)
_JSON_LINE = re.compile(r'\s*(?:"[^"]{1,120}"\s*:\s*(?:"|[\d{\[-]|true|false|null)|[}\]]+,?\s*$|[{\[]\s*$|\}, ?\{$)')
_JSON_FIELD = re.compile(r'(?<=[{,\s])"[^"\n]{1,60}"\s*:\s*["\d{\[tfn-]')
_OBJECT_BEHIND = re.compile(r"[^{}\"']{1,160}\s\{\"[^\"]{1,120}\"\s*:(?:.*\}\s*$|.{1500})")
"""A source, then an object, as when the logs of several sources are shown together."""

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
_LOCATED = re.compile(r"\s*(?:\.{0,2}/)?[\w.@+/-]+\.\w{1,8}[(:]\d+[,:]\d+[):]")
"""A finding of a compiler or linter: a file with line and column, `a.ts(3,7)` or `a.c:3:7`."""
_DIFF = re.compile(r"^(?:diff --git |@@ -\d+(?:,\d+)? \+\d+|--- \S.*\n\+\+\+ \S)", re.M)
_TAGGED = re.compile(r"[\w.-]{2,20} (?:warn(?:ing)?|error|err!|info|notice|http|verb|timing)\b(?!:)", re.I)
"""A program's name and a level before each message, as package managers write them."""
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
_COMMENT = re.compile(r"\s*(?:#|//|;|--)(?:\s|$)")
_SITE_WORDS = (
    r"home(?:page)?|menu|navigation|search|shop|about(?: us)?|contact(?: us)?|log ?in|sign (?:in|up)|register|subscribe"
    r"|newsletter|share|follow us|comments?|read more|related|imprint|legal(?: notice)?|sitemap|advertisement"
    r"|startseite|kontakt|anmelden|impressum|datenschutz|teilen|kommentare|mehr|accueil|connexion|s'abonner|partager"
    r"|mentions légales|inicio|contacto|iniciar sesión|suscribirse|compartir|contatti|accedi|condividi"
    r"|ホーム|ログイン|コメント|お問い合わせ|返信"
)
_SITE_LINE = re.compile(rf"\W{{0,4}}({_SITE_WORDS})(?:\W{{0,4}}$|: .{{1,30}}$)", re.I)
"""A line of a website's own: nothing but one of the words that stand on every website, or such a word as a label."""
_SITE_PHRASE = re.compile(
    r"cookie|newsletter|©|all rights reserved|privacy policy|datenschutzerkl|mentions légales|クッキー|プライバシー",
    re.I,
)
_SITE_SIGNS = 2
"""So many different signs of a website make lines of sentences a page; one may stand in any text."""
_LINKED_PAGE = 0.04
_LEAST_LINKS = 3

_SENTENCE_END = re.compile(r"[a-zà-ÿ,\"')]\s?[.!?][\"')]?(?:\s|$)|[。！？]")
_CELLS = re.compile(r"\S+(?: \S+)*")
_ROWS_BELOW = 60
"""Rows that are compared with a header."""


def sample_of(text: str) -> list[str]:
    """Return non-blank lines from the beginning and the middle, cut to `LONGEST_SAMPLED` characters."""
    start = [line[:LONGEST_SAMPLED] for line in text[:120_000].split("\n") if line and not line.isspace()][
        : SAMPLE_LINES * 3 // 4
    ]
    if len(text) > 240_000:
        middle = text[len(text) // 2 : len(text) // 2 + 60_000].split("\n")[1:-1]
        start += [line[:LONGEST_SAMPLED] for line in middle if line and not line.isspace()][: SAMPLE_LINES // 4]
    return start


class _Sample:
    """Sampled lines with the shares of them that match a pattern, each computed when a rule first needs it."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.many = len(lines)

    def share(self, pattern: re.Pattern[str]) -> float:
        """Return the share of lines that match at their beginning."""
        return sum(1 for line in self.lines if pattern.match(line)) / self.many

    def share_within(self, pattern: re.Pattern[str], reach: int) -> float:
        """Return the share of lines with a match in their first `reach` characters."""
        return sum(1 for line in self.lines if pattern.search(line[:reach])) / self.many

    def share_of_several(self, pattern: re.Pattern[str]) -> float:
        """Return the share of lines with at least three matches."""
        return sum(1 for line in self.lines if len(pattern.findall(line[:600])) >= 3) / self.many

    @cached_property
    def timed(self) -> float:
        return self.share(_TIME_START)

    @cached_property
    def time_inside(self) -> float:
        return self.share_within(_TIME_INSIDE, 200)

    @cached_property
    def leveled(self) -> float:
        return self.share_within(_LEVEL, 160)

    @cached_property
    def framed(self) -> float:
        return self.share(_FRAME)

    @cached_property
    def keys(self) -> float:
        return self.share(_KEY_LINE)

    @cached_property
    def items(self) -> float:
        return self.share(_ITEM_LINE)

    @cached_property
    def sections(self) -> float:
        return self.share(_SECTION)

    @cached_property
    def assigns(self) -> float:
        return self.share(_ASSIGN)

    @cached_property
    def fields(self) -> float:
        return self.share_of_several(_FIELDS)

    @cached_property
    def tight_fields(self) -> float:
        return self.share_of_several(_TIGHT_FIELDS)

    @cached_property
    def long_lines(self) -> float:
        return sum(1 for line in self.lines if len(line) > 160) / self.many

    @cached_property
    def marked(self) -> float:
        """Share of Markdown: marks at the beginning of lines, links inside them."""
        return self.share(_MARKDOWN) + sum(1 for line in self.lines if "](" in line) / self.many

    @cached_property
    def linked(self) -> bool:
        """Whether the text has Markdown links in a number that only pages have."""
        links = sum(1 for line in self.lines if "](" in line)
        return links >= _LEAST_LINKS and links >= _LINKED_PAGE * self.many

    @cached_property
    def commented(self) -> float:
        """Share of lines that are comments of a configuration file or program."""
        return self.share(_COMMENT)

    @cached_property
    def columns(self) -> Literal["csv", "table"] | None:
        return column_table(self.lines)

    @cached_property
    def has_sentence_lines(self) -> bool:
        return looks_like_page(self.lines)

    @cached_property
    def is_page(self) -> bool:
        """Whether sentences on lines of their own stand among the links or the menus of a website.

        Sentences alone prove nothing: reports, compilers and commented configuration write them too.
        """
        return self.has_sentence_lines and (self.linked or self._has_site_signs())

    def _has_site_signs(self) -> bool:
        signs: set[str] = set()
        for line in self.lines:
            if len(line) > 400:
                continue
            if match := _SITE_LINE.match(line):
                signs.add(match.group(1).lower())
            elif match := _SITE_PHRASE.search(line):
                signs.add(match.group().lower())
            if len(signs) >= _SITE_SIGNS:
                return True
        return False

    @cached_property
    def is_sentences(self) -> bool:
        """Whether most lines end with a sentence and contain as many blanks as prose."""
        ended = sum(1 for line in self.lines if _SENTENCE_END.search(line) and line.rstrip()[-1:] in ".!?。！？")
        blanks = sum(line.count(" ") for line in self.lines) / max(1, sum(map(len, self.lines)))
        return ended / self.many > 0.6 and blanks > 0.12


def sniff(text: str, *, json: bool = True) -> Kind:
    """Detect the kind of a text; with `json` off, the caller knows that it is not JSON."""
    lines = sample_of(text)
    if not lines:
        return "text"
    sample = _Sample(lines)
    return (
        _markup_or_json(text, sample, json=json)
        or _tool_output(text, sample)
        or _rows_or_log(sample)
        or _prose_or_outline(sample)
        or _by_weak_signs(sample)
    )


def _markup_or_json(text: str, sample: _Sample, *, json: bool) -> Kind | None:
    opening = text[:4_000].lstrip("\ufeff \t\r\n\0")
    if opening.startswith("<"):
        if _HTML.match(opening) or len(_HTML.findall(text[:20_000])) >= 5:
            return "html"
        if opening.startswith("<?xml") or _TAG.match(opening):
            return "xml"
    whole_objects = sum(
        1
        for line in sample.lines
        if line.lstrip()[:1] == "{" and (len(line) == LONGEST_SAMPLED or line.rstrip()[-1:] == "}")
    )
    objects = whole_objects / sample.many
    if sample.many >= 2 and (objects >= 0.7 or (objects < 0.3 and sample.share(_OBJECT_BEHIND) >= 0.7)):
        return "jsonl"
    if json and _JSON_START.match(opening):
        return "json"
    if json and (
        (sample.many >= 4 and sample.share(_JSON_LINE) >= 0.85)
        or len(_JSON_FIELD.findall(text[:20_000])) * 45 > min(len(text), 20_000)
    ):
        return "json_cut"
    return None


def _tool_output(text: str, sample: _Sample) -> Kind | None:
    """Detect formats with signs of their own: diffs, drawn trees, numbered records, grep, metrics."""
    lines = sample.lines
    if _DIFF.search(text[:20_000]):
        return "diff"
    if ci_logs.detect(lines):
        return "ci_log"
    if test_runs.detect(text):
        return "test_run"
    if sample.share(_TAGGED) >= 0.7:
        return "log"
    if blame.detect(lines):
        return "blame"
    if line_records.detect_commits(lines):
        return "text"
    if sample.timed < 0.3 and findings.detect(lines):
        return "findings"
    if sample.share(_BRANCH) >= 0.5 or sum(1 for line in lines if _RECORD_RULE.match(line)) >= 2:
        return "outline"
    if sample.share(_GREP) >= 0.6 and sample.share(_GREP_PATH) >= 0.5 and sample.timed < 0.3:
        return "grep"
    if sample.share(_METRIC) >= 0.7 and (
        any(line.startswith("# ") for line in lines) or sum(1 for line in lines if "{" in line) >= sample.many * 0.3
    ):
        return "metrics"
    return _written_by_people(sample) or _records(text, sample)


def _written_by_people(sample: _Sample) -> Kind | None:
    """Detect manual pages, configuration files and source code."""
    if max(sample.timed, sample.framed) >= 0.2:
        return None
    if manuals.detect(sample.lines):
        return "manual"
    if config_files.detect(sample.lines):
        return "config"
    return "code" if source_code.detect(sample.lines) else None


def _records(text: str, sample: _Sample) -> Kind | None:
    """Detect blocks of lines that open alike; the frames below the errors of a log do, but belong to them."""
    if sample.framed >= 0.1 and sample.leveled >= 0.1:
        return None
    return "records" if not _is_yaml(sample) and line_records.detect(text[:120_000].split("\n")) else None


def _is_yaml(sample: _Sample) -> bool:
    """Whether lines look like YAML; the messages of commits often do."""
    if line_records.names_a_commit(sample.lines[0]):
        return False
    return (sample.keys + sample.items >= 0.7 or _begins_with_keys(sample)) and _yaml_like(sample.lines)


def _rows_or_log(sample: _Sample) -> Kind | None:
    """Detect one record per line: CSV, logs, tables; and dialogue, which resembles a log."""
    if sample.columns == "csv" and _is_labelled(sample):
        return "text"  # Each value has its name beside it; the table reader would take the first row for a header.
    if sample.columns == "csv" and _is_csv(sample):
        return "csv"
    if _is_log(sample):
        return "log"
    if _is_dialogue(sample.lines):
        return "dialogue"
    if sample.columns == "table" and sample.keys + sample.items + sample.assigns + sample.sections < 0.7:
        return "table"
    if sample.time_inside > 0.6 and sample.many >= 3 and sample.keys < 0.6:
        early = sample.share_within(_TIME_INSIDE, 40)
        named = max(sample.fields, sample.tight_fields) > 0.7
        return "text" if named and max(sample.leveled, sample.timed, early) < 0.3 else "log"
    return "log" if sample.framed > 0.2 else None


def _is_labelled(sample: _Sample) -> bool:
    return (
        sample.fields > 0.9 and max(sample.timed, sample.leveled) < 0.3 and len(_FIELDS.findall(sample.lines[0])) >= 3
    )


def _is_csv(sample: _Sample) -> bool:
    """Whether lines with equal numbers of separators are rows, and not stack traces, a log or sentences."""
    if sample.framed >= 0.2 or _TIME_START.match(sample.lines[0]):
        return False
    return not sample.is_sentences and not sample.has_sentence_lines


def _is_log(sample: _Sample) -> bool:
    return (
        sample.timed + sample.framed > 0.5
        or (sample.leveled > 0.5 and (sample.columns != "table" or sample.time_inside > 0.6))
        or (sample.timed > 0.25 and sample.leveled > 0.25)
    )


def _prose_or_outline(sample: _Sample) -> Kind | None:
    lines, keys, items, marked = sample.lines, sample.keys, sample.items, sample.marked
    if sample.is_sentences and marked < 0.15:
        return "prose"
    if sample.is_page:
        return "page"  # Copied as plain text: sentences on lines of their own among menus and captions.
    if sample.share(_LOCATED) >= 0.3:
        return "text"  # The colon after a location is not the colon after a key.
    if keys + items >= 0.75 and sample.long_lines < 0.3 and marked < 0.2:
        return "yaml" if _yaml_like(lines) else "outline"
    if sample.sections and sample.sections + sample.assigns >= 0.7:
        return "outline"
    if keys + items + sample.sections + sample.assigns >= 0.7 and sample.long_lines < 0.2 and marked < 0.2:
        return "outline"
    if keys >= 0.3 and marked < 0.15 and _begins_with_keys(sample):
        return "outline"  # `describe` output often ends with a table of events.
    return None


def _begins_with_keys(sample: _Sample) -> bool:
    return sum(1 for line in sample.lines[:12] if _KEY_LINE.match(line)) >= 0.75 * min(12, sample.many)


def _by_weak_signs(sample: _Sample) -> Kind:
    if sample.marked >= 0.15 and sample.linked:
        return "page"
    sentences = sum(1 for line in sample.lines if _SENTENCE_END.search(line)) / sample.many
    average = sum(map(len, sample.lines)) / sample.many
    if sentences > 0.4 and average > 60 and sample.commented < 0.3:
        return "prose"
    if sample.leveled + sample.time_inside > 0.5:
        return "log"
    if sample.keys + sample.assigns + sample.sections > 0.5:
        return "outline"
    if max(sample.fields, sample.tight_fields) <= 0.7 and (looks_timed(sample.lines) or looks_repetitive(sample.lines)):
        return "log"  # No known level or time, but repeated messages.
    return "text"


def _is_dialogue(lines: list[str]) -> bool:
    """Whether the lines are turns of a few speakers: a name, a colon, spoken sentences."""
    speakers = [match.group().split(":")[0] for line in lines if (match := _SPEAKER.match(line))]
    many = len(lines)
    if len(speakers) < 0.8 * many or many < 8 or not 1 < len(set(speakers)) <= max(4, many // 4) or _repeats(speakers):
        return False
    return sum(1 for line in lines if line.rstrip()[-1:] in ".?!…") > 0.5 * many


def _repeats(speakers: list[str]) -> bool:
    """Whether the "speakers" follow each other in a fixed cycle, like the keys of records."""
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
    """Whether lines nest by two blanks or `- ` under a bare `key:` as in YAML; `describe` output aligns values."""
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
    """Detect rows: separated by a sign, drawn with lines, or aligned in columns."""
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
    # The header may follow a few other lines.
    words = [len(row.split()) for row in rows]
    headers = [at for at in range(min(8, len(rows) - 2)) if words[at] >= 2]
    spans = [_spans(row) for row in rows[: 8 + _ROWS_BELOW]]
    if any(_aligned(rows[at], spans[at + 1 : at + 1 + _ROWS_BELOW]) for at in headers):
        return "table"
    cells = [len(_CELLS.findall(re.sub(r"\s{2,}", "\0", row).replace("\0", "\n"))) for row in rows]
    return "table" if any(_regular(cells[at:], words[at:]) for at in headers) else None


def _cells_between(row: str, sign: str) -> int:
    if '"' in row and sign != "|":
        row = re.sub(r'"[^"]*"', "", row)
    return row.count(sign)


def _spans(row: str) -> tuple[set[int], set[int]]:
    """Return where the words of a row begin and end."""
    spans = [match.span() for match in re.finditer("[^ ]+", row)]
    return {start for start, _ in spans}, {end for _, end in spans}


def _aligned(header: str, body: list[tuple[set[int], set[int]]]) -> bool:
    """Whether columns are aligned with blanks: the header words start (or end) where the cells below do."""
    starts = {match.start() for match in list(re.finditer(r"(?:(?<=\s\s)|^)\S", header))[1:]}
    if starts:
        good = sum(1 for begins, _ in body if len(starts & begins) >= 0.6 * len(starts))
        if good >= 0.7 * len(body):
            return True
    words = [match.span() for match in re.finditer(r"\S+", header)]
    single, ends = {start for start, _ in words}, {end for _, end in words}
    right = sum(1 for begins, stops in body if max(len(ends & stops), len(single & begins)) >= 0.7 * len(single))
    return right >= 0.7 * len(body) and len(single) >= 3


def _regular(cells: list[int], words: list[int]) -> bool:
    """Whether nearly all rows have the same number of cells or of words."""
    most, times = max(Counter(cells).items(), key=lambda pair: (pair[1], pair[0]))
    if most >= 3 and times >= 0.85 * len(cells):
        return True
    most, times = max(Counter(words).items(), key=lambda pair: (pair[1], pair[0]))
    return most >= 4 and times >= 0.9 * len(words) and len(words) >= 5
