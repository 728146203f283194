"""Submitting alerts: our own body, and Alertmanager's webhook, which Grafana sends too.

A 202 means that the session is stored. `AlertIntake` masks, queues, and checks
overrides against the configured servers.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from tersely.errors import QueueFull
from tersely.sessions.intake import Submission
from tersely.store.groups import Group
from tersely.web.auth import Caller, Principal
from tersely.web.bodies import JsonRoute
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import strip_control_characters
from tersely.web.problems import ApiError
from tersely.web.schemas import ERRORS, MAX_RUNBOOK_BYTES, AcceptedOut, AlertIn, AlertmanagerIn, Error, GroupOut

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    400: {
        "model": Error,
        "description": "Empty data, an unknown alert type, or an override with unknown servers or tools",
    },
    409: {"model": Error, "description": "The Idempotency-Key was used with another body"},
    413: {"model": Error, "description": "More than 1 MiB"},
    422: {"model": Error, "description": "A field is unknown or invalid; `details` names it"},
    429: {"model": Error, "description": "The queue is full; `Retry-After` says when to retry"},
    503: {"model": Error, "description": "The database is unavailable; `Retry-After` says when to retry"},
}

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same body returns the same session for 24 hours.",
    ),
]


def alert_routes(deps: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["alerts"], route_class=JsonRoute)
    intake = deps.intake

    @router.post("/alerts", status_code=202, responses=_ACCEPTED)
    async def submit_alert(
        request: Request, alert: AlertIn, idempotency_key: IdempotencyKey = None, principal: Principal = Caller
    ) -> AcceptedOut:
        """Submit an alert for investigation. The response means that the session is stored."""
        submission = Submission(
            data=_non_empty(alert.data),
            alert_type=alert.alert_type or None,
            runbook=_runbook(alert.runbook),
            fingerprint=strip_control_characters(alert.fingerprint) or "",
            override=alert.mcp,
            may_add=principal.has_scope("override"),
        )
        accepted = await intake.submit(submission, principal=principal.name, idempotency_key=idempotency_key)
        request.state.audited = accepted.session_id
        return AcceptedOut(session_id=accepted.session_id, status=accepted.status, message=accepted.message)

    @router.post(
        "/alerts/alertmanager",
        status_code=202,
        responses={**_ACCEPTED, 200: {"model": GroupOut, "description": "Recorded as resolved"}},
    )
    async def submit_alertmanager_group(
        request: Request, group: AlertmanagerIn, response: Response, principal: Principal = Caller
    ) -> GroupOut:
        """Alertmanager's webhook: one session per firing group. A resolved group is recorded on its session."""
        parsed = _group(group)
        if group.status == "resolved":
            session_id = await intake.resolve(parsed, principal=principal.name)
            request.state.audited = session_id or ""
            response.status_code = 200
            message = "Recorded on the session." if session_id else "There is no session for this group."
            return GroupOut(session_id=session_id, status="resolved", message=message)
        name = str(group.commonLabels.get("alertname") or group.groupLabels.get("alertname") or "")
        # An unknown name goes to the default chain, because Alertmanager drops what is refused.
        alert_type = name if name in intake.plan.alert_types() else None
        submission = Submission(data=group.model_dump(mode="json"), alert_type=alert_type)
        try:
            accepted = await intake.submit(submission, principal=principal.name, group=parsed)
        except QueueFull as full:
            # Not a 429: Alertmanager retries after a 5xx only.
            raise ApiError(
                503, str(full), code="queue_full", headers={"Retry-After": str(max(1, full.retry_after))}
            ) from None
        request.state.audited = accepted.session_id
        return GroupOut(session_id=accepted.session_id, status=accepted.status, message=accepted.message)

    return router


def _non_empty(data: str | dict[str, Any]) -> str | dict[str, Any]:
    if not data or (isinstance(data, str) and not data.strip()):
        raise ApiError(
            400, "data is empty: there is nothing to investigate.", code="empty_data", details=[("data", "is empty")]
        )
    return data


def _runbook(text: str | None) -> str:
    size = len((text or "").encode("utf-8", "replace"))
    if size > MAX_RUNBOOK_BYTES:
        message = (
            f"has {size:,} bytes; at most {MAX_RUNBOOK_BYTES:,} are allowed. Leave out what this alert does not need"
        )
        raise ApiError(422, f"runbook: {message}.", code="invalid", details=[("runbook", message)])
    return text or ""


def _group(group: AlertmanagerIn) -> Group:
    """The group's key, and its alerts by fingerprint and start."""
    firing: list[str] = []
    over: list[str] = []
    for alert in group.alerts:
        # Without a fingerprint, the labels identify an alert.
        name = f"{alert.fingerprint or json.dumps(alert.labels, sort_keys=True)}\0{alert.startsAt}"
        (over if "resolved" in (alert.status, group.status) else firing).append(name)
    return Group(name=group.groupKey, firing=firing, over=over)
