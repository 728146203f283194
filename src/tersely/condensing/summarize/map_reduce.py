"""Summaries by a model: one call if the text fits one, otherwise a tree of merges.

A part that fails becomes a gap that is named with its lines; the others are kept. A merge
starts as soon as its children are ready. All calls run in one task group: cancelling the
caller stops them.

Knows nothing of servers, stores or sessions. `ladder` chooses the strategy and decides
what to return if nothing could be summarized.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import anyio

from tersely.condensing.account import Lost
from tersely.condensing.budget import Condensed, ModelWork
from tersely.condensing.prompt_files import Fence, Prompt
from tersely.condensing.summarize import plan
from tersely.condensing.summarize.answers import NotASummary, checked
from tersely.condensing.summarize.cache import NoCache, SummaryCache, cache_key, one_at_a_time
from tersely.condensing.summarize.fold import HEADER
from tersely.condensing.summarize.source import Source, folded_source, whole_source
from tersely.condensing.summarize.verify import MOST_UNSUPPORTED, SourceFacts, Verification
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import (
    LLMError,
    LLMMisconfigured,
    LLMOutOfQuota,
    LLMRefused,
    LLMTooLong,
    LLMUnavailable,
    MaskingFailed,
)
from tersely.llm.client import LLM
from tersely.llm.exchanges import Exchange, report
from tersely.llm.messages import Completion, Message, Superseded, TextDelta, Usage
from tersely.masking.masked import Masked
from tersely.text.chunks import Chunk, chunk
from tersely.text.tokens import O200K
from tersely.text.truncate import cut_at_sentence

_PROMPTS = ("technical", "document", "extraction")
MAP = {name: Prompt(f"map_{name}") for name in _PROMPTS}
MERGE = {name: Prompt(f"merge_{name}") for name in _PROMPTS}
NUDGE = Prompt("nudge")
UNSUPPORTED = Prompt("unsupported")

_FENCE_TOKENS = 64
"""Delimiters of the conversation in a prompt."""

_LISTED_ITEMS = 50
"""Unsupported items that are listed when an answer is asked for again."""

MAX_SPLITS = 3
"""How often a part that the provider rejects as too long is halved."""


Family = Literal["technical", "document"]
"""Which prompts are used: for the output of tools and systems, or for pages and other prose."""


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """Requirements for a summary. All texts in it are masked, and data like the text to summarize."""

    target: int
    """Largest summary in o200k_base tokens."""

    focus: str = ""
    """What the reader looks for; part of every prompt unless there is a brief."""

    brief: str = ""
    """Question, last thought and call behind the text, in a few hundred tokens; part of every prompt."""

    conversation: tuple[str, ...] = ()
    """The messages before the text, oldest first. Sent once, with the only call or the last merge: the newest that fit
    beside the content, in at most a quarter of the window.
    """

    scope: str = ""
    """Owner of the conversation: an answer to a prompt with a conversation is used again in this scope only."""

    family: Family = "document"
    extraction: bool = False
    """The focus describes a schema, and a program reads the summary."""

    strategy: str = "semantic"
    chunk_size: int | None = None
    """Largest part in tokens; None for what the context window allows."""

    overlap: int = 500
    most_unsupported: float = MOST_UNSUPPORTED
    """Share of numbers, names and quotes that the source does not contain, above which an answer is asked for again."""

    mask: Callable[[str], str] | None = None
    """Applied to every answer before it is checked, cached, shown or sent on: a model may write anything."""

    @property
    def map_prompt(self) -> Prompt:
        return MAP[self._prompts]

    @property
    def merge_prompt(self) -> Prompt:
        return MERGE[self._prompts]

    @property
    def _prompts(self) -> str:
        return "extraction" if self.extraction else self.family


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

    is_cut: bool = False
    """Its own text was cut, not only that of a part below it."""

    is_unverified: bool = False
    """Too many of its numbers, names and quotes are not in the source."""

    @property
    def missing(self) -> bool:
        return not self.text


@dataclass(frozen=True)
class _Answer:
    """A usable answer."""

    text: str
    is_cut: bool
    model: str
    is_unverified: bool = False


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
    facts: SourceFacts = field(default_factory=lambda: SourceFacts(""))
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
        final: bool = False,
    ) -> _Answer:
        """Return one answer of at most `limit` tokens, from the cache or the model.

        An unusable answer is asked for again once; so is one with too much that the source does not contain.

        Args:
            final: This answer is the summary and not a part of it: the model receives the conversation, listeners the
                text.

        Raises:
            LLMError: No usable answer.
        """
        request = self.request
        # The same text with the same question is summarized once, although the conversation has gone on since.
        scope = request.scope if final and request.conversation else ""
        model = (self.llm.provider, self.llm.model)
        key = cache_key(prompt.version, *model, self.focus, scope, place, limit, content)
        self.answers += 1
        messages = await self._messages(prompt, content, place=place, name=name, limit=limit, final=final)
        async with one_at_a_time(key):
            if (kept := await self.cache.get(key)) is not None:
                self.cache_hits += 1
                answer = _Answer(**json.loads(kept))
                self.models[answer.model] = None
                await report(
                    Exchange(
                        provider=self.llm.provider,
                        model=answer.model,
                        messages=messages,
                        outcome="cached",
                        text=answer.text,
                    )
                )
                return answer
            answer = await self._verified(messages, limit=limit, source_tokens=source_tokens, final=final)
            await self.cache.put(key, json.dumps(asdict(answer)))
        return answer

    async def _messages(
        self, prompt: Prompt, content: str, *, place: str, name: str, limit: int, final: bool
    ) -> list[Message]:
        conversation = self.request.conversation if final else ()
        fence = Fence.around(content, self.focus, *conversation)
        system = prompt.fill(words=str(max(10, int(limit * plan.WORDS_PER_TOKEN))), nonce=fence.nonce)
        focus = [fence.wrap("focus", self.focus)] if self.focus else []
        blocks = [place, *focus, fence.wrap(name, content)]
        if conversation:
            taken = await run_in_thread(self.llm.tokenizer.count, "\n\n".join([system, *blocks]))
            room = self.llm.window - plan.headroom(limit) - taken - plan.FRAMING
            if newest := await run_in_thread(self._newest_messages, room):
                blocks.insert(1, fence.wrap("conversation", newest))
        # Content is a part of the masked text or a model's words about it; the rest was masked with it.
        question = self.text.derive("\n\n".join(block for block in blocks if block))
        messages = [Message("system", self.text.derive(system)), Message("user", question)]
        await self._check_window(messages, limit)
        return messages

    async def _verified(self, messages: list[Message], *, limit: int, source_tokens: int, final: bool) -> _Answer:
        """Return a usable answer, checked against the source."""
        answer = await self._usable(messages, limit=limit, source_tokens=source_tokens, final=final)
        found = await run_in_thread(self.facts.check, answer.text)
        if found.share <= self.request.most_unsupported:
            return answer
        listed = "\n".join(f"- {item[:200]}" for item in found.unsupported[:_LISTED_ITEMS])
        fence = Fence.around(listed)
        again = f"{UNSUPPORTED.fill(nonce=fence.nonce)}\n\n{fence.wrap('items', listed)}"
        question = messages[1].text.derive(f"{messages[1].text}\n\n{again}")
        try:
            messages = [messages[0], replace(messages[1], text=question)]
            await self._check_window(messages, limit)
            second = await self._usable(messages, limit=limit, source_tokens=source_tokens, final=final)
        except (LLMMisconfigured, LLMOutOfQuota):
            raise
        except LLMError:
            return replace(answer, is_unverified=True)
        better = await run_in_thread(self.facts.check, second.text)
        if better.share <= self.request.most_unsupported:
            return second
        return replace(second if better.share < found.share else answer, is_unverified=True)

    async def _usable(self, messages: list[Message], *, limit: int, source_tokens: int, final: bool) -> _Answer:
        """Return the model's answer; ask again once for one that is no summary."""
        for attempt in (1, 2):
            answer = await self._answer(messages, plan.headroom(limit), self.on_text if final else None)
            self.usage += answer.usage
            self.models[answer.model] = None
            self.providers[answer.provider] = None
            try:
                text, cut = checked(answer, source_tokens=source_tokens, limit=limit, tokenizer=self.llm.tokenizer)
            except NotASummary as useless:
                if attempt == 2:
                    raise
                question = messages[1].text
                nudge = NUDGE.fill(problem=str(useless))
                messages = [messages[0], replace(messages[1], text=question.derive(f"{question}\n\n{nudge}"))]
                continue
            return _Answer(await self._masked(text), cut, answer.model)
        raise AssertionError("the second useless answer raises")

    async def _masked(self, answer: str) -> str:
        """Mask an answer as a whole: a secret without the words around it looks like any name."""
        if self.request.mask is None:
            return answer
        try:
            return await run_in_thread(self.request.mask, answer)
        except MaskingFailed:
            raise LLMRefused("The answer could not be checked for secrets and was dropped.") from None

    @property
    def focus(self) -> str:
        """What every prompt says about the purpose of the summary."""
        return self.request.brief or self.request.focus

    def _newest_messages(self, room: int) -> str:
        """The newest messages of the conversation in at most `room` tokens and a quarter of the window."""
        left = min(room - _FENCE_TOKENS, self.llm.window // 4)
        newest: list[str] = []
        for message in reversed(self.request.conversation):
            left -= self.llm.tokenizer.count(message) + 1
            if left < 0:
                break
            newest.append(message)
        return "\n".join(reversed(newest))

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
        if await run_in_thread(self.llm.tokenizer.exceeds, prompt, room):
            raise LLMTooLong(f"A prompt with more than {room} tokens was not sent to {self.llm.model!r}.")

    def one_done(self) -> None:
        self.calls_done += 1
        self.calls_planned = max(self.calls_planned, self.calls_done)
        self.on_progress(Progress(self.calls_done, self.calls_planned))

    async def summarize_part(
        self, part: Chunk, lines: tuple[int, int], *, limit: int, place: str, splits: int = 0, final: bool = False
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
            answer = await self.ask(
                self.request.map_prompt,
                f"{self.source.preamble}\n{part.text}" if self.source.preamble else part.text,
                place=where,
                name="text",
                limit=limit,
                source_tokens=part.tokens,
                final=final,
            )
        except (LLMMisconfigured, LLMOutOfQuota):
            raise
        except LLMTooLong as problem:
            if splits >= MAX_SPLITS or part.tokens <= 2 * plan.SMALLEST_CHUNK:
                return self._gap(first, last, problem)
            # Twice the room for halves that are merged: the merge has to have something to shorten.
            halves = await self._summarize_halves(part, limit=2 * limit if final else limit, splits=splits + 1)
            if not final:
                return _joined(halves)
            self.calls_planned += 1
            return await self.merge(halves, limit=limit, final=True)
        except LLMError as problem:
            return self._gap(first, last, problem)
        cuts = (Lost("the end of this part's summary, which was cut", ((first, last),)),) if answer.is_cut else ()
        return Piece(
            text=answer.text,
            first=first,
            last=last,
            cuts=cuts,
            is_cut=answer.is_cut,
            is_unverified=answer.is_unverified,
        )

    async def _summarize_halves(self, part: Chunk, *, limit: int, splits: int) -> list[Piece]:
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
        return [piece for piece in pieces if piece is not None]

    async def merge(self, pieces: Sequence[Piece], *, limit: int, splits: int = 0, final: bool = False) -> Piece:
        """Merge several summaries into one; on failure, concatenate their beginnings."""
        present = [piece for piece in pieces if not piece.missing]
        merged = replace(_joined(pieces), text="")
        tokenizer = self.llm.tokenizer
        if not present:
            return merged
        if len(present) == 1 and not tokenizer.exceeds(present[0].text, limit):
            return replace(merged, text=present[0].text)
        lines = (merged.first, merged.last)
        content = "\n\n".join(f"{_label(piece)}\n{piece.text}" for piece in present)
        place = f"Summaries of lines {lines[0]}-{lines[1]}.\n{self.source.legend}".strip()
        try:
            tokens = tokenizer.count(content)
            answer = await self.ask(
                self.request.merge_prompt,
                content,
                place=place,
                name="summaries",
                limit=limit,
                source_tokens=tokens,
                final=final,
            )
        except (LLMMisconfigured, LLMOutOfQuota):
            raise
        except LLMTooLong as problem:
            if splits < MAX_SPLITS and len(present) > 1:
                half = limit if final else max(16, limit // 2)
                halves = await self._merge_halves(pieces, present, limit=limit, half=half, splits=splits + 1)
                if len(halves) == 1 or not final:
                    return _joined(halves)
                self.calls_planned += 1
                return await self.merge(halves, limit=limit, splits=splits + 1, final=True)
            self.failures.append(problem)
        except LLMError as problem:
            self.failures.append(problem)
        else:
            cuts = (Lost("the end of a merged summary, which was cut", (lines,)),) if answer.is_cut else ()
            return replace(
                merged,
                text=answer.text,
                cuts=(*merged.cuts, *cuts),
                is_cut=answer.is_cut,
                is_unverified=answer.is_unverified,
            )
        # The parts' summaries exist and are paid for: cutting each is better than discarding all.
        each = max(16, limit // len(present) - plan.LABEL_TOKENS)
        text = "\n\n".join(
            f"[lines {piece.first}-{piece.last}] {cut_at_sentence(piece.text, each, tokenizer)}" for piece in present
        )
        note = Lost("the merging of these summaries, which failed: each is cut short instead", (lines,))
        return replace(merged, text=cut_at_sentence(text, limit, tokenizer), gaps=(*merged.gaps, note))

    async def _merge_halves(
        self, pieces: Sequence[Piece], present: Sequence[Piece], *, limit: int, half: int, splits: int
    ) -> list[Piece]:
        """Merge in two calls with half of the content each what the provider rejects as too long for one.

        Args:
            half: Longest answer of each of the two.
        """
        if len(present) == 2:
            shorter = [replace(piece, text=_half(piece.text)) for piece in present]
            merged = await self.merge(shorter, limit=limit, splits=splits)
            return [replace(merged, gaps=_joined(pieces).gaps, cuts=_joined(pieces).cuts)]
        middle = pieces.index(present[len(present) // 2])
        return [await self.merge(some, limit=half, splits=splits) for some in (pieces[:middle], pieces[middle:])]

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
    source = run.source = await run_cpu(folded_source, text)
    frame, conversation = await run_in_thread(_fixed_tokens, run)
    room = plan.Room.beside(frame + conversation, window=llm.window, output_cap=llm.output_cap)
    size = plan.chunk_tokens(room, target=request.target, frame=frame, wanted=request.chunk_size)
    run.facts = await run_cpu(SourceFacts, text, run.focus, *request.conversation)
    if said_once := await run_in_thread(_fits_folded, text, source, request.target):
        return said_once

    def merges_for(parts: int) -> plan.Merges:
        return plan.plan_merges(
            room, parts=parts, chunk=size, target=request.target, frame=frame, last_frame=frame + conversation
        )

    parts = await run_in_thread(
        _parts, source.text, request, size, llm, lambda parts: sum(level.groups for level in merges_for(parts).levels)
    )
    lines = await run_in_thread(lambda: [source.lines(part.start, part.end, part.line) for part in parts])
    merges = merges_for(len(parts))
    run.calls_planned = len(parts) + sum(level.groups for level in merges.levels)
    try:
        whole = await _climb_tree(run, parts, lines, merges)
        # A short rest that needs no summary does not stand for parts of which none was summarized.
        if whole.missing or (run.failures and not run.models):
            raise _why(run.failures)
    except LLMError as failure:
        failure.work = _work(run, len(parts), len(merges.levels))
        raise
    return await run_in_thread(_told, run, text, whole, len(parts), len(merges.levels))


def _parts(text: str, request: SummaryRequest, size: int, llm: LLM, merges_of: Callable[[int], int]) -> list[Chunk]:
    """Split the text into parts of at most `size` tokens, as many as fill the rounds of calls that they take.

    32 parts and their first merge, at five calls at a time, take seven rounds, the last of them with two idle slots; 34
    smaller parts take the same seven, each slightly faster. Beyond ten rounds it makes no difference. Parts of no fixed
    size are made nearly equal, so that no call takes much longer than the others.
    """

    def divided(size: int) -> list[Chunk]:
        return chunk(
            text, size=size, overlap=min(request.overlap, size // 4), strategy=request.strategy, tokenizer=llm.tokenizer
        )

    parts = divided(size)
    fitting = len(parts)
    if llm.concurrency < len(parts) < 10 * llm.concurrency:
        beside = max(0, merges_of(len(parts)) - 1)  # all but the last merge share the rounds with the parts
        fitting = math.ceil((len(parts) + beside) / llm.concurrency) * llm.concurrency - beside
    if fitting == len(parts) and (request.chunk_size is not None or fitting == 1):
        return parts
    evenly = sum(part.tokens for part in parts) / fitting
    for slack in (1.02, 1.05):
        others = divided(min(size, math.ceil(evenly * slack)))
        if len(parts) <= len(others) <= fitting:
            return others
    return parts


async def _climb_tree(
    run: _Run, parts: Sequence[Chunk], lines: Sequence[tuple[int, int]], merges: plan.Merges
) -> Piece:
    """Summarize the leaves and merge upwards; return the summary at the root."""
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
            finish(0, index, await run.summarize_part(part, lines[index], limit=merges.part, place=place, final=is_all))

    async def merge(row: int, index: int, children: range) -> None:
        pieces: list[Piece] = []
        for child in children:
            await ready[row - 1][child].wait()
            piece = rows[row - 1][child]
            assert piece is not None
            pieces.append(piece)
        finish(row, index, await run.merge(pieces, limit=merges.levels[row - 1].answer, final=row == len(rows) - 1))

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
    (root,) = rows[-1]
    assert root is not None
    return root


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = several.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _fixed_tokens(run: _Run) -> tuple[int, int]:
    """Return the tokens of the longer prompt without content, and those to reserve for the conversation."""
    fence = Fence.around(run.focus)
    frames = [
        prompt.fill(words="999999", nonce=fence.nonce)
        + f"\n\nPart 99999 of 99999, lines 9999999-9999999 of the source.\n{HEADER}\n\n"
        + run.source.preamble
        + fence.wrap("focus", run.focus)
        + fence.wrap("summaries", "")
        + NUDGE.fill(problem="the answer is no shorter than its source " * 4)
        for prompt in (run.request.map_prompt, run.request.merge_prompt)
    ]
    count = run.llm.tokenizer.count
    conversation = sum(count(message) + 1 for message in run.request.conversation)
    return max(map(count, frames)), min(conversation + _FENCE_TOKENS if conversation else 0, run.llm.window // 4)


def _label(piece: Piece) -> str:
    return f"[lines {piece.first}-{piece.last}{', unverified' if piece.is_unverified else ''}]"


def _joined(pieces: Sequence[Piece]) -> Piece:
    return Piece(
        text="\n\n".join(piece.text for piece in pieces if not piece.missing),
        first=pieces[0].first,
        last=pieces[-1].last,
        gaps=tuple(gap for piece in pieces for gap in piece.gaps),
        cuts=tuple(cut for piece in pieces for cut in piece.cuts),
        is_unverified=any(piece.is_unverified for piece in pieces),
    )


def _why(failures: Sequence[LLMError]) -> LLMError:
    for failure in failures:
        if isinstance(failure, LLMUnavailable):
            return failure
    return failures[0] if failures else LLMRefused("The model gave no summary.")


def _told(run: _Run, text: str, whole: Piece, chunks: int, levels: int) -> Condensed:
    """Return the summary within its target, with what is wrong with it in the text and in `lost`."""
    target = run.request.target
    found = run.facts.check(whole.text)
    is_unverified = whole.is_unverified and found.share > run.request.most_unsupported
    remarks = list(_remarks(whole, found if is_unverified else None))
    note = "".join(f"\n\n[{remark}]" for remark in remarks)
    if O200K.exceeds(note, target // 2):
        note = ""  # then only `lost` and the account of the work list it
    said = cut_at_sentence(whole.text, target - O200K.count(note), O200K)
    if said != whole.text and not whole.is_cut:
        # To make room for the remarks.
        cut = Lost("the end of the summary, which was cut", ((whole.first, whole.last),))
        whole = replace(whole, cuts=(*whole.cuts, cut))
    summary = said + note
    return Condensed(
        text=summary,
        status="partial" if whole.gaps else "summarized",
        tokens_before=O200K.count(text),
        tokens_after=O200K.count(summary),
        lost=[*whole.gaps, *whole.cuts],
        work=replace(
            _work(run, chunks, levels),
            invented=list(found.unsupported),
            derived=list(found.derived),
            checked=found.items,
            cited=[list(lines) for lines in found.cited],
            unverified=is_unverified,
            cut=bool(whole.cuts),
            folded_tokens=_folded_tokens(run, text),
        ),
    )


def _remarks(whole: Piece, unverified: Verification | None) -> Iterator[str]:
    """What a reader of the summary has to know about it."""
    if whole.gaps:
        lines = tuple(gap_lines for gap in whole.gaps for gap_lines in gap.lines)
        yield str(Lost("Not or not fully covered, because the model failed there", lines))
    if whole.is_cut:
        yield "The summary was cut at its size limit: its end is missing"
    if unverified:
        examples = ", ".join(item[:60] for item in unverified.unsupported[:5])
        yield (
            f"Unverified: {len(unverified.unsupported)} of {unverified.items} numbers, names and quotes are not in the "
            f"source: {examples}"
        )


def _work(run: _Run, chunks: int, levels: int) -> ModelWork:
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
        invented=[],
    )


def _folded_tokens(run: _Run, text: str) -> int:
    """Tokens that folding saved the model."""
    if not run.source.legend:
        return 0
    return max(0, O200K.count(text) - O200K.count(run.source.preamble) - O200K.count(run.source.text))


def _fits_folded(text: str, source: Source, target: int) -> Condensed | None:
    """Return a text that fits after folding, which needs no model, preceded by the legend of the folding marks."""
    if not source.legend:
        return None
    folded = "\n".join(part for part in (source.legend, source.preamble, source.text) if part)
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
