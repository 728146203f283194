"""What a model that stands before another one has of it: everything but how it is asked."""

from tersely.llm.client import LLM
from tersely.text.tokens import Tokenizer


class WrapperLLM:
    inner: LLM

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def window(self) -> int:
        return self.inner.window

    @property
    def output_cap(self) -> int:
        return self.inner.output_cap

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def concurrency(self) -> int:
        return self.inner.concurrency
