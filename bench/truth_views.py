"""Compare everything that is derived from an account with the account, for `bench.truth`.

The closing line of a condensed text, the note of the gateway and of hooks, what `--explain` prints, what the command
returns as JSON, and the marks that the dashboard draws.
"""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr

from tersely.cli.condense import _as_json, _explain
from tersely.coding.notes import ShellNoteWriter
from tersely.condensing.account import Runs, size_of
from tersely.condensing.budget import Condensed
from tersely.condensing.marks import account_of_result, encode_marks
from tersely.condensing.structural import condense_within
from tersely.pipeline.core import NoteWriter, target_for, with_note
from tersely.text.tokens import O200K

HANDLE = "r-0123456789"
_LOST = re.compile(r"[Ll]eft out: ([\d,]+) of ([\d,]+) lines?(?: \(lines? ([^)]*)\))?")
_PARTS = re.compile(r"parts of ([\d,]+) lines?(?: \(lines? ([^)]*)\))?")
_VALUES = re.compile(r"([\d,]+) of ([\d,]+) values")
_EXPLAINED = re.compile(r"^ +([\d,]+) (shown in part|shown|counted by a shown line|left out) +(.*)$", re.M)
_NAMES = {"shown": "shown", "shown in part": "partial", "counted by a shown line": "folded", "left out": "lost"}


def wrong_views(condensed: Condensed, source: str, budget: int, focus: str) -> Iterator[tuple[str, str]]:
    if condensed.closing:
        yield from _wrong_sentence("closing line", condensed.closing, condensed)
    yield from _wrong_explanation(condensed)
    yield from _wrong_marks(condensed, source)
    yield from _wrong_notes(source, budget, focus)


def _wrong_sentence(where: str, said: str, condensed: Condensed) -> Iterator[tuple[str, str]]:
    """What is left out, in words."""
    account = condensed.account
    lost = _LOST.search(said)
    if bool(lost) != bool(account.lost):
        yield f"{where} otherwise than the account", said
    if lost is not None:
        if (_number(lost[1]), _number(lost[2])) != (size_of(account.lost), account.total):
            yield f"{where} otherwise than the account", f"{said}; {size_of(account.lost)} of {account.total}"
        yield from _wrong_runs(where, lost[3], account.lost)
    if (parts := _PARTS.search(said)) is not None:
        if _number(parts[1]) != size_of(account.partial):
            yield f"{where} otherwise than the account", said
        yield from _wrong_runs(where, parts[2], account.partial)
    if (values := _VALUES.search(said)) is not None and (_number(values[1]), _number(values[2])) != account.values:
        yield f"{where} otherwise than the account", said


def _wrong_runs(where: str, said: str | None, runs: Runs) -> Iterator[tuple[str, str]]:
    """The first ranges of lines; the list ends with `…` if and only if there are more."""
    if not said:
        return
    listed = [each for each in said.split(", ") if each != "…"]
    real = [str(first) if first == last else f"{first}–{last}" for first, last in runs]
    if listed != real[: len(listed)] or ("…" in said) != (len(listed) < len(real)):
        yield f"{where} otherwise than the account", f"lines {said}; really {', '.join(real[:4])}"


def _wrong_explanation(condensed: Condensed) -> Iterator[tuple[str, str]]:
    with redirect_stderr(io.StringIO()) as printed:
        _explain(condensed)
    account = condensed.account
    seen = set()
    for size, name, listed in _EXPLAINED.findall(printed.getvalue()):
        runs = getattr(account, _NAMES[name])
        seen.add(_NAMES[name])
        if _number(size) != size_of(runs):
            yield "--explain otherwise than the account", f"{size} {name}; really {size_of(runs)}"
        yield from _wrong_runs("--explain", listed.strip(), runs)
    if seen != {name for name in _NAMES.values() if getattr(account, name)}:
        yield "--explain otherwise than the account", printed.getvalue()
    written = _as_json(condensed, 0.0)["account"]
    if any(tuple(map(tuple, written[name])) != getattr(account, name) for name in _NAMES.values()):
        yield "--json otherwise than the account", str(written)[:200]


def _wrong_marks(condensed: Condensed, source: str) -> Iterator[tuple[str, str]]:
    """Marks of the dashboard, and the kinds of lines that it lists."""
    account = condensed.account
    viewed = account_of_result(source, condensed.text, encode_marks(account), by_model=False)
    for name in _NAMES.values():
        runs = tuple((mark.first, mark.last) for mark in viewed.lines if mark.kind == name)
        if runs != getattr(account, name) or viewed.counts.get(name, 0) != size_of(runs):
            yield "marks otherwise than the account", name
    if viewed.values != account.places:
        yield "marks otherwise than the account", "places of values"
    for kinds, runs in ((viewed.left_out, account.lost), (viewed.folded, account.folded)):
        if sum(kind.count for kind in kinds) > size_of(runs):
            yield "marks otherwise than the account", "more lines of a kind than there are"


def _wrong_notes(source: str, budget: int, focus: str) -> Iterator[tuple[str, str]]:
    """The notes of gateway and hooks are true, and adding one cuts nothing of the text above it."""
    tokens = O200K.count(source)
    writers = (NoteWriter(), ShellNoteWriter())
    reserve = max(writer.reserve(HANDLE, tokens, budget) for writer in writers)
    condensed = condense_within(source, target_for(budget, reserve), focus)
    if condensed.status == "passthrough":
        return
    above = condensed.text.removesuffix(condensed.closing).removesuffix("\n")
    for writer in writers:
        noted = with_note(condensed, writer, HANDLE, tokens, budget)
        text, _, note = noted.text.rpartition("\n")
        if noted.tokens_after > budget:
            yield "over budget with its note", f"{noted.tokens_after} of {budget}"
        if text != above:
            yield "cut for its note", f"{text[-80:]} | {above[len(text) : len(text) + 40]}"
        if "Left out" in note:
            yield from _wrong_sentence("note", note, noted)
        elif noted.account.lost:
            yield "a note that does not say what is left out", note


def _number(text: str) -> int:
    return int(text.replace(",", ""))
