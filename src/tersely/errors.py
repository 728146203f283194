"""Everything we raise on purpose. Who can act on it decides the type.

* TerselyError
  x ConfigError             the operator can fix it; names the setting
    + MissingExtra          an optional dependency is not installed; names the extra
  x InputError              the caller can fix it; names the value and what is allowed
    + ResultNotFound        no kept result has this handle, for this caller
    + ResultExpired         there was one; it was kept for as long as the settings say
    + UnknownAlertType      no chain is for alerts of this type; names the known ones
    + OverrideRefused       an alert's override names what does not exist; `mistakes` says where
    + IdempotencyConflict   the same key came with another body before
    + SessionEnded          what was asked for is possible only while a session runs
    + SessionNotFound       no session has this id
    + SessionNotEnded       what was asked needs a session that has ended
  x ToolError               the model can see it and adapt; the text may quote the server: mask it before it is shown
    + ToolNotFound          no such tool; says what exists and what is close
    + ToolForbidden         the configuration does not allow this tool
    + ToolTimedOut          no answer in time; the server was told to stop
    + ToolUnavailable       the server is not there, or went away; `sent` says whether the call may have arrived
    + ToolRejected          the server answered with a protocol error; `code` and `data` as it sent them
    + ResultTooLarge        the answer was refused while it was read; says the size
    + ResultMalformed       the answer is not what the protocol allows
  x QueueFull               too many alerts wait; `retry_after` says when to come again
  x StoreUnavailable        the database does not answer; worth trying again later
  x LostSession             somebody else works on the session now, or it has ended: stop, and write nothing
  x MaskingFailed           nobody sees the text; the call is reported as failed
  x LLMError
    + LLMUnavailable        worth trying again later: connection, 408, 429, 5xx, timeouts, an open circuit
    + LLMRefused            this request will not be answered: content filter, refusal, unusable answer
    + LLMOutOfQuota         somebody has to pay: 402, exhausted quota
    + LLMTooLong            the prompt does not fit the window: split it
    + LLMMisconfigured      the operator has to fix it: key, model name, unsupported parameter
"""


class TerselyError(Exception):
    """Base of everything raised on purpose."""


class ConfigError(TerselyError):
    """A setting is missing or wrong; the message names it and says what would be right."""


class MissingExtra(ConfigError):
    """The feature needs packages that only an extra installs."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the {extra} extra: pip install 'tersely[{extra}]'.")
        self.extra = extra


class InputError(TerselyError, ValueError):
    """A value the caller passed is out of range; the message names it and the range."""


class ToolError(TerselyError):
    """A tool call gave no result. The message is for the model; text of the server's own in it is not masked yet."""


class ToolNotFound(ToolError):
    """No tool of that name can be called; the message lets a model correct itself."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class ToolForbidden(ToolError):
    """The tool exists and the configuration does not let it be called."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class ToolTimedOut(ToolError):
    """No answer within the server's `timeout`."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"Tool {name!r} gave no answer in {seconds:g} s. Narrow the query, or ask for a shorter range."
        )
        self.name = name
        self.seconds = seconds


class ToolUnavailable(ToolError):
    """The server cannot be reached, or was lost before it answered."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the call may have reached the server. Only one that certainly did not is safe to send again."""


class ToolRejected(ToolError):
    """The server answered with a protocol error instead of a result."""

    def __init__(self, message: str, *, code: int, data: object = None, said: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.said = said or message
        """The server's own words."""


class ResultTooLarge(ToolError):
    """The answer was larger than the server's `max_result_bytes` and was not read to its end."""

    def __init__(self, message: str, *, limit: int, size: int | None) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size
        """Bytes, where the server said so."""


class ResultMalformed(ToolError):
    """The answer breaks the protocol's rules for a result."""


class ResultNotFound(InputError):
    """Also the answer for another scope's handle: whether it exists is not ours to tell."""

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"No kept result has the handle {handle[:80]!r}. Copy a handle exactly as it was given (r_ and 16 letters "
            "and digits); "
            "only those who made the call can read it. Call the tool again for a new one."
        )


class ResultExpired(InputError):
    """The content is gone; what was called is still known."""

    def __init__(self, handle: str, *, expired: str, origin: str) -> None:
        super().__init__(
            f"The kept result {handle} expired at {expired}. It came from {origin}: call that again if it is still "
            "needed."
        )


class SessionNotFound(InputError):
    """There is no such session, or it was deleted."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"There is no session {session_id[:80]!r}. It may have been deleted, or be older than sessions are kept."
        )


class SessionNotEnded(InputError):
    """The session is still being worked on."""

    def __init__(self, session_id: str, status: str) -> None:
        super().__init__(
            f"Session {session_id} is still {status.replace('_', ' ')}. Cancel it first, or wait until it has ended."
        )


class LostSession(TerselyError):
    """A worker's write was refused: the session has ended, or a later attempt works on it. Whoever gets this stops
    quietly.
    """


class UnknownAlertType(InputError):
    """No chain is configured for an alert."""


class OverrideRefused(InputError):
    """An alert's override names servers or tools that do not exist."""

    def __init__(self, mistakes: "list[tuple[str, str]]") -> None:
        super().__init__(" ".join(message for _, message in mistakes))
        self.mistakes = mistakes
        """Field and message of each."""


class IdempotencyConflict(InputError):
    """An Idempotency-Key was used before, for something else."""


class SessionEnded(InputError):
    """The session has ended; nothing about it can be changed any more."""


class QueueFull(TerselyError):
    """As many alerts wait as the settings allow."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreUnavailable(TerselyError):
    """The database could not be reached, or was locked for too long."""


class MaskingFailed(TerselyError):
    """A text could not be masked and was dropped."""


class LLMError(TerselyError):
    """A model gave no usable answer."""

    work: object = None
    """What was done, and paid, before it failed: a `condensing.budget.ModelWork`, where there is something to tell."""


class LLMUnavailable(LLMError):
    """The model may answer later. `retry_after` is what the provider asked for, in seconds."""

    def __init__(self, message: str, *, retry_after: float | None = None, rate_limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.rate_limited = rate_limited


class LLMRefused(LLMError):
    """The model will not answer this request, however often it is asked."""


class LLMOutOfQuota(LLMError):
    """The account behind the key has nothing left."""


class LLMTooLong(LLMError):
    """The prompt is longer than the model's window."""


class LLMMisconfigured(LLMError):
    """Key, model name or a parameter is wrong: no retry can heal it."""
