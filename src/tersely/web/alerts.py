"""Alerts come in: our own form, and Alertmanager's webhook, which Grafana sends too.

What is accepted is stored; a 202 is never given for less. Masking, queueing and
the check of an override against what exists are the intake's.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response

from tersely.errors import QueueFull
from tersely.sessions.intake import Submission
from tersely.store.groups import Group
from tersely.web.auth import Principal, Submits
from tersely.web.bodies import JsonRoute
from tersely.web.dependencies import WebDependencies
from tersely.web.problems import Refusal
from tersely.web.schemas import ERRORS, LONGEST_RUNBOOK, AcceptedOut, AlertIn, AlertmanagerIn, Error, GroupOut

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    400: {
        "model": Error,
        "description": "Empty data, an unknown alert type, or an override with unknown servers or tools",
    },
    409: {"model": Error, "description": "The Idempotency-Key came with another body before"},
    413: {"model": Error, "description": "More than 1 MiB"},
    422: {"model": Error, "description": "A field is unknown or wrong; `details` says which"},
    429: {"model": Error, "description": "Too many alerts wait; `Retry-After` says when to come again"},
    503: {"model": Error, "description": "The store does not answer; `Retry-After` says when to come again"},
}

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same body stands for the same session, for 24 hours.",
    ),
]


def routes(parts: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["alerts"], route_class=JsonRoute)
    intake = parts.intake

    @router.post("/alerts", status_code=202, responses=_ACCEPTED)
    async def submit_alert(
        alert: AlertIn, idempotency_key: IdempotencyKey = None, principal: Principal = Submits
    ) -> AcceptedOut:
        """Have an alert investigated. Once this is answered, the session exists."""
        submission = Submission(
            data=_given(alert.data),
            alert_type=alert.alert_type or None,
            runbook=_runbook(alert.runbook),
            override=alert.mcp,
        )
        accepted = await intake.submit(submission, principal=principal.name, idempotency_key=idempotency_key)
        return AcceptedOut(session_id=accepted.session_id, status="queued", message=accepted.message)

    @router.post(
        "/alerts/alertmanager",
        status_code=202,
        responses={**_ACCEPTED, 200: {"model": GroupOut, "description": "Noted"}},
    )
    async def submit_alertmanager_group(
        group: AlertmanagerIn, response: Response, principal: Principal = Submits
    ) -> GroupOut:
        """Alertmanager's webhook: one session per firing group. A group that is resolved is noted on its session."""
        known_as = _group(group)
        if group.status == "resolved":
            session_id = await intake.resolve(known_as, principal=principal.name)
            response.status_code = 200
            words = "Noted on the session." if session_id else "Nobody investigates this group."
            return GroupOut(session_id=session_id, status="resolved", message=words)
        name = str(group.commonLabels.get("alertname") or group.groupLabels.get("alertname") or "")
        # A name nobody knows goes to the default chain: Alertmanager drops what is refused.
        alert_type = name if name in intake.plan.alert_types() else None
        submission = Submission(data=group.model_dump(mode="json"), alert_type=alert_type)
        try:
            accepted = await intake.submit(submission, principal=principal.name, group=known_as)
        except QueueFull as full:
            # Not a 429: Alertmanager sends again after a 5xx only.
            raise Refusal(
                503, str(full), code="queue_full", headers={"Retry-After": str(max(1, full.retry_after))}
            ) from None
        return GroupOut(session_id=accepted.session_id, status="queued", message=accepted.message)

    return router


def _given(data: str | dict[str, Any]) -> str | dict[str, Any]:
    """The alert, refused where there is none."""
    if not data or (isinstance(data, str) and not data.strip()):
        raise Refusal(
            400, "data is empty: there is nothing to investigate.", code="empty_data", details=[("data", "is empty")]
        )
    return data


def _runbook(text: str | None) -> str:
    size = len((text or "").encode("utf-8", "replace"))
    if size > LONGEST_RUNBOOK:
        message = f"has {size:,} bytes; at most {LONGEST_RUNBOOK:,} are taken. Leave out what this alert does not need"
        raise Refusal(422, f"runbook: {message}.", code="invalid", details=[("runbook", message)])
    return text or ""


def _group(group: AlertmanagerIn) -> Group:
    """What this notification has in common with others about the same trouble."""
    firing: list[str] = []
    over: list[str] = []
    for alert in group.alerts:
        # Who sends no fingerprint tells its alerts apart by their labels.
        name = f"{alert.fingerprint or json.dumps(alert.labels, sort_keys=True)}\0{alert.startsAt}"
        (over if "resolved" in (alert.status, group.status) else firing).append(name)
    return Group(name=group.groupKey, firing=firing, over=over)
