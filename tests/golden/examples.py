"""One value of every kind that 0.1.0 stores as the outcome of a workflow step, under the name it is stored by.

`records.json` holds what the codec of 0.1.0 wrote for them. The names on the left are stored names and stay as
they are, whatever the classes are called today; only the imports and constructors follow a renaming.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tersely import errors
from tersely.agent.asking import Turn
from tersely.agent.calls import Called
from tersely.agent.evidence import Evidence, EvidenceReading
from tersely.agent.survey import SurveyPlan
from tersely.agent.tool_executor import Fetched, Observation
from tersely.condensing.account import Lost
from tersely.condensing.budget import ModelWork
from tersely.condensing.summarize.answers import NotASummary
from tersely.llm.limits import CircuitOpen
from tersely.llm.messages import ToolCall
from tersely.masking.masked import assume_masked
from tersely.mcp.raw import Tool
from tersely.pipeline.process import KeptPart
from tersely.research.budget import BudgetExceeded
from tersely.research.gathering import ReadPage, Shortened
from tersely.research.tools import ResearchTools, SearchHit
from tersely.sessions.codec import StepFailed
from tersely.sessions.worker import SessionOutcome

HANDLE = "r_0123456789abcdef"
MARK = "[MASKED:password:5f0c1a9e]"
NOON = datetime(2026, 11, 15, 12, 0, 0, 250_000, tzinfo=UTC)

CALL = ToolCall("call-1", "ops__logs", '{"namespace": "prod"}')
LOST = Lost("412 of 420 pods with status Running", ((1, 200), (202, 413)))
WORK = ModelWork(
    model="test/main",
    chunks=3,
    levels=1,
    calls=4,
    cache_hits=1,
    input_tokens=9_000,
    output_tokens=700,
    price_usd=Decimal("0.00125"),
    provider="openrouter",
    invented=["db-9"],
)
PART = KeptPart(kind="image", mime_type="image/png", size=2_048, handle=HANDLE, name="graph.png")
OBSERVATION = Observation(
    call_id="call-1",
    server="ops",
    tool="logs",
    text=f"One error – {MARK}",
    status="fallback",
    tokens_before=6_000,
    tokens_after=120,
    handle=HANDLE,
    lost=[LOST, Lost("blank lines")],
    is_error=False,
    cleaned=3,
    parts=(PART,),
    returned="structural",
    reason="the model did not answer",
    work=WORK,
)
FETCHED = Fetched(
    server="ops",
    tool="logs",
    arguments={"namespace": "prod", "limit": 5, "labels": ["a", None], "deep": {"exact": True, "ratio": 0.5}},
    handle=HANDLE,
    tokens=6_000,
    is_error=False,
    cleaned=3,
    parts=(PART,),
)
REFUSED = Fetched(
    server="",
    tool="nothing",
    arguments={},
    handle=None,
    tokens=0,
    is_error=True,
    problem=assume_masked("There is no such tool."),
)
EVIDENCE = Evidence(
    kind="said",
    text="ERROR cannot reach db-1",
    line=121,
    last_line=140,
    count=4,
    severity=0.9,
    first=NOON,
    last=NOON,
    explains=True,
    resolved=True,
    is_steady=True,
    scoped=False,
)
TOOL = Tool(
    server="web",
    name="search",
    title="Search",
    description="Search the web.",
    input_schema={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    output_schema={"type": "object"},
    read_only=True,
    destructive=False,
    idempotent=True,
    fingerprint="0f" * 16,
    raw={"name": "search", "annotations": {"readOnlyHint": True}},
)

RECORDS: dict[str, list[Any]] = {
    "tersely.agent.asking:Turn": [
        Turn(
            text=assume_masked(f"Logs, with {MARK}."),
            thinking=assume_masked("Let me look."),
            calls=(CALL, ToolCall("call-2", "nothing")),
            finish="tool_call",
            model="test/main",
            provider="openrouter",
            unsupported=("google_search",),
            is_altered=True,
        ),
        Turn(problem="The prompt does not fit.", too_long=True),
    ],
    "tersely.llm.messages:ToolCall": [CALL],
    "tersely.agent.calls:Called": [
        Called(fetched=FETCHED, duration_ms=12, remark="Of your arguments limit was read as 5."),
        Called(fetched=REFUSED, duration_ms=0, whole=OBSERVATION),
    ],
    "tersely.tools.execute:Fetched": [FETCHED, REFUSED],
    "tersely.tools.observation:Observation": [OBSERVATION],
    "tersely.tools.observation:OtherPart": [PART],
    "tersely.condensing.budget:Lost": [LOST],
    "tersely.condensing.budget:ModelWork": [WORK],
    "tersely.agent.survey:Planned": [
        SurveyPlan(calls=(("ops.logs", '{"namespace": "prod"}', False),), led_to=("db-1",))
    ],
    "tersely.agent.evidence:Reading": [
        EvidenceReading(evidence=(EVIDENCE,), names=(("pod", "api-0"),), links=(("api-0", "node-1"),)),
        EvidenceReading(),
    ],
    "tersely.agent.evidence:Evidence": [EVIDENCE],
    "tersely.research.instruments:Instruments": [ResearchTools(search=TOOL, crawl=TOOL, summarize=None)],
    "tersely.tools.raw:Tool": [TOOL],
    "tersely.research.instruments:Hit": [SearchHit("https://harbour.example/1", "Quay 1")],
    "tersely.research.gathering:ReadPage": [
        ReadPage(url="https://harbour.example/1", title="Quay 1", handle=HANDLE, tokens=1_200, digest="ab" * 32)
    ],
    "tersely.research.gathering:Shortened": [
        Shortened(content=HANDLE, tokens=400, how="summarizer", gap="parts of it are missing in the summary")
    ],
    "tersely.sessions.crew:Outcome": [
        SessionOutcome(status="completed", analysis=assume_masked("It is db-1.")),
        SessionOutcome(status="failed", reason="The model did not answer."),
    ],
}

PLAIN: dict[str, Any] = {
    "text": "Größe – 大小 \U0001f600",
    "masked text": assume_masked(MARK),
    "nothing": None,
    "numbers": [0, -1, 2**60, 0.5, True, False],
    "tuple": (SearchHit("https://harbour.example/1"), ("nested", ())),
    "dictionary": {"a": {"b": [1, None]}, 3: "a key that is a number", ("x", 1): "a key that is a tuple"},
    "decimal": Decimal("12.3400"),
    "time": NOON,
    "inputs of a workflow": {"args": ("0b8b51f0-7c4b-4d0e-9a52-2f0d6b1c2d3e",), "kwargs": {}},
}

ERRORS: dict[str, errors.TerselyError] = {
    "tersely.condensing.answers:NotASummary": NotASummary("The answer is empty."),
    "tersely.errors:TerselyError": errors.TerselyError("Something failed."),
    "tersely.errors:ConfigError": errors.ConfigError("queue.lease (0) must be at least 1."),
    "tersely.errors:IdempotencyConflict": errors.IdempotencyConflict("This key came with another body."),
    "tersely.errors:InputError": errors.InputError("No tool searches."),
    "tersely.errors:LLMError": errors.LLMError("The model gave no usable answer."),
    "tersely.errors:LLMMisconfigured": errors.LLMMisconfigured("The key is wrong."),
    "tersely.errors:LLMOutOfQuota": errors.LLMOutOfQuota("The quota is used up."),
    "tersely.errors:LLMRefused": errors.LLMRefused("The content filter refused."),
    "tersely.errors:LLMTooLong": errors.LLMTooLong("The prompt does not fit."),
    "tersely.errors:LLMUnavailable": errors.LLMUnavailable("503", retry_after=1.5, rate_limited=True),
    "tersely.errors:LostSession": errors.LostSession("Another attempt has it."),
    "tersely.errors:MaskingFailed": errors.MaskingFailed("A text could not be masked."),
    "tersely.errors:OverrideRefused": errors.OverrideRefused([("mcp.servers", "There is no server 'x'.")]),
    "tersely.errors:QueueFull": errors.QueueFull("1,000 alerts wait.", retry_after=30),
    "tersely.errors:ResultExpired": errors.ResultExpired(HANDLE, expired="2026-11-15", origin="ops.logs"),
    "tersely.errors:ResultMalformed": errors.ResultMalformed("It has no content."),
    "tersely.errors:ResultNotFound": errors.ResultNotFound(HANDLE),
    "tersely.errors:ResultTooLarge": errors.ResultTooLarge("Too large.", limit=1_000, size=None),
    "tersely.errors:SessionEnded": errors.SessionEnded("It has ended."),
    "tersely.errors:SessionNotEnded": errors.SessionNotEnded("0b8b51f0", "in_progress"),
    "tersely.errors:SessionNotFound": errors.SessionNotFound("0b8b51f0"),
    "tersely.errors:StoreUnavailable": errors.StoreUnavailable("The database does not answer."),
    "tersely.errors:ToolError": errors.ToolError("The tool failed with password=hunter2-Walnut!orbit42."),
    "tersely.errors:ToolForbidden": errors.ToolForbidden("It may not be called.", name="pods_delete"),
    "tersely.errors:ToolNotFound": errors.ToolNotFound("There is no such tool.", name="nothing"),
    "tersely.errors:ToolRejected": errors.ToolRejected("Invalid params", code=-32602, data={"a": 1}),
    "tersely.errors:ToolTimedOut": errors.ToolTimedOut("logs", 2.5),
    "tersely.errors:ToolUnavailable": errors.ToolUnavailable("The server went away.", sent=True),
    "tersely.errors:UnknownAlertType": errors.UnknownAlertType("No chain is for it."),
    "tersely.llm.limits:GateClosed": CircuitOpen("Not asked.", retry_after=3.0),
    "tersely.research.purse:BudgetSpent": BudgetExceeded("The budget is used up."),
    "tersely.sessions.codec:StepFailed": StepFailed("KeyError (see the log)"),
}
