"""A research request: a subject, its topics, and the schema of the facts to extract."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tersely.errors import InputError
from tersely.research.options import ResearchOptions
from tersely.sessions.chains import StageOptions

MOST_TOPICS = 60
LARGEST_SCHEMA = 40_000


@dataclass(frozen=True)
class Topic:
    name: str
    """Short name, for the timeline."""

    about: str
    """What to find out."""


@dataclass(frozen=True, kw_only=True)
class ResearchRequest:
    subject: str
    topics: tuple[Topic, ...]
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of an object whose properties are lists of records; if empty, only passages are returned."""

    options: ResearchOptions = field(default_factory=ResearchOptions)

    @property
    def pages_per_topic(self) -> int:
        return max(1, self.options.pages // len(self.topics))

    @property
    def tokens_per_topic(self) -> int:
        return self.options.tokens // len(self.topics)

    def hint(self, topic: Topic) -> str:
        """The focus for condensing pages of this topic: the fields of the schema, then the topic."""
        # Not a question: a summarizer would answer it in one sentence instead of extracting everything.
        about = topic.about.replace("?", ".").strip(" .")
        wanted = describe_schema(self.schema) or "names, dates, numbers, events"
        return f"Extract facts: {wanted}. Topic: {self.subject}, {about}."


class _AlertData(BaseModel):
    """The data of an alert of kind `research`, as submitted."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    subject: Annotated[str, Field(min_length=1, max_length=500)]
    topics: Annotated[dict[str, str], Field(max_length=MOST_TOPICS)] = {}
    wanted: Annotated[dict[str, Any], Field(alias="schema")] = {}
    options: dict[str, Any] = {}

    @field_validator("topics", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, list):
            return {str(one)[:80]: one for one in value}
        return value

    @field_validator("wanted")
    @classmethod
    def _is_a_schema(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value:
            check_schema(value)
        return value


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check that a schema describes an object with properties.

    Raises:
        ValueError: It does not.
    """
    if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        raise ValueError(
            'must be a JSON schema of an object with properties, e.g. {"properties": {"people": {"type": "array", …}}}'
        )
    if len(json.dumps(schema)) > LARGEST_SCHEMA:
        raise ValueError(f"is longer than {LARGEST_SCHEMA:,} characters; describe the fields in fewer words")


def request_of(data: str, stages: Sequence[StageOptions], options: ResearchOptions) -> ResearchRequest:
    """Parse the request in an alert: an object, or only a subject, whose topics are the chain's stages.

    Raises:
        InputError: A field is missing or invalid; the message names it.
    """
    try:
        value = json.loads(data)
    except ValueError:
        value = {"subject": data.strip()}
    try:
        alert = _AlertData.model_validate(value if isinstance(value, dict) else {"subject": str(value)})
        chosen = ResearchOptions.model_validate({**options.model_dump(), **alert.options})
    except ValidationError as invalid:
        problems = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}" for one in invalid.errors()
        )
        raise InputError(f"Invalid research request: {problems}.") from None
    topics = alert.topics or {stage.name: stage.task or stage.name for stage in stages}
    subject = " ".join(alert.subject.split())
    return ResearchRequest(
        subject=subject,
        topics=tuple(Topic(name, about.replace("{subject}", subject)) for name, about in topics.items()),
        schema=alert.wanted,
        options=chosen,
    )


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Describe a schema in words: "people (name, allegiance: whom they serve), events (name, date)"."""
    return ", ".join(_describe_field(name, part) for name, part in schema.get("properties", {}).items())


def _describe_field(name: str, schema: Any) -> str:
    if not isinstance(schema, dict):
        return name
    record = schema.get("items", schema) if schema.get("type") == "array" or "items" in schema else schema
    described = str(schema.get("description", ""))
    label = f"{name}: {described}" if described else name
    inner = record.get("properties") if isinstance(record, dict) else None
    if not isinstance(inner, dict) or not inner:
        return label
    return f"{label} ({', '.join(_describe_field(field, part) for field, part in inner.items())})"
