"""Slack's Web API, as far as messages need it: post one, and look for one by its metadata.

`chat.postMessage` with the notification's id as metadata; `conversations.history` and
`conversations.replies` with `include_all_metadata` find it again. Slack answers most
failures with status 200 and `"ok": false`; which of them can pass is listed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

METADATA_TYPE = "tersely_notification"
MOST_PAGES = 10
_PASSING = {"ratelimited", "rate_limited", "service_unavailable", "team_added_to_org", "accesslimited"}
"""Errors with which nothing was posted, and which pass."""

_UNCLEAR = {"fatal_error", "internal_error", "request_timeout"}
"""Errors after which a message may have been posted."""

_NO_THREAD = {"thread_not_found", "message_not_found", "cannot_reply_to_message"}


class NotificationError(Exception):
    """A message was not sent, or it is not known whether it was."""


class NotSentYet(NotificationError):
    """Nothing was sent; it can be tried again."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NeverSent(NotificationError):
    """Nothing was sent, and trying again would not help."""


class MaybeSent(NotificationError):
    """The outcome is unknown."""


@dataclass(frozen=True)
class Posted:
    message_id: str
    thread_id: str


@dataclass(frozen=True)
class SlackApi:
    http: httpx2.AsyncClient
    url: str
    token: str
    timeout: float

    async def post(
        self, channel: str, text: str, blocks: Sequence[Mapping[str, Any]], *, notification_id: str, thread_id: str
    ) -> Posted:
        """Post a message; into a thread if one is given and still exists.

        Raises:
            NotificationError: See its classes.
        """
        body: dict[str, Any] = {
            "channel": channel,
            "text": text,
            "blocks": blocks,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": {"event_type": METADATA_TYPE, "event_payload": {"notification_id": notification_id}},
        }
        if thread_id:
            body["thread_ts"] = thread_id
        answer = await self._asked("chat.postMessage", body, changes=True)
        if answer.get("error") in _NO_THREAD and thread_id:
            del body["thread_ts"]
            thread_id = ""
            answer = await self._asked("chat.postMessage", body, changes=True)
        if not answer.get("ok"):
            _refuse(str(answer.get("error") or "no reason"))
        ts = str(answer.get("ts") or "")
        return Posted(message_id=ts, thread_id=thread_id or ts)

    async def find(self, channel: str, *, notification_id: str, thread_id: str, since: float) -> Posted | None:
        """The message with this notification's id, in the thread or in the channel; None if it is in neither.

        Raises:
            NotificationError: Slack did not answer, or the app may not read the channel.
        """
        places: list[tuple[str, dict[str, str]]] = [("conversations.history", {})]
        if thread_id:
            places.insert(0, ("conversations.replies", {"ts": thread_id}))
        for method, where in places:
            query = {
                "channel": channel,
                "oldest": f"{since:.6f}",
                "limit": 200,
                "include_all_metadata": "true",
                **where,
            }
            for _ in range(MOST_PAGES):
                answer = await self._asked(method, query, changes=False)
                if not answer.get("ok"):
                    if answer.get("error") in _NO_THREAD:
                        break
                    _refuse(str(answer.get("error") or "no reason"))
                for message in answer.get("messages") or ():
                    payload = (message.get("metadata") or {}).get("event_payload") or {}
                    if payload.get("notification_id") == notification_id:
                        ts = str(message["ts"])
                        return Posted(message_id=ts, thread_id=str(message.get("thread_ts") or ts))
                query["cursor"] = (answer.get("response_metadata") or {}).get("next_cursor") or ""
                if not query["cursor"]:
                    break
        return None

    async def check(self) -> str:
        """The workspace and user of the token.

        Raises:
            NotificationError: The token is refused, or Slack does not answer.
        """
        answer = await self._asked("auth.test", {}, changes=False)
        if not answer.get("ok"):
            _refuse(str(answer.get("error") or "no reason"))
        return f"{answer.get('team', '?')}, as {answer.get('user', '?')}"

    async def _asked(self, method: str, values: Mapping[str, Any], *, changes: bool) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        given: dict[str, Any] = {"json": values} if changes else {"data": {k: str(v) for k, v in values.items()}}
        try:
            response = await self.http.post(
                f"{self.url.rstrip('/')}/{method}", headers=headers, timeout=self.timeout, **given
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.InvalidURL) as problem:
            raise NotSentYet(f"could not connect ({type(problem).__name__})") from None
        except httpx2.HTTPError as problem:
            raise (MaybeSent if changes else NotSentYet)(f"no answer ({type(problem).__name__})") from None
        if response.status_code == 429:
            raise NotSentYet("status 429", _seconds(response.headers.get("Retry-After")))
        if response.status_code == 503:
            raise NotSentYet("status 503")
        if response.status_code >= 500:
            raise (MaybeSent if changes else NotSentYet)(f"status {response.status_code}")
        if response.status_code >= 300:
            raise NeverSent(f"status {response.status_code}")
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise (MaybeSent if changes else NotSentYet)("an answer that is not JSON")
        if answer.get("error") in _UNCLEAR:
            raise (MaybeSent if changes else NotSentYet)(str(answer["error"]))
        return answer


def _refuse(error: str) -> None:
    if error in _PASSING:
        raise NotSentYet(error)
    raise NeverSent(error[:100])


def _seconds(value: str | None) -> float | None:
    try:
        return min(3_600.0, max(1.0, float(value or "")))
    except ValueError:
        return None
