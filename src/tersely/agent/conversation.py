"""What was said so far, kept inside the model's window.

A conversation has a beginning that stays (who the model is, what it is asked) and
rounds: what the model said, and what came back. When it grows too large, old
results give way to one line with their handle, so that they can be read again;
the newest stay. Counts and cuts; knows neither models nor tools.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tersely.errors import LLMTooLong
from tersely.llm.messages import Message
from tersely.masking.masked import Masked, fill
from tersely.text.tokens import Tokenizer

PER_MESSAGE = 8
"""Tokens that a message takes besides its text."""

_KEPT_OF_OLD_WORDS = 400
"""Characters that are left of what the model said long ago."""


@dataclass
class Reply:
    """Something that came back, and the line that can take its place."""

    message: Message
    line: Masked | None = None
    """None: it is short, and stays as it is."""


@dataclass
class Round:
    said: Message
    replies: list[Reply] = field(default_factory=list)

    def messages(self) -> list[Message]:
        return [self.said, *(reply.message for reply in self.replies)]


class Conversation:
    def __init__(self, beginning: Sequence[Message], tokenizer: Tokenizer) -> None:
        self.beginning = list(beginning)
        self.rounds: list[Round] = []
        self._tokenizer = tokenizer
        self._counts: dict[Message, int] = {}
        self._left_out = 0

    def add(self, said: Message, replies: Sequence[Reply] = ()) -> None:
        self.rounds.append(Round(said, list(replies)))

    def messages(self) -> list[Message]:
        gap = [self._gap()] if self._left_out else []
        return [*self.beginning, *gap, *(message for turn in self.rounds for message in turn.messages())]

    def _gap(self) -> Message:
        return Message(
            "user", fill("[{rounds} earlier rounds do not fit any more and are left out.]", rounds=self._left_out)
        )

    def tokens(self, messages: Sequence[Message] | None = None) -> int:
        return sum(self._count(message) for message in (self.messages() if messages is None else messages))

    def within(self, room: int) -> list[Message]:
        """All of it in at most `room` tokens. What gave way stays so, and a little more than needed gives way at once:
        a beginning that changes with every call could not be cached by the provider.

        Raises:
            LLMTooLong: The beginning alone is too long.
        """
        size = self.tokens()
        if size <= room:
            return self.messages()
        for give_way in (self._old_replies, self._old_words, self._newest_replies):
            size = give_way(size, room * 3 // 4, room)
            if size <= room:
                return self.messages()
        while size > room and len(self.rounds) > 1:
            size -= self.tokens(self.rounds.pop(0).messages())
            self._left_out += 1
            size += 0 if self._left_out > 1 else self._count(self._gap())
        if size > room:
            size = self._cut_last(size, room)
        if size > room:
            raise LLMTooLong(f"The question alone takes more than the model's window of {room:,} tokens leaves for it.")
        return self.messages()

    def _old_replies(self, size: int, target: int, room: int) -> int:
        """Results of all rounds but the newest, oldest first."""
        for turn in self.rounds[:-1]:
            for reply in turn.replies:
                if size <= target:
                    return size
                size -= self._shrink(reply)
        return size

    def _old_words(self, size: int, target: int, room: int) -> int:
        for turn in self.rounds[:-1]:
            if size <= room:
                return size
            if len(turn.said.text) > 2 * _KEPT_OF_OLD_WORDS:
                before = self._count(turn.said)
                text = turn.said.text
                turn.said = replace(turn.said, text=text.derive(f"{text[:_KEPT_OF_OLD_WORDS]} […]"))
                size -= before - self._count(turn.said)
        return size

    def _newest_replies(self, size: int, target: int, room: int) -> int:
        """Results of the newest round, the largest first: better one of them than none."""
        if not self.rounds:
            return size
        replies = sorted(self.rounds[-1].replies, key=lambda reply: -self._count(reply.message))
        for reply in replies[:-1] or []:
            if size <= room:
                return size
            size -= self._shrink(reply)
        return size

    def _shrink(self, reply: Reply) -> int:
        """How many tokens it is less."""
        if reply.line is None or len(reply.message.text) <= len(reply.line):
            return 0
        before = self._count(reply.message)
        reply.message = replace(reply.message, text=reply.line)
        return before - self._count(reply.message)

    def _cut_last(self, size: int, room: int) -> int:
        """The last resort: everything in the one round that is left is cut to its beginning."""
        for reply in self.rounds[-1].replies if self.rounds else []:
            if size <= room:
                break
            size -= self._shrink(reply)
            before = self._count(reply.message)
            if before > 200:
                kept = self._tokenizer.head(reply.message.text, max(100, before - (size - room) - 20))
                reply.message = replace(reply.message, text=reply.message.text.derive(f"{kept}\n[cut]"))
                size -= before - self._count(reply.message)
        return size

    def _count(self, message: Message) -> int:
        known = self._counts.get(message)
        if known is None:
            calls = "".join(f"{call.name}{call.arguments}" for call in message.tool_calls)
            known = self._tokenizer.count(message.text) + (self._tokenizer.count(calls) if calls else 0) + PER_MESSAGE
            self._counts[message] = known
        return known


def flattened(messages: Sequence[Message]) -> list[Message]:
    """The same without tool calls: what was called and what came back, told in words.

    Providers refuse a conversation with tool calls in it when they are offered no tools.
    """
    told: list[Message] = []
    for message in messages:
        if message.role == "tool":
            assert message.answers is not None
            told.append(Message("user", message.text.derive(f"[{message.answers.name} returned]\n{message.text}")))
        elif message.tool_calls:
            calls = "\n".join(f"[I called {call.name} with {call.arguments}]" for call in message.tool_calls)
            # Calls were masked with the text.
            told.append(Message("assistant", message.text.derive(f"{message.text}\n{calls}".strip())))
        else:
            told.append(message)
    return told
