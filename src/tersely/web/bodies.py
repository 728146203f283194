"""Bodies are read so that none of them can make us fail: any encoding, depth or number is an answer, never an
accident.
"""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from tersely.web.problems import Refusal

DEEPEST = 100
"""Levels of nesting; no alert needs as many."""

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def read_json(raw: bytes) -> Any:
    """The value that a body stands for. Halves of characters, which no store takes, give way to the replacement
    character.

    Raises:
        Refusal: It is not JSON, or more than we take.
    """
    try:
        value = json.loads(raw, parse_constant=_no_number)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise Refusal(400, "The body is not UTF-8.", code="not_json") from None
    except ValueError as wrong:  # also numbers with more digits than Python reads
        raise Refusal(400, f"The body is not JSON: {str(wrong)[:200]}.", code="not_json") from None
    return _whole(value, 0, has_halves=b"\\u" in raw)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _too_deep() -> Refusal:
    return Refusal(400, f"The body is nested more than {DEEPEST} levels deep.", code="not_json")


def _whole(value: Any, depth: int, *, has_halves: bool) -> Any:
    if isinstance(value, str):
        return _HALF_CHARACTER.sub("\ufffd", value) if has_halves else value
    if not isinstance(value, dict | list):
        return value
    if depth >= DEEPEST:
        raise _too_deep()
    if isinstance(value, dict):
        return {
            _whole(key, depth, has_halves=has_halves): _whole(item, depth + 1, has_halves=has_halves)
            for key, item in value.items()
        }
    return [_whole(item, depth + 1, has_halves=has_halves) for item in value]


class _JsonRequest(Request):
    async def json(self) -> Any:
        return read_json(await self.body())


class JsonRoute(APIRoute):
    """A route whose body, where it has one, is JSON as we read it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def reading(request: Request) -> Response:
            request = _JsonRequest(request.scope, request.receive)
            if self.body_field is not None and await request.body():
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
                    raise Refusal(415, "Send JSON, with `Content-Type: application/json`.")
            return await handle(request)

        return reading
