"""The registry of providers: one record is all that a provider needs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tersely.errors import ConfigError
from tersely.llm.client import ChatModel
from tersely.llm.providers import PROVIDERS, ModelSpec
from tersely.settings.model import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tersely"


def docstrings(tree: ast.AST) -> set[int]:
    """The strings that stand alone as statements, by identity."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def providers_named_in(source: str) -> Iterator[str]:
    """Strings and identifiers that belong to one provider. Prose may name them."""
    variables = {
        variable for one in PROVIDERS.values() for variable in (one.key_variable, one.url_variable) if variable
    }
    attributes = {f"{name}_{suffix}" for name in PROVIDERS for suffix in ("api_key", "base_url")}
    addresses = {one.base_url for one in PROVIDERS.values() if one.base_url}
    tree = ast.parse(source)
    prose = docstrings(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in prose:
                if text in {*PROVIDERS, *attributes, *addresses} or any(variable in text for variable in variables):
                    yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                if name in attributes:
                    yield name
            case _:
                pass


@pytest.mark.slow
def test_no_module_but_the_registry_names_a_provider() -> None:
    found = {
        str(path.relative_to(SOURCE)): names
        for path in SOURCE.rglob("*.py")
        if (names := list(providers_named_in(path.read_text(encoding="utf-8"))))
    }
    # `extras` lists packages to import, one of which has the name of a provider.
    assert set(found) == {"llm/providers.py", "extras.py"} and found["extras.py"] == ["openai"], found


ADDED = """
from tersely.llm import providers

providers.PROVIDERS["acme"] = providers.Provider(
    name="acme", build=providers.PROVIDERS["openai"].build, key_variable="ACME_TOKEN", key_help="Key for acme.",
    base_url="http://acme.test/v1",
)

from tersely.settings.model import Settings, documented

assert ("ACME_TOKEN", "", "Key for acme.") in documented()
assert "`acme:NAME`" in {name: text for name, _, text in documented()}["LLM_MODEL"]

settings = Settings.load({"LLM_MODEL": "acme:large", "ACME_TOKEN": "k"})
spec = settings.specs("default")[0]
assert (spec.provider, spec.model, spec.api_key) == ("acme", "large", "k")
assert Settings.load({"LLM_MODEL": "acme:large"}).model.missing() == "ACME_TOKEN"

options = providers.ProviderOptions(type="acme", model="large")
assert options.needs_key and "acme" in providers.ProviderOptions.model_json_schema()["properties"]["type"]["enum"]

from tersely.llm.client import ChatModel

assert str(ChatModel(spec)._model.base_url).startswith("http://acme.test/v1")
print("ok")
"""


@pytest.mark.process
def test_a_provider_that_is_added_to_the_registry_can_be_configured_and_built() -> None:
    """In a process of its own, because the settings are derived from the registry when they are imported."""
    done = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ok\n", done.stderr


def test_an_unknown_provider_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "tersely.yaml"
    file.write_text("llm_providers:\n  main: {type: antropic, model: claude}\n", encoding="utf-8")
    known = r"'openrouter', 'openai', 'anthropic', 'google', 'azure', 'vertexai' or 'xai'; did you mean 'anthropic'\?"
    with pytest.raises(ConfigError, match=rf"tersely\.yaml:2: llm_providers\.main\.type: should be {known}"):
        Settings.load({}, file)
    with pytest.raises(ConfigError, match=r"Provider 'acme' does not exist\. Known providers: openrouter, openai"):
        ChatModel(ModelSpec(model="m", provider="acme"))


def test_every_extra_of_a_provider_can_be_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {one.extra for one in PROVIDERS.values() if one.extra} <= set(extras)


@pytest.mark.parametrize("page", ["docs/reference/configuration.md", "src/tersely/cli/starter.yaml"])
def test_the_reference_and_the_starter_file_name_every_provider(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in PROVIDERS if not re.search(rf"\b{name}\b", text)] == []
