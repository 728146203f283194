"""Skills: instructions in files that an agent loads when it needs them.

The prompt has only the name and description of each; `load_skill` returns the text. A
skill is `NAME/SKILL.md` or a file in the folder of skills, with `name` and `description`
in a YAML header between lines of `---`, as other programs write them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tersely.errors import ConfigError
from tersely.results.read_back_tool import ReadBackTool

LONGEST_SKILL = 256 * 1024
"""Bytes of a file."""

LOAD_SKILL = ReadBackTool(
    "load_skill",
    "Load the instructions of a skill that your instructions list, by its name.",
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)


@dataclass(frozen=True, kw_only=True)
class Skill:
    name: str
    description: str
    body: str


def load_skills(folder: Path) -> dict[str, Skill]:
    """The skills in a folder, by name.

    Raises:
        ConfigError: The folder or a file cannot be used; the message names the file and the line.
    """
    try:
        entries = sorted(entry for entry in folder.expanduser().iterdir() if not entry.name.startswith("."))
    except OSError as problem:
        raise ConfigError(f"{folder}: the folder of skills cannot be read: {problem.strerror or problem}.") from None
    skills: dict[str, Skill] = {}
    files = [entry / "SKILL.md" if entry.is_dir() else entry for entry in entries]
    for file in files:
        if not file.exists():
            continue
        skill = _read(file)
        if skill.name in skills:
            raise ConfigError(f"{file}:1: there are two skills called {skill.name!r}.")
        skills[skill.name] = skill
    return skills


def _read(file: Path) -> Skill:
    try:
        size = file.stat().st_size
        if size > LONGEST_SKILL:
            raise ConfigError(f"{file}: a skill has at most {LONGEST_SKILL:,} bytes; this one has {size:,}.")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{file}: the skill cannot be read: {type(problem).__name__}.") from None
    if not lines or lines[0].strip() != "---" or "---" not in [line.strip() for line in lines[1:]]:
        raise ConfigError(f"{file}:1: a skill begins with `name` and `description` between two lines of `---`.")
    end = next(number for number, line in enumerate(lines[1:], start=1) if line.strip() == "---")
    import yaml  # here, because most programs have no skills

    try:
        header = yaml.safe_load("\n".join(lines[1:end])) or {}
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = mark.line + 2 if mark else 2
        raise ConfigError(f"{file}:{line}: the header is not YAML.") from None
    values: Mapping[str, object] = header if isinstance(header, dict) else {}
    for key in ("name", "description"):
        if not isinstance(values.get(key), str) or not str(values[key]).strip():
            raise ConfigError(f"{file}:1: the header has no `{key}`.")
    body = "\n".join(lines[end + 1 :]).strip()
    return Skill(name=str(values["name"]).strip(), description=" ".join(str(values["description"]).split()), body=body)


def skills_section(listed: Sequence[Skill], required: Sequence[Skill]) -> str:
    """The part of the system prompt about skills; empty if there are none."""
    sections = [f"# Skill: {skill.name}\n{skill.body}" for skill in required]
    if listed:
        lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in listed)
        sections.append(f"# Skills\nInstructions for certain tasks; load one with load_skill when it applies.\n{lines}")
    return "\n\n".join(sections)
