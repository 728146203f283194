"""Messages over the size limit, read in bounded memory: the texts of a result go to a file, the rest stays small.

A JSON message has to be parsed as a whole, so a large one is scanned while it arrives. The strings
`result.content[n].text` are decoded into a temporary file without a name, which disappears with the
process. In the place of the message stands a short one that refers to the file; the session turns it
into a `SpooledAnswer`. `structuredContent` of such a message is dropped: next to a text it repeats it.
Anything else that is large (an image, an error, a listing) is refused as before.
"""

import codecs
import json
import re
import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types

from tersely.mcp.connect.wire import SPOOLED, HalfCharacters, TransportProblem
from tersely.text.spooled import SpooledText

_KEY = f"tersely-spooled-{secrets.token_hex(12)}"
"""Random per process, so that no server can refer to a file."""

_LARGEST_REST = 2**20
"""Bytes of a message that are neither text nor structured content."""

_TAKEN_WITHIN = 60.0
"""Seconds after which a result that nobody took (its call was cancelled) is deleted."""

_OUTSIDE = re.compile(r'["{}\[\]:,]')
_INSIDE = re.compile(r'["\\]')


class SpooledAnswer(dict[str, Any]):
    """A result whose texts are in a file. `content` has an empty text for each of them."""

    spooled: SpooledText

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "SpooledAnswer | None":
        """The answer that a short message stands for, if it is one of ours."""
        meta = answer.get("_meta")
        token = meta.get(_KEY) if isinstance(meta, dict) else None
        if not isinstance(token, str) or (entry := _waiting.pop(token, None)) is None:
            return None
        found = cls(answer)
        found["_meta"] = {name: value for name, value in answer["_meta"].items() if name != _KEY}
        if not found["_meta"]:
            del found["_meta"]
        found.spooled = entry[1]
        return found


_waiting: dict[str, tuple[float, SpooledText]] = {}


def _refer(text: SpooledText) -> str:
    now = time.monotonic()
    for token, (since, old) in list(_waiting.items()):
        if since < now - _TAKEN_WITHIN:
            old.close()
            del _waiting[token]
    token = secrets.token_hex(16)
    _waiting[token] = now, text
    return token


@dataclass
class MessageSpool:
    """One message over the limit, from its first byte to its last.

    Args:
        most: The largest message that is accepted, in bytes.
    """

    most: int
    size: int = 0
    _rest: list[str] = field(default_factory=list)
    _rest_size: int = 0
    _stack: list[list[Any]] = field(default_factory=list)
    """Open containers, each with its kind and the key or number of the current member."""

    _in_string: bool = False
    _is_key: bool = False
    _escaped: bool = False
    _word: list[str] = field(default_factory=list)
    """The current key."""

    _dropped: int = 0
    """Depth at which dropped content began; 0 outside of it."""

    _dropped_size: int = 0
    """Characters of dropped content; it repeats the text and does not count against the limit."""

    _failed: bool = False

    def __post_init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 — closed by whoever reads it
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._mend = HalfCharacters()
        self._to_file = False
        self._texts = 0

    @property
    def is_too_large(self) -> bool:
        return self.size - self._dropped_size > self.most

    def feed(self, chunk: bytes, *, is_last: bool = False) -> None:
        is_over = self._failed or self.is_too_large
        self.size += len(chunk)
        if is_over:
            return
        text = self._decode(chunk, is_last)
        at = 0
        while at < len(text):
            at = self._string(text, at) if self._in_string else self._structure(text, at)

    def finish(self) -> bytes:
        """A short message in the place of this one."""
        self.feed(b"", is_last=True)
        message: Any = None
        if not self._failed and not self.is_too_large:
            with suppress(ValueError):
                message = json.loads("".join(self._rest), strict=False)
        request_id = message.get("id") if isinstance(message, dict) else None
        result = message.get("result") if isinstance(message, dict) else None
        if not self._texts or not isinstance(result, dict) or self._stack:
            self._file.close()
            return self._refusal(request_id)
        result.pop("structuredContent", None)
        self._file.flush()
        spooled = SpooledText(self._file, self._file.tell())
        meta = result.get("_meta")
        result["_meta"] = {**(meta if isinstance(meta, dict) else {}), _KEY: _refer(spooled)}
        return json.dumps(message, ensure_ascii=False).encode()

    def discard(self) -> None:
        self._file.close()

    def _refusal(self, request_id: Any) -> bytes:
        if request_id is None:
            found = re.search(r'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,60}")', "".join(self._rest))
            request_id = json.loads(found[1]) if found else None
        problem = TransportProblem("too_large", SPOOLED if self.is_too_large else "", size=self.size)
        error = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=problem.error())
        return error.model_dump_json(by_alias=True).encode()

    def _keep(self, piece: str) -> None:
        if self._dropped:
            self._dropped_size += len(piece)
            return
        self._rest.append(piece)
        self._rest_size += len(piece)
        if self._rest_size > _LARGEST_REST:
            self._failed = True

    def _structure(self, text: str, at: int) -> int:
        found = _OUTSIDE.search(text, at)
        if found is None:
            self._keep(text[at:])
            return len(text)
        sign, end = found[0], found.end()
        if self._dropped and sign in ",}" and len(self._stack) == self._dropped:
            self._dropped = 0  # the value has ended; what follows is a sibling or the end of the parent
            self._rest.append("null")
            self._keep(sign)
        else:
            self._keep(text[at:end])
        top = self._stack[-1] if self._stack else None
        match sign:
            case '"':
                self._begin_string(top)
            case "{":
                self._stack.append(["{", None])
            case "[":
                self._stack.append(["[", 0])
            case "}" | "]":
                if self._stack:
                    self._stack.pop()
            case ",":
                if top is not None:
                    top[1] = None if top[0] == "{" else top[1] + 1
            case ":" if top is not None and not self._dropped and self._path() == ["result", "structuredContent"]:
                self._dropped = len(self._stack)
        return end

    def _path(self) -> list[Any]:
        return [key for _, key in self._stack]

    def _begin_string(self, top: list[Any] | None) -> None:
        self._in_string = True
        self._is_key = top is not None and top[0] == "{" and top[1] is None
        self._word = []
        path = self._path()
        self._to_file = (
            not self._is_key and len(path) == 4 and path[:2] == ["result", "content"] and path[3] == "text"
        ) and not self._dropped
        if self._to_file:
            if self._texts:
                self._file.write(b"\n")  # between two texts
            self._texts += 1
            self._mend = HalfCharacters()

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._take(text[at])
            return at + 1
        start = at
        while (found := _INSIDE.search(text, at)) is not None:
            if found[0] == '"':
                self._take(text[start : found.start()], is_last=True)
                self._end_string()
                return found.end()
            if found.end() == len(text):
                self._take(text[start:])
                self._escaped = True
                return len(text)
            at = found.end() + 1  # the sign after the backslash
        self._take(text[start:])
        return len(text)

    def _take(self, piece: str, *, is_last: bool = False) -> None:
        if self._to_file:
            ready = self._mend.feed(piece.encode("utf-8", "replace"), is_last=is_last)
            if ready:
                self._file.write(json.loads(b'"' + ready + b'"', strict=False).encode("utf-8", "replace"))
            return
        if self._is_key:
            self._word.append(piece)
        self._keep(piece)

    def _end_string(self) -> None:
        self._in_string = False
        self._keep('"')
        if self._is_key and self._stack and not self._dropped:
            self._stack[-1][1] = "".join(self._word)
        elif self._is_key and self._stack:
            self._stack[-1][1] = ""
        self._to_file = False
