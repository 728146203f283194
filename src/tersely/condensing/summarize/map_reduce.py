"""Summaries by a model: one call if the text fits one, otherwise a tree of merges.

A part that fails becomes a gap that is named with its lines; the others are kept. A merge
starts as soon as its children are ready. All calls run in one task group: cancelling the
caller stops them.

Knows nothing of servers, stores or sessions. `ladder` chooses the strategy and decides
what to return if nothing could be summarized.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.to_thread

from tersely.condensing.account import Lost
from tersely.condensing.budget import Condensed, ModelWork
from tersely.condensing.prompt_files import Fence, Prompt
from tersely.condensing.summarize import plan
from tersely.condensing.summarize.answers import NotASummary, checked, invented
from tersely.condensing.summarize.cache import NoCache, SummaryCache, cache_key
from tersely.condensing.summarize.fold import HEADER
from tersely.condensing.summarize.source import Source, folded_source, whole_source
from tersely.errors import LLMError, LLMMisconfigured, LLMOutOfQuota, LLMRefused, LLMTooLong, LLMUnavailable
from tersely.llm.client import LLM
from tersely.llm.messages import Completion, Message, Superseded, TextDelta, Usage
from tersely.masking.masked import Masked
from tersely.text.chunks import Chunk, chunk
from tersely.text.tokens import O200K
from tersely.text.truncate import cut_at_sentence

MAP = Prompt("map")
MAP_EXTRACTION = Prompt("map_extraction")
MERGE = Prompt("merge")
NUDGE = Prompt("nudge")

MAX_SPLITS = 3
"""How often a part that the provider rejects as too long is halved."""


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """Requirements for a summary."""

    target: int
    """Largest summary in o200k_base tokens."""

    focus: str = ""
    context: str = ""
    """Origin and circumstances of the text, for the model: masked, and data like the text itself."""

    extraction: bool = False
    """The focus describes a schema, and a program reads the summary."""

    strategy: str = "semantic"
    chunk_size: int = 8000
    overlap: int = 500

    @property
    def map_prompt(self) -> Prompt:
        return MAP_EXTRACTION if self.extraction else MAP


@dataclass(frozen=True)
class Progress:
    done: int
    total: int


OnText = Callable[[str | None], None]
"""Receives the summary piece by piece while it is written; None discards everything received so far."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A summary of some lines, or the gap in its place."""

    text: str
    first: int
    last: int
    gaps: tuple[Lost, ...] = ()
    """Missing because the model failed."""

    cuts: tuple[Lost, ...] = ()
    """Missing because the model wrote too much."""

    @property
    def missing(self) -> bool:
        return not self.text


@dataclass
class _Run:
    """State and totals of one summarization."""

    text: Masked
    request: SummaryRequest
    llm: LLM
    cache: SummaryCache
    on_progress: Callable[[Progress], None]
    leaf_turns: anyio.Semaphore
    calls_planned: int = 0
    calls_done: int = 0
    usage: Usage = field(default_factory=Usage)
    answers: int = 0
    """Answers requested, from the model or from the cache."""

    cache_hits: int = 0
    models: dict[str, None] = field(default_factory=dict)
    failures: list[LLMError] = field(default_factory=list)
    providers: dict[str, None] = field(default_factory=dict)
    source: Source = field(default_factory=lambda: whole_source(""))
    on_text: OnText | None = None

    async def ask(
        self,
        prompt: Prompt,
        content: str,
        *,
        place: str,
        name: str,
        limit: int,
        source_tokens: int,
        heard: bool = False,
    ) -> tuple[str, bool]:
        """Return one answer of at most `limit` tokens, from the cache or the model; retry an unusable one once.

        Args:
            heard: This answer is the final summary and not a part of it, so listeners receive it.

        Raises:
            LLMError: No usable answer.
        """
        tokenizer = self.llm.tokenizer
        request = self.request
        key = cache_key(
            prompt.version, self.llm.provider, self.llm.model, request.focus, request.context, place, limit, content
        )
        self.answers += 1
        if (kept := _unpacked(await self.cache.get(key))) is not None:
            self.cache_hits += 1
            self.models[kept["model"]] = None
            return kept["text"], kept["cut"]
        fence = Fence.around(content, request.focus, request.context)
        system = prompt.fill(words=str(max(10, int(limit * plan.WORDS_PER_TOKEN))), nonce=fence.nonce)
        beside = [
            fence.wrap(what, said) for what, said in (("context", request.context), ("focus", request.focus)) if said
        ]
        blocks = [place, *beside, fence.wrap(name, content)]
        # Content is a part of the masked text or a model's words about it; the focus was masked with it.
        question = self.text.derive("\n\n".join(block for block in blocks if block))
        messages = [Message("system", self.text.derive(system)), Message("user", question)]
        await self._check_window(messages, limit)
        for attempt in (1, 2):
            answer = await self._answer(messages, plan.headroom(limit), self.on_text if heard else None)
            self.usage += answer.usage
            self.models[answer.model] = None
            self.providers[answer.provider] = None
            try:
                text, cut = checked(answer, source_tokens=source_tokens, limit=limit, tokenizer=tokenizer)
            except NotASummary as useless:
                if attempt == 2:
                    raise
                nudge = NUDGE.fill(problem=str(useless))
                messages = [messages[0], replace(messages[1], text=question.derive(f"{question}\n\n{nudge}"))]
                continue
            await self.cache.put(key, json.dumps({"text": text, "cut": cut, "model": answer.model}))
            return text, cut
        raise AssertionError("the second useless answer raises")

    async def _answer(self, messages: Sequence[Message], limit: int, on_text: OnText | None) -> Completion:
        if on_text is None:
            return await self.llm.complete(messages, max_tokens=limit)
        on_text(None)
        answer: Completion | None = None
        async for delta in self.llm.stream(messages, max_tokens=limit):
            if isinstance(delta, Completion):
                answer = delta
            elif isinstance(delta, TextDelta):
                on_text(delta.text)
            elif isinstance(delta, Superseded):
                on_text(None)
        assert answer is not None, "a stream ends with its completion"
        return answer

    async def _check_window(self, messages: Sequence[Message], limit: int) -> None:
        prompt = "\n".join(message.text for message in messages)
        room = self.llm.window - plan.headroom(limit)
        if await anyio.to_thread.run_sync(self.llm.tokenizer.exceeds, prompt, room):
            raise LLMTooLong(f"A prompt with more than {room} tokens was not sent to {self.llm.model!r}.")

    def one_done(self) -> None:
        self.calls_done += 1
        self.calls_planned = max(self.calls_planned, self.calls_done)
        self.on_progress(Progress(self.calls_done, self.calls_planned))

    async def summarize_part(
        self, part: Chunk, lines: tuple[int, int], *, limit: int, place: str, splits: int = 0, heard: bool = False
    ) -> Piece:
        """Summarize one part; a failure is recorded in the piece.

        Raises:
            LLMMisconfigured, LLMOutOfQuota: The other parts would fail as well.
        """
        first, last = lines
        if part.tokens <= limit:
            return Piece(text=part.text.strip(), first=first, last=last)  # already as short as its summary would be
        try:
            where = f"{place}\n{self.source.legend}".strip()
            text, cut = await self.ask(
                self.request.map_prompt,
                part.text,
                place=where,
                name="text",
                limit=limit,
                source_tokens=part.tokens,
                heard=heard,
            )
        except (LLMMisconfigured, LLMOutOfQuota):
            raise
        except LLMTooLong as problem:
            if splits < MAX_SPLITS and part.tokens > 2 * plan.SMALLEST_CHUNK:
                return await self._summarize_halves(part, lines, limit=limit, splits=splits + 1)
            return self._gap(first, last, problem)
        except LLMError as problem:
            return self._gap(first, last, problem)
        cuts = (Lost("the end of this part's summary, which was cut", ((first, last),)),) if cut else ()
        return Piece(text=text, first=first, last=last, cuts=cuts)

    async def _summarize_halves(self, part: Chunk, lines: tuple[int, int], *, limit: int, splits: int) -> Piece:
        size = max(plan.SMALLEST_CHUNK, part.tokens // 2)
        halves = chunk(part.text, size=size, overlap=0, strategy=self.request.strategy, tokenizer=self.llm.tokenizer)
        self.calls_planned += len(halves)
        pieces: list[Piece | None] = [None] * len(halves)
        carried = len(part.text) - (part.end - part.start)

        async def summarize(index: int, half: Chunk) -> None:
            # The position of the half in the part, minus the headings that the part repeats, is its position in the
            # source.
            start, end = (max(part.start, part.start + offset - carried) for offset in (half.start, half.end))
            line = part.line + self.source.text.count("\n", part.start, start)
            where = self.source.lines(start, end, line)
            place = f"Lines {where[0]}-{where[1]} of the source."
            share = max(16, limit // len(halves))
            pieces[index] = await self.summarize_part(half, where, limit=share, place=place, splits=splits)
            self.one_done()

        async with anyio.create_task_group() as tasks:
            for index, half in enumerate(halves):
                tasks.start_soon(summarize, index, half)
        return _joined([piece for piece in pieces if piece is not None])

    async def merge(self, pieces: Sequence[Piece], *, limit: int, splits: int = 0, heard: bool = False) -> Piece:
        """Merge several summaries into one; on failure, concatenate their beginnings."""
        present = [piece for piece in pieces if not piece.missing]
        merged = replace(_joined(pieces), text="")
        tokenizer = self.llm.tokenizer
        if not present:
            return merged
        if len(present) == 1 and not tokenizer.exceeds(present[0].text, limit):
            return replace(merged, text=present[0].text)
        lines = (merged.first, merged.last)
        content = "\n\n".join(f"[lines {piece.first}-{piece.last}]\n{piece.text}" for piece in present)
        place = f"Summaries of lines {lines[0]}-{lines[1]}.\n{self.source.legend}".strip()
        try:
            tokens = tokenizer.count(content)
            text, cut = await self.ask(
                MERGE, content, place=place, name="summaries", limit=limit, source_tokens=tokens, heard=heard
            )
        except (LLMMisconfigured, LLMOutOfQuota):
            raise
        except LLMTooLong as problem:
            if splits < MAX_SPLITS and len(present) > 1:
                return await self._merge_halves(pieces, present, limit=limit, splits=splits + 1)
            self.failures.append(problem)
        except LLMError as problem:
            self.failures.append(problem)
        else:
            cuts = (Lost("the end of a merged summary, which was cut", (lines,)),) if cut else ()
            return replace(merged, text=text, cuts=(*merged.cuts, *cuts))
        # The parts' summaries exist and are paid for: cutting each is better than discarding all.
        each = max(16, limit // len(present) - plan.LABEL_TOKENS)
        text = "\n\n".join(
            f"[lines {piece.first}-{piece.last}] {cut_at_sentence(piece.text, each, tokenizer)}" for piece in present
        )
        note = Lost("the merging of these summaries, which failed: each is cut short instead", (lines,))
        return replace(merged, text=cut_at_sentence(text, limit, tokenizer), gaps=(*merged.gaps, note))

    async def _merge_halves(
        self, pieces: Sequence[Piece], present: Sequence[Piece], *, limit: int, splits: int
    ) -> Piece:
        """Merge in two calls with half of the content each what the provider rejects as too long for one."""
        if len(present) == 2:
            shorter = [replace(piece, text=_half(piece.text)) for piece in present]
            return replace(
                await self.merge(shorter, limit=limit, splits=splits),
                gaps=_joined(pieces).gaps,
                cuts=_joined(pieces).cuts,
            )
        middle = pieces.index(present[len(present) // 2])
        halves = [
            await self.merge(half, limit=max(16, limit // 2), splits=splits)
            for half in (pieces[:middle], pieces[middle:])
        ]
        return _joined(halves)

    def _gap(self, first: int, last: int, problem: LLMError) -> Piece:
        self.failures.append(problem)
        why = " ".join(str(problem).split())[:160]
        return Piece(
            text="",
            first=first,
            last=last,
            gaps=(Lost(f"a part that could not be summarized: {why}", ((first, last),)),),
        )


async def summarize_text(
    text: Masked,
    *,
    request: SummaryRequest,
    llm: LLM,
    cache: SummaryCache | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_text: OnText | None = None,
) -> Condensed:
    """Summarize a text of any size with a model.

    Raises:
        LLMError: No part could be summarized, or the operator has to act first.
    """
    run = _Run(
        text, request, llm, cache or NoCache(), on_progress, anyio.Semaphore(2 * llm.concurrency), on_text=on_text
    )
    frame = await anyio.to_thread.run_sync(_frame_tokens, run)
    room = plan.Room.beside(frame, window=llm.window, output_cap=llm.output_cap)
    size = plan.chunk_tokens(room, target=request.target, frame=frame, wanted=request.chunk_size)
    source = run.source = await anyio.to_thread.run_sync(folded_source, text)
    if said_once := await anyio.to_thread.run_sync(_fits_folded, text, source, request.target):
        return said_once

    def merges_for(parts: int) -> plan.Merges:
        return plan.plan_merges(room, parts=parts, chunk=size, target=request.target, frame=frame)

    parts = await anyio.to_thread.run_sync(
        _parts, source.text, request, size, llm, lambda parts: sum(level.groups for level in merges_for(parts).levels)
    )
    lines = await anyio.to_thread.run_sync(lambda: [source.lines(part.start, part.end, part.line) for part in parts])
    merges = merges_for(len(parts))
    run.calls_planned = len(parts) + sum(level.groups for level in merges.levels)
    try:
        whole = _joined(await _climb_tree(run, parts, lines, merges))
        if whole.missing:
            raise _why(run.failures)
    except LLMError as failure:
        failure.work = _work(run, len(parts), len(merges.levels), [])
        raise
    return await anyio.to_thread.run_sync(_told, run, text, whole, len(parts), len(merges.levels))


def _parts(text: str, request: SummaryRequest, size: int, llm: LLM, merges_of: Callable[[int], int]) -> list[Chunk]:
    """Split the text into parts of at most `size` tokens, as many as fill the rounds of calls that they take.

    32 parts and their first merge, at five calls at a time, take seven rounds, the last of them with two idle slots; 34
    smaller parts take the same seven, each slightly faster. Beyond ten rounds it makes no difference.
    """

    def divided(size: int) -> list[Chunk]:
        return chunk(
            text, size=size, overlap=min(request.overlap, size // 4), strategy=request.strategy, tokenizer=llm.tokenizer
        )

    parts = divided(size)
    if llm.concurrency < len(parts) < 10 * llm.concurrency:
        beside = max(0, merges_of(len(parts)) - 1)  # all but the last merge share the rounds with the parts
        fitting = math.ceil((len(parts) + beside) / llm.concurrency) * llm.concurrency - beside
        evenly = sum(part.tokens for part in parts) / fitting
        for slack in (1.02, 1.05):
            more = divided(min(size, math.ceil(evenly * slack))) if fitting > len(parts) else parts
            if len(parts) < len(more) <= fitting:
                return more
    return parts


async def _climb_tree(
    run: _Run, parts: Sequence[Chunk], lines: Sequence[tuple[int, int]], merges: plan.Merges
) -> list[Piece]:
    """Summarize the leaves and merge upwards; return the pieces of the topmost level, in the order of the text."""
    rows: list[list[Piece | None]] = [
        [None] * count for count in (len(parts), *(level.groups for level in merges.levels))
    ]
    ready: list[list[anyio.Event]] = [[anyio.Event() for _ in row] for row in rows]

    def finish(row: int, index: int, piece: Piece) -> None:
        rows[row][index] = piece
        ready[row][index].set()
        run.one_done()

    async def leaf(index: int, part: Chunk) -> None:
        # Limit the leaves that wait for the limiter, so that a merge whose children are ready is not queued behind
        # them.
        async with run.leaf_turns:
            first, last = lines[index]
            place = f"Part {index + 1} of {len(parts)}, lines {first}-{last} of the source." if len(parts) > 1 else ""
            is_all = len(parts) == 1
            finish(0, index, await run.summarize_part(part, lines[index], limit=merges.part, place=place, heard=is_all))

    async def merge(row: int, index: int, children: range) -> None:
        pieces: list[Piece] = []
        for child in children:
            await ready[row - 1][child].wait()
            piece = rows[row - 1][child]
            assert piece is not None
            pieces.append(piece)
        finish(row, index, await run.merge(pieces, limit=merges.levels[row - 1].answer, heard=len(rows[row]) == 1))

    try:
        async with anyio.create_task_group() as tasks:
            for row, level in enumerate(merges.levels, start=1):
                for index, children in enumerate(plan.shares(len(rows[row - 1]), level.groups)):
                    tasks.start_soon(merge, row, index, children)
            for index, part in enumerate(parts):
                tasks.start_soon(leaf, index, part)
    except BaseExceptionGroup as several:
        # Only failures that affect all parts get here, and one of them is representative.
        _, others = several.split(LLMError)
        if others is None:
            raise _first(several) from None
        raise
    top = [piece for piece in rows[-1] if piece is not None]
    assert len(top) == len(rows[-1])
    return top


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = several.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _frame_tokens(run: _Run) -> int:
    """Return the tokens of the longer of the two prompts without content."""
    fence = Fence.around(run.request.focus, run.request.context)
    frames = [
        prompt.fill(words="999999", nonce=fence.nonce)
        + f"\n\nPart 99999 of 99999, lines 9999999-9999999 of the source.\n{HEADER}\n\n"
        + fence.wrap("context", run.request.context)
        + fence.wrap("focus", run.request.focus)
        + fence.wrap("summaries", "")
        + NUDGE.fill(problem="the answer is no shorter than its source " * 4)
        for prompt in (run.request.map_prompt, MERGE)
    ]
    return max(run.llm.tokenizer.count(frame) for frame in frames)


def _joined(pieces: Sequence[Piece]) -> Piece:
    return Piece(
        text="\n\n".join(piece.text for piece in pieces if not piece.missing),
        first=pieces[0].first,
        last=pieces[-1].last,
        gaps=tuple(gap for piece in pieces for gap in piece.gaps),
        cuts=tuple(cut for piece in pieces for cut in piece.cuts),
    )


def _why(failures: Sequence[LLMError]) -> LLMError:
    for failure in failures:
        if isinstance(failure, LLMUnavailable):
            return failure
    return failures[0] if failures else LLMRefused("The model gave no summary.")


def _told(run: _Run, text: str, whole: Piece, chunks: int, levels: int) -> Condensed:
    """Return the summary within its target, with its gaps named in the text and listed in `lost`."""
    note = ""
    if whole.gaps:
        lines = tuple(gap_lines for gap in whole.gaps for gap_lines in gap.lines)
        note = f"\n\n[{Lost('Not or not fully covered, because the model failed there', lines)}]"
        if O200K.exceeds(note, run.request.target // 2):
            note = ""  # then only `lost` lists it
    said = cut_at_sentence(whole.text, run.request.target - O200K.count(note), O200K)
    summary = said + note
    return Condensed(
        text=summary,
        status="partial" if whole.gaps else "summarized",
        tokens_before=O200K.count(text),
        tokens_after=O200K.count(summary),
        lost=[*whole.gaps, *whole.cuts],
        work=_work(run, chunks, levels, invented(said, text)),
    )


def _work(run: _Run, chunks: int, levels: int, made_up: list[str]) -> ModelWork:
    return ModelWork(
        model=", ".join(run.models) or run.llm.model,
        provider=", ".join(run.providers) or run.llm.provider,
        chunks=chunks,
        levels=levels,
        calls=run.answers,
        cache_hits=run.cache_hits,
        input_tokens=run.usage.input_tokens,
        output_tokens=run.usage.output_tokens,
        price_usd=run.usage.price,
        invented=made_up,
    )


def _fits_folded(text: str, source: Source, target: int) -> Condensed | None:
    """Return a text that fits after folding, which needs no model, preceded by the legend of the folding marks."""
    if not source.legend:
        return None
    folded = f"{source.legend}\n{source.text}"
    if O200K.exceeds(folded, target):
        return None
    return Condensed(
        text=folded,
        status="structural",
        kind="folded",
        tokens_before=O200K.count(text),
        tokens_after=O200K.count(folded),
    )


def _half(text: str) -> str:
    return text[: len(text) // 2].rsplit(maxsplit=1)[0]


def _unpacked(kept: str | None) -> dict[str, Any] | None:
    return json.loads(kept) if kept is not None else None
