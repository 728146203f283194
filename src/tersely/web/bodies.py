"""Request bodies as JSON: any encoding, depth or number gets a defined response, never a crash."""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from tersely.web.problems import ApiError

MAX_DEPTH = 100
"""Levels of nesting; no alert needs more."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json(raw: bytes) -> Any:
    """Parse a body. Lone surrogates, which no database stores, become the replacement character.

    Raises:
        ApiError: It is not JSON, or nested too deeply.
    """
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise ApiError(400, "The body is not UTF-8.", code="not_json") from None
    except ValueError as problem:  # Also raised for integers with too many digits.
        raise ApiError(400, f"The body is not JSON: {str(problem)[:200]}.", code="not_json") from None
    return _checked(value, 0, has_escapes=b"\\u" in raw)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _too_deep() -> ApiError:
    return ApiError(400, f"The body is nested more than {MAX_DEPTH} levels deep.", code="not_json")


def _checked(value: Any, depth: int, *, has_escapes: bool) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value) if has_escapes else value
    if not isinstance(value, dict | list):
        return value
    if depth >= MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, dict):
        return {
            _checked(key, depth, has_escapes=has_escapes): _checked(item, depth + 1, has_escapes=has_escapes)
            for key, item in value.items()
        }
    return [_checked(item, depth + 1, has_escapes=has_escapes) for item in value]


class _JsonRequest(Request):
    async def json(self) -> Any:
        return read_json(await self.body())


class JsonRoute(APIRoute):
    """A route whose body, if any, is parsed by `read_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            request = _JsonRequest(request.scope, request.receive)
            if self.body_field is not None and await request.body():
                media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if media_type != "application/json" and not re.fullmatch(r"application/.*\+json", media_type):
                    raise ApiError(415, "Send JSON, with `Content-Type: application/json`.")
            return await handle(request)

        return handle_json
