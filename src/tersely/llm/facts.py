"""Facts about models: context window, output cap, price.

From the offline table of `genai-prices`, which has no output caps: those are listed here. The operator's settings
override both.
"""

import re
from decimal import ROUND_HALF_UP, Decimal

from genai_prices import Usage as TokenUsage
from genai_prices import calc_price

UNLISTED_WINDOW = 16_384
"""For unlisted models, unless LLM_CONTEXT_WINDOW is set. Small, because a prompt over the window is rejected."""

SMALLEST_PRICE = Decimal("0.000001")

UNLISTED_OUTPUT_CAP = 8_192
"""For unlisted models, unless LLM_MAX_OUTPUT_TOKENS is set; halved once if the provider rejects it."""

_OUTPUT_CAPS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern), cap)
    for pattern, cap in (
        (r"gpt-3\.5|gpt-4-turbo|gpt-4-(?:1106|0125)|gpt-4-vision|gpt-4o-2024-05-13", 4_096),
        (r"gpt-4(?:-|$)", 8_192),
        (r"gpt-4o|chatgpt-4o|gpt-5-chat", 16_384),
        (r"gpt-4\.1|o1-preview", 32_768),
        (r"o1-mini", 65_536),
        (r"o[1-9](?:-|$)", 100_000),
        (r"gpt-[5-9]", 128_000),
        (r"claude-(?:2|instant)|claude-3-(?:opus|sonnet|haiku)", 4_096),
        (r"claude-3[-.]5|claude-3-5", 8_192),
        (r"claude-opus-4(?:$|-1|-2025|@|-0)|claude-4-opus", 32_000),
        (r"claude", 64_000),
        (r"gemini-(?:1\.|2\.0|pro)", 8_192),
        (r"gemini-(?:2\.5|[3-9])", 65_535),
    )
)
"""Largest answer in tokens, as the providers document it; the first pattern that begins a model's name applies."""


def _names(provider: str, model: str) -> list[tuple[str | None, str]]:
    """Where to look a model up: at its provider, then at the vendor that its OpenRouter name begins with."""
    model = model.partition(":")[0]  # `…:free` is a variant of the same model.
    vendor, _, rest = model.partition("/")
    names: list[tuple[str | None, str]] = [(provider, model)]
    if rest:
        names += [(vendor, rest), (vendor, rest.replace(".", "-"))]
    return names


def context_window(provider: str, model: str) -> int:
    for provider_id, name in _names(provider, model):
        try:
            listed = calc_price(TokenUsage(), model_ref=name, provider_id=provider_id).model.context_window
        except LookupError:
            continue
        if listed:
            return listed
    return UNLISTED_WINDOW


def output_cap(model: str) -> int:
    """Tokens that a model can write in one answer."""
    name = model.partition(":")[0].rpartition("/")[2].lower()
    # OpenRouter writes `claude-opus-4.1`, Anthropic `claude-opus-4-1`.
    spellings = (name, name.replace(".", "-")) if name.startswith("claude") else (name,)
    for pattern, cap in _OUTPUT_CAPS:
        if any(pattern.match(spelling) for spelling in spellings):
            return cap
    return UNLISTED_OUTPUT_CAP


def price(
    provider: str, model: str, input_tokens: int, output_tokens: int, *, cached: int = 0, cache_written: int = 0
) -> Decimal | None:
    """In US dollars, to the millionth; None for unlisted models.

    Args:
        cached: Of the input tokens, those that the provider read from its prompt cache.
        cache_written: Of the input tokens, those that it wrote to the cache, where it charges for that.
    """
    if model.endswith(":free"):
        return Decimal(0)
    usage = TokenUsage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=min(cached, input_tokens),
        cache_write_tokens=min(cache_written, input_tokens - min(cached, input_tokens)),
    )
    for provider_id, name in _names(provider, model):
        try:
            listed = calc_price(usage, model_ref=name, provider_id=provider_id).total_price
        except LookupError:
            continue
        # Rounded here, once: sums over calls agree wherever they are made.
        return listed.quantize(SMALLEST_PRICE, ROUND_HALF_UP)
    return None
