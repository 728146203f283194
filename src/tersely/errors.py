"""The errors we raise on purpose. The type says who can act on it.

* TerselyError
  x ConfigError             the operator can fix it; names the setting
    + MissingExtra          an optional dependency is not installed; names the extra
  x InputError              the caller can fix it; names the value and what is allowed
    + ResultNotFound        no kept result has this handle, in this scope
    + ResultExpired         the result was deleted after its retention time
    + UnknownAlertType      no chain handles alerts of this type; names the known ones
    + OverrideRefused       an alert's override names unknown servers or tools; `mistakes` lists them
    + IdempotencyConflict   the key was used with another body before
    + SessionEnded          the operation needs a session that has not ended
    + SessionNotFound       no session has this id
    + SessionNotEnded       the operation needs a session that has ended
    + ChatRefused           a follow-up question cannot be asked now
  x ToolError               the model can adapt; the message may quote the server, so mask it before it is shown
    + ToolNotFound          no such tool; names the closest ones
    + ToolForbidden         the configuration does not allow this tool
    + ToolTimedOut          no result in time; the request was cancelled
    + ToolUnavailable       the server is not connected; `sent`: whether the call may have reached it
    + ToolRejected          the server answered with a protocol error; `code` and `data` as it sent them
    + ResultTooLarge        the result exceeds the limit and was not read completely
    + ResultMalformed       the result violates the protocol
  x QueueFull               too many alerts are waiting; `retry_after` in seconds
  x StoreUnavailable        the database does not answer; may be retried
  x LostSession             the session has ended or belongs to another attempt: stop, and write nothing
  x MaskingFailed           the text is dropped; the call is reported as failed
  x LLMError
    + LLMUnavailable        may be retried: connection failures, 408, 429, 5xx, timeouts, an open circuit
    + LLMRefused            this request fails again: content filter, refusal, unusable answer
    + LLMOutOfQuota         the account has no quota left: 402
    + LLMTooLong            the prompt exceeds the context window: split it
    + LLMMisconfigured      the operator has to fix it: key, model name, unsupported parameter
"""


class TerselyError(Exception):
    """Base class of all errors raised on purpose."""


class ConfigError(TerselyError):
    """A setting is missing or wrong; the message names it and what is valid."""


class MissingExtra(ConfigError):
    """The feature needs packages that only an extra installs."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the {extra} extra: pip install 'tersely[{extra}]'.")
        self.extra = extra


class InputError(TerselyError, ValueError):
    """A value from the caller is invalid; the message names it and what is valid."""


class ToolError(TerselyError):
    """A tool call failed. The message is for the model; text of the server in it is not masked yet."""


class ToolNotFound(ToolError):
    """No tool has this name; the message lets a model correct itself."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class ToolForbidden(ToolError):
    """The tool exists, but the configuration does not allow it."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class ToolTimedOut(ToolError):
    """No result within the server's `timeout`."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"Tool {name!r} gave no answer in {seconds:g} s. Narrow the query, or ask for a shorter range."
        )
        self.name = name
        self.seconds = seconds


class ToolUnavailable(ToolError):
    """The server cannot be reached, or the connection failed before it answered."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the call may have reached the server. If not, it is safe to send again."""


class ToolRejected(ToolError):
    """The server answered with a protocol error instead of a result."""

    def __init__(self, message: str, *, code: int, data: object = None, said: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.said = said or message
        """The message of the server."""


class ResultTooLarge(ToolError):
    """The result exceeds the server's `max_result_bytes` and was not read completely."""

    def __init__(self, message: str, *, limit: int, size: int | None) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size
        """In bytes, if the server sent it."""


class ResultMalformed(ToolError):
    """The result violates the protocol."""


class ResultNotFound(InputError):
    """Also raised for a handle of another scope, whose existence is not revealed."""

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"No kept result has the handle {handle[:80]!r}. Copy a handle exactly as it was given (r_ and 16 letters "
            "and digits); only those who made the call can read it. Call the tool again for a new one."
        )


class ResultExpired(InputError):
    """The content was deleted; the call that produced it is still known."""

    def __init__(self, handle: str, *, expired: str, origin: str) -> None:
        super().__init__(
            f"The kept result {handle} expired at {expired}. It came from {origin}: call that again if it is still "
            "needed."
        )


class SessionNotFound(InputError):
    """The session does not exist, or was deleted."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"There is no session {session_id[:80]!r}. It may have been deleted, or be older than sessions are kept."
        )


class ChatRefused(InputError):
    """A follow-up question cannot be asked now; `code` says why, for programs."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class SessionNotEnded(InputError):
    """The session has not ended."""

    def __init__(self, session_id: str, status: str) -> None:
        super().__init__(
            f"Session {session_id} is still {status.replace('_', ' ')}. Cancel it first, or wait until it has ended."
        )


class LostSession(TerselyError):
    """A worker's write was rejected: the session has ended, or belongs to a later attempt.

    The worker stops without further writes.
    """


class UnknownAlertType(InputError):
    """No chain handles alerts of this type."""


class OverrideRefused(InputError):
    """An alert's override names servers or tools that do not exist."""

    def __init__(self, mistakes: "list[tuple[str, str]]") -> None:
        super().__init__(" ".join(message for _, message in mistakes))
        self.mistakes = mistakes
        """Field and message of each problem."""


class IdempotencyConflict(InputError):
    """An Idempotency-Key was used before, with another body."""


class SessionEnded(InputError):
    """The session has ended and cannot be changed."""


class QueueFull(TerselyError):
    """The queue contains as many alerts as the settings allow."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreUnavailable(TerselyError):
    """The database cannot be reached, or was locked for too long.

    Args:
        reason: The same in words that name no host and no file, for callers.
    """

    def __init__(self, message: str, *, reason: str = "The database is unavailable.") -> None:
        super().__init__(message)
        self.reason = reason


class MaskingFailed(TerselyError):
    """A text could not be masked and was dropped."""


class LLMError(TerselyError):
    """A model returned no usable answer."""

    work: object = None
    """The model calls before the failure, for their cost: a `condensing.budget.ModelWork`, or None."""

    status_code: int | None = None
    """HTTP status of the provider's response, if there was one."""


class LLMUnavailable(LLMError):
    """The model may answer later.

    Args:
        retry_after: Seconds that the provider demands.
        most_retries: More would only cost time; None: as many as the retry policy has.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        rate_limited: bool = False,
        most_retries: int | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.rate_limited = rate_limited
        self.most_retries = most_retries


class LLMRefused(LLMError):
    """The model rejects this request; a retry does not help."""


class LLMOutOfQuota(LLMError):
    """The account of the key has no quota left."""


class LLMTooLong(LLMError):
    """The prompt exceeds the model's context window."""


class LLMMisconfigured(LLMError):
    """Key, model name or a parameter is wrong; a retry does not help."""


class SignInFailed(ConfigError):
    """The login did not succeed; the message says why."""
