"""The first two steps of the pipeline: admit, and check the size. Most results need no other.

Light to import: neither the condenser nor the store, and the vocabulary only for a text
that may be over the limit. The gateway is in most of its calls done with these.
"""

from dataclasses import replace
from typing import Literal

from tersely.cpu.pool import WorkerDied
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import MaskingFailed
from tersely.masking.masked import Masked
from tersely.pipeline.admit import Admitted, admit, size_of
from tersely.pipeline.content import Content
from tersely.pipeline.policy import Policy

INLINE_CHARACTERS = 8_000
"""Up to this size, content is admitted on the event loop; a thread would cost more than the work."""

CUT_CHARACTERS = 50_000
"""Up to this length, tokens are counted without a thread."""

Over = tuple[Masked, Literal["text", "structured"]]
"""What is over a limit, and where it stood."""


async def admit_content(content: Content, policy: Policy) -> Admitted:
    """Clean and mask.

    Raises:
        MaskingFailed: The content must not be used.
    """
    if size_of(content) <= INLINE_CHARACTERS:
        return admit(content, policy.result_masker)
    # Attachments are not looked at, so they need not be copied into another process.
    texts = replace(content, attachments=())
    try:
        admitted = await run_cpu(admit, texts, policy.result_masker, size=size_of(content))
    except WorkerDied as problem:
        raise MaskingFailed(f"A text could not be masked and was dropped: {problem}") from None
    return replace(admitted, attachments=content.attachments)


async def over_limit(admitted: Admitted, limit: int | None) -> Over | None:
    """The content that exceeds the limit: the text, or the structured content if only that does."""
    if limit is None:
        return None
    if await _exceeds(admitted.text, limit):
        return admitted.text, "text" if admitted.texts else "structured"
    structured = admitted.structured
    # Structured content that repeats the text only exceeds it by JSON quotes and escapes.
    if structured is None or not admitted.has_more_structure or not await _exceeds(structured, limit):
        return None
    return structured, "structured"


async def _exceeds(text: str, limit: int) -> bool:
    if len(text) <= CUT_CHARACTERS:
        return exceeds(text, limit)
    return await run_in_thread(exceeds, text, limit)


def exceeds(text: str, limit: int) -> bool:
    """Whether a text has more tokens than the limit; costs in proportion to the limit."""
    # A token has at least one byte, so most texts are small without counting.
    if len(text) <= limit and (text.isascii() or len(text.encode("utf-8", "replace")) <= limit):
        return False
    from tersely.text.tokens import O200K

    return O200K.exceeds(text, limit)
