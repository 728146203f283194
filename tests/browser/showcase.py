"""A service with one session of each kind, to be looked at: two agents in parallel, three stages, a failed, a
cancelled and a running session, a question with its answer, ratings, prompts read from a provider's cache, and a
server that is away. The systems are the demonstration's; the model alone is scripted.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from tersely.demo.incidents import Incident
from tests.browser.service import Up, demo_configuration, demo_incident, service
from tests.fakes.llm_server import Body, FakeLLMServer, Reply

THOUGHT = "Too few replicas are ready. Are the pods failing, or are they only reported as not ready?"
FIRST_WORDS = "I look at the pods, their events and their log at once, and for a runbook about this alert. " * 3
KEYLESS, STUCK = "KEYLESS", "STUCK"
"""Words of an alert: the model refuses the key; the first answer stops in the middle until the gate opens."""

DESCRIBED = 5
"""Pods that the agent with all systems describes at most, at once, and one that is gone."""


@dataclass
class ScriptedOperator:
    """Looks at pods, events and logs at once, describes the pods, reads the rollouts, and concludes."""

    incident: Incident
    gate: anyio.Event = field(default_factory=anyio.Event)

    def server(self) -> FakeLLMServer:
        return FakeLLMServer(self._answer)

    def _answer(self, body: Body) -> Reply:
        system, *rest = (str(message["content"]) for message in body["messages"])
        said, last = "\n".join([system, *rest]), rest[-1] if rest else ""
        if KEYLESS in said:
            return Reply(status=401, error="Incorrect API key provided", code="invalid_api_key")
        if "in fields, for people who have five seconds" in last:
            return Reply(json.dumps(self._verdict(said)), cached=0.9)
        if "An investigation of the alert below has ended" in said:
            return Reply(self._chat(), thinking="The rollouts answer this.", cached=0.8)
        if "Several agents investigated" in system:
            return Reply(self._analysis(said, "Both agents found the same cause."), cached=0.5)
        if "You investigate an alert" not in system:
            return Reply(_summary(last))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return self._turn(turn, said, halfway=self.gate.wait if STUCK in said else None)

    def _turn(self, turn: int, said: str, *, halfway: Any) -> Reply:
        victim = self.incident.victim
        here = {"service": victim.name, "namespace": victim.namespace}
        everything = "knowledge__" in said or "all systems" in said
        calls: list[tuple[str, dict[str, Any]]]
        if turn == 0:
            calls = [
                ("cluster__list_pods", {"namespace": victim.namespace}),
                ("cluster__get_events", {"namespace": victim.namespace}),
                ("cluster__get_logs", {**here, "since_minutes": 60}),
            ]
            calls += [("knowledge__search_runbooks", {"query": "replicas unavailable"})] if everything else []
            return Reply(
                FIRST_WORDS, thinking=THOUGHT, tool_calls=_called(turn, calls), finish="tool_calls", halfway=halfway
            )
        if turn == 1 and everything:
            pods = [pod.name for pod in self.incident.world.pods if pod.service.name == victim.name]
            calls = [("cluster__describe_pod", {"name": name}) for name in [*pods[:DESCRIBED], "audit-gone"]]
            return Reply(tool_calls=_called(turn, calls), finish="tool_calls", cached=0.6)
        if turn == (2 if everything else 1):
            calls = [("cluster__get_rollout_history", here)]
            calls += [("cluster__restart_deployment", here)] if everything else []
            return Reply(
                "The pods run, and their readiness probe fails. What was changed?",
                tool_calls=_called(turn, calls),
                finish="tool_calls",
                cached=0.75,
            )
        return Reply(self._analysis(said, ""), cached=0.85)

    def _analysis(self, said: str, first: str) -> str:
        incident = self.incident
        began = incident.began
        handles = list(dict.fromkeys(re.findall(r"\br_[0-9a-z]{16}\b", said)))
        cited = f" (line 2 of {handles[-1]})" if handles else ""
        return f"""## {_sentence(incident.cause.what)}

{first}
The pods of `{incident.victim.name}` run, but none is ready since {began:%H:%M} UTC: every probe is answered with 404{cited}.

### Evidence

1. The last release changed the probe, at {began:%Y-%m-%dT%H:%M:%SZ}.
2. The first failed probe came {(began + timedelta(seconds=40)):%H:%M:%S} UTC, and none succeeded after it.

| sign | since | how often |
|:--|:--|--:|
| probe failed | {began:%H:%M} UTC | 212 |
| 503 at the edge | {(began + timedelta(minutes=1)):%H:%M} UTC | 1,904 |

### Ruled out

- [x] memory: no container was killed
- [ ] the database was not looked at

```
kubectl -n {incident.victim.namespace} rollout undo deployment/{incident.victim.name}
```
"""

    def _verdict(self, said: str) -> dict[str, Any]:
        incident, victim = self.incident, self.incident.victim
        undo = f"kubectl -n {victim.namespace} rollout undo deployment/{victim.name}"
        found = re.findall(
            r"(?m)^(?:- |Evidence: )?(.*?(?:Readiness probe failed|readinessProbe path).*?)(?: \[\S+, line \d+ of (r_\w+)\])?$",
            said,
        )
        return {
            "cause": _sentence(incident.cause.what),
            "summary": ["All pods run, but none is ready, so the edge has nowhere to send requests to."],
            "confidence": "high",
            "service": victim.name,
            "since": f"{incident.began:%Y-%m-%dT%H:%M:%SZ}",
            "actions": [
                {"text": "Undo the last release.", "command": undo},
                {"text": "Correct the path of the probe before the next release.", "command": ""},
            ],
            "evidence": [{"handle": handle, "quote": line.strip()[:300]} for line, handle in dict.fromkeys(found)][-3:],
            "against": [],
        }

    def _chat(self) -> str:
        return (
            f"The release of {self.incident.began:%H:%M} UTC.\n\n"
            f"- It changed the readiness probe of `{self.incident.victim.name}`.\n- Nothing else was changed with it."
        )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _called(turn: int, calls: list[tuple[str, dict[str, Any]]]) -> tuple[Body, ...]:
    return tuple(
        {"id": f"c{turn}{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(calls)
    )


def _summary(prompt: str) -> str:
    """A summary that quotes its source: lines with a sign of trouble, word for word."""
    telling = [line.strip() for line in prompt.splitlines() if re.search(r"Unhealthy|ERROR|WARN|probe", line)]
    return "Most of it is ordinary. What stands out:\n" + "\n".join(f"- {line[:300]}" for line in telling[:4])


@dataclass
class Showcase:
    up: Up
    model: ScriptedOperator
    incident: Incident
    done: str = ""
    """Two agents, a verdict, an answered question, rated and owned."""

    again: str = ""
    """The same again."""

    staged: str = ""
    """Three stages, one agent each."""

    failed: str = ""
    cancelled: str = ""
    running: str = ""

    async def call(self, tool: str, session: str = "") -> str:
        """The id of the first call of a tool."""
        path = f"/sessions/{session or self.done}/timeline"
        timeline = (await self.up.ask("GET", path, params={"limit": 500}))["items"]
        calls = [one for one in timeline if one["event_type"] == "llm_tool_call"]
        return str(next(one["event_id"] for one in calls if one["metadata"]["tool_name"] == tool))


def showcase_configuration(incident: Incident, model_url: str) -> dict[str, Any]:
    names = ("first look", "cause", "remedy")
    configuration = demo_configuration(
        incident,
        model_url=model_url,
        agents={
            "all-systems": {"mcp_servers": ["cluster", "knowledge"], "instructions": "You see all systems."},
            "cluster-only": {"mcp_servers": ["cluster"], "instructions": "You see the cluster only."},
        },
        chains={
            "two-agents": {
                "alert_types": ["default"],
                "stages": [{"name": "investigation", "agents": ["all-systems", "cluster-only"]}],
            },
            "stages": {
                "alert_types": ["Staged"],
                "stages": [{"name": name, "agent": "cluster-only"} for name in names],
            },
        },
        defaults={"alert_type": "default", "verdict": True},
    )
    configuration["mcp_servers"]["billing"] = {"transport": {"command": "/bin/false", "args": ["--token=abc"]}}
    structural = {"summarization": {"use_model": False}}
    configuration["mcp_servers"]["cluster"]["tool_policies"] = {"list_pods": structural, "get_logs": structural}
    careful = {**configuration["llm_providers"]["main"], "model": "openai/gpt-4o"}
    configuration["llm_providers"]["careful"] = careful
    return configuration


@asynccontextmanager
async def showcase(folder: Path, *, seed: int = 12) -> AsyncIterator[Showcase]:
    """The service with its sessions; the running one waits for the model's gate."""
    incident = demo_incident(seed)
    model = ScriptedOperator(incident)
    async with model.server().listening() as llm:
        async with service(folder, showcase_configuration(incident, llm.url)) as up:
            shown = Showcase(up, model, incident)
            shown.failed = await up.submit(f"{KEYLESS}: the queue of mails grows")
            shown.done = await up.submit(incident.alert, runbook="# Replicas unavailable\n\n1. Look at the probes.")
            shown.staged = await up.submit("p99 of search is above 2 s", alert_type="Staged")
            shown.cancelled = await up.submit(f"{STUCK}: certificate of edge expires in 3 days")
            await up.until(shown.failed, "failed")
            await up.until(shown.staged, "completed")
            await up.until(shown.done, "completed")
            about = f"/sessions/{shown.done}"
            await up.ask("PUT", f"{about}/rating", json={"rating": "right"})
            await up.ask("PUT", f"{about}/assignee", json={})
            await up.ask("POST", f"{about}/chat", json={"question": "Which release brought this?"})
            shown.again = (await up.ask("POST", f"{about}/rerun", json={"llm_provider": "careful"}))["session_id"]
            await up.ask("POST", f"/sessions/{shown.cancelled}/cancel")
            shown.running = await up.submit(f"{STUCK}: disk of db-1 fills up")
            await up.until(shown.again, "completed")
            await up.until(shown.cancelled, "cancelled")
            with anyio.fail_after(120):
                while (await up.ask("GET", f"{about}/chat"))["items"][0]["status"] != "completed":
                    await anyio.sleep(0.05)
            try:
                yield shown
            finally:
                model.gate.set()
