"""Shows a session in the terminal while it runs: the agent's thoughts, tool calls and findings, and the saved tokens.

Reads events over the WebSocket API of `tersely up`; `Screen` itself only renders events.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tersely.errors import TerselyError
from tersely.masking.clean import clean
from tersely.store.statuses import ENDS

STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow", "timed_out": "red"}
LONGEST_ARGUMENTS = 100
LONGEST_PART = 2
"""Lines of the analysis of one of several agents."""

LONGEST_ANALYSIS = 60
"""Lines; the dashboard and `--json` show all of them."""

RECONNECT_SECONDS = 15.0
"""How long a lost connection is retried."""


async def follow(url: str, token: str, session_id: str, as_json: bool = False, console: Console | None = None) -> int:
    """Show a session until it ends; return 0 when it completed, otherwise 1."""
    if as_json:
        return await _print(url, token, session_id)
    console = console or Console(highlight=False)
    screen = Screen(console, more_at=f"{url}/sessions/{session_id}")
    with Live(console=console, get_renderable=screen.growing, refresh_per_second=12, transient=True):
        async for event in _events(url, token, session_id):
            screen.take(event)
            if event["type"] == "session.status" and event["status"] in ENDS:
                break
    screen.close()
    if told := await _seen_before(url, token, session_id):
        console.print(Text(told, style="dim"))
    return 0 if screen.status == "completed" else 1


async def _seen_before(url: str, token: str, session_id: str) -> str:
    """How often alike alerts were investigated before, and the last cause; empty if never."""
    import httpx2

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with httpx2.AsyncClient(timeout=10) as http:
            seen = (await http.get(f"{url}/api/v1/sessions/{session_id}", headers=headers)).json()["seen_before"]
        if not seen["count"]:
            return ""
        last = seen["sessions"][0]
    except (httpx2.HTTPError, ValueError, LookupError, TypeError):
        return ""  # Only an addition: the session itself was shown.
    times = "once" if seen["count"] == 1 else f"{seen['count']:,} times"
    rated = f" (rated {last['rating']})" if last["rating"] else ""
    return f"seen before: {times}, last cause: {_short(last['cause'] or 'none found', 200)}{rated}"


async def _print(url: str, token: str, session_id: str) -> int:
    async for event in _events(url, token, session_id):
        click.echo(json.dumps(event, ensure_ascii=False))
        if event["type"] == "session.status" and event["status"] in ENDS:
            return 0 if event["status"] == "completed" else 1
    return 1


async def _events(url: str, token: str, session_id: str) -> AsyncIterator[dict[str, Any]]:
    """All events of a session from the first one; after a lost connection the next connection resumes."""
    import websockets

    parts = urlsplit(url)
    address = urlunsplit(
        parts._replace(scheme="wss" if parts.scheme == "https" else "ws", path=f"{parts.path}/api/v1/ws")
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    last_seq, disconnected = 0, 0.0
    while True:
        try:
            async with websockets.connect(
                address, additional_headers=headers, max_size=None, open_timeout=10
            ) as socket:
                channel = f"session:{session_id}"
                await socket.send(json.dumps({"action": "subscribe", "channel": channel, "last_seq": last_seq}))
                async for message in socket:
                    event = json.loads(message)
                    disconnected = 0.0
                    if event["type"] == "subscription.error" and event.get("code") == "store_unavailable":
                        break  # Temporary: connect again.
                    if event["type"] == "subscription.error":
                        raise TerselyError(str(event.get("message", "The session cannot be watched.")))
                    if "session_id" not in event:
                        continue
                    last_seq = max(last_seq, event.get("seq", 0))
                    yield event
        except websockets.InvalidStatus as error:
            raise TerselyError(
                f"The server at {url} refused the connection (status {error.response.status_code}). Give --token, or "
                "check the address."
            ) from None
        except (OSError, websockets.WebSocketException) as error:
            if disconnected >= RECONNECT_SECONDS or (not last_seq and isinstance(error, ConnectionRefusedError)):
                raise TerselyError(f"Could not connect to {url}. Start the server with: tersely up") from None
        # The server may be restarting; sessions survive that.
        await anyio.sleep(0.5)
        disconnected += 0.5


class Screen:
    """Prints finished events; unfinished ones are drawn below them and redrawn as they grow."""

    def __init__(self, console: Console, more_at: str = "") -> None:
        self.console = console
        self.more_at = more_at
        self.status = "pending"
        self.reason = ""
        self.before = self.after = self.calls = 0
        self._open: dict[str, dict[str, Any]] = {}
        self._agents: dict[str, dict[str, Any]] = {}
        """The last status event of each execution."""

        self._progress = "waiting for a worker"

    def take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "timeline_event.created" if event["status"] == "streaming":
                self._open[event["event_id"]] = event
            case "timeline_event.created":
                self._print(event)
            case "timeline_event.completed":
                created = self._open.pop(event["event_id"], {})
                self._print({**created, **event})
            case "stream.chunk" if event["event_id"] in self._open:
                growing = self._open[event["event_id"]]
                growing["content"] = growing["content"][: event["offset"]] + event["delta"]
            case "stage.status" if event["status"] == "in_progress":
                self.console.print(Text(f"\n● {event['stage_name']}", style="bold"))
            case "execution.status":
                self._agents[event["execution_id"]] = event
                if event["status"] == "failed" and self._label(event["execution_id"]):
                    failed = f"{event['agent']} failed: {_short(event.get('reason', ''), 300)}"
                    self._indented(Text(failed, style="red"))
            case "execution.progress":
                self._progress = event["message"]
            case "session.status":
                self.status, self.reason = event["status"], event.get("reason", "")

    def _label(self, execution_id: str | None) -> str:
        """The name of an agent, if others work on the same stage."""
        own = self._agents.get(execution_id or "")
        if own is None or sum(one["stage_id"] == own["stage_id"] for one in self._agents.values()) < 2:
            return ""
        return _short(own["agent"], 40)

    def _is_one_of_several(self, execution_id: str | None) -> bool:
        """Whether a synthesis, or the agent that asked for it, sums up what this execution found."""
        is_synthesis = self._agents.get(execution_id or "", {}).get("kind") == "synthesis"
        return bool(self._label(execution_id)) and not is_synthesis

    def growing(self) -> RenderableType:
        """The unfinished events."""
        lines: list[RenderableType] = []
        for event in list(self._open.values()):  # Live calls this in a thread, while events come in.
            if event["event_type"] == "llm_tool_call":
                lines.append(Spinner("dots", Text.assemble(" ", _call(event))))
            else:
                tail = clean(event["content"]).text.splitlines()[-6:]
                lines.append(Padding(Text("\n".join(tail), style="dim"), (0, 0, 0, 2)))
        if self.status not in ENDS:
            lines.append(Spinner("dots", Text(f" {self._progress}", style="dim")))
        return Group(*lines)

    def close(self) -> None:
        saved = max(0, self.before - self.after)
        style = STYLES.get(self.status, "yellow")
        calls = f"{self.calls} tool call" + ("" if self.calls == 1 else "s")
        line = Text.assemble((self.status, f"bold {style}"), f" · {calls}")
        if self.before:
            # Rounded down: "100% saved" would mean that nothing was left.
            share = f"{saved * 100 // self.before}%"
            line.append(f" · {self.before:,} tokens of results, {self.after:,} in the conversation: {share} saved")
        self.console.print(line)
        if self.reason:
            self.console.print(Text(self.reason, style=style))

    def _print(self, event: dict[str, Any]) -> None:
        content, about = event["content"], event["metadata"]
        label = self._label(event.get("execution_id"))
        is_part = self._is_one_of_several(event.get("execution_id"))
        match event["event_type"]:
            case "llm_tool_call":
                self.calls += 1
                self.before += about.get("original_tokens") or 0
                self.after += about.get("original_tokens") or 0
                mark = (
                    Text("✗ ", style="red")
                    if about.get("is_error") or event["status"] != "completed"
                    else Text("✓ ", style="green")
                )
                size = f"  {about['original_tokens']:,} tokens" if about.get("original_tokens") else ""
                took = f"  {about['duration_ms'] / 1000:.1f} s" if about.get("duration_ms") is not None else ""
                who = (f"{label} · ", "magenta") if label else ""
                self._indented(Text.assemble(mark, who, _call(event), (size + took, "dim")))
                if about.get("is_error"):
                    self._indented(Text(_short(content, 300), style="red"), 6)
            case "mcp_tool_summary":
                self.after += (about.get("summary_tokens") or 0) - (about.get("original_tokens") or 0)
                sizes = f"{about.get('original_tokens', 0):,} → {about.get('summary_tokens', 0):,} tokens"
                how = about.get("status", "")
                self._indented(Text(f"↳ condensed {sizes} · {how} · {about.get('handle', '')}", style="cyan"), 4)
            case "notice":
                self._indented(Text(_short(content, 300), style="yellow"))
            case "user_question":
                self._indented(Text(_short(content, 1200), style="bold"))
            case "final_analysis" | "chat_response":
                self.console.print()
                shown, left_out = _beginning(clean(content).text, LONGEST_PART if is_part else LONGEST_ANALYSIS)
                what = "answer" if event["event_type"] == "chat_response" else "analysis"
                rest = f"{left_out:,} more lines: {self.more_at}" if left_out else None
                self.console.print(
                    Panel(
                        Markdown(shown),
                        title=f"{what} · {label}" if label else what,
                        title_align="left",
                        subtitle=rest,
                        subtitle_align="left",
                        border_style="green",
                    )
                )
            case "verdict" if is_part:
                cause = _short(str(about.get("cause") or "no likely cause"), 200)
                self._indented(Text(f"{label}: {cause} ({about.get('confidence')} confidence)", style="bold"))
            case "verdict":
                self.console.print(_verdict(content, about))
            case "error":
                self._indented(Text(_short(content, 2000), style="red"))
            case "llm_thinking":
                self._indented(Text(_short(content, 600), style="dim italic"))
            case _ if content.strip():
                # The analysis follows as an event of its own.
                shown = _before_the_analysis(content) if about.get("final") else content
                if shown.strip():
                    self._indented(Text(_short(shown, 1200)))

    def _indented(self, text: Text, by: int = 2) -> None:
        self.console.print(Padding(text, (0, 0, 0, by), expand=False))


def _verdict(summary: str, about: Mapping[str, Any]) -> Panel:
    """The fields of a verdict, the cause first."""
    shown = Text(_short(str(about.get("cause") or "No likely cause was found"), 200), style="bold")
    facts = [f"{about.get('confidence')} confidence", str(about.get("service") or "")]
    facts += [f"since {about['since']}"] if about.get("since") else []
    shown.append("\n" + " · ".join(clean(fact).text for fact in facts if fact), style="dim")
    lines = summary.splitlines()[1:] if about.get("cause") else summary.splitlines()
    for line in lines:
        shown.append("\n" + _short(line, 300), style="not bold")
    for number, action in enumerate(about.get("actions") or [], start=1):
        shown.append(f"\n{number}. {_short(str(action['text']), 300)}", style="not bold")
        if action.get("command"):
            shown.append(f"\n   {_short(str(action['command']), 300)}", style="not bold cyan")
    return Panel(shown, title="verdict", title_align="left", border_style="green")


def comparison_table(found: Mapping[str, Any]) -> RenderableType:
    """Two sessions side by side, as `GET /sessions/{a}/compare/{b}` returns them."""
    table = Table(show_lines=False, header_style="bold")
    for name in ("", "first", "second"):
        table.add_column(name, overflow="fold")
    sides = found["sessions"]

    def row(name: str, value: Callable[[Mapping[str, Any]], Any]) -> None:
        cells = [_short(str(value(side) if value(side) is not None else "–"), 400) for side in sides]
        style = "" if cells[0] == cells[1] else "yellow"
        table.add_row(Text(name, style="dim"), *(Text(cell, style=style) for cell in cells))

    def verdict(field: str) -> Callable[[Mapping[str, Any]], Any]:
        return lambda side: (side["verdict"] or {}).get(field) or None

    row("session", lambda side: side["id"])
    row("status", lambda side: side["status"])
    for field in ("cause", "confidence", "service", "since"):
        row(field, verdict(field))
    row("chain", lambda side: side["chain"])
    row("models", lambda side: ", ".join(side["models"]))
    row("duration", lambda side: _duration(side["duration_seconds"]))
    row("model calls", lambda side: f"{side['usage']['model_calls']:,}")
    row("tool calls", lambda side: f"{side['usage']['tool_calls']:,}")
    row("tokens in", lambda side: f"{side['usage']['input_tokens']:,}")
    row("tokens out", lambda side: f"{side['usage']['output_tokens']:,}")
    row("price", lambda side: None if side["usage"]["price_usd"] is None else f"${side['usage']['price_usd']:.4f}")
    row("results", lambda side: f"{side['tokens']['before']:,} → {side['tokens']['after']:,} tokens")
    table.add_section()
    for stage in found["stages"]:
        cells = [f"{one['status']}, {_duration(one['duration_seconds'])}" if one else "–" for one in stage["sessions"]]
        table.add_row(Text(f"stage {_short(stage['name'], 60)}", style="dim"), *map(Text, cells))
    table.add_section()
    for tool in found["tools"]:
        cells = [
            f"{one['calls']}×" + (f", {one['errors']} failed" if one["errors"] else "") if one["calls"] else "–"
            for one in tool["sessions"]
        ]
        table.add_row(Text(_short(tool["name"], 60), style="dim"), *map(Text, cells))
    table.add_section()
    evidence = found["evidence"]
    for cited in evidence["both"]:
        table.add_row(Text("evidence of both", style="dim"), *[Text(_cited(cited))] * 2)
    for cited in evidence["only_first"]:
        table.add_row(Text("evidence", style="dim"), Text(_cited(cited)), Text("–"))
    for cited in evidence["only_second"]:
        table.add_row(Text("evidence", style="dim"), Text("–"), Text(_cited(cited)))
    return table


def _cited(cited: Mapping[str, Any]) -> str:
    return f"{_short(str(cited['source']), 60)}: {_short(str(cited['quote']), 200)}"


def _duration(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f} s"


def _before_the_analysis(answer: str) -> str:
    """The part of a final answer before its conclusion (ReAct's thought); empty without one."""
    thought, marker, _ = answer.partition("Final Answer:")
    return thought.rstrip("*#_ \n") if marker else ""


def _beginning(text: str, lines: int) -> tuple[str, int]:
    """The first lines, and the number of lines left out; up to a quarter more is not cut."""
    split = text.splitlines()
    return (text, 0) if len(split) <= lines * 5 // 4 else ("\n".join(split[:lines]).rstrip(), len(split) - lines)


def _call(event: dict[str, Any]) -> Text:
    about = event["metadata"]
    arguments = _short(json.dumps(about.get("arguments") or {}, ensure_ascii=False), LONGEST_ARGUMENTS)
    return Text.assemble((f"{about.get('server_name')}.{about.get('tool_name')}", "bold"), (f" {arguments}", "dim"))


def _short(text: str, max_length: int) -> str:
    """Without terminal control sequences."""
    cleaned = clean(text).text.strip()
    return cleaned if len(cleaned) <= max_length else cleaned[:max_length] + " …"
