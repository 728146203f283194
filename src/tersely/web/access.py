"""Which scope each route needs, and which requests enter the audit log: one table for the whole application.

A route is named by its function. Every request and every WebSocket passes
`authorize`, so a route that is missing here answers 403 to everybody; a test
compares the table with the routes.
"""

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from tersely.web.auth import AccessScope, check_scope, current_principal
from tersely.web.problems import ApiError


@dataclass(frozen=True)
class Access:
    scopes: tuple[AccessScope, ...] = ()
    """One of these is needed; none means that the route is open."""

    audit: str = ""
    """The action as the audit log names it; empty where it is not recorded."""


ROUTES: dict[str, Access] = {
    # Open: probes, and how to get in.
    "health": Access(),
    "ready": Access(),
    "login_page": Access(),
    "login": Access(audit="login"),
    "logout": Access(audit="logout"),
    "style": Access(),
    # What can be submitted, and to what.
    "list_alert_types": Access(("submit", "read")),
    "list_mcp_servers": Access(("submit", "read")),
    "read_info": Access(("submit", "read")),
    "reference": Access(("submit", "read")),
    "openapi": Access(("submit", "read")),
    "submit_alert": Access(("submit",), audit="submit"),
    "submit_alertmanager_group": Access(("submit",), audit="submit"),
    "cancel_session": Access(("submit", "admin"), audit="cancel"),
    "run_session_again": Access(("submit", "admin"), audit="run_again"),
    "ask_question": Access(("submit",), audit="ask"),
    "cancel_question": Access(("submit", "admin"), audit="cancel_question"),
    "rate_session": Access(("submit",), audit="rate"),
    "withdraw_rating": Access(("submit",), audit="rate"),
    "assign_session": Access(("submit",), audit="assign"),
    "acknowledge_session": Access(("submit",), audit="acknowledge"),
    "close_session": Access(("submit",), audit="close"),
    "reopen_session": Access(("submit",), audit="reopen"),
    # What was found.
    "read_chat": Access(("read",)),
    "compare_two_sessions": Access(("read",)),
    "list_sessions": Access(("read",)),
    "read_session": Access(("read",)),
    "read_status": Access(("read",)),
    "read_timeline": Access(("read",)),
    "read_events": Access(("read",)),
    "read_trace": Access(("read",)),
    "read_interaction": Access(("read",)),
    "export_session": Access(("read",), audit="export"),
    "list_results": Access(("read",)),
    "read_result": Access(("read",), audit="read_result"),
    "search_result": Access(("read",), audit="search_result"),
    "download_result": Access(("read",), audit="download_result"),
    "read_result_histogram": Access(("read",), audit="read_result"),
    "read_result_account": Access(("read",), audit="read_result"),
    "search_sessions": Access(("read",)),
    "read_savings": Access(("read",)),
    "read_ratings": Access(("read",)),
    "read_spending": Access(("read",)),
    "read_problems": Access(("submit", "read")),
    "metrics": Access(("read",)),
    "follow": Access(("read",)),
    # What concerns others.
    "retry_mcp_server": Access(("admin",), audit="retry_server"),
    "read_configuration": Access(("admin",), audit="read_configuration"),
    "delete_session": Access(("admin",), audit="delete"),
    "read_audit_log": Access(("admin",), audit="read_audit_log"),
}


def authorize_request(connection: HTTPConnection) -> None:
    """The dependency of every route. The WebSocket calls `authorize` itself, because it answers in its own way."""
    if connection.scope["type"] == "http":
        authorize(connection)


def authorize(connection: HTTPConnection) -> None:
    """Check that the sender has a scope that the route needs.

    Raises:
        ApiError: The request has no credentials, or none of the scopes.
    """
    access = access_of(connection.scope.get("endpoint"))
    if access is None:
        raise ApiError(403, "Nobody may use this route: it is not in the table of routes.")
    if access.scopes:
        check_scope(current_principal(connection), *access.scopes)


def access_of(endpoint: object) -> Access | None:
    return ROUTES.get(getattr(endpoint, "__name__", ""))
