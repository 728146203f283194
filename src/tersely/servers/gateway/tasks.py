"""Calls that continue after their answer, the tasks of 2025-11-25: whose they are, and which server runs them.

Servers know one client, the gateway. So a task is found only in the scope of the
client that started it, and lists contain only that client's tasks.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tersely.mcp.connect.supervisor import Connection
from tersely.servers.gateway.calls import UpstreamCall

MOST_TASKS = 10_000
"""Tasks that are remembered; the oldest are forgotten first."""


@dataclass(frozen=True)
class OwnedTask:
    connection: Connection
    call: UpstreamCall
    """The call that the task runs; its result is processed like that of any other call."""

    client: object = None
    """Who started it, and hears of its status."""


class OwnedTasks:
    def __init__(self) -> None:
        self._tasks: OrderedDict[tuple[str, str], OwnedTask] = OrderedDict()

    def add(self, task_id: str, connection: Connection, call: UpstreamCall, client: object = None) -> None:
        self._tasks[call.scope, task_id] = OwnedTask(connection, call, client)
        if len(self._tasks) > MOST_TASKS:
            self._tasks.popitem(last=False)

    def find(self, scope: str, task_id: object) -> OwnedTask:
        """The task of a client.

        Raises:
            MCPError: This client has no such task.
        """
        if (found := self._tasks.get((scope, str(task_id)))) is None:
            raise MCPError(types.INVALID_PARAMS, f"Task not found: {str(task_id)[:200]}")
        return found

    def client_of(self, task_id: object, connection: Connection) -> object:
        """The client that started a task at this server; None if there is none, or more than one."""
        found = [one for (_, name), one in self._tasks.items() if name == task_id and one.connection is connection]
        return found[0].client if len(found) == 1 else None

    def owns(self, scope: str, task_id: object, connection: Connection) -> bool:
        found = self._tasks.get((scope, str(task_id)))
        return found is not None and found.connection is connection


def created_task(raw: dict[str, Any]) -> str | None:
    """The task that an answer of `tools/call` announces instead of a result; None if it is a result."""
    task = raw.get("task")
    if "content" in raw or not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
        return None
    return str(task["taskId"])
