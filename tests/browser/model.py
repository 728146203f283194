"""What the scripted model of the browser tests says: it looks at logs, reads them, and writes an analysis.

Which story a request belongs to is told by a word in the alert; how far the story
is, by the answers of tools that the request already carries.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import anyio

from tersely.demo.incidents import Incident
from tests.fakes.llm_server import Body, FakeLLMServer, Reply

THOUGHT = "The alert speaks of failing requests, so the service's own log comes first."
FIRST_WORDS = (
    "I look at the log of the service first, then at what changed. 𝄞 " + "This is a long sentence, to be streamed. " * 8
)
ANALYSIS = """## The service runs out of memory

**Most likely cause:** the containers are killed by the kernel when the limit is reached.

1. The log shows the restarts, see `get_logs`.
2. Nothing was deployed in the last hour.

| sign | since |
|---|---|
| restarts | 40 min |
| errors | 38 min |

Raise the limit, or look for the leak: [the runbook](https://runbooks.example/oom).
"""
SUMMARY = (
    "Requests fail since the containers restart; the kernel reports OOMKilled.\n\n- 663 errors, the first 40 "
    "minutes ago\n- no deployment"
)


@dataclass
class Storyteller:
    incident: Incident
    gates: dict[str, anyio.Event] = field(default_factory=dict)
    """By word: while the gate is closed, the story's first answer stands half-told."""

    def gate(self, word: str) -> anyio.Event:
        return self.gates.setdefault(word, anyio.Event())

    def server(self) -> FakeLLMServer:
        return FakeLLMServer(self._answer)

    def _answer(self, body: Body) -> Reply:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        if "You investigate an alert" not in str(body["messages"][0]["content"]):
            return Reply(SUMMARY)
        word = next((word for word in self.gates if word in said), "")
        answers = sum(message["role"] == "tool" for message in body["messages"])
        halfway = self.gates[word].wait if word else None
        if answers == 0:
            return Reply(
                FIRST_WORDS,
                thinking=THOUGHT,
                tool_calls=(self._call("cluster__get_logs"),),
                finish="tool_calls",
                halfway=halfway,
            )
        return Reply(ANALYSIS)

    def _call(self, tool: str) -> dict[str, Any]:
        arguments = {"service": self.incident.victim.name, "namespace": self.incident.victim.namespace}
        return {"id": "c1", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
