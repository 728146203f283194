"""Output of test runners: the outcome first, whatever the question.

A line is judged by its role, not by the words in the name of a test: `test_failures_are_kept ... ok` reports a success.
The totals, and of each failure its name, its message and its own frame, are pinned up to half of the budget: first each
different message once, with its number, then all names, then further messages and frames; if not all names fit, the
failures are counted by file. Lines of passed tests are represented by their number, unless the question names them;
lines that name a failure once more by the line that names it first.

Knows the marks that runners share (`... ok`, `PASSED`, `✔`, `--- FAIL:`, `not ok`, `Tests run: 5`), no runner by name.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tersely.condensing.account import runs_of
from tersely.condensing.detect import Reader, Signs
from tersely.condensing.focus import Focus, Found, scan
from tersely.condensing.units import CHARACTERS_PER_TOKEN, Reading, Unit, with_counts
from tersely.condensing.weights import WEIGHTS

Role = Literal["passed", "skipped", "started", "failed", "section", "totals", "rule", "setup", "detail", "other"]

PINNED_SHARE = 0.5
"""Largest share of the budget for pinned lines."""
MESSAGES = 3
"""Most lines of a message that are pinned."""
REASONS_SHARE = 0.4
"""Largest share of the room for pinned lines that different messages take before all failures are named."""
TITLE_SHARE = 0.7
"""Share of the relevance of a section's title that the lines below it have."""
LONGEST_LINE = 500
MOST_UNITS = 20_000

_PASSED = re.compile(
    r".*(?:\.\.\. ?(?:ok|expected failure)"
    r"|\s(?:PASSED|XFAIL|XPASS|Passed)(?: \([^)]*\))?(?: +\[ *\d+%\]|  +[\d.]+ sec)?)\s*$"
    r"|(?:\[gw\d+\] \[ *\d+%\] )?PASSED \S+::"
    r"|\s*(?:[✓✔√] |ok \d+\b|--- PASS: |PASS(?:\s|$)|ok\s+\S+\s+(?:[\d.]+s|\(cached\))|Passed \S)"
    r"|(?:\[INFO\] )?Tests run: \d+, Failures: 0, Errors: 0,.* - in "
    r"|(?:\S+\.\w+ )?(?=.*\.)[.sxX,]{2,}(?:\s+\[ *\d+%\])?$"
)
_SKIPPED = re.compile(
    r".*(?:\.\.\. ?(?:skipped\b.*|ignored\b.*)|\sSKIPPED(?: \(.*\))?(?: +\[ *\d+%\])?)\s*$"
    r"|SKIPPED \[\d+\] |\s*(?:--- SKIP: |○ |﹣ |\? +\S+\s+\[no test files\]|Skipped \S)"
)
_REASON = re.compile(r"^.*?\b(?:skipped|ignored|SKIPPED|SKIP)\b")
"""What stands before the reason for which a test was skipped."""
_STARTED = re.compile(
    r"\s*# Subtest: |\[INFO\] Running \S+$|=== (?:RUN|PAUSE|CONT|NAME)\b|\s+Running \S+ \(|\s*▶ |running \d+ tests?$"
)
_FAILED = re.compile(
    r".*(?:\.\.\. ?(?:FAIL|ERROR|FAILED)|\s(?:FAILED|ERROR)(?: \([^)]*\))?(?: +\[ *\d+%\])?"
    r"|\*\*\*(?:Failed|Timeout|Exception)\b.*|<<< (?:FAILURE|ERROR)!.*)\s*$"
    r"|(?:\[gw\d+\] \[ *\d+%\] )?(?:FAILED|ERROR) \S+(?:::|\.py\b)"
    r"|\s*(?:[✕✗✖×] |not ok \d+\b|Failed \S+ \[|rspec \./)"
    r"|\[ERROR\]\s+\S+[.:]\S*:\d+ "
    r"|FAIL(?:\s+\S+[./\\]\S+|\s*$)"
)
_SECTION = re.compile(
    r"_{3,} \S.* _{3,}$|(?:FAIL|ERROR): \S|\s*● \S|\s{0,4}\d+\) \S|---- \S+ stdout ----|\s*--- FAIL: |\s*not ok \d+\b"
    r"|panic: |fatal error: |\[ERROR\] (?!Tests run).*<<< (?:FAILURE|ERROR)!"
)
_TOTALS = re.compile(
    r"=*\s?(?:no tests ran"
    r"|(?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)\b[, ]*)+)"
    r"(?:in [\d.]+|=|$|\()"
    r"|Ran \d+ tests? in |(?:OK|FAILED|NO TESTS RAN)(?: \(.*\))?$"
    r"|(?:Tests|Test Suites|Test Files|Snapshots|Suites):? +.*\d+ (?:total|passed|failed)|test result: "
    r"|\s*\d+ (?:passing|failing|pending)\b"
    r"|(?:#|ℹ) (?:tests|suites|pass|fail|skipped|cancelled|todo) \d+$"
    r"|(?:\[\w+\] )?Tests run: \d+.*\d$|\d+ examples?, \d+ failures?|\d+% tests passed|(?:Failed|Passed)! +- "
    r"|\d+ tests? completed\b|(?:\[\w+\] +)?BUILD (?:SUCCESS|FAIL\w+)|FAIL\t\S+\t|DONE \d+ tests"
    r"|\s*(?:Tests|Test Files)  .*\d+ (?:passed|failed)"
)
_HEADLINE = re.compile(r"\[\w+\]\s*-*$|={3,} .* ={3,}$|[=_-]{10,}$|failures:$|Failures:$|\s*\d+ failing\b")
_DIGITS = re.compile(r"\d+")
_TITLE = re.compile(r"(?<!\[)\b\w{2,}")
"""What a rule with a title has and a mere rule has not."""
_SETUP = re.compile(
    r"={3,} test session starts ={3,}$|platform \w+ -- |cachedir: |rootdir: |configfile: |plugins: |testpaths: "
    r"|collecting|"
    r"collected \d+ items?|asyncio: |hypothesis profile |Using --randomly-seed|gw\d|bringing up nodes|created: \d+/\d+"
)
_MESSAGE = re.compile(
    r"E   +\S|\s*(?:[\w.]+(?:Error|Exception|Failure|Failed|Warning|Interrupt|Exit))(?::| \[|$)"
    r"|\s*(?:panic: |assertion |AssertionError|thread '.*' panicked|Failure/Error:|message: |Expected\b|Received\b"
    r"|expected\b"
    r"|left: |right: |error: |Error: |Error Trace:)|\s+\S+_test\.go:\d+: \S"
)
_STRONG_MESSAGE = re.compile(
    r"E   +\S|\s*(?:[\w.]+(?:Error|Exception|Failure))(?::| \[)|\s*panic: |thread '.*' panicked|\s+\S+_test\.go:\d+: "
)
_FRAME = re.compile(
    r"\s*File \"[^\"]+\", line \d+|[\w./\\@+-]+\.\w{1,5}:\d+: |\s*at .*?[\w./\\$@+-]+\.\w{1,5}:\d+"
    r"|\s+\S+\.go:\d+|\s*# \S+\.rb:\d+|\s*❯ \S+:\d+"
)
_LIBRARY = re.compile(
    r"site-packages|dist-packages|node_modules|/lib/python\d|unittest/|node:|internal/|<frozen|/usr/lib|/rustc/|GOROOT|"
    r"/go/src/|java\.base|org\.junit|sun\.|jdk\.|/gems/"
)
_PATH = re.compile(r"[\w./\\@+-]+\.(?:py|js|ts|jsx|tsx|mjs|go|rs|rb|java|kt|php|cs|c|cc|cpp|swift|exs?)\b")
_NAME = re.compile(r"[A-Za-z_][\w.:/<>\[\]$ -]{2,}")
_OUTCOME_TERMS = frozenset(
    (
        "test",
        "fail",
        "failed",
        "failur",
        "error",
        "err",
        "pass",
        "passed",
        "skip",
        "skipp",
        "run",
        "ran",
        "result",
        "outcom",
        "succe",
        "success",
        "succeed",
        "broke",
        "broken",
        "exception",
    )
)
COUNTED: dict[Role, str] = {
    "passed": "of passed tests",
    "skipped": "of skipped tests",
    "started": "that announce tests",
    "detail": "of details of passed tests",
    "setup": "about the test runner's setup",
}
"""Roles of lines that are represented by their number, and what these lines are."""
LARGEST_SHARE = 0.3
"""Of the lines; a word of the question in more of them names no test in particular."""
_ENDINGS: tuple[Role, ...] = ("totals", "passed", "started", "setup")
"""Roles that end the section of a failure."""


def detect(text: str) -> bool:
    """Whether a text reports outcomes of tests: totals at its end and outcomes of single tests, or many outcomes."""
    totals = any(map(_TOTALS.match, [line[:300] for line in text[-6_000:].split("\n")]))
    lines = [line for line in text[:60_000].split("\n") if line and not line.isspace()][: 300 if totals else 40]
    outcomes = failed = others = 0
    for line in lines:
        line = line[:300]
        if _PASSED.match(line) or _FAILED.match(line) or _STARTED.match(line) or _SKIPPED.match(line):
            outcomes += 1
        elif totals and _SECTION.match(line):
            failed += 1
        else:
            others += 1
        if outcomes >= 3 if totals else others > 0.2 * len(lines) + 1:
            break
    if not totals:
        return outcomes >= 12 and outcomes >= 0.8 * len(lines)
    return outcomes >= 3 or (failed >= 1 and any(_HEADLINE.match(line[:300]) for line in lines))


@dataclass(slots=True)
class _Failure:
    """A section about one failed test: its opening and the lines below it, as indices."""

    opening: int
    lines: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    asked: float = 0.0
    """How much its name answers the question."""

    @property
    def first_message(self) -> int:
        return self.messages[0] if self.messages else -1


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    lines = text.split("\n")
    roles = roles_of(lines)
    counts = Counter(roles)
    if counts["passed"] + counts["failed"] + counts["section"] + counts["skipped"] < 2:
        return None
    failures = _failures(lines, roles)
    chosen = _candidates(lines, roles, failures, budget)
    texts = [_cut(lines[at]) for at in chosen]
    found = scan(texts, focus)
    index_of = {at: index for index, at in enumerate(chosen)}
    for failure in failures:
        failure.asked = _asked(found, index_of[failure.opening], focus) if failure.opening in index_of else 0.0
    repeated = _repeated_messages(lines, failures)
    names = _names(lines, roles, failures)
    pinned, unnamed, named = _pinned(lines, roles, failures, names, repeated, budget)
    titles = _titles(lines, roles, chosen, found)
    owner_of = {at: failure.opening for failure in failures for at in failure.lines}
    telling = {at for failure in failures for at in (*failure.messages, *failure.frames)}
    telling.update(at for at in owner_of if lines[at].startswith(">"))  # The statement that failed.
    asks_skipped = any(term.text.startswith("skip") for term in focus.terms)
    place: dict[int, int] = {}
    units = _counts(roles)
    for index, at in enumerate(chosen):
        role = roles[at]
        family: str | None = None
        if role in COUNTED and at not in pinned:
            score = _asked(found, index, focus)
            if role == "skipped" and asks_skipped:
                score += WEIGHTS["test_run"].roles["outcome"]
                family = _REASON.sub("", texts[index])
            if score <= 0:
                continue
        else:
            library = bool(_LIBRARY.search(texts[index])) or not any(map(str.isalnum, texts[index]))
            score = _score(
                role, found, index, focus, in_section=at in owner_of, failing=bool(failures), library=library
            ) + (titles[index] if at not in owner_of else 0.0)
            score = max(score, WEIGHTS["test_run"].roles["telling"]) if at in telling else score
        if at in pinned:
            score = WEIGHTS["test_run"].roles["pinned"] + pinned[at]
        place[at] = len(units)
        owner = owner_of.get(at)
        if role == "other" and owner is None:
            family = _DIGITS.sub("#", texts[index])
        parent = place.get(owner) if owner is not None else None
        others = repeated.get(at, ())
        unit = Unit(with_counts(texts[index], len(others) + 1), at + 1, at + 1, score, parent=parent, family=family)
        if others:
            unit.folded, unit.count = runs_of((other + 1, other + 1) for other in others), len(others) + 1
        units.append(unit)
    _represent(lines, names, failures, roles, units, place)
    for at, others in repeated.items():
        if at in place:
            for other in others:
                if other in place and other not in pinned:
                    units[place[other]].represented_by = units[place[at]]
    return Reading("test_run", units, head=_head(lines, unnamed, named))


def roles_of(lines: Sequence[str]) -> list[Role]:
    """Say what each line of a test run is."""
    roles: list[Role] = []
    in_section = False
    for line in lines:
        role = _role(line[:LONGEST_LINE]) if line else "other"
        if role == "other" and roles and line[:1] == " " and (line.strip() == "---" or roles[-1] == "detail"):
            # TAP writes a document below each outcome; below a success it tells nothing.
            role = "detail" if roles[-1] in ("passed", "detail") and not in_section else role
        if in_section and role in ("passed", "skipped", "setup") and line[:1].isspace():
            role = "other"  # Output of the failed test.
        if role == "section":
            in_section = True
        elif role in ("totals", "passed") or (role == "rule" and "=" in line[:4]):
            in_section = False
        roles.append(role)
    _refine(lines, roles)
    return roles


def _refine(lines: Sequence[str], roles: list[Role]) -> None:
    """Correct roles by the line below: a failure with details opens a section, a title above successes is counted."""
    below: Role = "other"
    depth = 0
    for at in range(len(roles) - 1, -1, -1):
        line = lines[at]
        if not line or line.isspace():
            continue
        indent = len(line) - len(line.lstrip())
        if roles[at] == "failed" and below == "other" and depth > indent:
            roles[at] = "section"
        elif roles[at] == "other" and indent and below in ("passed", "started") and depth > indent:
            roles[at] = "started"
        below, depth = roles[at], indent


def _role(line: str) -> Role:
    if _PASSED.match(line):
        return "passed"
    if _TOTALS.match(line):
        return "totals"
    if _STARTED.match(line):
        return "started"
    if _SECTION.match(line):
        return "section"
    if _FAILED.match(line):
        return "failed"
    if _SKIPPED.match(line):
        return "skipped"
    if _SETUP.match(line):
        return "setup"
    return "rule" if _HEADLINE.match(line) else "other"


def _failures(lines: Sequence[str], roles: list[Role]) -> list[_Failure]:
    """Collect the sections of failures, with the lines that state the message and the place."""
    failures: list[_Failure] = []
    current: _Failure | None = None
    for at, role in enumerate(roles):
        line = lines[at]
        if role == "section":
            current = _Failure(at)
            failures.append(current)
        elif current is None or not line or line.isspace():
            continue
        elif role in _ENDINGS or (role == "rule" and line[:1] != "-") or (role == "failed" and line[:1] not in " \t"):
            current = None
        elif role != "rule":
            current.lines.append(at)
    for failure in failures:
        _locate(failure, lines)
    return failures


def _locate(failure: _Failure, lines: Sequence[str]) -> None:
    """Find the message of a failure and its own frame: the deepest one that is not in a library."""
    strong = [at for at in failure.lines if _STRONG_MESSAGE.match(lines[at][:LONGEST_LINE])]
    failure.messages = (strong or [at for at in failure.lines if _MESSAGE.match(lines[at][:LONGEST_LINE])])[:MESSAGES]
    if not failure.messages:
        failure.messages = failure.lines[:2]
    if strong:
        # What was expected and what came instead stand right below the message.
        following = [at for at in failure.lines if strong[0] < at <= strong[0] + 6 and _MESSAGE.match(lines[at])]
        failure.messages = sorted({*failure.messages, *following})[: MESSAGES + 1]
    frames = [
        at
        for at in failure.lines
        if (found := _FRAME.match(lines[at][:LONGEST_LINE])) and not _LIBRARY.search(found[0])
    ]
    if not frames:
        frames = [at for at in failure.lines if _FRAME.match(lines[at][:LONGEST_LINE])][-1:]
    calls_outwards = any(lines[at].lstrip().startswith("at ") for at in frames)
    own = frames[0] if calls_outwards and frames else frames[-1] if frames else -1
    if own >= 0:
        failure.frames = [own]
        if lines[own].lstrip().startswith('File "') and own + 1 < len(lines) and own + 1 in failure.lines:
            failure.frames.append(own + 1)


def _pinned(
    lines: Sequence[str],
    roles: list[Role],
    failures: list[_Failure],
    names: list[int],
    repeated: dict[int, list[int]],
    budget: int,
) -> tuple[dict[int, float], list[int], int]:
    """Choose the pinned lines, each with its rank, the names after those that found room, and how many did."""
    left = whole = PINNED_SHARE * budget * CHARACTERS_PER_TOKEN
    pinned: dict[int, float] = {}
    totals = [at for at, role in enumerate(roles) if role == "totals"]
    again = {other for others in repeated.values() for other in others}

    def pin(places: Sequence[int], rank: float, floor: float = 0.0) -> bool:
        nonlocal left
        new = [at for at in places if at not in pinned]
        cost = sum(min(LONGEST_LINE, len(lines[at])) + 6 for at in new)
        if left - cost < floor:
            return False
        left -= cost
        pinned.update(dict.fromkeys(new, rank))
        return True

    for at in [*reversed(totals[-4:]), *totals[:-4]]:
        pin([at], 4.0)
    floor = left - REASONS_SHARE * whole
    by_weight = sorted(failures, key=lambda failure: (-failure.asked, -len(repeated.get(failure.first_message, ()))))
    for failure in by_weight:
        if failure.messages and failure.first_message not in again:
            pin([failure.opening, failure.first_message], 3.5, floor)
    named = next((index for index, at in enumerate(names) if not pin([at], 3.0)), len(names))
    for failure in by_weight:
        pin([at for at in failure.messages if at not in again], 2.0)
    for failure in by_weight:
        pin(failure.frames, 1.0)
    return pinned, names[named:], named


def _repeated_messages(lines: Sequence[str], failures: list[_Failure]) -> dict[int, list[int]]:
    """Return the first line of each message, of the failure that the question is about most, with its repetitions."""
    failures = sorted(failures, key=lambda failure: -failure.asked)
    first: dict[str, int] = {}
    for failure in failures:
        for at in failure.messages[:1]:
            if len(lines[at]) <= LONGEST_LINE:
                first.setdefault(lines[at].strip(), at)
    repeated: dict[int, list[int]] = {}
    for failure in failures:
        for at in failure.lines:
            original = first.get(lines[at].strip(), at)
            if original != at:
                repeated.setdefault(original, []).append(at)
    return {at: sorted(others) for at, others in repeated.items()}


def _represent(
    lines: Sequence[str],
    names: list[int],
    failures: list[_Failure],
    roles: list[Role],
    units: list[Unit],
    place: dict[int, int],
) -> None:
    """Let the line that names a failure represent all others that name it."""
    by_key = {_key(lines[at]): units[place[at]] for at in names if at in place}
    shown = {id(unit) for unit in by_key.values()}
    openings = {failure.opening for failure in failures}
    for at, index in place.items():
        if (at in openings or roles[at] == "failed") and id(units[index]) not in shown:
            unit = units[index]
            unit.represented_by = by_key.get(_key(lines[at]))
            if unit.represented_by is not None and unit.score < WEIGHTS["test_run"].roles["pinned"]:
                unit.score = 0.0


def _key(line: str) -> str:
    """Return what identifies the test that a line names: its own name with its parameters."""
    line = line.strip()
    name = _name_in(line).partition(" - ")[0]
    parameters = re.search(re.escape(name) + r"(\[.*?\])(?=\s|$)", line)
    name = re.sub(r"^(?:ERROR at \w+ of )", "", name).rsplit(" › ", 1)[-1]
    return (name if " " in name else name.rsplit(".", 1)[-1]) + (parameters[1] if parameters else "")


def _titles(lines: Sequence[str], roles: list[Role], chosen: list[int], found: Found) -> list[float]:
    """Return for each chosen line what the title of its section adds: less for each line below it."""
    bonus = [0.0] * len(chosen)
    relevance, below = 0.0, 0
    for index, at in enumerate(chosen):
        if roles[at] == "rule":
            relevance, below = found.relevance[index], 0
        elif relevance > 0:
            below += 1
            bonus[index] = WEIGHTS["test_run"].relevance * TITLE_SHARE * relevance / (1 + 0.05 * below)
    return bonus


def _names(lines: Sequence[str], roles: list[Role], failures: list[_Failure]) -> list[int]:
    """Return the lines that name failures: those of a closing list, else the openings of sections, else outcomes."""
    failed = [at for at, role in enumerate(roles) if role == "failed"]
    listed = [at for at in failed if lines[at].startswith(("FAILED ", "ERROR ", "rspec ", "[ERROR]"))]
    if len(listed) >= len(failures):
        return listed or failed
    names = [failure.opening for failure in failures]
    shown = {_name_in(lines[at]) for at in names}
    for at in failed:
        name = _name_in(lines[at])
        if name not in shown:
            shown.add(name)
            names.append(at)
    return sorted(names)


def _name_in(line: str) -> str:
    """Return the part of a line that names a test, for comparing lines that report the same one."""
    line = re.sub(
        r"^\W*(?:(?:FAIL(?:ED)?|ERROR|not ok)\b[: ]+(?:\d+ )?(?:- )?|\d+\) |_+ |--- FAIL: )?", "", line.strip()
    )
    words = line.split("::")[-1] if "::" in line else line
    found = re.match(r"[^\s(\[]+(?: [^\s(\[]+)*", words)
    return re.sub(r"\s+(?:FAILED|ERROR|_+|\.\.\. \w+|stdout -+)$", "", found[0] if found else words)


def _candidates(lines: Sequence[str], roles: list[Role], failures: list[_Failure], budget: int) -> list[int]:
    """Return the lines that may be shown: all but blank ones, rules and, in very long runs, ordinary ones."""
    chosen = [
        at
        for at, line in enumerate(lines)
        if line and not line.isspace() and (roles[at] != "rule" or _TITLE.search(line))
    ]
    most = MOST_UNITS
    if len(chosen) <= most:
        return chosen
    important = {at for at, role in enumerate(roles) if role in ("failed", "section", "totals")}
    important.update(at for failure in failures for at in failure.lines)
    step = len(chosen) // most + 1
    return [at for index, at in enumerate(chosen) if at in important or index % step == 0]


def _asked(found: Found, index: int, focus: Focus) -> float:
    """Score a line about a test that did not fail: only by words that name it."""
    terms = found.terms[index]
    if not terms:
        return 0.0
    naming = [
        at
        for at in terms
        if focus.terms[at].text not in _OUTCOME_TERMS
        and focus.terms[at].kind != "synonym"
        and focus.terms[at].weight >= 0.4
    ]
    most = max(1.0, LARGEST_SHARE * len(found.relevance))
    return WEIGHTS["test_run"].relevance * sum(found.weights[at] for at in naming if found.frequency[at] <= most)


def _score(
    role: Role, found: Found, index: int, focus: Focus, *, in_section: bool, failing: bool, library: bool
) -> float:
    weights = WEIGHTS["test_run"]
    relevance = weights.relevance * found.relevance[index]
    if in_section:
        return weights.roles["library" if library else "in a failure"] + relevance
    if role in ("failed", "section", "totals"):
        return weights.roles["outcome"] + relevance
    if role == "rule":
        return relevance if relevance > 0.2 else -1.0 if not failing else 0.01
    severe = weights.severity_asked if focus.trouble else weights.severity
    return weights.roles["other"] + relevance + severe * found.severity[index]


def _cut(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + " …"


def _counts(roles: list[Role]) -> list[Unit]:
    """Return the unit that represents all lines about tests that did not fail."""
    counts = Counter(role for role in roles if role in COUNTED)
    if not counts:
        return []
    runs = runs_of((at + 1, at + 1) for at, role in enumerate(roles) if role in COUNTED)
    said = [
        f"{counts[role]:,} {'line' if counts[role] == 1 else 'lines'} {what}"
        for role, what in COUNTED.items()
        if counts[role]
    ]
    text = f"[{', '.join(said)}]"
    return [Unit(text, 1, 0, WEIGHTS["test_run"].roles["pinned"] + 5.0, count=0, folded=runs)]


def _head(lines: Sequence[str], unnamed: list[int], named: int) -> str:
    """Count by file the failures after the first ones, in words that are true if some of them are shown, too."""
    if not unnamed:
        return ""
    files = Counter(_file_of(lines[at]) for at in unnamed)
    listed = ", ".join(f"{name} {times}" for name, times in files.most_common(20))
    more = len(files) - 20
    after = f"{len(unnamed)} failures after the first {named}" if named else f"{len(unnamed)} failures"
    return f"[{after}: {listed}{f', and {more} other files' if more > 0 else ''}]"


def _file_of(line: str) -> str:
    found = _PATH.search(line)
    if found:
        return found[0]
    named = _NAME.search(line.split("(")[-1])
    return named[0].rsplit(".", 1)[0].strip() if named else "?"


READER = Reader("test_run", Signs((0.93, lambda sample: detect(sample.text))), read, splits_at="nothing")
