"""Runs `read_result`, the tool that reads kept results, for agents and for MCP clients.

Answers are pages of a limited number of tokens; each says how to get the next.
`read_back_tool` has the definition. Kept text is masked, so the answers are too; the
caller's own words (what it is looking for) are masked before a model receives them.

The entry point determines the caller and its scope.
"""

import csv
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from tersely.condensing.budget import Condensed, ModelWork
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError
from tersely.masking.masked import Masked, from_store
from tersely.results import sql as sql_over_results
from tersely.results.find_lines import LineMatch, LineMatches, find_lines
from tersely.results.kept import KeptResults
from tersely.results.read_back_tool import READ_RESULT, ReadArguments, read_call
from tersely.store.results import KeptResult
from tersely.text.tokens import O200K

Summarize = Callable[[Masked, int, str], Awaitable[Condensed]]
"""Summarizes a text, given a token budget and a focus."""

PAGE_TOKENS = 4_000
_BYTES_PER_TOKEN = 16
"""More than ordinary text has, so that one read of this many bytes fills a page."""

_CLIPPED = 400
"""Bytes shown of a longer line that matches."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One page."""

    text: Masked
    """For a model: a heading, the content, and the call for the next page."""

    body: Masked
    """The content alone, for people and programs."""

    next: dict[str, Any] | None = None
    """Arguments for the next page; None on the last one."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Figures about the page, as JSON values."""

    work: ModelWork | None = None
    """Model calls that the answer needed."""

    def text_for(self, tool: str) -> Masked:
        """The text for a model that knows the tool by another name."""
        if tool == READ_RESULT.name or self.next is None:
            return self.text
        usual, own = read_call(**self.next), read_call(name=tool, **self.next)
        return self.text.derive(f"{self.text.removesuffix(f'[More: {usual}]')}[More: {own}]")


class ReadBack:
    """Runs `read_result`.

    Args:
        summarize: Used with `looking_for`; see `Pipeline.summarizer`.
        page_tokens: Maximum size of an answer's content, in o200k_base tokens.
    """

    def __init__(
        self,
        kept: KeptResults,
        *,
        summarize: Summarize,
        page_tokens: int = PAGE_TOKENS,
        query_limits: sql_over_results.Limits | None = None,
    ) -> None:
        self.kept = kept
        self.summarizer = summarize
        self.page_tokens = page_tokens
        self.query_limits = query_limits or sql_over_results.Limits()
        # Each query runs in its own process, with its own memory.
        self._queries = anyio.CapacityLimiter(2)

    async def call(self, name: str, arguments: Mapping[str, Any], scope: str) -> Answer:
        """Run the tool.

        Raises:
            InputError: The tool, an argument, the pattern or the SQL is not valid; the message tells a model how to
                correct it.
            ResultNotFound, ResultExpired: The handle is unknown or has expired.
        """
        if not READ_RESULT.answers_to(name):
            raise InputError(f"There is no tool {name!r}. There is: {READ_RESULT.name}.")
        checked = ReadArguments.check(arguments, name=name)
        if checked.pattern:
            return await self.search(checked, scope)
        if checked.sql:
            return await self.query(checked, scope)
        if checked.looking_for or name == "summarize_result":
            return await self.summarize(checked, scope)
        return await self.read(checked, scope)

    async def read(self, arguments: ReadArguments, scope: str) -> Answer:
        result = await self._text(arguments.handle, scope)
        if arguments.start_byte is None:
            if arguments.end_byte is not None:
                raise InputError("read_result: end_byte requires start_byte.")
            if arguments.start_line > max(1, result.lines):
                raise InputError(
                    f"{result.handle} has {result.lines:,} lines; line {arguments.start_line:,} is past its end."
                )
            if arguments.end_line is not None and arguments.end_line < arguments.start_line:
                raise InputError(f"end_line ({arguments.end_line}) is before start_line ({arguments.start_line}).")
            start = await self.kept.line_start(result, arguments.start_line)
            end = (
                result.size
                if arguments.end_line is None
                else await self.kept.line_start(result, arguments.end_line + 1)
            )
        else:
            start, end = (
                arguments.start_byte,
                result.size if arguments.end_byte is None else min(arguments.end_byte, result.size),
            )
            if start > end or (start == end and result.size):
                raise InputError(
                    f"{result.handle} has {result.size:,} bytes; bytes {start:,} to {end:,} are not in it."
                )
        stretch = await self.kept.read_stretch(result, start, min(end, start + self.page_tokens * _BYTES_PER_TOKEN))
        body = await run_in_thread(_page, stretch.text, self.page_tokens, stretch.end < end)
        stop = stretch.start + len(body.encode())
        first = await self.kept.line_at(result, stretch.start)
        last = first + body.count("\n") - body.endswith("\n")
        following: dict[str, Any] | None = None
        if stop < end:
            following = {"handle": result.handle}
            # A page that ends within a line is continued by byte.
            following |= (
                {"start_line": last + 1}
                if body.endswith("\n") and arguments.start_byte is None
                else {"start_byte": stop}
            )
            if arguments.end_line is not None and "start_line" in following:
                following["end_line"] = arguments.end_line
            elif end < result.size:
                following["end_byte"] = end
        where = f"lines {first:,}-{last:,} of {result.lines:,}, bytes {stretch.start:,}-{stop:,} of {result.size:,}"
        facts = {
            "first_line": first,
            "last_line": last,
            "lines": result.lines,
            "start_byte": stretch.start,
            "end_byte": stop,
        }
        return _answer(
            f"{result.handle} ({result.origin}): {where}",
            body,
            following,
            {**facts, "bytes": result.size},
        )

    async def search(self, arguments: ReadArguments, scope: str) -> Answer:
        result = await self._text(arguments.handle, scope)
        raw, _ = await self.kept.load_bytes(result.handle, scope)

        def work() -> tuple[LineMatches, Masked, int | None]:
            # Even the shortest lines take a few tokens each; one match more shows whether there is a next page.
            most = self.page_tokens // 3 + 1
            found = find_lines(
                raw,
                arguments.pattern,
                ignore_case=arguments.ignore_case,
                from_line=arguments.start_line,
                limit=most + 1,
            )
            body, following = _shown(raw, found.hits[:most], arguments.context, self.page_tokens)
            return found, body, following or next((hit.number for hit in found.hits[most:]), None)

        found, body, following = await run_in_thread(work)
        total = f"{found.total:,}" if found.counted_all else f"more than {found.total:,}"
        heading = f"{result.handle} ({result.origin}): {total} of {result.lines:,} lines match {arguments.pattern!r}"
        again = None
        if following is not None:
            again = {**arguments.model_dump(exclude_defaults=True), "handle": result.handle, "start_line": following}
        facts = {"matching_lines": found.total, "counted_all": found.counted_all, "lines": result.lines}
        return _answer(heading, body, again, facts)

    async def query(self, arguments: ReadArguments, scope: str) -> Answer:
        result = await self._text(arguments.handle, scope)
        text = await self.kept.load(result.handle, scope)
        async with self._queries:
            table = await sql_over_results.ask(text, arguments.sql, offset=arguments.offset, limits=self.query_limits)
        body, shown = await run_in_thread(_csv, table, self.page_tokens)
        again = None
        if table.more or shown < len(table.rows):
            again = {"handle": result.handle, "sql": arguments.sql, "offset": arguments.offset + shown}
        rows = f"rows {arguments.offset + 1:,}-{arguments.offset + shown:,}" if shown else "no rows"
        heading = f"{result.handle} ({result.origin}{f'; {table.source}' if table.source else ''}): {rows}, as CSV"
        facts = {
            "columns": [{"name": name, "type": kind} for name, kind in table.columns],
            "rows": table.rows[:shown],
            "source": table.source,
        }
        return _answer(heading, body, again, facts)

    async def summarize(self, arguments: ReadArguments, scope: str) -> Answer:
        result = await self._text(arguments.handle, scope)
        text = await self.kept.load(result.handle, scope)
        condensed = await self.summarizer(text, arguments.max_tokens, arguments.looking_for)
        sizes = f"{condensed.tokens_before:,} → {condensed.tokens_after:,} tokens, {condensed.status}"
        facts = {
            "status": condensed.status,
            "tokens_before": condensed.tokens_before,
            "tokens_after": condensed.tokens_after,
            "encoding": condensed.encoding,
            "lost": [str(lost) for lost in condensed.lost],
        }
        return replace(
            _answer(f"{result.handle} ({result.origin}): {sizes}", condensed.text, None, facts),
            work=condensed.work,
        )

    async def _text(self, handle: str, scope: str) -> KeptResult:
        result = await self.kept.find(handle, scope)
        if not result.is_text:
            raise InputError(
                f"{result.handle} is not text: {result.kind} of type {result.mime_type}, {result.size:,} bytes."
            )
        return result


def _answer(heading: str, body: str, following: dict[str, Any] | None, facts: dict[str, Any]) -> Answer:
    ending = f"\n[More: {read_call(**following)}]" if following else "\n[End]"
    # The heading quotes the origin, which was kept masked, and the pattern, which is the caller's own.
    text = from_store(f"[{heading}]\n{body}{'' if body.endswith(chr(10)) or not body else chr(10)}{ending.strip()}")
    return Answer(text=text, body=from_store(body), next=following, facts=facts)


def _page(text: str, limit: int, cut: bool) -> str:
    """The beginning of a text that fits on a page; ends with a whole line if there is one."""
    if O200K.exceeds(text, limit):
        text = O200K.head(text, limit)
        cut = True
    if not cut:
        return text
    whole = text[: text.rfind("\n") + 1]
    return whole or text


def _shown(raw: bytes, hits: list[LineMatch], context: int, limit: int) -> tuple[Masked, int | None]:
    """Matches with context in the format of grep, and the line of the first match that no longer fits."""
    pieces: list[str] = []
    tokens = last = 0
    for at, hit in enumerate(hits):
        group: list[str] = []
        if pieces and context and hit.number - context > last + 1:
            group.append("--")
        group += [f"{number}- {_clipped(line)}" for number, line in _before(raw, hit, context) if number > last]
        group.append(f"{hit.number}: {_clipped(raw[hit.start : hit.end], hit.match[0] - hit.start)}")
        ahead = hits[at + 1].number if at + 1 < len(hits) else None
        after = [(number, line) for number, line in _after(raw, hit, context) if ahead is None or number < ahead]
        group += [f"{number}- {_clipped(line)}" for number, line in after]
        piece = "\n".join(group) + "\n"
        tokens += O200K.count(piece)
        if tokens > limit and pieces:
            return from_store("".join(pieces)), hit.number
        pieces.append(piece)
        last = after[-1][0] if after else hit.number
    return from_store("".join(pieces)), None


def _before(raw: bytes, hit: LineMatch, context: int) -> list[tuple[int, bytes]]:
    lines: list[tuple[int, bytes]] = []
    start, number = hit.start, hit.number
    while len(lines) < context and start > 0:
        begin = raw.rfind(b"\n", 0, start - 1) + 1
        number -= 1
        lines.append((number, raw[begin : start - 1]))
        start = begin
    return lines[::-1]


def _after(raw: bytes, hit: LineMatch, context: int) -> list[tuple[int, bytes]]:
    lines: list[tuple[int, bytes]] = []
    at, number = hit.end + 1, hit.number
    while len(lines) < context and at < len(raw):
        end = raw.find(b"\n", at)
        end = len(raw) if end < 0 else end
        number += 1
        lines.append((number, raw[at:end]))
        at = end + 1
    return lines


def _clipped(line: bytes, at: int = 0) -> str:
    """A line as it is; of a long one, the part around the match."""
    if len(line) <= _CLIPPED:
        return line.decode(errors="replace").rstrip("\r")
    start = max(0, min(at - _CLIPPED // 4, len(line) - _CLIPPED))
    piece = line[start : start + _CLIPPED].decode(errors="ignore")
    return f"{'…' if start else ''}{piece}{'…' if start + _CLIPPED < len(line) else ''} ({len(line):,} bytes)"


def _csv(table: sql_over_results.QueryTable, limit: int) -> tuple[Masked, int]:
    """The table as CSV within a page, and the number of its rows; at least one."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for name, _ in table.columns])
    shown, at, tokens = 0, 0, 0
    for row in table.rows:
        writer.writerow(["" if cell is None else cell for cell in row])
        tokens += O200K.count(out.getvalue()[at:])
        if tokens > limit and shown:
            break
        at = out.tell()
        shown += 1
    text = out.getvalue()[:at] if at else out.getvalue()
    # The rows come from masked text; column names come from it too, or from the caller's SQL.
    return from_store(O200K.head(text, limit) if tokens > limit else text), shown
