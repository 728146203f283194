"""The stable names of everything that a step of a session may store.

A name is written into the workflow engine's database and never changes; the class
behind it may be moved and renamed. `formerly` holds the names of older releases.
`tersely.research.records` adds those of research.
"""

from tersely import errors
from tersely.agent.asking import Turn
from tersely.agent.assignment import Report
from tersely.agent.budget import OverBudget
from tersely.agent.calls import Called
from tersely.agent.evidence import Evidence, EvidenceReading
from tersely.agent.survey import SurveyPlan
from tersely.agent.tool_executor import Fetched, Observation
from tersely.agent.verdict import Action, Citation, Verdict
from tersely.condensing.account import Lost
from tersely.condensing.budget import ModelWork
from tersely.condensing.summarize.answers import NotASummary
from tersely.llm.limits import CircuitOpen
from tersely.llm.messages import ToolCall
from tersely.mcp.raw import Tool
from tersely.pipeline.process import KeptPart
from tersely.sessions.codec import StepFailed, StoredType
from tersely.sessions.worker import SessionOutcome

RECORDS = (
    StoredType("model_turn", Turn, ("tersely.agent.asking:Turn",)),
    StoredType("tool_call", ToolCall, ("tersely.llm.messages:ToolCall",)),
    StoredType("called", Called, ("tersely.agent.calls:Called",)),
    StoredType("fetched", Fetched, ("tersely.tools.execute:Fetched",)),
    StoredType("observation", Observation, ("tersely.tools.observation:Observation",)),
    StoredType("other_part", KeptPart, ("tersely.tools.observation:OtherPart",)),
    StoredType("lost", Lost, ("tersely.condensing.budget:Lost",)),
    StoredType("model_work", ModelWork, ("tersely.condensing.budget:ModelWork",)),
    StoredType("survey_plan", SurveyPlan, ("tersely.agent.survey:Planned",)),
    StoredType("evidence_reading", EvidenceReading, ("tersely.agent.evidence:Reading",)),
    StoredType("evidence", Evidence, ("tersely.agent.evidence:Evidence",)),
    StoredType("verdict", Verdict),
    StoredType("verdict_action", Action),
    StoredType("citation", Citation),
    StoredType("report", Report),
    StoredType("tool", Tool, ("tersely.tools.raw:Tool",)),
    StoredType("outcome", SessionOutcome, ("tersely.sessions.crew:Outcome",)),
)

ERRORS = (
    StoredType("error", errors.TerselyError, ("tersely.errors:TerselyError",)),
    StoredType("error.config", errors.ConfigError, ("tersely.errors:ConfigError",)),
    StoredType("error.missing_extra", errors.MissingExtra),
    StoredType("error.input", errors.InputError, ("tersely.errors:InputError",)),
    StoredType("error.result_not_found", errors.ResultNotFound, ("tersely.errors:ResultNotFound",)),
    StoredType("error.result_expired", errors.ResultExpired, ("tersely.errors:ResultExpired",)),
    StoredType("error.unknown_alert_type", errors.UnknownAlertType, ("tersely.errors:UnknownAlertType",)),
    StoredType("error.override_refused", errors.OverrideRefused, ("tersely.errors:OverrideRefused",)),
    StoredType("error.idempotency_conflict", errors.IdempotencyConflict, ("tersely.errors:IdempotencyConflict",)),
    StoredType("error.session_ended", errors.SessionEnded, ("tersely.errors:SessionEnded",)),
    StoredType("error.session_not_found", errors.SessionNotFound, ("tersely.errors:SessionNotFound",)),
    StoredType("error.session_not_ended", errors.SessionNotEnded, ("tersely.errors:SessionNotEnded",)),
    StoredType("error.chat_refused", errors.ChatRefused),
    StoredType("error.tool", errors.ToolError, ("tersely.errors:ToolError",)),
    StoredType("error.tool_not_found", errors.ToolNotFound, ("tersely.errors:ToolNotFound",)),
    StoredType("error.tool_forbidden", errors.ToolForbidden, ("tersely.errors:ToolForbidden",)),
    StoredType("error.tool_timed_out", errors.ToolTimedOut, ("tersely.errors:ToolTimedOut",)),
    StoredType("error.tool_unavailable", errors.ToolUnavailable, ("tersely.errors:ToolUnavailable",)),
    StoredType("error.tool_rejected", errors.ToolRejected, ("tersely.errors:ToolRejected",)),
    StoredType("error.result_too_large", errors.ResultTooLarge, ("tersely.errors:ResultTooLarge",)),
    StoredType("error.result_malformed", errors.ResultMalformed, ("tersely.errors:ResultMalformed",)),
    StoredType("error.queue_full", errors.QueueFull, ("tersely.errors:QueueFull",)),
    StoredType("error.store_unavailable", errors.StoreUnavailable, ("tersely.errors:StoreUnavailable",)),
    StoredType("error.lost_session", errors.LostSession, ("tersely.errors:LostSession",)),
    StoredType("error.masking_failed", errors.MaskingFailed, ("tersely.errors:MaskingFailed",)),
    StoredType("error.llm", errors.LLMError, ("tersely.errors:LLMError",)),
    StoredType("error.llm_unavailable", errors.LLMUnavailable, ("tersely.errors:LLMUnavailable",)),
    StoredType("error.llm_refused", errors.LLMRefused, ("tersely.errors:LLMRefused",)),
    StoredType("error.llm_out_of_quota", errors.LLMOutOfQuota, ("tersely.errors:LLMOutOfQuota",)),
    StoredType("error.llm_too_long", errors.LLMTooLong, ("tersely.errors:LLMTooLong",)),
    StoredType("error.llm_misconfigured", errors.LLMMisconfigured, ("tersely.errors:LLMMisconfigured",)),
    StoredType("error.circuit_open", CircuitOpen, ("tersely.llm.limits:GateClosed",)),
    StoredType("error.not_a_summary", NotASummary, ("tersely.condensing.answers:NotASummary",)),
    StoredType("error.sign_in_failed", errors.SignInFailed),
    StoredType("error.over_budget", OverBudget),
    StoredType("error.step_failed", StepFailed, ("tersely.sessions.codec:StepFailed",)),
)

SESSION_TYPES = (*RECORDS, *ERRORS)
