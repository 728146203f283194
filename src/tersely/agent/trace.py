"""From an exchange with a provider to its record in the trace, masked.

The record is written as soon as the exchange is over, so that a crash loses only the
exchanges that were on the wire.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tersely.agent.recorder import Recorder
from tersely.errors import LostSession, MaskingFailed
from tersely.llm.exchanges import Exchange, OnExchange
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, own_words
from tersely.pipeline.admit import admit_text
from tersely.store.interactions import Interaction, InteractionType

CANCELLED = "Cancelled before it was complete."
"""The error that the trace records for a cancelled exchange."""

NOT_MASKED = own_words("The model's answer could not be checked for secrets and was dropped.")


def recorded_exchanges(
    recorder: Recorder, step: str, masker: Masker, *, request: Mapping[str, Any], parent_step: str = ""
) -> OnExchange:
    """An observer that records every exchange of a summary.

    Args:
        request: What the text to summarize is.
        parent_step: Step of the tool call whose result is summarized.
    """

    async def on_exchange(exchange: Exchange) -> None:
        record = exchange_record("summarization", exchange, masker, request=request, parent_step=parent_step)
        await record_exchange(recorder, step, exchange, record)

    return on_exchange


async def record_exchange(recorder: Recorder, step: str, exchange: Exchange, record: Interaction) -> None:
    """Record an exchange; a cancelled one of a lost session is left to the new worker, which repeats it.

    Raises:
        LostSession: The session belongs to another worker; stop.
    """
    if exchange.outcome == "cancelled":
        with suppress(LostSession):
            await recorder.exchange(step, record)
    else:
        await recorder.exchange(step, record)


def exchange_record(
    kind: InteractionType,
    exchange: Exchange,
    masker: Masker,
    *,
    request: Mapping[str, Any],
    parent_step: str = "",
) -> Interaction:
    """The record of an exchange whose answer is a text."""
    text, error = _masked(exchange.text, masker), _error(exchange, masker)
    finish = {"finish": exchange.answer.finish} if exchange.answer else {}
    return Interaction(
        type=kind,
        provider=exchange.provider,
        model=exchange.model,
        messages=exchange.messages,
        request={**request, "attempt": exchange.attempt},
        response={"text": text, **finish, "outcome": exchange.outcome},
        usage=exchange.usage,
        duration_ms=exchange.duration_ms,
        error=error,
        started_at=exchange.started_at,
        parent_step=parent_step,
    )


def _error(exchange: Exchange, masker: Masker) -> str:
    if exchange.error is not None:
        return _masked(str(exchange.error), masker)
    return CANCELLED if exchange.outcome == "cancelled" else ""


def _masked(text: str, masker: Masker) -> Masked:
    try:
        return admit_text(text, masker)
    except MaskingFailed:
        return NOT_MASKED
