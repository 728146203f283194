"""The structural condenser: reduces a text of any kind to what matters, without a model.

    text → parts of one kind (segments) → a reading of each (its kind's reader) → pack → list of omissions

Never over the budget, deterministic, linear in the text. The generic reader replaces a
reader that declines, and shares the budget with one whose kind is only likely. Pure
functions, no event loop, no model: call it in a thread when the text is large.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tersely.condensing.absent import AbsentWords
from tersely.condensing.account import Account, Lost, lines_in
from tersely.condensing.budget import ACCOUNT_FROM_TOKENS, SMALLEST_BUDGET, Condensed
from tersely.condensing.detect import kind_of, reader_of
from tersely.condensing.focus import Focus, scan
from tersely.condensing.hedge import raise_best_lines, with_hedge, with_lines
from tersely.condensing.pack import Packed, pack
from tersely.condensing.readers import generic
from tersely.condensing.sections import SECTION, TextSection, collecting_later, read_in_sections, sections_of
from tersely.condensing.segments import is_split_at_titles, read_any
from tersely.condensing.units import GAP, Reading, Unit
from tersely.errors import InputError
from tersely.text.tokens import O200K, LineTokenizer, Tokenizer

_ESCAPE_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")

_PROGRESS = re.compile(r"[\W\d]{0,80}([^\W\d]*).{0,120}?\d(?: ?%|[\d.,]* ?/ ?\d[\d.,]* ?(?:[kKMGT]i?B\b|[)\]]))")
"""A share of progress, with the first word before it: `Receiving objects:  45%`, `12.3/45.6 MB`, `(45/100)`."""

LARGEST_WHOLE = 12_000_000
"""In characters. A longer text is condensed in sections first, then the results together, so that memory stays a small
multiple of the text.
"""

COUNTED_ASIDE = 100_000
"""In characters. The tokens of a shorter text are counted faster than a thread starts."""

COUNTED_FIRST = 16_384
"""In characters. The tokens of a text that is not longer are counted at once: its count says whether it fits, too."""

SMALLEST_LONG = 1_000_000
"""In characters. A shorter text is always read as a whole."""

LARGEST_TREE = 300_000
"""In values. A larger tree is read in sections: each value takes up to a kilobyte while it is read. …"""

MOST_VALUES = 100_000
"""… Values in one section."""


def condense_structurally(
    text: str,
    budget: int,
    focus: str = "",
    tokenizer: Tokenizer = O200K,
    *,
    tokens_before: int | None = None,
    section: int = 0,
) -> Condensed:
    """Condense a text to at most `budget` tokens; return it unchanged if it fits.

    Callers that have counted the text pass `tokens_before`, which saves a quarter of the time. With `section` the text
    is read in sections of about so many characters, which else only very long texts are.
    """
    text = _whole_characters(text)
    counted = tokenizer.count(text) if tokens_before is None and len(text) <= COUNTED_FIRST else None
    if not (tokenizer.exceeds(text, budget) if counted is None else counted > budget):
        tokens = tokenizer.count(text)
        return Condensed(
            text=text,
            status="structural",
            tokens_before=tokens,
            tokens_after=tokens,
            encoding=tokenizer.name,
            account=Account.whole(text),
        )
    return _longer(text, budget, focus, tokenizer, counted if tokens_before is None else tokens_before, section)


def _longer(
    text: str, budget: int, focus: str, tokenizer: Tokenizer, tokens_before: int | None, section: int = 0
) -> Condensed:
    """Condense a text that exceeds the budget."""
    lines = LineTokenizer.of(tokenizer)
    if tokens_before is not None or len(text) < COUNTED_ASIDE:
        packed, account, kind, closing = _condensed(text, budget, focus, lines, section)
        tokens_before = tokenizer.count(text) if tokens_before is None else tokens_before
    else:
        # The tokenizer releases the interpreter's lock, so a second core counts while this one reads.
        with ThreadPoolExecutor(max_workers=1) as counting:
            before = counting.submit(tokenizer.count, text)
            packed, account, kind, closing = _condensed(text, budget, focus, lines, section)
        tokens_before = before.result()
    return Condensed(
        text=packed.text,
        status="structural",
        tokens_before=tokens_before,
        tokens_after=packed.tokens,
        encoding=tokenizer.name,
        lost=account.summary(),
        account=account,
        closing=closing,
        kind=kind,
    )


def _condensed(
    text: str, budget: int, focus: str, tokenizer: Tokenizer, section: int
) -> tuple[Packed, Account, str, str]:
    question = Focus.parse(focus)
    clean = cleaned(text)
    kind = kind_of(clean) if section or len(clean) > SMALLEST_LONG else ""
    size = section or (kind and _section_size(clean, kind))
    absent = AbsentWords(question)
    absent.read(clean)
    if size:
        sections = sections_of(clean, size, kind)
        titles = is_split_at_titles(clean)
        return _packed_sections(
            sections, kind, lambda: lines_in(clean), budget, question, tokenizer, absent, titles=titles
        )
    with collecting_later():
        # No variable has the reading, so its units are gone before garbage is searched for again.
        return _packed_reading(read_any(clean, question, budget), clean, question, budget, tokenizer, absent)


def condense_sections(texts: Iterable[str], lines: Sequence[str], budget: int, focus: str = "") -> Condensed:
    """Condense a text that is too large for memory to at most `budget` tokens.

    Args:
        texts: The text in parts, cut at line ends where it has lines; read one at a time.
        lines: The lines of the text, complete when all parts are read.
    """
    counted: list[Future[int]] = []
    question = Focus.parse(focus)
    absent = AbsentWords(question)

    def sections() -> Iterator[TextSection]:
        for text in texts:
            text = _whole_characters(text)
            counted.append(counting.submit(O200K.count, text))
            clean = cleaned(text)
            absent.read(clean)
            yield TextSection(clean)

    with ThreadPoolExecutor(max_workers=1) as counting:
        packed, account, kind, closing = _packed_sections(
            sections(), "", lambda: lines, budget, question, LineTokenizer.of(O200K), absent, refills=False
        )
    return Condensed(
        text=packed.text,
        status="structural",
        tokens_before=sum(one.result() for one in counted),
        tokens_after=packed.tokens,
        lost=account.summary(),
        account=account,
        closing=closing,
        kind=kind,
    )


def _packed_sections(
    texts: Iterable[TextSection],
    kind: str,
    lines: Callable[[], Sequence[str]],
    budget: int,
    question: Focus,
    tokenizer: Tokenizer,
    absent: AbsentWords,
    *,
    refills: bool = True,
    titles: bool = True,
) -> tuple[Packed, Account, str, str]:
    room = budget - _reserved(budget) - _cost_of(absent, budget, tokenizer)
    reading, packed = read_in_sections(texts, kind, question, room, tokenizer, titles=titles)
    # The lines after the reading, so that only one of them is at its peak of memory.
    packed, account, closing = _packed(reading, lines(), budget, tokenizer, question, absent, packed, refills=refills)
    return packed, account, reading.kind, closing


def _packed_reading(
    reading: Reading, clean: str, question: Focus, budget: int, tokenizer: Tokenizer, absent: AbsentWords
) -> tuple[Packed, Account, str, str]:
    lines = lines_in(clean)
    raise_best_lines(reading, clean, question, budget)
    reading = with_hedge(reading, clean, question, budget, tokenizer)
    packed, account, closing = _packed(reading, lines, budget, tokenizer, question, absent)
    if not packed.text.strip():
        # No unit fits together with its owners, e.g. a value below ten thousand brackets.
        reading = generic.read(clean, question, budget)
        packed, account, closing = _packed(reading, lines, budget, tokenizer, question, absent)
    return packed, account, reading.kind, closing


def cleaned(text: str) -> str:
    """Remove colour codes, NULs and earlier states of progress bars, and normalise line ends."""
    text = text.removeprefix("\ufeff")
    if "\x1b" in text:
        text = _ESCAPE_CODES.sub("", text)
    if "\0" in text:
        text = text.replace("\0", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join([_last_states(line) if "\r" in line else line for line in text.split("\n")])
    return text


def _last_states(line: str) -> str:
    """Remove from a line what a terminal does not show any more: a share of progress before a later share of it."""
    kept: list[str] = []
    before = None
    for state in line.split("\r"):
        found = _PROGRESS.match(state)
        if found is not None and before is not None and found[1] == before[1]:
            kept[-1] = state
        elif state.strip():
            kept.append(state)
        else:
            continue
        before = found
    return "\r".join(kept)


def _whole_characters(text: str) -> str:
    """Replace lone surrogates, which come from bytes that are not UTF-8 and cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _section_size(text: str, kind: str) -> int:
    """Return the size of the sections in which the text must be read; 0 if it can be read as a whole."""
    size = SECTION if len(text) > LARGEST_WHOLE else 0
    if reader_of(kind).nested:
        values = max(sum(map(text.count, ",[{")) if kind == "json" else 0, text.count("\n"), text.count("<"))
        if values > LARGEST_TREE:
            # Of equal size, so that no section is much smaller than the others.
            sections = max(-(-values // MOST_VALUES), -(-len(text) // SECTION))
            size = len(text) // sections + 1
    return size


REFILL_BELOW = 0.8
"""A text that uses less than this share of its budget is filled with lines that it would lose."""

LONGEST_REFILL = 2_000

_MARK = re.compile(rf"(?:^| ){GAP}\d*$|\[{GAP} [\d,]+ |\[\d[\d,]* of \d", re.M)
"""Signs that something is left out beside what is cut inside of a value."""

_MARK_DIGITS = 4
"""How often a mark may grow while room is made for it."""


def _reserved(budget: int) -> int:
    """Return what of a budget is reserved for the list of omissions."""
    return min(70, max(24, budget // 20)) if budget >= ACCOUNT_FROM_TOKENS else 0


def _packed(
    reading: Reading,
    lines: Sequence[str],
    budget: int,
    tokenizer: Tokenizer,
    focus: Focus,
    absent: AbsentWords,
    already: Packed | None = None,
    *,
    refills: bool = True,
) -> tuple[Packed, Account, str]:
    """Pack for the budget and make the account.

    From a certain budget on, the text ends with what it does not contain and with what is left out.
    """
    whole = budget
    budget -= _cost_of(absent, budget, tokenizer)
    reserve = _reserved(budget)
    packed = already or pack(reading, budget, tokenizer, focus, lines, _reserved)
    account = packed.account(reading, lines)
    spare = already is None and packed.tokens < REFILL_BELOW * (budget - reserve) and budget >= ACCOUNT_FROM_TOKENS
    if refills and spare and account.lost and reading.filled:
        filled = _with_lost_lines(reading, account, lines, budget, focus)
        if filled is not None:
            packed = pack(filled, budget, tokenizer, focus, lines, _reserved)
            account = packed.account(filled, lines)
    lost = account.summary()
    if lost and not reserve and not _MARK.search(packed.text):
        return _packed_with_mark(reading, lines, budget, tokenizer, focus, packed, account)
    if not reserve or not lost:
        return packed, account, ""
    _append(packed, absent.statement, whole, tokenizer)
    ending = _ending(lost, whole - packed.tokens - 1, tokenizer)
    return packed, account, ending if _append(packed, ending, whole, tokenizer) else ""


def _packed_with_mark(
    reading: Reading,
    lines: Sequence[str],
    budget: int,
    tokenizer: Tokenizer,
    focus: Focus,
    packed: Packed,
    account: Account,
) -> tuple[Packed, Account, str]:
    """Pack with room for `[… 297 of 300 lines]` at the end, of a text whose layout marks no gap."""
    for spare in range(_MARK_DIGITS):
        mark = f"[{GAP} {account.summary()[0].what}]"
        if _append(packed, mark, budget, tokenizer):
            return packed, account, mark
        room = budget - tokenizer.count(f"\n{mark}") - spare
        packed = pack(reading, room, tokenizer, focus, lines)
        account = packed.account(reading, lines)
    return packed, account, ""


def _cost_of(absent: AbsentWords, budget: int, tokenizer: Tokenizer) -> int:
    """Return what of a budget is reserved for the words that the text does not contain."""
    statement = absent.statement if budget >= ACCOUNT_FROM_TOKENS else ""
    return tokenizer.count(f"\n{statement}") if statement else 0


def _append(packed: Packed, line: str, budget: int, tokenizer: Tokenizer) -> bool:
    """Add a line of our own, if there is one and it fits."""
    if not line:
        return False
    text = f"{packed.text}\n{line}"
    tokens = tokenizer.count(text)
    if tokens > budget:
        return False
    packed.text, packed.tokens = text, tokens
    return True


def _with_lost_lines(
    reading: Reading, account: Account, lines: Sequence[str], budget: int, focus: Focus
) -> Reading | None:
    """Add the lost lines to a reading that has too little to say, best first; they only fill what is left."""
    numbers = [at for first, last in account.lost for at in range(first, last + 1) if lines[at - 1].strip()]
    firsts: dict[str, int] = {}
    for at in numbers:
        line = lines[at - 1].rstrip()
        firsts.setdefault(line if len(line) <= LONGEST_REFILL else f"{line[:LONGEST_REFILL].rstrip()} {GAP}", at)
    texts, numbers = list(firsts), list(firsts.values())
    if not texts:
        return None
    found = scan(texts, focus)
    scores = [
        1e-3 * (0.1 + each) + 1e-4 * severity for each, severity in zip(found.relevance, found.severity, strict=True)
    ]
    best = heapq.nsmallest(4 * budget, range(len(texts)), key=lambda at: (-scores[at], at))
    added = [Unit(texts[at], numbers[at], numbers[at], scores[at]) for at in sorted(best)]
    added = _divide_blocks(reading, lines, added)
    return with_lines(reading, added) if added else None


def _divide_blocks(reading: Reading, lines: Sequence[str], added: list[Unit]) -> list[Unit]:
    """Divide blocks with a mark inside into their lines, so that a line that is missing there is shown there.

    Return the lines to add; one that is missing in a block that cannot be divided is not added after it.
    """
    if reading.layout is not None or not reading.gaps:
        return added
    missing = {line.first: line for line in added}
    units: list[Unit] = []
    place: list[int] = []
    for unit in reading.units:
        place.append(len(units))
        inside = [at for at in range(unit.first, unit.last + 1) if at in missing] if unit.last > unit.first else []
        pieces = _lines_of_block(unit, lines) if inside else []
        if not pieces:
            units.append(unit)
            if any(line.strip() == GAP for line in unit.text.split("\n")):
                for at in inside:
                    del missing[at]
            continue
        below = unit.text.rpartition("\n")[2]
        indent = below[: len(below) - len(below.lstrip())]
        for piece in pieces[1:]:
            piece.parent = len(units)
        units += pieces
        for at in inside:
            missing[at].text = indent + missing[at].text.lstrip()
    owners = {id(unit): place[unit.parent] for unit in reading.units if unit.parent is not None}
    for old, at in enumerate(place):
        unit = reading.units[old]
        units[at].parent = owners.get(id(unit))
    reading.units = units
    return list(missing.values())


def _lines_of_block(unit: Unit, lines: Sequence[str]) -> list[Unit]:
    """Return a unit for each line that a block shows; none if they are not whole lines of the source."""
    shown = unit.text.split("\n")
    if unit.count > 1 or unit.rows or unit.shows or unit.folded or unit.represented_by or len(shown) < 2:
        return []
    pieces: list[Unit] = []
    at = unit.first
    for text in shown:
        if text.strip() == GAP:
            continue
        while at <= unit.last and lines[at - 1].split() != text.split():
            at += 1
        if at > unit.last:
            return []
        pieces.append(Unit(text, at, at, unit.score, family=None if pieces else unit.family, count=unit.count))
        at += 1
    return pieces


def _ending(lost: list[Lost], room: int, tokenizer: Tokenizer) -> str:
    """Return `[left out: 412 of 420 rows with status Running (lines 3–80); …]`, with as many entries as fit."""
    entries: list[str] = []
    for entry in lost:
        trial = f"[left out: {'; '.join([*entries, str(entry)])}]"
        if tokenizer.count(trial) > room:
            break
        entries.append(str(entry))
    if not entries:
        trial = f"[left out: {lost[0].what}]"
        return trial if tokenizer.count(trial) <= room else ""
    return f"[left out: {'; '.join(entries)}]"


def condense_within(text: str, budget: int, focus: str = "") -> Condensed:
    """The text itself if it fits the budget, else condensed by structure.

    Raises:
        InputError: The budget is under 16 tokens.
    """
    if budget < SMALLEST_BUDGET:
        raise InputError(f"budget ({budget}) must be at least {SMALLEST_BUDGET} tokens; nothing readable fits in less.")
    if len(text) > COUNTED_FIRST:
        return whole_text(text, budget) or condense_structurally(text, budget, focus)
    tokens = O200K.count(text)
    if tokens <= budget:
        return _unchanged(text, tokens)
    if _whole_characters(text) is not text:
        return condense_structurally(text, budget, focus)
    return _longer(text, budget, focus, O200K, tokens)


def whole_text(text: str, budget: int) -> Condensed | None:
    """The text itself, if it fits. Finding out costs in proportion to the budget, not to the text."""
    return None if O200K.exceeds(text, budget) else _unchanged(text, O200K.count(text))


def _unchanged(text: str, tokens: int) -> Condensed:
    return Condensed(
        text=text, status="passthrough", tokens_before=tokens, tokens_after=tokens, account=Account.whole(text)
    )
