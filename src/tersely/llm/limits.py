"""Asking with retry_policy: slots, the limiter, the circuit, retries, fallbacks.

A `ProviderLimiter` stands before each provider account. It holds the slots (how many calls
at once), closes for as long as a `Retry-After` asks, and opens its circuit when
half of the last calls failed; after either, one call goes first to see whether
it is over. A slot is held only while a call is on the wire, never while waiting.
"""

import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from tersely.errors import LLMError, LLMMisconfigured, LLMOutOfQuota, LLMTooLong, LLMUnavailable
from tersely.llm.client import ChatModel, ModelSpec
from tersely.llm.messages import Completion, Delta, Message, Superseded, ToolSpec
from tersely.llm.meter import METER
from tersely.llm.providers import NativeTools
from tersely.text.tokens import Tokenizer

if TYPE_CHECKING:
    from tersely.llm.wire import Timeouts


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How a provider is treated. The defaults are for production; tests shorten the times."""

    concurrency: int = 5
    delays: tuple[float, ...] = (2.0, 4.0, 8.0)
    """Seconds before each retry; as many retries as there are delays."""

    jitter: float = 0.25
    """Delays are lengthened by up to this share, so that callers do not come back in step."""

    longest_retry_after: float = 60.0
    """A provider that asks for more patience counts as unavailable."""

    circuit_window: int = 20
    circuit_open_for: float = 30.0


class CircuitOpen(LLMUnavailable):
    """Not asked at all: the provider was found failing a moment ago."""


class ProviderLimiter:
    """Who may call a provider now."""

    def __init__(self, retry_policy: RetryPolicy) -> None:
        self.retry_policy = retry_policy
        self._slots = anyio.CapacityLimiter(retry_policy.concurrency)
        self._outcomes: deque[bool] = deque(maxlen=retry_policy.circuit_window)
        self._closed_until = 0.0
        self._refusing: str | None = None
        """Why callers are turned away instead of made to wait."""
        self._needs_probe = False
        self._probe_is_out = False
        self._changed = anyio.Event()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for one call. What the call raises is noted, and passes through.

        Raises:
            CircuitOpen: The circuit is open, or the provider asked for more patience than we have.
        """
        while True:
            probing = await self._wait_until_open()
            try:
                await self._slots.acquire_on_behalf_of(turn := object())
            except BaseException:
                self._probe_over(probing)
                raise
            if probing or self._is_open():
                break
            self._slots.release_on_behalf_of(turn)  # closed while we stood in the queue
        try:
            yield
        except LLMUnavailable:
            self._outcomes.append(False)
            self._probe_over(probing)
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
            # An answer that we do not like is still an answer; a cancelled call says nothing either way.
            self._probe_over(probing, healed=isinstance(error, LLMError))
            raise
        else:
            self._outcomes.append(True)
            self._probe_over(probing, healed=True)
        finally:
            self._slots.release_on_behalf_of(turn)

    def close(self, seconds: float, *, refusing: str | None = None) -> None:
        """Let nobody through for a while, and then one first."""
        self._closed_until = max(self._closed_until, anyio.current_time() + seconds)
        self._refusing = refusing or self._refusing
        self._needs_probe = True
        self._tell()

    @property
    def in_use(self) -> int:
        return self._slots.borrowed_tokens

    def _is_open(self) -> bool:
        return not self._needs_probe and anyio.current_time() >= self._closed_until

    async def _wait_until_open(self) -> bool:
        """Return once we may call; True when ours is the call that goes first."""
        while True:
            left = self._closed_until - anyio.current_time()
            if left > 0:
                if self._refusing:
                    raise CircuitOpen(f"Not asked: {self._refusing}. Next try in {left:.0f} s.", retry_after=left)
                with anyio.move_on_after(left):
                    await self._changed.wait()
            elif not self._needs_probe:
                return False
            elif not self._probe_is_out:
                self._probe_is_out = True
                return True
            else:
                await self._changed.wait()

    def _probe_over(self, probing: bool, *, healed: bool = False) -> None:
        if not probing:
            return
        self._probe_is_out = False
        if healed:
            self._needs_probe = False
            self._refusing = None
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class LimitedLLM:
    """A model with its fallbacks, asked with retry_policy. What everybody above `llm` uses."""

    def __init__(self, models: Sequence[tuple[ChatModel, ProviderLimiter]]) -> None:
        self._models = models
        self._first = models[0][0]
        self._resting: dict[ChatModel, tuple[float, LLMError]] = {}
        """Models that are of no use until the operator acts, and until when they are left alone."""

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
        """Calls on the wire now."""
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
        """Ask until somebody answers.

        Raises:
            LLMTooLong: Split the prompt.
            LLMError: Nobody answered; the first model's trouble, with the others' in the message.
        """
        async with aclosing(
            self._ask(messages, max_tokens=max_tokens, tools=tools, native=native, streaming=False)
        ) as answer:
            async for delta in answer:
                if isinstance(delta, Completion):
                    return delta
        raise AssertionError("an answer ends with its completion")

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]:
        """Like `complete`, word by word. `Superseded` says that what came so far is void and begins anew."""
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
        begun = False
        for model, limiter in self._models:
            until, why = self._resting.get(model, (0.0, None))
            if why and anyio.current_time() < until:
                problems.append(why)
                continue
            if problems and _too_long_for(model, messages, max_tokens):
                problems.append(LLMTooLong(f"Model {model.model!r} has too small a window to step in."))
                continue
            for delay in (*limiter.retry_policy.delays, None):
                try:
                    if begun:
                        yield Superseded(str(problems[-1]))
                        begun = False
                    async with limiter.slot():
                        if streaming:
                            async with aclosing(
                                model.stream(messages, max_tokens=max_tokens, tools=tools, native=native)
                            ) as deltas:
                                async for delta in deltas:
                                    if isinstance(delta, Completion):
                                        answer = delta
                                    else:
                                        begun = True
                                        yield delta
                        else:
                            answer = await model.complete(messages, max_tokens=max_tokens, tools=tools, native=native)
                    METER.answer((model.provider, model.model), answer.usage)
                    yield answer
                    return
                except LLMTooLong:
                    METER.failure((model.provider, model.model))
                    raise
                except LLMUnavailable as error:
                    problems.append(error)
                    if isinstance(error, CircuitOpen):
                        break
                    METER.failure((model.provider, model.model))
                    wanted = error.retry_after or 0.0
                    if wanted > limiter.retry_policy.longest_retry_after:
                        limiter.close(wanted, refusing=f"the provider asked for {wanted:.0f} s of patience")
                        break
                    pause = max(wanted, (delay or 0.0) * (1 + random.random() * limiter.retry_policy.jitter))
                    if wanted or error.rate_limited:
                        # Everybody waits, not only the one who was told: the limit is the account's.
                        limiter.close(pause)
                    if delay is None:
                        break
                    await anyio.sleep(pause)
                except LLMError as error:
                    METER.failure((model.provider, model.model))
                    problems.append(error)
                    if isinstance(error, LLMMisconfigured | LLMOutOfQuota) and len(self._models) > 1:
                        # Nothing heals it but the operator: the others are asked without asking this one each time.
                        self._resting[model] = anyio.current_time() + limiter.retry_policy.longest_retry_after, error
                    break
        raise _summed_up(problems)


def _too_long_for(model: ChatModel, messages: Sequence[Message], max_tokens: int) -> bool:
    return model.tokenizer.exceeds(
        "\n".join(message.text for message in messages), model.window - min(max_tokens, model.output_cap)
    )


def _summed_up(problems: list[LLMError]) -> LLMError:
    """Worth another try later if any of them is, above all one that was not asked; else the first trouble decides.
    Where several
    failed, each has its say.
    """
    said = list(dict.fromkeys(str(problem) for problem in problems))
    if len(said) == 1:
        return problems[0]
    for kind in (CircuitOpen, LLMUnavailable):
        for problem in problems:
            if isinstance(problem, kind):
                return kind(" Then: ".join(said), retry_after=problem.retry_after)
    return type(problems[0])(" Then: ".join(said))


def build_llm(
    specs: Sequence[ModelSpec], *, retry_policy: RetryPolicy | None = None, patience: "Timeouts | None" = None
) -> LimitedLLM:
    """The first spec is asked, the others step in, in order. Specs of one account share its limiter."""
    retry_policy = retry_policy or RetryPolicy()
    limiters: dict[tuple[str, str | None, str | None], ProviderLimiter] = {}
    models = [
        (
            ChatModel(spec, patience=patience),
            limiters.setdefault((spec.provider, spec.base_url, spec.api_key), ProviderLimiter(retry_policy)),
        )
        for spec in specs
    ]
    return LimitedLLM(models)
