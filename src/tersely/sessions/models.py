"""The models of all providers, each built once and asked through one limiter, whoever asks."""

from collections.abc import Iterable, Mapping, Sequence

from tersely.llm.client import ChatModel
from tersely.llm.limits import LimitedLLM, ProviderLimiter, RetryPolicy
from tersely.llm.providers import ProviderOptions


class Models:
    def __init__(self, providers: Mapping[str, ProviderOptions], *, concurrency: int) -> None:
        self._providers = providers
        self._concurrency = concurrency
        self._models: dict[str, ChatModel] = {}
        self._limiters: dict[tuple[str, str | None, str | None], ProviderLimiter] = {}
        self._asked: dict[tuple[str, ...], LimitedLLM] = {}
        for name, options in providers.items():
            if not options.needs_key:
                # Loading what a provider needs takes seconds: now, when nobody waits, and not in the middle of the
                # first alert.
                self._one(name)

    def of(self, names: Sequence[str]) -> LimitedLLM | None:
        """The first of these providers is asked, the others step in; None where no provider has what it needs to
        answer.
        """
        usable = tuple(
            name for name in dict.fromkeys(names) if name in self._providers and not self._providers[name].needs_key
        )
        if not usable:
            return None
        if usable not in self._asked:
            self._asked[usable] = LimitedLLM([self._one(name) for name in usable])
        return self._asked[usable]

    def _one(self, name: str) -> tuple[ChatModel, ProviderLimiter]:
        options = self._providers[name]
        spec = options.spec()
        if name not in self._models:
            self._models[name] = ChatModel(spec)
        account = (spec.provider, spec.base_url, spec.api_key)
        limiter = self._limiters.setdefault(
            account, ProviderLimiter(RetryPolicy(concurrency=options.concurrency or self._concurrency))
        )
        return self._models[name], limiter

    def names(self) -> Iterable[str]:
        return self._providers.keys()

    async def aclose(self) -> None:
        for model in self._models.values():
            await model.aclose()
