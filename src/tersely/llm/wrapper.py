"""Base class for LLM wrappers: delegates everything except `complete` and `stream`."""

from tersely.llm.client import LLM
from tersely.text.tokens import Tokenizer


class WrapperLLM:
    wrapped: LLM

    @property
    def model(self) -> str:
        return self.wrapped.model

    @property
    def provider(self) -> str:
        return self.wrapped.provider

    @property
    def window(self) -> int:
        return self.wrapped.window

    @property
    def output_cap(self) -> int:
        return self.wrapped.output_cap

    @property
    def tokenizer(self) -> Tokenizer:
        return self.wrapped.tokenizer

    @property
    def concurrency(self) -> int:
        return self.wrapped.concurrency
