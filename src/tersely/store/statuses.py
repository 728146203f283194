"""The statuses of sessions, stages and executions: one vocabulary for store, events, API, command line and webhooks."""

from typing import Literal, get_args

End = Literal["completed", "failed", "cancelled", "timed_out"]
Status = Literal["pending", "in_progress", "cancelling", "completed", "failed", "cancelled", "timed_out"]
"""Of a session."""

PartStatus = Literal["pending", "in_progress", "completed", "failed", "cancelled", "timed_out"]
"""Of a stage or an execution."""

STATUSES: tuple[Status, ...] = get_args(Status)
ENDS: tuple[End, ...] = get_args(End)
OPEN: tuple[Status, ...] = tuple(status for status in STATUSES if status not in ENDS)
"""Of sessions that have not ended."""
