"""Facts about models: context window, output cap, price.

From the offline table of `genai-prices`; the operator's settings override it.
"""

from decimal import Decimal

from genai_prices import Usage as TokenUsage
from genai_prices import calc_price

UNLISTED_WINDOW = 16_384
"""For unlisted models, unless LLM_CONTEXT_WINDOW is set. Small, because a prompt over the window is rejected."""

OUTPUT_CAP = 4_096
"""What every current model supports; LLM_MAX_OUTPUT_TOKENS raises it."""


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


def price(provider: str, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """In US dollars; None for unlisted models."""
    if model.endswith(":free"):
        return Decimal(0)
    usage = TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    for provider_id, name in _names(provider, model):
        try:
            return calc_price(usage, model_ref=name, provider_id=provider_id).total_price
        except LookupError:
            continue
    return None
