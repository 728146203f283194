"""Calls to models within limits: concurrency, retries, circuit breaker, fallbacks.

A `ProviderLimiter` guards each provider account. It limits concurrent calls, blocks
for as long as a `Retry-After` demands, and opens its circuit when half of the last
calls failed; after either, a single probe call checks whether the provider works again.
A slot is held only while a call is on the wire, never during a wait.
"""

import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread

from tersely.errors import LLMError, LLMMisconfigured, LLMOutOfQuota, LLMTooLong, LLMUnavailable
from tersely.llm.client import ChatModel
from tersely.llm.exchanges import Exchange, Outcome, report
from tersely.llm.messages import (
    Completion,
    Delta,
    Message,
    Superseded,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from tersely.llm.meter import METER
from tersely.llm.provider_errors import log_fields_of
from tersely.llm.providers import ModelSpec, NativeTools
from tersely.text.tokens import Tokenizer

if TYPE_CHECKING:
    from tersely.llm.wire import Timeouts


logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits for one provider account. The defaults are for production; tests shorten the times."""

    concurrency: int = 5
    delays: tuple[float, ...] = (2.0, 4.0, 8.0)
    """Seconds before each retry; the number of delays is the number of retries."""

    jitter: float = 0.25
    """Delays are lengthened by up to this fraction, so that callers do not retry simultaneously."""

    longest_retry_after: float = 60.0
    """In seconds. A provider that demands a longer wait counts as unavailable, and is probed after this time."""

    circuit_window: int = 20
    circuit_open_for: float = 30.0


class CircuitOpen(LLMUnavailable):
    """The call was not sent: the provider has been failing."""


class ProviderLimiter:
    """Concurrency limit and circuit breaker of one provider account."""

    def __init__(self, retry_policy: RetryPolicy) -> None:
        self.retry_policy = retry_policy
        self._slots = anyio.CapacityLimiter(retry_policy.concurrency)
        self._outcomes: deque[bool] = deque(maxlen=retry_policy.circuit_window)
        self._closed_until = 0.0
        self._refusing: str | None = None
        """Why calls are rejected instead of delayed; None: they are delayed."""
        self._needs_probe = False
        self._probe_in_flight = False
        self._changed = anyio.Event()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for one call. The outcome of the call is recorded; its exceptions pass through.

        Raises:
            CircuitOpen: The circuit is open, or the provider demanded too long a wait.
        """
        while True:
            probing = await self._wait_until_open()
            try:
                await self._slots.acquire_on_behalf_of(borrower := object())
            except BaseException:
                self._end_probe(probing)
                raise
            if probing or self._is_open():
                break
            self._slots.release_on_behalf_of(borrower)  # Closed while this call was queued.
        try:
            yield
        except LLMUnavailable:
            self._outcomes.append(False)
            self._end_probe(probing)
            if (
                len(self._outcomes) == self.retry_policy.circuit_window
                and self._outcomes.count(False) * 2 >= self.retry_policy.circuit_window
            ):
                self._outcomes.clear()
                self.close(self.retry_policy.circuit_open_for, refusing="half of its last calls failed")
            elif probing:
                self.close(self.retry_policy.delays[0] if self.retry_policy.delays else 0.0)
            raise
        except BaseException as error:
            # A refusal proves that the provider answers; a cancelled call proves nothing.
            self._end_probe(probing, recovered=isinstance(error, LLMError))
            raise
        else:
            self._outcomes.append(True)
            self._end_probe(probing, recovered=True)
        finally:
            self._slots.release_on_behalf_of(borrower)

    def close(self, seconds: float, *, refusing: str | None = None) -> None:
        """Block calls for a while, and then send a single probe first."""
        self._closed_until = max(self._closed_until, anyio.current_time() + seconds)
        self._refusing = refusing or self._refusing
        self._needs_probe = True
        self._notify()

    @property
    def in_use(self) -> int:
        return self._slots.borrowed_tokens

    def _is_open(self) -> bool:
        return not self._needs_probe and anyio.current_time() >= self._closed_until

    async def _wait_until_open(self) -> bool:
        """Return when the call may be sent; True when it is the probe."""
        while True:
            left = self._closed_until - anyio.current_time()
            if left > 0:
                if self._refusing:
                    raise CircuitOpen(
                        f"The call was not sent: {self._refusing}. Next attempt in {left:.0f} s.", retry_after=left
                    )
                with anyio.move_on_after(left):
                    await self._changed.wait()
            elif not self._needs_probe:
                return False
            elif not self._probe_in_flight:
                self._probe_in_flight = True
                return True
            else:
                await self._changed.wait()

    def _end_probe(self, probing: bool, *, recovered: bool = False) -> None:
        if not probing:
            return
        self._probe_in_flight = False
        if recovered:
            self._needs_probe = False
            self._refusing = None
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class LimitedLLM:
    """A model with its fallbacks, behind limiters. The `LLM` that all packages above `llm` use."""

    def __init__(self, models: Sequence[tuple[ChatModel, ProviderLimiter]]) -> None:
        self._models = models
        self._first = models[0][0]
        self._suspended: dict[ChatModel, tuple[float, LLMError]] = {}
        """Models that fail until the operator acts, each with the time until which it is skipped."""

    @property
    def model(self) -> str:
        return self._first.model

    @property
    def provider(self) -> str:
        return self._first.provider

    @property
    def window(self) -> int:
        return self._first.window

    @property
    def output_cap(self) -> int:
        return self._first.output_cap

    @property
    def tokenizer(self) -> Tokenizer:
        return self._first.tokenizer

    @property
    def concurrency(self) -> int:
        return self._models[0][1].retry_policy.concurrency

    @property
    def in_use(self) -> int:
        """Calls currently on the wire."""
        return sum(limiter.in_use for limiter in {id(limiter): limiter for _, limiter in self._models}.values())

    async def aclose(self) -> None:
        for model, _ in self._models:
            await model.aclose()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        """Return the first answer, after retries and from fallbacks if necessary.

        Raises:
            LLMTooLong: The prompt has to be split.
            LLMError: No model answered. The type is that of the first failure; the message contains all of them.
        """
        async with aclosing(
            self._ask(messages, max_tokens=max_tokens, tools=tools, native=native, streaming=False)
        ) as answer:
            async for delta in answer:
                if isinstance(delta, Completion):
                    return delta
        raise AssertionError("a stream ends with its completion")

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]:
        """As `complete`, in pieces. After `Superseded`, everything so far is void and the answer starts over."""
        return self._ask(messages, max_tokens=max_tokens, tools=tools, native=native, streaming=True)

    async def _ask(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec],
        native: NativeTools | None,
        streaming: bool,
    ) -> AsyncGenerator[Delta]:
        problems: list[LLMError] = []
        has_begun = False
        for model, limiter in self._models:
            if (problem := self._reason_to_skip(model, messages, max_tokens, is_fallback=bool(problems))) is not None:
                problems.append(problem)
                continue
            for number, delay in enumerate((*limiter.retry_policy.delays, None), start=1):
                if has_begun:
                    yield Superseded(str(problems[-1]))
                    has_begun = False
                request = _Request(model, messages, number)
                try:
                    async with limiter.slot():
                        request.send()
                        if streaming:
                            async with aclosing(
                                model.stream(messages, max_tokens=max_tokens, tools=tools, native=native)
                            ) as deltas:
                                async for delta in deltas:
                                    if isinstance(delta, Completion):
                                        answer = delta
                                    else:
                                        has_begun = True
                                        request.receive(delta)
                                        yield delta
                        else:
                            answer = await model.complete(messages, max_tokens=max_tokens, tools=tools, native=native)
                except LLMError as error:
                    problems.append(error)
                    pause = await self._failed(request, error, limiter, delay)
                except BaseException as end:
                    # Cancelled, or closed by a reader that has enough.
                    await request.abandoned("stopped" if isinstance(end, GeneratorExit) else "cancelled")
                    raise
                else:
                    await request.answered(answer, failures=len(problems))
                    yield answer
                    return
                if pause is None:
                    break
                await anyio.sleep(pause)
        raise _combined(problems)

    async def _failed(
        self, request: "_Request", error: LLMError, limiter: ProviderLimiter, delay: float | None
    ) -> float | None:
        """Report a failure; return the seconds until the same model is called again, None to go on to the next model.

        Raises:
            LLMTooLong: No model is tried with a prompt that has to be split.
        """
        if isinstance(error, CircuitOpen):
            return None
        pause = self._pause_after(error, request.model, limiter, delay, request.attempt)
        await request.failed(error, pause)
        if isinstance(error, LLMTooLong):
            raise error
        return pause

    def _reason_to_skip(
        self, model: ChatModel, messages: Sequence[Message], max_tokens: int, *, is_fallback: bool
    ) -> LLMError | None:
        until, reason = self._suspended.get(model, (0.0, None))
        if reason and anyio.current_time() < until:
            return reason
        if is_fallback and _is_too_long(model, messages, max_tokens):
            return LLMTooLong(f"Model {model.model!r} has too small a window to serve as a fallback.")
        return None

    def _pause_after(
        self, error: LLMError, model: ChatModel, limiter: ProviderLimiter, delay: float | None, attempt: int
    ) -> float | None:
        """Seconds until the same model is called again; None: continue with the next model."""
        if not isinstance(error, LLMUnavailable):
            if isinstance(error, LLMMisconfigured | LLMOutOfQuota) and len(self._models) > 1:
                # Only the operator can fix it: skip this model for a while instead of trying it with every call.
                self._suspended[model] = anyio.current_time() + limiter.retry_policy.longest_retry_after, error
            return None
        demanded = error.retry_after or 0.0
        if demanded > limiter.retry_policy.longest_retry_after:
            # Not for as long as demanded: the demand may be one model's, or over sooner, and every caller would fail.
            limiter.close(
                limiter.retry_policy.longest_retry_after,
                refusing=f"the provider demanded a wait of {demanded:.0f} s",
            )
            return None
        pause = max(demanded, (delay or 0.0) * (1 + random.random() * limiter.retry_policy.jitter))
        if demanded or error.rate_limited:
            # The limit is the account's, so all callers wait.
            limiter.close(pause)
        if error.most_retries is not None and attempt > error.most_retries:
            return None
        return None if delay is None else pause


@dataclass
class _Request:
    """One request to one model, from the wait for a slot to its report."""

    model: ChatModel
    messages: Sequence[Message]
    attempt: int
    _received: list[str] = field(default_factory=list)
    _started: float | None = None
    """None until the request has a slot: before that, nothing was sent."""

    _started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def send(self) -> None:
        self._started, self._started_at = anyio.current_time(), datetime.now(UTC)

    def receive(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=more) | ThinkingDelta(text=more) | ToolCallDelta(arguments=more):
                self._received.append(more)

    async def answered(self, answer: Completion, *, failures: int) -> None:
        if failures:
            logger.info("model_call_recovered", extra={**self._log_fields(), "failures": failures})
        await self._report("answered", text=answer.text, answer=answer, usage=answer.usage)

    async def failed(self, error: LLMError, retry_in: float | None) -> None:
        again = {"retry_in": round(retry_in, 1)} if retry_in is not None else {}
        logger.warning("model_call_failed", extra={**self._log_fields(), **log_fields_of(error), **again})
        await self._report("failed", text="".join(self._received), error=error)

    async def abandoned(self, outcome: Literal["stopped", "cancelled"]) -> None:
        """Report a request whose answer was not read to its end: the provider reports no usage, so it is estimated."""
        if self._started is None:
            return
        # Shielded: the request was sent and has to be paid for.
        with anyio.CancelScope(shield=True):
            written = "".join(self._received)
            usage = await anyio.to_thread.run_sync(self.model.estimated_usage, self.messages, written)
            await self._report(outcome, text="".join(self._received), usage=usage)

    async def _report(
        self,
        outcome: Outcome,
        *,
        text: str,
        answer: Completion | None = None,
        error: LLMError | None = None,
        usage: Usage = Usage(calls=1),  # noqa: B008 — frozen
    ) -> None:
        exchange = Exchange(
            provider=self.model.provider,
            model=self.model.model,
            messages=self.messages,
            outcome=outcome,
            text=text,
            answer=answer,
            error=error,
            usage=usage,
            attempt=self.attempt,
            started_at=self._started_at,
            duration_ms=self._milliseconds(),
        )
        METER.count(exchange)
        await report(exchange)

    def _milliseconds(self) -> int:
        return round((anyio.current_time() - (self._started or anyio.current_time())) * 1000)

    def _log_fields(self) -> dict[str, Any]:
        return {
            "provider": self.model.provider,
            "model": self.model.model,
            "attempt": self.attempt,
            "milliseconds": self._milliseconds(),
        }


def _is_too_long(model: ChatModel, messages: Sequence[Message], max_tokens: int) -> bool:
    return model.tokenizer.exceeds(
        "\n".join(message.text for message in messages), model.window - min(max_tokens, model.output_cap)
    )


def _combined(problems: list[LLMError]) -> LLMError:
    """One error for all failures. It is temporary if any of them is; otherwise the first one decides the type."""
    messages = list(dict.fromkeys(str(problem) for problem in problems))
    if len(messages) == 1:
        return problems[0]
    for kind in (CircuitOpen, LLMUnavailable):
        for problem in problems:
            if isinstance(problem, kind):
                combined: LLMError = kind(" Then: ".join(messages), retry_after=problem.retry_after)
                combined.status_code = problem.status_code
                return combined
    combined = type(problems[0])(" Then: ".join(messages))
    combined.status_code = problems[0].status_code
    return combined


def build_llm(
    specs: Sequence[ModelSpec], *, retry_policy: RetryPolicy | None = None, timeouts: "Timeouts | None" = None
) -> LimitedLLM:
    """An LLM of these specs: the first is used, the others are its fallbacks, in order. One limiter per account."""
    retry_policy = retry_policy or RetryPolicy()
    limiters: dict[tuple[str, str | None, str | None], ProviderLimiter] = {}
    models = [
        (
            ChatModel(spec, timeouts=timeouts),
            limiters.setdefault((spec.provider, spec.base_url, spec.api_key), ProviderLimiter(retry_policy)),
        )
        for spec in specs
    ]
    return LimitedLLM(models)
