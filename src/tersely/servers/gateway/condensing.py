"""Results over the limit of their policy: condensed, and kept whole.

Imports the condenser and the store, so the gateway imports it for the first such result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tersely.llm.client import LLM
from tersely.pipeline.admission import Over
from tersely.pipeline.admit import Admitted, admit_arguments
from tersely.pipeline.content import Attachment
from tersely.pipeline.core import NoteWriter
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Intent, Pipeline, Processed, Scope
from tersely.servers.gateway.calls import UpstreamCall
from tersely.servers.gateway.policies import Policies
from tersely.store.results import Origin


@dataclass(frozen=True)
class LargeResults:
    """Runs results over the limit through the pipeline.

    Args:
        llm: Returns the model of a provider, or the default model for None; returns None if no model is configured.
        models_by_default: Whether a model summarizes if the policy does not decide.
    """

    pipeline: Pipeline
    policies: Policies
    llm: Callable[[str | None], LLM | None] = lambda provider: None
    models_by_default: bool = False

    async def process(self, admitted: Admitted, over: Over, policy: Policy, call: UpstreamCall) -> Processed:
        """Condense and keep a result."""
        uses_model = policy.uses_model if policy.uses_model is not None else self.models_by_default
        intent = Intent(
            looking_for=call.looking_for, called=f"{call.server.name}.{call.tool}", arguments=call.arguments
        )
        return await self.pipeline.process_large(
            admitted,
            over,
            policy,
            Scope(call.scope, self.policies.key),
            intent,
            origin=lambda: _origin(call, policy),
            llm=self.llm(policy.provider) if uses_model else None,
            note=NoteWriter(read=call.reader),
        )

    async def keep(self, attachment: Attachment, number: int, policy: Policy, call: UpstreamCall) -> str | None:
        """Keep a part that is not shown, and return its handle; None if it could not be kept."""
        if self.pipeline.results is None:
            return None
        scope = Scope(call.scope, self.policies.key)
        return await self.pipeline.keep_attachment(attachment, number, policy, scope, _origin(call, policy))


def _origin(call: UpstreamCall, policy: Policy) -> Origin:
    arguments = admit_arguments(call.arguments, policy.masker)
    return Origin(server=call.server.name, tool=call.tool, arguments=arguments, called_at=datetime.now(UTC))
