"""Skills in files: what is read, and what a wrong file or name is told."""

from pathlib import Path

import pytest

from tersely.agent.skills import load_skills
from tersely.errors import ConfigError
from tersely.settings.model import Settings


def test_skills_are_folders_or_files_with_a_header(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "SKILL.md").write_text("---\nname: disk\ndescription: >\n  Clean\n  up\n---\n\n# Steps\n")
    (tmp_path / "network").write_text("---\nname: net\ndescription: Routes\n---\nLook at routes.")
    (tmp_path / "..data").mkdir()
    (tmp_path / "empty").mkdir()
    found = load_skills(tmp_path)
    assert {name: (one.description, one.body) for name, one in found.items()} == {
        "disk": ("Clean up", "# Steps"),
        "net": ("Routes", "Look at routes."),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [("no header", ":1: a skill begins"), ("---\nname: a\n---\n", ":1: the header has no `description`"),
     ("---\nname: [\n---\n", ":2: the header is not YAML"), ("x" * 300_000, "at most 262,144 bytes")],
)  # fmt: skip
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "wrong.md").write_text(text)
    with pytest.raises(ConfigError, match=f"wrong.md.*{reason}"):
        load_skills(tmp_path)


def test_an_unknown_skill_is_reported_with_the_line_and_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "disk.md").write_text("---\nname: disk-full\ndescription: d\n---\nClean.")
    file = tmp_path / "tersely.yaml"
    folder = f"defaults:\n  skills_folder: {tmp_path / 'skills'}\n"
    file.write_text(f"{folder}agents:\n  one:\n    skills: [disk-ful]\n")
    with pytest.raises(ConfigError, match=r"tersely.yaml:5: agents.one.skills\[0\].*no skill.*disk-full"):
        Settings.load({}, file=file)
