"""The read-back tools: four tools over kept results, the same for agents and for MCP clients.

Answers are pages of a limited number of tokens; each says how to get the next.
`TOOLS` lists the tools to offer; `ReadBack.call` runs one by name. Kept text is
masked, so the answers are too; the caller's own words (the focus of a summary)
are masked before a model receives them.

The entry point determines the caller and its scope.
"""

import csv
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tersely.condensing.budget import Condensed, ModelWork
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError
from tersely.masking.masked import Masked, from_store
from tersely.results import sql as sql_over_results
from tersely.results.find_lines import LineMatch, LineMatches, find_lines
from tersely.results.kept import KeptResults
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


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    handle: str = Field(max_length=200)
    """Handle of the kept result: r_ and 16 letters and digits."""


class ReadArguments(_Arguments):
    start_line: int = Field(default=1, ge=1)
    """First line, counted from 1."""

    end_line: int | None = Field(default=None, ge=1)
    """Last line, inclusive; without it, as many as fit on a page."""

    start_byte: int | None = Field(default=None, ge=0)
    """Read from this byte instead, counted from 0; for texts with very long lines."""

    end_byte: int | None = Field(default=None, ge=0)
    """Read up to this byte, exclusive; only with start_byte."""


class SearchArguments(_Arguments):
    pattern: str = Field(min_length=1)
    """Regular expression in re2 syntax, matched within lines: `error|timeout`, `^WARN`, `pod/web-\\d+`."""

    context: int = Field(default=0, ge=0, le=20)
    """Lines shown before and after each match."""

    ignore_case: bool = False
    start_line: int = Field(default=1, ge=1)
    """Show matches from this line on; matches are counted in the whole text."""


class QueryArguments(_Arguments):
    sql: str = Field(min_length=1)
    """One SELECT in DuckDB's SQL over the table `result`; nested values are JSON (metadata->>'$.name').
    `DESCRIBE result` lists the columns.
    """

    offset: int = Field(default=0, ge=0)
    """Skip this many rows of the result, for the next page."""


class SummarizeArguments(_Arguments):
    focus: str = Field(default="", max_length=20_000)
    """What you want to know; it decides what stays."""

    max_tokens: int = Field(default=1_000, ge=50, le=20_000)
    """Maximum size of the summary."""


class ReadBack:
    """Runs the read-back tools.

    Args:
        summarize: Used by `summarize_result`; see `Pipeline.summarizer`.
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
        """Run one of `TOOLS`.

        Raises:
            InputError: The tool, an argument, the pattern or the SQL is not valid; the message tells a model how to
                correct it.
            ResultNotFound, ResultExpired: The handle is unknown or has expired.
        """
        tool = next((tool for tool in TOOLS if tool.name == name), None)
        if tool is None:
            raise InputError(f"There is no tool {name!r}. There are: {', '.join(tool.name for tool in TOOLS)}.")
        try:
            checked = tool.arguments.model_validate(dict(arguments))
        except ValidationError as wrong:
            raise InputError(f"{name}: {_explained(wrong)}") from None
        return await tool.run(self, checked, scope)

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
            "read_result",
            f"{result.handle} ({result.origin}): {where}",
            body,
            following,
            {**facts, "bytes": result.size},
        )

    async def search(self, arguments: SearchArguments, scope: str) -> Answer:
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
        return _answer("search_result", heading, body, again, facts)

    async def query(self, arguments: QueryArguments, scope: str) -> Answer:
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
        return _answer("query_result", heading, body, again, facts)

    async def summarize(self, arguments: SummarizeArguments, scope: str) -> Answer:
        result = await self._text(arguments.handle, scope)
        text = await self.kept.load(result.handle, scope)
        condensed = await self.summarizer(text, arguments.max_tokens, arguments.focus)
        sizes = f"{condensed.tokens_before:,} → {condensed.tokens_after:,} tokens, {condensed.status}"
        facts = {
            "status": condensed.status,
            "tokens_before": condensed.tokens_before,
            "tokens_after": condensed.tokens_after,
            "encoding": condensed.encoding,
            "lost": [str(lost) for lost in condensed.lost],
        }
        return replace(
            _answer("summarize_result", f"{result.handle} ({result.origin}): {sizes}", condensed.text, None, facts),
            work=condensed.work,
        )

    async def _text(self, handle: str, scope: str) -> KeptResult:
        result = await self.kept.find(handle, scope)
        if not result.is_text:
            raise InputError(
                f"{result.handle} is not text: {result.kind} of type {result.mime_type}, {result.size:,} bytes."
            )
        return result


@dataclass(frozen=True)
class ReadBackTool:
    name: str
    description: str
    arguments: type[_Arguments]
    run: Callable[[ReadBack, Any, str], Awaitable[Answer]]

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments. Shared because building it takes milliseconds: do not modify."""
        schema = self.arguments.model_json_schema()
        for one in (schema, *schema["properties"].values()):
            one.pop("title", None)
            if "description" in one:
                one["description"] = " ".join(one["description"].split())
        return schema


TOOLS: tuple[ReadBackTool, ...] = (
    ReadBackTool(
        "read_result",
        "Read lines (or bytes) of a kept tool result by its handle. The whole result is kept; what you saw was "
        "shortened. Answers are pages; each says how to get the next.",
        ReadArguments,
        ReadBack.read,
    ),
    ReadBackTool(
        "search_result",
        "Search a kept tool result with a regular expression. Returns the matching lines with their numbers, and how "
        "many there are in total.",
        SearchArguments,
        ReadBack.search,
    ),
    ReadBackTool(
        "query_result",
        "Query a kept tool result with SQL if it is a table: JSON list, JSON lines, CSV or aligned columns. Its rows "
        "are the table `result`; the lines of any text are the table `lines` (number, line). Count, filter, sort and "
        "group here instead of reading everything.",
        QueryArguments,
        ReadBack.query,
    ),
    ReadBackTool(
        "summarize_result",
        "Summarize the whole of a kept tool result again, with another focus or size.",
        SummarizeArguments,
        ReadBack.summarize,
    ),
)
"""The tools to offer to models."""


def _answer(tool: str, heading: str, body: str, following: dict[str, Any] | None, facts: dict[str, Any]) -> Answer:
    call = ", ".join(f"{name}={value!r}" for name, value in (following or {}).items())
    ending = f"\n[More: {tool}({call})]" if following else "\n[End]"
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


def _explained(wrong: ValidationError) -> str:
    messages = []
    for error in wrong.errors(include_url=False, include_context=False):
        name = ".".join(str(place) for place in error["loc"])
        messages.append(f"{name}: {error['msg'][0].lower()}{error['msg'][1:]}")
    return "; ".join(messages)
