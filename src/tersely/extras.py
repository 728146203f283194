"""Optional dependencies: which modules each extra of `pyproject.toml` installs, and the error when they are missing.

`require_extra` is called before the first import that would fail, so that the message names the extra and not a module.
Looks modules up without importing them. Which command needs which extra is in `cli.extras`.
"""

from importlib.util import find_spec

from tersely.errors import MissingExtra

_LLM = ("genai_prices", "httpx2", "openai", "pydantic_ai")
_MCP = ("fastmcp", "mcp", "starlette", "uvicorn")

EXTRAS: dict[str, tuple[str, ...]] = {
    "llm": _LLM,
    "gateway": (*_LLM, *_MCP),
    "serve": (*_LLM, *_MCP),
    "up": (*_LLM, *_MCP, "dbos", "fastapi", "websockets"),
    "query": ("duckdb",),
    "langchain": ("langchain", "langgraph"),
    "openai-agents": ("agents",),
    "pydantic-ai": ("pydantic_ai",),
    "fastmcp": ("fastmcp",),
}
"""Extras whose modules are looked up before a command or function starts, with the modules it imports."""


def has_extra(extra: str) -> bool:
    return all(_is_installed(module) for module in EXTRAS[extra])


def require_extra(extra: str, feature: str) -> None:
    """
    Args:
        feature: The subject of the message: a command, a function, a model.

    Raises:
        MissingExtra: The extra is not installed.
    """
    if not has_extra(extra):
        raise MissingExtra(feature, extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # an import hook refuses the module
        return False
