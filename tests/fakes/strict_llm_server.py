"""A model server that enforces what providers enforce, and caches prompts as they do.

A prompt that does not fit the window beside the requested answer is rejected, so is a request for more output than the
model can write, and answers end at `max_tokens`. The beginning of a prompt that an earlier one had, too, counts as
cached.
"""

import json
from dataclasses import dataclass, field

from tersely.text.tokens import O200K
from tests.fakes.llm_server import Body, FakeLLMServer, Reply

CACHE_UNIT = 128
"""Tokens. Providers cache whole blocks."""

SMALLEST_CACHED = 1_024
"""Tokens. Shorter prefixes are not cached."""


def rendered(body: Body) -> str:
    """A request as a provider reads it: tools first, then the messages in their order."""
    tools = [json.dumps(tool, ensure_ascii=False) for tool in body.get("tools") or ()]
    return "\n".join([*tools, *map(_rendered_message, body["messages"])])


def _rendered_message(message: Body) -> str:
    others = {name: value for name, value in message.items() if name not in ("role", "content") and value}
    return "\n".join(
        [
            f"<|{message['role']}|>",
            str(message.get("content") or ""),
            *([json.dumps(others, ensure_ascii=False)] if others else []),
        ]
    )


def shared_prefix(earlier: Body, later: Body) -> float:
    """The share of the earlier request with which the later one begins."""
    first = rendered(earlier)
    return len(common_prefix(first, rendered(later))) / len(first)


def common_prefix(one: str, other: str) -> str:
    """Bisected, as comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


@dataclass
class StrictLLMServer(FakeLLMServer):
    window: int = 131_072
    output_cap: int = 16_384
    usage: list[Body] = field(default_factory=list)
    """What each answered request cost."""

    rejected: list[str] = field(default_factory=list)
    _seen: list[str] = field(default_factory=list)

    def _next(self, body: Body) -> Reply:
        tokens = O200K.count(rendered(body))
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or self.output_cap
        if limit > self.output_cap:
            return self._rejection(f"max_tokens is too large: {limit}. This model writes at most {self.output_cap}.")
        if tokens + limit > self.window:
            return self._rejection(
                f"This model's maximum context length is {self.window} tokens, you requested {tokens} + {limit}.",
                "context_length_exceeded",
            )
        reply = super()._next(body)
        if reply.status == 200 and O200K.exceeds(reply.text, limit):
            return Reply(text=O200K.head(reply.text, limit), finish="length", delay=reply.delay)
        return reply

    def _rejection(self, error: str, code: str | None = None) -> Reply:
        self.rejected.append(error)
        return Reply(status=400, error=error, code=code)

    def _usage(self, body: Body, reply: Reply) -> Body:
        prompt = rendered(body)
        longest = max((common_prefix(prompt, seen) for seen in self._seen), key=len, default="")
        shared = O200K.count(longest) // CACHE_UNIT * CACHE_UNIT
        cached = shared if shared >= SMALLEST_CACHED else 0
        self._seen.append(prompt)
        tokens, wrote = O200K.count(prompt), O200K.count(reply.text)
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": wrote,
            "total_tokens": tokens + wrote,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        self.usage.append(usage)
        return usage
