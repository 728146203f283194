"""Kept results: stored whole under a handle, read back in parts, and expanded where a handle is an argument.

Only masked text is stored, so everything read back is masked. Lines are counted
from 1 and end with `\\n`. Bytes are those of the UTF-8 text; an offset inside a
character moves to its beginning, so adjacent ranges neither overlap nor lose bytes.

The caller decides what is kept and when it is condensed; `store.results` decides
how it is stored.
"""

import codecs
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import InputError, ResultNotFound, StoreUnavailable
from tersely.masking.masked import NOTHING, Masked, from_store
from tersely.results.references import handle_of, handles_in
from tersely.results.spool import ResultSpool, SpooledResult, user_scope
from tersely.store import results
from tersely.store.database import Database
from tersely.store.packing import FRAME_BYTES, PackedText, pack, pack_frames, storable, unpack
from tersely.store.results import KeptResult, Kind, Origin
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

__all__ = ["KeptResult", "KeptResults", "Origin", "TextRange", "user_scope"]

SWEEP_EVERY = timedelta(minutes=5)

HEAVY_BYTES = 128 * 1024
"""Packed size above which a write counts as heavy, so that it does not delay light ones."""
MAX_EXPANDED_BYTES = 64 * 2**20
"""Total size of the results that the handles in one call's arguments may expand to."""


@dataclass(frozen=True)
class TextRange:
    """A part of a kept text, and the byte range it covers after alignment to characters."""

    text: Masked
    start: int
    end: int


class KeptResults:
    """The kept results of all scopes; every method takes the scope it may see.

    Args:
        retention: How long a result can be read after it was last kept.
        max_bytes: Disk space for all results; the oldest are deleted first.
        spool: Results that processes without a database wrote; they are taken in when they are needed.
    """

    def __init__(
        self,
        database: Database,
        *,
        retention: timedelta = timedelta(days=30),
        max_bytes: int = 2 * 2**30,
        spool: ResultSpool | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.database = database
        self.retention = retention
        self.max_bytes = max_bytes
        self.spool = spool
        self._clock = clock
        self._swept_at: datetime | None = None

    async def keep(
        self,
        text: Masked,
        *,
        scope: str,
        origin: Origin,
        kind: Literal["text", "structured"] = "text",
        mime_type: str = "",
        part: int = 0,
        tokens: int | None = None,
    ) -> str:
        """Keep a text (structured content as JSON) and return its handle.

        The same text of the same call has the same handle.

        Args:
            tokens: Number of o200k_base tokens; counted here if None.
        """
        if tokens is None:
            tokens = await run_cpu(O200K.count, text)
        packed = await run_in_thread(_packed_text, text)
        mime_type = mime_type or ("application/json" if kind == "structured" else "text/plain")
        return await self._keep(packed, scope, origin, kind, mime_type, part, tokens)

    async def keep_bytes(
        self,
        content: bytes,
        *,
        scope: str,
        origin: Origin,
        mime_type: str,
        kind: Literal["image", "other"] = "other",
        part: int = 0,
    ) -> str:
        """Keep content that is not text; it is not inspected, and only returned whole."""
        packed = await run_in_thread(pack, content)
        return await self._keep(packed, scope, origin, kind, mime_type, part, None)

    async def _keep(
        self, packed: PackedText, scope: str, origin: Origin, kind: Kind, mime_type: str, part: int, tokens: int | None
    ) -> str:
        now = self._clock()
        async with self.database.transaction(heavy=len(packed.data) > HEAVY_BYTES) as db:
            handle = await results.keep(
                db,
                packed,
                scope=scope,
                origin=origin,
                kind=kind,
                mime_type=mime_type,
                part=part,
                tokens=tokens,
                encoding=None if tokens is None else O200K.name,
                now=now,
                retention=self.retention,
            )
        if self._swept_at is None or now - self._swept_at >= SWEEP_EVERY:
            await self._sweep_in_passing(now)
        return handle

    async def _sweep_in_passing(self, now: datetime) -> None:
        self._swept_at = now
        try:
            swept = await self.sweep()
        except StoreUnavailable as problem:
            # The result is kept and its handle has to be returned; sweeping can wait.
            logger.warning("sweep_failed", extra={"problem": str(problem)})
            return
        if swept.more:
            self._swept_at = None  # Sweep again with the next result, so as not to fall behind.

    async def sweep(self) -> results.Swept:
        """Delete a bounded number of results that have expired or exceed the space; `keep` also calls this."""
        async with self.database.transaction(heavy=True) as db:
            return await results.sweep(db, now=self._clock(), max_bytes=self.max_bytes)

    async def find(self, handle: str, scope: str) -> KeptResult:
        """The kept result of a handle, without its content.

        Raises:
            ResultNotFound, ResultExpired: The message tells a model what to do.
        """
        handle = handle.strip().removeprefix("result:")
        try:
            async with self.database.reading(light=True) as db:
                return await results.find(db, handle, scope=scope, now=self._clock())
        except ResultNotFound:
            spooled = self.spool.find(handle) if self.spool else None
            if spooled is None or not await self._take_in(spooled):
                raise
        async with self.database.reading(light=True) as db:
            return await results.find(db, handle, scope=scope, now=self._clock())

    async def take_in(self) -> None:
        """Move all spooled results into the store; those that cannot be moved stay where they are."""
        for spooled in self.spool.every() if self.spool else ():
            await self._take_in(spooled)

    async def _take_in(self, spooled: SpooledResult) -> bool:
        """Move one spooled result into the store, under its handle."""
        assert self.spool is not None
        header = spooled.header
        try:
            called_at = datetime.fromtimestamp(header["at"], UTC)
            origin = Origin(
                server=str(header.get("server", "")),
                tool=str(header["tool"]),
                arguments=header.get("arguments"),
                called_at=called_at,
            )
            packed = await run_in_thread(_packed_file, spooled)
            async with self.database.transaction(heavy=len(packed.data) > HEAVY_BYTES) as db:
                await results.keep(
                    db,
                    packed,
                    scope=str(header["scope"]),
                    origin=origin,
                    kind="text",
                    mime_type="text/plain",
                    part=0,
                    tokens=int(header["tokens"]),
                    encoding=O200K.name,
                    now=called_at,
                    retention=self.retention,
                    handle=str(header["handle"]),
                )
        except (KeyError, TypeError, ValueError, OverflowError, OSError) as problem:
            logger.warning("spooled_result_unreadable", extra={"problem": type(problem).__name__})
            return False
        self.spool.drop(spooled)
        return True

    async def list(self, scope: str, *, after: str = "", limit: int = 50) -> list[KeptResult]:
        """A scope's results, newest first; `after` is the handle of the last one on the previous page.

        Raises:
            ResultNotFound, ResultExpired: `after` no longer exists.
        """
        await self.take_in()
        async with self.database.reading() as db:
            now = self._clock()
            last = await results.find(db, after, scope=scope, now=now) if after else None
            before = (last.created_at, last.handle) if last else None
            return await results.listed(db, scope=scope, now=now, before=before, limit=limit)

    async def forget(self, scope: str) -> int:
        """Delete all of a scope's results and return their number."""
        async with self.database.transaction(heavy=True) as db:
            return await results.forget(db, scope=scope)

    async def load(self, handle: str, scope: str) -> Masked:
        """The whole text.

        Raises:
            ResultNotFound, ResultExpired: See `find`.
            InputError: The result is not text.
        """
        result = _text(await self.find(handle, scope))
        return await self._decoded(result, 0, result.size)

    async def load_bytes(self, handle: str, scope: str) -> tuple[bytes, str]:
        """The whole of any result, and its MIME type."""
        result = await self.find(handle, scope)
        return await self._bytes(result, 0, result.size), result.mime_type

    async def read_lines(self, result: KeptResult, first: int, last: int) -> Masked:
        """Lines `first` to `last`, inclusive, with their line ends; fewer if the text is shorter."""
        if last < first or first > result.lines:
            return NOTHING
        return await self._decoded(
            _text(result), await self.line_start(result, first), await self.line_start(result, last + 1)
        )

    async def read_stretch(self, result: KeptResult, start: int, end: int) -> TextRange:
        """Bytes `start` to `end` (exclusive), each moved to the beginning of the character it is in."""
        start, end = max(0, min(start, result.size)), max(0, min(end, result.size))
        if end <= start:
            return TextRange(NOTHING, start, start)
        # A character has up to four bytes: three before either edge are enough to find its beginning.
        before = max(0, start - 3)
        raw = await self._bytes(_text(result), before, end + 1)
        start = _character_start(raw, start - before) + before
        end = _character_start(raw, end - before) + before
        return TextRange(_masked(raw[start - before : end - before]), start, end)

    async def line_start(self, result: KeptResult, line: int) -> int:
        """The byte at which a line begins; the size of the text for a line past its end."""
        if line <= 1:
            return 0
        at = result.frames.break_frame(line - 1)
        if at is None:
            return result.size
        start, end = result.frames.starts[at : at + 2]
        frame = await self._bytes(result, start, end)
        return end - len(frame.split(b"\n", line - 1 - result.frames.breaks[at])[-1])

    async def line_at(self, result: KeptResult, position: int) -> int:
        """The line that contains a byte."""
        covering = result.frames.covering(position, position + 1)
        if not covering:
            return max(1, result.lines)
        start = result.frames.starts[covering.start]
        return result.frames.breaks[covering.start] + (await self._bytes(result, start, position)).count(b"\n") + 1

    async def expand(self, arguments: Any, scope: str) -> Any:
        """Replace every `"result:r_…"` and `{"$result": "r_…"}` in the arguments, at any depth, by the kept text.

        Raises:
            ResultNotFound, ResultExpired: A handle cannot be resolved.
            InputError: A result is not text, or the texts are too large in total.
        """
        if not (wanted := handles_in(arguments)):
            return arguments
        found = {handle: _text(await self.find(handle, scope)) for handle in wanted}
        total = sum(found[handle].size * times for handle, times in wanted.items())
        if total > MAX_EXPANDED_BYTES:
            raise InputError(
                f"The handles in the arguments stand for {total:,} bytes; one call may pass {MAX_EXPANDED_BYTES:,}. "
                "Pass fewer, or only the parts that read_result finds."
            )
        texts = {handle: await self._decoded(result, 0, result.size) for handle, result in found.items()}
        return _expanded(arguments, texts)

    async def _bytes(self, result: KeptResult, start: int, end: int) -> bytes:
        covering = result.frames.covering(start, end)
        if not covering:
            return b""
        async with self.database.reading(light=len(covering) <= 2) as db:
            data = await results.packed_range(db, result, covering)
        if len(covering) <= 2:
            return unpack(data, result.frames, start, end)
        return await run_in_thread(unpack, data, result.frames, start, end)

    async def _decoded(self, result: KeptResult, start: int, end: int) -> Masked:
        return _masked(await self._bytes(result, start, end))


def _packed_text(text: str) -> PackedText:
    return pack(storable(text).encode())


def _packed_file(spooled: SpooledResult) -> PackedText:
    """Pack a spooled text in bounded memory."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return pack_frames(storable(decode(block)).encode() for block in spooled.blocks(FRAME_BYTES))


def _masked(raw: bytes) -> Masked:
    return from_store(raw.decode())


def _text(result: KeptResult) -> KeptResult:
    if not result.is_text:
        raise InputError(
            f"{result.handle} is not text: {result.kind} of type {result.mime_type}, {result.size:,} bytes."
        )
    return result


def _character_start(raw: bytes, at: int) -> int:
    if at >= len(raw):
        return len(raw)
    while at > 0 and raw[at] & 0b1100_0000 == 0b1000_0000:
        at -= 1
    return at


def _expanded(value: Any, texts: dict[str, Masked]) -> Any:
    if (handle := handle_of(value)) is not None:
        return texts[handle]
    if isinstance(value, dict):
        return {name: _expanded(inner, texts) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_expanded(inner, texts) for inner in value]
    return value
