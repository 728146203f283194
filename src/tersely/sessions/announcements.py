"""What a message about a session says: as plain text, as Slack blocks and as an e-mail.

Everything was masked when it was stored. Text of alerts and models is escaped, so that
it can neither mention people nor add links.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Literal

from tersely.masking.clean import clean
from tersely.store.history import SeenBefore
from tersely.store.sessions import Session

LONGEST_SECTION = 2_900
"""Characters; Slack allows 3,000 in a section and 150 in a header."""

_SIGNS = {"completed": "✅", "failed": "❌", "cancelled": "⏹️", "timed_out": "⌛"}


@dataclass(frozen=True, kw_only=True)
class Announcement:
    kind: Literal["start", "end"]
    session: Session
    link: str = ""
    seen: SeenBefore | None = None

    @property
    def verdict(self) -> Mapping[str, Any]:
        return self.session.verdict or {}

    @property
    def headline(self) -> str:
        title = _line(self.session.title) or self.session.alert_type
        if self.kind == "start":
            return f"Investigating: {title}"
        cause = _line(str(self.verdict.get("cause") or ""))
        if self.session.status == "completed":
            return f"{title}: {cause}" if cause else f"{title}: no cause was found"
        return f"{title}: {self.session.status.replace('_', ' ')}"

    @property
    def facts(self) -> list[str]:
        verdict = self.verdict
        facts = [f"alert type {self.session.alert_type}"]
        if self.kind == "end" and verdict:
            facts += [f"{verdict.get('confidence')} confidence"]
            facts += [f"affected: {verdict['service']}"] if verdict.get("service") else []
            facts += [f"since {verdict['since']}"] if verdict.get("since") else []
        if self.seen and self.seen.count:
            last = (self.seen.latest[0].verdict or {}).get("cause") or "none found"
            times = "once" if self.seen.count == 1 else f"{self.seen.count:,} times"
            facts.append(f"seen before: {times}, last cause: {last}")
        return [_line(fact) for fact in facts]

    @property
    def summary(self) -> str:
        if self.kind == "start":
            return ""
        return clean(str(self.verdict.get("summary") or self.session.reason or "")).text.strip()

    @property
    def actions(self) -> list[tuple[str, str]]:
        """What to do next, each with its command or an empty text."""
        if self.kind == "start":
            return []
        return [
            (_line(str(one.get("text", ""))), _line(str(one.get("command", ""))))
            for one in (self.verdict.get("actions") or ())[:5]
        ]

    def text(self) -> str:
        """Everything as plain text."""
        lines = [self.headline, " · ".join(self.facts), self.summary]
        for number, (action, command) in enumerate(self.actions, start=1):
            lines.append(f"{number}. {action}" + (f"\n   {command}" if command else ""))
        return "\n".join(line for line in (*lines, self.link) if line)

    def chat_text(self) -> str:
        """The same for chat programs, in which it cannot mention people or add links."""
        return _escaped(self.text())

    def blocks(self) -> list[dict[str, Any]]:
        """The message as Slack's Block Kit shows it."""
        sign = _SIGNS.get(self.session.status, "") if self.kind == "end" else "🔎"
        title = _line(self.session.title) or self.session.alert_type
        shown: list[dict[str, Any]] = [
            {"type": "header", "text": {"type": "plain_text", "text": _cut(f"{sign} {title}".strip(), 150)}}
        ]
        if self.kind == "end":
            cause = self.verdict.get("cause") or (
                "No cause was found." if self.session.status == "completed" else self.session.status.replace("_", " ")
            )
            shown.append(_section(f"*{_escaped(_line(str(cause)))}*"))
        if self.summary:
            shown.append(_section(_escaped(self.summary)))
        actions = [
            f"{number}. {_escaped(text)}" + (f"\n`{_escaped(command).replace('`', 'ˋ')}`" if command else "")
            for number, (text, command) in enumerate(self.actions, start=1)
        ]
        if actions:
            shown.append(_section("\n".join(actions)))
        context = {"type": "mrkdwn", "text": _cut(_escaped(" · ".join(self.facts)), LONGEST_SECTION)}
        shown.append({"type": "context", "elements": [context]})
        if self.link:
            button = {"type": "plain_text", "text": "Open session"}
            element = {"type": "button", "text": button, "url": self.link, "action_id": "open_session"}
            shown.append({"type": "actions", "elements": [element]})
        return shown

    def email(self, *, sender: str, to: tuple[str, ...], notification_id: str, thread_id: str) -> EmailMessage:
        domain = sender.rpartition("@")[2]
        message = EmailMessage()
        message["Subject"] = _cut(f"[tersely] {self.headline}", 200)
        message["From"] = Address("Tersely", addr_spec=sender)
        message["To"] = ", ".join(to)
        message["Date"] = format_datetime(self.session.ended_at or self.session.created_at)
        message["Message-ID"] = f"<{notification_id}@{domain}>"
        message["Auto-Submitted"] = "auto-generated"
        if thread_id:
            message["In-Reply-To"] = message["References"] = thread_id
        message.set_content(self.text())
        return message


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, LONGEST_SECTION)}}


def _escaped(text: str) -> str:
    """As Slack asks for it: these three characters are all that can make a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _line(text: str) -> str:
    return " ".join(clean(text).text.split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 2].rstrip("&ampltg;") + " …"
