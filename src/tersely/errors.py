"""Everything we raise on purpose. Who can act on it decides the type.

* TerselyError
  x ConfigError             the operator can fix it; names the setting
  x InputError              the caller can fix it; names the value and what is allowed
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


class InputError(TerselyError, ValueError):
    """A value the caller passed is out of range; the message names it and the range."""


class MaskingFailed(TerselyError):
    """A text could not be masked and was dropped."""


class LLMError(TerselyError):
    """A model gave no usable answer."""


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
