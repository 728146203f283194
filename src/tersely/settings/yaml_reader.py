"""Reads YAML with the place of every key; see `files`."""

import re
from pathlib import Path
from typing import Any

import yaml

from tersely.errors import ConfigError
from tersely.settings.files import DEEPEST, Key


class YamlReader:
    """A parser for YAML that knows the line of every key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.lines: dict[Key, int] = {}
        self.spans: dict[Key, tuple[int, int]] = {}
        self.names: dict[Key, tuple[int, int]] = {}
        self.blocks: set[Key] = set()
        self.twice: list[tuple[Key, int]] = []

    def read(self) -> Any:
        loader = yaml.SafeLoader(self.text)
        try:
            node = loader.get_single_node()
            return None if node is None else self._value(loader, node, ())
        except yaml.MarkedYAMLError as problem:
            mark = problem.problem_mark or problem.context_mark
            place = f":{mark.line + 1}" if mark else ""
            line = self.text.splitlines()[mark.line : mark.line + 1] if mark else []
            hint = " Inside { } and [ ], put ${…} in quotes." if line and re.search(r"[^\"']\$\{", line[0]) else ""
            raise ConfigError(
                f"{self.path}{place}: is not valid YAML: {problem.problem or problem.context}.{hint}"
            ) from None
        except (yaml.YAMLError, ValueError) as problem:
            # ValueError: a date such as 2026-13-45.
            raise ConfigError(f"{self.path}: is not valid YAML: {type(problem).__name__}.") from None
        finally:
            loader.dispose()

    def _value(self, loader: yaml.SafeLoader, node: yaml.Node, key: Key) -> Any:
        if len(key) > DEEPEST:
            raise ConfigError(f"{self.path}:{node.start_mark.line + 1}: is nested more than {DEEPEST} deep.")
        self.lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            self.blocks.add(key)
        self.spans[key] = (node.start_mark.index, _end(node))
        if isinstance(node, yaml.SequenceNode):
            return [self._value(loader, inner, (*key, number)) for number, inner in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return loader.construct_object(node)
        own = {id(name) for name, _ in node.value}
        loader.flatten_mapping(node)
        mapping: dict[str, Any] = {}
        written: set[str] = set()
        for name_node, inner in node.value:
            name = str(loader.construct_object(name_node))
            inside = (*key, name)
            if id(name_node) in own:
                if name in written:
                    self.twice.append((inside, name_node.start_mark.line + 1))
                written.add(name)
                if inner.start_mark.index > name_node.start_mark.index:  # not an alias
                    self.names[inside] = (name_node.start_mark.index, name_node.end_mark.index)
            self.lines[inside] = (
                self.lines[inside] if name in written and inside in self.lines else name_node.start_mark.line + 1
            )
            mapping[name] = self._value(loader, inner, inside)
            if inside not in self.names:
                # An alias or a merged mapping: its text belongs to another key, too.
                for place in [one for one in self.spans if one[: len(inside)] == inside]:
                    del self.spans[place]
        return mapping


def _end(node: yaml.Node) -> int:
    """Where a node ends; a block ends with its last value, not with the comments after it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)
