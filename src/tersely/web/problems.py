"""One shape for everything that goes wrong: `{"error": {"code", "message", "details"}}`.

Statuses are chosen here, in `refusal`, and nowhere at the raise. What we did not
expect is a 500 with a number that stands in the log beside the reason; the
reason itself stays inside.
"""

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tersely import errors

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5
"""What a caller is told to wait when the store does not answer."""

_CODES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    421: "unknown_host",
    422: "invalid",
    429: "too_many_requests",
    503: "unavailable",
}
_MOST_DETAILS = 50
_LONGEST = 2_000


class Refusal(HTTPException):
    """An answer other than the one asked for."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        details: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code or _CODES.get(status, "error")
        self.details = details


class Problem(Response):
    """The error shape as a response. ASCII, so that nothing a caller sent can make the answer itself fail."""

    media_type = "application/json"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        told = [{"field": field[:_LONGEST], "message": text[:_LONGEST]} for field, text in details[:_MOST_DETAILS]]
        body = {"error": {"code": code, "message": message[:_LONGEST], "details": told}}
        super().__init__(json.dumps(body).encode(), status, dict(headers or {}))


def refusal(problem: errors.TerselyError) -> Refusal:
    """Which status an error of ours gets at this door."""
    message = str(problem)
    match problem:
        case errors.QueueFull():
            return Refusal(
                429, message, code="queue_full", headers={"Retry-After": str(max(1, round(problem.retry_after)))}
            )
        case errors.UnknownAlertType():
            return Refusal(400, message, code="unknown_alert_type", details=[("alert_type", message)])
        case errors.OverrideRefused():
            return Refusal(400, message, code="override_refused", details=problem.mistakes)
        case errors.IdempotencyConflict():
            return Refusal(409, message, code="idempotency_conflict")
        case errors.SessionNotFound():
            return Refusal(404, message, code="session_not_found")
        case errors.SessionEnded():
            return Refusal(409, message, code="session_ended")
        case errors.SessionNotEnded():
            return Refusal(409, message, code="session_not_ended")
        case errors.ResultNotFound():
            return Refusal(404, message, code="result_not_found")
        case errors.ResultExpired():
            return Refusal(410, message, code="result_expired")
        case errors.InputError():
            return Refusal(400, message)
        case errors.MaskingFailed():
            return Refusal(422, message, code="masking_failed")
        case errors.StoreUnavailable():
            # The driver's words name hosts and files; they are in the log.
            logger.warning("store_unavailable", extra={"problem": message})
            return Refusal(
                503,
                "The database does not answer. Try again in a moment.",
                code="store_unavailable",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        case _:
            raise problem


def unexpected(problem: Exception, where: str) -> Problem:
    """What we did not foresee: logged with a number, answered with the number."""
    number = secrets.token_hex(6)
    logger.error("request_failed", extra={"id": number, "where": where}, exc_info=problem)
    return Problem(500, "internal_error", f"Something went wrong on our side. The log has the reason under {number}.")


def field_path(location: Sequence[Any]) -> str:
    """`mcp.servers.0.name` from the place that validation names; `body` and the like are left out where a name
    follows.
    """
    places = [str(place) for place in location]
    if len(places) > 1 and places[0] in ("body", "query", "path", "header", "cookie"):
        places = places[1:]
    return ".".join(places)


def answer_problems(app: FastAPI) -> None:
    """Everything that is raised below becomes the one shape; what nobody expected is answered by the door."""

    async def refused(request: Request, problem: Exception) -> Response:
        if isinstance(problem, Refusal):
            return Problem(problem.status_code, problem.code, problem.detail, problem.details, problem.headers)
        assert isinstance(problem, HTTPException)
        code = _CODES.get(problem.status_code, "error")
        message = problem.detail
        if problem.status_code == 404:
            message = f"There is nothing at {request.url.path[:200]}."
        elif problem.status_code == 405:
            allowed = (problem.headers or {}).get("Allow", "")
            message = f"{request.method} is not possible here.{f' Possible: {allowed}.' if allowed else ''}"
        return Problem(problem.status_code, code, message, headers=problem.headers)

    async def invalid(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        found = problem.errors()
        details = [(field_path(wrong["loc"]), _plain(wrong)) for wrong in found if not _follows(wrong, found)]
        field, text = details[0] if details else ("", "")
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        return Problem(422, "invalid", f"{field}: {text}{more}" if field else f"{text}{more}", details)

    async def ours(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, errors.TerselyError)
        return await refused(request, refusal(problem))

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(errors.TerselyError, ours)


def _follows(wrong: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list counts as too short only because something inside of it is wrong."""
    place = tuple(wrong["loc"])
    return wrong["type"] == "too_short" and any(
        len(one["loc"]) > len(place) and tuple(one["loc"])[: len(place)] == place for one in found
    )


def _plain(wrong: Mapping[str, Any]) -> str:
    if wrong["type"] == "extra_forbidden":
        return "there is no such field"
    if wrong["type"] == "missing":
        return "is missing"
    if wrong["type"] == "too_short":
        return f"needs at least {wrong['ctx']['min_length']}"
    message = str(wrong["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
