"""The conversation with the model, kept within its context window.

A conversation has a fixed beginning (system prompt and question) and rounds: the
model's answer and the replies to it. Messages are only appended, so that providers can
cache what they have read before. When it grows too large, old results are replaced by
one line with their handle, through which they can be read again; the newest stay. That
happens rarely and frees much at once. Counts and cuts; knows neither models nor tools.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tersely.errors import LLMTooLong
from tersely.llm.messages import Message
from tersely.masking.masked import Masked, fill
from tersely.text.tokens import Tokenizer

PER_MESSAGE = 8
"""Tokens of overhead per message."""

_KEPT_ROUNDS = 4
"""Newest rounds that are left out only if nothing else helps."""

_OLD_ANSWER_CHARACTERS = 400
"""Characters kept of an old answer."""


@dataclass
class Reply:
    """A message to the model, and the line that may replace it."""

    message: Message
    line: Masked | None = None
    """None: it is short and never replaced."""


@dataclass
class Round:
    answer: Message
    replies: list[Reply] = field(default_factory=list)

    def messages(self) -> list[Message]:
        return [self.answer, *(reply.message for reply in self.replies)]


class Conversation:
    def __init__(self, beginning: Sequence[Message], tokenizer: Tokenizer) -> None:
        self.beginning = list(beginning)
        self.rounds: list[Round] = []
        self._tokenizer = tokenizer
        self._counts: dict[Message, int] = {}
        self._left_out = 0

    def add(self, answer: Message, replies: Sequence[Reply] = ()) -> None:
        self.rounds.append(Round(answer, list(replies)))

    def messages(self) -> list[Message]:
        gap = [self._gap()] if self._left_out else []
        return [*self.beginning, *gap, *(message for turn in self.rounds for message in turn.messages())]

    def _gap(self) -> Message:
        return Message("user", fill("[{rounds} earlier rounds no longer fit and are omitted.]", rounds=self._left_out))

    def tokens(self, messages: Sequence[Message] | None = None) -> int:
        return sum(self._count(message) for message in (self.messages() if messages is None else messages))

    def within(self, room: int, *, step: int = 0) -> list[Message]:
        """The messages in at most `room` tokens, shortening the conversation if necessary.

        Shortening is permanent, and changes what the provider has cached.

        Args:
            step: Tokens that shortening leaves free, so that it is not needed again soon.

        Raises:
            LLMTooLong: The beginning alone is too long.
        """
        size = self.tokens()
        if size <= room:
            return self.messages()
        target = max(room - step, self.tokens(self.beginning))
        size = self._shrink_old_replies(size, target)
        size = self._cut_old_answers(size, target)
        size = self._leave_out_rounds(size, target, keep=_KEPT_ROUNDS)
        size = self._shrink_newest_replies(size, room)
        size = self._leave_out_rounds(size, room, keep=1)
        if size > room:
            size = self._cut_last(size, room)
        if size > room:
            raise LLMTooLong(f"The question alone takes more than the model's window of {room:,} tokens leaves for it.")
        return self.messages()

    def _leave_out_rounds(self, size: int, target: int, *, keep: int) -> int:
        """Leave out the oldest rounds, but not the newest `keep`."""
        while size > target and len(self.rounds) > keep:
            size -= self.tokens(self.rounds.pop(0).messages())
            self._left_out += 1
            size += 0 if self._left_out > 1 else self._count(self._gap())
        return size

    def _shrink_old_replies(self, size: int, target: int) -> int:
        """Shrink the results of all rounds but the newest, oldest first; return the new size."""
        for turn in self.rounds[:-1]:
            for reply in turn.replies:
                if size <= target:
                    return size
                size -= self._shrink(reply)
        return size

    def _cut_old_answers(self, size: int, target: int) -> int:
        for turn in self.rounds[:-1]:
            if size <= target:
                return size
            if len(turn.answer.text) > 2 * _OLD_ANSWER_CHARACTERS:
                before = self._count(turn.answer)
                text = turn.answer.text
                turn.answer = replace(turn.answer, text=text.derive(f"{text[:_OLD_ANSWER_CHARACTERS]} […]"))
                size -= before - self._count(turn.answer)
        return size

    def _shrink_newest_replies(self, size: int, room: int) -> int:
        """Shrink the results of the newest round, largest first, keeping the smallest one."""
        if not self.rounds:
            return size
        replies = sorted(self.rounds[-1].replies, key=lambda reply: -self._count(reply.message))
        for reply in replies[:-1] or []:
            if size <= room:
                return size
            size -= self._shrink(reply)
        return size

    def _shrink(self, reply: Reply) -> int:
        """Replace a reply by its line; return the tokens saved."""
        if reply.line is None or len(reply.message.text) <= len(reply.line):
            return 0
        before = self._count(reply.message)
        reply.message = replace(reply.message, text=reply.line)
        return before - self._count(reply.message)

    def _cut_last(self, size: int, room: int) -> int:
        """Last resort: cut every reply of the only remaining round to its beginning."""
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
    """The same conversation with tool calls and results as plain text.

    Providers refuse a conversation that contains tool calls if the request declares no tools.
    """
    flat: list[Message] = []
    for message in messages:
        if message.role == "tool":
            assert message.answers is not None
            flat.append(Message("user", message.text.derive(f"[{message.answers.name} returned]\n{message.text}")))
        elif message.tool_calls:
            calls = "\n".join(f"[I called {call.name} with {call.arguments}]" for call in message.tool_calls)
            # The calls were masked together with the text.
            flat.append(Message("assistant", message.text.derive(f"{message.text}\n{calls}".strip())))
        else:
            flat.append(message)
    return flat
