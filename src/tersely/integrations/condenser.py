"""What the integrations share: the pipeline and the store of this process, for synchronous and asynchronous callers.

Frameworks call tools from threads, from event loops, and from several of them one after the other. The store belongs
to one event loop, so it has one of its own, in a thread that starts with the first result and ends with the process.
"""

import atexit
import functools
import inspect
import json
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tersely.app.summarizer import kept_results
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError, StoreUnavailable, TerselyError
from tersely.masking.mask import Masker
from tersely.pipeline.admit import admit_arguments, admit_value
from tersely.pipeline.content import Content
from tersely.pipeline.core import NoteWriter
from tersely.pipeline.meta import tally as figures_of
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Intent, Pipeline, Processed, Scope
from tersely.results.kept import KeptResults, user_scope
from tersely.results.read_back import ReadBack
from tersely.results.read_back_tool import READ_RESULT
from tersely.settings.model import Settings
from tersely.store.private import masking_key
from tersely.store.results import Origin
from tersely.store.tally import Tally
from tersely.store.usage import add
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

READ_DESCRIPTION = READ_RESULT.description
"""What a model is told about the tool that reads the rest."""


@dataclass(frozen=True, kw_only=True)
class ResultCondenser:
    """Condenses the results of tools, keeps the whole of what it shortened, and reads it back.

    Small results are cleaned and masked and otherwise returned as they came. No result makes a method fail: if the
    store is unavailable, the note says that the whole could not be kept.

    Args:
        threshold: Tokens up to which a result is not condensed.
        budget: Maximum tokens of a condensed result, its note included.
        scope: Owner of the kept results. The default is the operating-system user, as of `tersely read`; a service for
            several users names each of them.
        name: Under this name, `tersely stats` counts the calls.
        reader: Name of the tool that reads kept results, as the model sees it.
    """

    threshold: int = 2_000
    budget: int = 1_000
    scope: str = field(default_factory=user_scope)
    name: str = "library"
    reader: str = READ_RESULT.name

    def __post_init__(self) -> None:
        if not 50 <= self.budget <= self.threshold:
            raise InputError(
                f"The budget ({self.budget}) must be at least 50 tokens and at most the threshold ({self.threshold})."
            )

    def masker(self) -> Masker:
        """Masks with the key of this user, so that the same secret gets the same mark."""
        return Masker(key=_process().key)

    # For asynchronous callers

    async def condense(
        self, content: Content, *, tool: str, arguments: Any = None, question: str = "", scope: str = ""
    ) -> Processed:
        """Run the result of one call through the pipeline.

        Args:
            arguments: The arguments of the call, as JSON values.
            question: What the caller wants to know; decides which parts of a large result are shown.
            scope: Instead of the condenser's own.

        Raises:
            MaskingFailed: The result must not be shown.
        """
        return await run_in_thread(self.condense_now, content, tool, arguments, question, scope)

    async def read(self, arguments: Mapping[str, Any], *, scope: str = "") -> str:
        """Run `read_result` for a model; a mistake of the model is explained in the answer."""
        return await run_in_thread(self.read_now, arguments, scope)

    # For synchronous callers

    def condense_now(
        self, content: Content, tool: str, arguments: Any = None, question: str = "", scope: str = ""
    ) -> Processed:
        """Like `condense`."""
        return _process().run(functools.partial(self._condense, content, tool, arguments, question, scope))

    def read_now(self, arguments: Mapping[str, Any], scope: str = "") -> str:
        """Like `read`."""
        return _process().run(functools.partial(self._read, arguments, scope))

    # On the event loop of the store

    async def _condense(self, content: Content, tool: str, arguments: Any, question: str, scope: str) -> Processed:
        began = time.perf_counter()
        here = _process()
        policy = Policy(masker=Masker(key=here.key), threshold=self.threshold, budget=self.budget, keep="optional")
        admitted = admit_arguments(_json_value(arguments), policy.masker)
        processed = await Pipeline(results=here.kept).process(
            content,
            policy,
            Scope(scope or self.scope, here.key),
            Intent(question=question, called=f"{self.name}.{tool}", arguments=admitted),
            origin=Origin(server=self.name, tool=tool, arguments=admitted, called_at=datetime.now(UTC)),
            note=NoteWriter(read=self.reader, passes_handles=False),
        )
        sizes = figures_of(processed.condensed) if processed.condensed else {}
        if not sizes:
            tokens = O200K.count(processed.text)
            sizes = {"tokens_before": tokens, "tokens_after": tokens}
        tally = Tally()
        milliseconds = (time.perf_counter() - began) * 1000
        tally.call(self._key(tool), milliseconds=milliseconds, is_error=content.is_error, **sizes)
        await here.count(tally, store=processed.condensed is not None)
        return processed

    async def _read(self, arguments: Mapping[str, Any], scope: str) -> str:
        here = _process()
        kept = here.kept
        if kept is None:
            return "The store of kept results is unavailable; call the tool again and ask it for less."
        read_back = ReadBack(kept, summarize=Pipeline(results=kept).summarizer(Masker(key=here.key)))
        try:
            answer = await read_back.call(READ_RESULT.name, arguments, scope or self.scope)
        except TerselyError as problem:
            return str(problem)
        text = answer.text_for(self.reader)
        tally = Tally()
        result = await kept.find(str(arguments.get("handle")), scope or self.scope)
        key = self._key(result.origin.tool)
        tally.read_back(key)
        # What is read again is a cost of having condensed it.
        tally.sums[key].update(tokens_after=O200K.count(text))
        await here.count(tally, store=True)
        return text

    def _key(self, tool: str) -> tuple[Any, str, str, str]:
        return (datetime.now(UTC).date(), "library", self.name, tool)


def wrap(function: Callable[P, T], *, condenser: ResultCondenser | None = None) -> Callable[P, Any]:
    """A function that returns the condensed result of another one, synchronous or asynchronous.

    Texts, and values that are JSON, are cleaned and masked; what is too large comes back as a text with a note that
    names its handle. Anything else is returned as it is. Give the model `condenser.read_now` (or `read`) as a tool.

    Example:
        >>> fetch = wrap(fetch, condenser=ResultCondenser(budget=500))
    """
    condenser = condenser or ResultCondenser()
    name = getattr(function, "__name__", type(function).__name__)

    def arguments_of(args: Any, kwargs: Any) -> dict[str, Any]:
        try:
            return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):
            return dict(kwargs)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def called(*args: P.args, **kwargs: P.kwargs) -> Any:
            result = await function(*args, **kwargs)
            content = content_of_value(result)
            if content is None:
                return result
            processed = await condenser.condense(content, tool=name, arguments=arguments_of(args, kwargs))
            return value_of(processed, result)

        return called

    @functools.wraps(function)
    def called_now(*args: P.args, **kwargs: P.kwargs) -> Any:
        result = function(*args, **kwargs)
        content = content_of_value(result)
        if content is None:
            return result
        return value_of(condenser.condense_now(content, name, arguments_of(args, kwargs)), result)

    return called_now


# Values


def content_of_value(value: Any) -> Content | None:
    """What a function returned, as the pipeline's content; None if it is neither text nor JSON."""
    if isinstance(value, str):
        return Content.of_text(value)
    if value is None or isinstance(value, bool | int | float):
        return None
    plain = _json_value(value)
    return None if plain is None else Content(structured=plain)


def value_of(processed: Processed, value: Any) -> Any:
    """The value for the model: the condensed text, or what came in with its texts cleaned and masked."""
    if processed.condensed is not None or isinstance(value, str):
        return str(processed.text)
    masked = admit_value(_json_value(value), Masker(key=_process().key))
    return value if masked == _json_value(value) else masked


def _json_value(value: Any) -> Any:
    """A value as JSON has it; None if it has none."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


# The process


class _Process:
    """The thread, its event loop, the store, and what was counted."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.settings = Settings.load()
        self.key = masking_key(self.settings.store.data_dir)
        self.kept: KeptResults | None = None
        """The store; None while it is unavailable."""

        self._stack = ExitStack()
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._opening = threading.Lock()
        self._tally = Tally()
        atexit.register(self.close)

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        with self._opening:
            if self.kept is None:
                opened = self._portal.wrap_async_context_manager(kept_results(self.settings))
                try:
                    self.kept = self._stack.enter_context(opened)
                except TerselyError as problem:
                    logger.warning("results_not_kept", extra={"problem": str(problem)})
        return self._portal.call(work)

    async def count(self, new: Tally, *, store: bool) -> None:
        """Add to the statistics; small results are stored together with the next large one."""
        for key, sums in new.sums.items():
            self._tally.sums[key].update(sums)
        for key, buckets in new.latency.items():
            self._tally.latency[key].update(buckets)
        if store:
            await self.store_counts()

    async def store_counts(self) -> None:
        if self.kept is None or not self._tally:
            return
        waiting, self._tally = self._tally, Tally()
        try:
            async with self.kept.database.transaction() as db:
                await add(db, waiting)
        except StoreUnavailable as problem:
            logger.warning("usage_not_stored", extra={"problem": str(problem)})
            await self.count(waiting, store=False)

    def close(self) -> None:
        global _running
        atexit.unregister(self.close)
        if _running is self:
            _running = None
        if self.pid == os.getpid():
            self._portal.call(self.store_counts)
            self._stack.close()


_running: _Process | None = None
_starting = threading.Lock()


def _process() -> _Process:
    global _running
    with _starting:
        # A process that was forked has none of its parent's threads.
        if _running is None or _running.pid != os.getpid():
            _running = _Process()
        return _running


def close() -> None:
    """Store what was counted and close the store; the next result opens it again."""
    if _running is not None:
        _running.close()


def renamed(condenser: ResultCondenser | None, name: str) -> ResultCondenser:
    """The condenser of a framework, counted under its name unless it has a name of its own."""
    if condenser is None:
        return ResultCondenser(name=name)
    return replace(condenser, name=name) if condenser.name == "library" else condenser
