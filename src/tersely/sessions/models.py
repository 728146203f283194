"""The models of all providers, each built once; all callers share one limiter per provider account."""

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
        self._by_names: dict[tuple[str, ...], LimitedLLM] = {}
        for name, options in providers.items():
            if not options.needs_key:
                # Importing a provider's client takes seconds: do it at startup, not during the first alert.
                self._one(name)

    def of(self, names: Sequence[str]) -> LimitedLLM | None:
        """A model that calls the first of these providers and falls back to the others; None if all lack their key."""
        usable = tuple(
            name for name in dict.fromkeys(names) if name in self._providers and not self._providers[name].needs_key
        )
        if not usable:
            return None
        if usable not in self._by_names:
            self._by_names[usable] = LimitedLLM([self._one(name) for name in usable])
        return self._by_names[usable]

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
