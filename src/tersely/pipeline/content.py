"""What came in, before anything was done to it.

An entry point translates its protocol into `Content` and nothing else; what is
not text travels beside the text as attachments.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A part of a result that is not text: an image, a sound, a file, a link."""

    kind: str
    """`image`, `audio`, `resource`, `link` or what the server called it."""

    data: str = ""
    """Base64, as it was received."""

    mime_type: str = ""
    name: str = ""

    def content(self) -> bytes:
        """The decoded data; data that is not Base64 as it was written."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return self.data.encode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class Content:
    texts: tuple[str, ...] = ()
    """The parts that are text, in order."""

    structured: Any = None
    """A JSON value beside the text, or instead of it; None where there is none."""

    attachments: tuple[Attachment, ...] = ()
    is_error: bool = False
    """The tool ran and reports that it failed."""

    @classmethod
    def of_text(cls, text: str) -> "Content":
        return cls(texts=(text,))
