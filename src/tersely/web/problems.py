"""One error body for the whole API: `{"error": {"code", "message", "details"}}`.

`to_api_error` chooses the status of our own errors, not the code that raises
them. An unexpected error is a 500 with an id under which the log has the reason;
the reason itself is not sent.
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
from tersely.store.health import DAMAGED

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5
"""`Retry-After` when the database is unavailable."""

_CODES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
    415: "unsupported_media_type",
    421: "unknown_host",
    422: "invalid",
    429: "too_many_requests",
    503: "unavailable",
}
_MAX_DETAILS = 50
_MAX_TEXT = 2_000


class ApiError(HTTPException):
    """An error response, raised."""

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

    def response(self) -> "ErrorResponse":
        return ErrorResponse(self.status_code, self.code, self.detail, self.details, self.headers)


class ErrorResponse(Response):
    """The error body as a response; ASCII, so that no input can make encoding it fail."""

    media_type = "application/json"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        fields = [{"field": field[:_MAX_TEXT], "message": text[:_MAX_TEXT]} for field, text in details[:_MAX_DETAILS]]
        body = {"error": {"code": code, "message": message[:_MAX_TEXT], "details": fields}}
        super().__init__(json.dumps(body).encode(), status, dict(headers or {}))


def to_api_error(problem: errors.TerselyError) -> ApiError:
    """The status, code and message for one of our own errors."""
    message = str(problem)
    match problem:
        case errors.QueueFull():
            return ApiError(
                429, message, code="queue_full", headers={"Retry-After": str(max(1, round(problem.retry_after)))}
            )
        case errors.UnknownAlertType():
            return ApiError(400, message, code="unknown_alert_type", details=[("alert_type", message)])
        case errors.OverrideRefused():
            return ApiError(400, message, code="override_refused", details=problem.mistakes)
        case errors.IdempotencyConflict():
            return ApiError(409, message, code="idempotency_conflict")
        case errors.SessionNotFound():
            return ApiError(404, message, code="session_not_found")
        case errors.SessionEnded():
            return ApiError(409, message, code="session_ended")
        case errors.SessionNotEnded():
            return ApiError(409, message, code="session_not_ended")
        case errors.ChatRefused():
            return ApiError(409, message, code=problem.code)
        case errors.ResultNotFound():
            return ApiError(404, message, code="result_not_found")
        case errors.ResultExpired():
            return ApiError(410, message, code="result_expired")
        case errors.InputError():
            return ApiError(400, message)
        case errors.MaskingFailed():
            return ApiError(422, message, code="masking_failed")
        case errors.StoreUnavailable():
            # The driver's message names hosts and files, so it is only logged.
            logger.warning("store_unavailable", extra={"problem": message})
            return ApiError(
                503,
                problem.reason if problem.reason == DAMAGED else f"{problem.reason} Try again in a moment.",
                code="store_unavailable",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        case _:
            raise problem


def unexpected_error(problem: Exception, where: str) -> ErrorResponse:
    """Log an unexpected error under an id, and answer with the id."""
    error_id = secrets.token_hex(6)
    logger.error("request_failed", extra={"id": error_id, "where": where}, exc_info=problem)
    return ErrorResponse(500, "internal_error", f"Internal error. The server's log has the reason under {error_id}.")


def field_path(location: Sequence[Any]) -> str:
    """`mcp.servers.0.name` from pydantic's location, without a leading `body`, `query` and so on."""
    parts = [str(part) for part in location]
    if len(parts) > 1 and parts[0] in ("body", "query", "path", "header", "cookie"):
        parts = parts[1:]
    return ".".join(parts)


def add_error_handlers(app: FastAPI) -> None:
    """Give every expected error the common body; `AccessMiddleware` answers unexpected ones."""

    async def http_error(request: Request, problem: Exception) -> Response:
        if isinstance(problem, ApiError):
            return problem.response()
        assert isinstance(problem, HTTPException)
        code = _CODES.get(problem.status_code, "error")
        message = problem.detail
        if problem.status_code == 404:
            message = f"Not found: {request.url.path[:200]}."
        elif problem.status_code == 405:
            allowed = (problem.headers or {}).get("Allow", "")
            message = f"{request.method} is not allowed here.{f' Allowed: {allowed}.' if allowed else ''}"
        return ErrorResponse(problem.status_code, code, message, headers=problem.headers)

    async def invalid(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        found = problem.errors()
        details = [(field_path(error["loc"]), _message(error)) for error in found if not _is_consequence(error, found)]
        field, text = details[0] if details else ("", "")
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        return ErrorResponse(422, "invalid", f"{field}: {text}{more}" if field else f"{text}{more}", details)

    async def our_error(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, errors.TerselyError)
        return to_api_error(problem).response()

    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(errors.TerselyError, our_error)


def _is_consequence(error: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list is too short only because one of its items is invalid."""
    location = tuple(error["loc"])
    return error["type"] == "too_short" and any(
        len(other["loc"]) > len(location) and tuple(other["loc"])[: len(location)] == location for other in errors
    )


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown field"
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "too_short":
        return f"needs at least {error['ctx']['min_length']}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
