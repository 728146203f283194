"""Write the kept values of a tree as lines, below their owners."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from tersely.condensing.account import bare
from tersely.condensing.layout import Gaps
from tersely.condensing.units import GAP
from tersely.shapes.tree import LEAF, LIST, OBJECT, TEXT

if TYPE_CHECKING:
    from tersely.condensing.trees.reading import TreeReading

LONGEST_COMMENT = 60
"""Characters that a line of the source may have beside its value and still be shown whole."""

_JOINT = re.compile(r"\s*[:=]")


def _beginning(source: str, text: str) -> str:
    """Return a label as the source writes it at its beginning (`Required By     :`), else the label."""
    key = text.rstrip(": ")
    if not source.startswith(key) or not text.endswith((":", ": ")):
        return text
    end = _JOINT.match(source, len(key))
    return source[: end.end()].rstrip() if end else text


_FEWEST_REPEATED = 3
"""Elements with the same key that are a list; fewer may be shown without saying so."""


class TreeLayout:
    """Lines of the shown nodes, written in one pass without recursion."""

    def __init__(
        self, reading: "TreeReading", shown: set[int], changed_text: dict[int, str], gaps: Gaps | None = None
    ) -> None:
        self.reading, self.changed_text = reading, changed_text
        self.by_line = reading.by_line
        offset = reading.offset()
        self.offset = offset or 0
        self.gaps = gaps if offset is not None else None
        self.last_line = 0
        """The last source line that was written."""
        self.tree, self.shape = tree, shape = reading.tree, reading.shape
        for node in list(shown):
            for leaf in shape.identity.get(node, ()):
                shown.add(leaf)
                above = tree.parent[leaf]
                while above not in shown:
                    shown.add(above)
                    above = tree.parent[above]
        self.hidden_lines: list[int] = []
        """Lines of a text inside a string of which nothing is shown."""
        if self.by_line and self.gaps is None:
            seen = {tree.line[node] for node in shown}
            self.hidden_lines = sorted({line for line in tree.line if line not in seen})
        self.inside: dict[int, list[int]] = {}
        for node in sorted(shown):
            self.inside.setdefault(tree.parent[node], []).append(node)
        self.naming = {
            leaf: record for record, leaves in shape.identity.items() for leaf in leaves[:1] if record in shown
        }
        """The leaf that names a record → the record."""
        self.named_at: dict[int, int] = {}
        """Record → number of characters that had been written after its name."""
        self.written = 0
        self.lines: list[str] = []
        self.start = ""
        """Beginning of the current line: indentation, label, count."""
        self.values: list[str] = []
        """Values on the current line."""
        self.indent = 0
        """Depth of the values on the current line."""
        self.cut_item = False
        """Whether the source has more than the sign of an item on the line of the item that was opened last."""
        self.stack: list[tuple[int, int, str]] = []
        """(node, depth, path so far) of the nodes still to be written, the next one last."""

    def text(self) -> str:
        self.stack = [(node, 0, "") for node in reversed(self.inside.get(-1, ()))]
        while self.stack:
            node, depth, path = self.stack.pop()
            if self.tree.kind[node] == LEAF:
                self._leaf(node, depth)
            else:
                self._owner(node, depth, path)
        self._flush()
        if self.by_line and self.lines:
            self._mark_gap(self.reading.last_line + 1, 0)
        return "\n".join(self.lines)

    def _flush(self) -> None:
        if self.values or self.start.strip():
            is_cut = self.start.strip() == "-" and not self.values and self.cut_item
            line = (self.start + ", ".join(self.values)).rstrip().removesuffix(",")
            self.lines.append(f"{line} {GAP}" if is_cut else line)
        self.start, self.values = "", []

    def _leaf_line(self, node: int, depth: int) -> None:
        """Write a value on its own line; the first one of an item follows the sign of the item, as in the source."""
        line = self.tree.line[node]
        if not self._opens_item(node):
            self._flush()
            self._mark_gap(line, depth)
            self.start = " " * depth
        text = self.changed_text.get(node) or self._as_written(node, self.reading.leaf_text(node))
        if self.start.strip() == "-":
            text = text.removeprefix("- ")
        elif self._is_written(node, text):
            self.start = ""
            return
        self.written += len(text) + 2
        if node in self.naming:
            self.named_at[self.naming[node]] = self.written
        self.values.append(text.replace("\n", "\n" + " " * (depth + 1)))
        self._flush()
        self.last_line = self.tree.ends.get(node, line)

    def _as_written(self, node: int, text: str) -> str:
        """Return the line of the source that contains a text, without its indentation; else the text itself."""
        if self.gaps is None or self.gaps.lines is None:
            return text
        start = self.tree.line[node] + self.offset
        lines = self.gaps.lines[start - 1 : self.tree.ends.get(node, self.tree.line[node]) + self.offset]
        source = "\n".join(stripped for line in lines if (stripped := line.strip()))
        if not text:
            return source
        if len(" ".join(source.split())) <= len(text) + LONGEST_COMMENT and bare(text) in bare(source):
            return source
        if node in self.tree.named and node in self.tree.ends:
            return source  # A name and its value, on two lines.
        return _beginning(source, text)

    def _is_written(self, node: int, text: str) -> bool:
        """Whether the line just written is the one of this node: its key and all of its values share a line."""
        shown = self.lines[-1].strip() if self.lines else ""
        return self.tree.line[node] == self.last_line and shown == text.strip()

    def _opens_item(self, node: int) -> bool:
        """Whether a node is on the same line of the source as the sign of the item that was just written: `- main:`."""
        return self.start.strip() == "-" and not self.values and self.tree.line[node] == self.last_line

    def _mark_gap(self, line: int, depth: int) -> None:
        """Mark lines of the source that are missing before this one."""
        if line <= self.last_line + 1:
            return
        if bisect_right(self.hidden_lines, self.last_line) < bisect_left(self.hidden_lines, line):
            self.lines.append(" " * depth + GAP)
        if self.gaps is None or self.gaps.lines is None:
            return
        if 0 in self.gaps.seen[self.last_line + self.offset : line - 1 + self.offset] and not self._ends_with_mark():
            self.lines.append(" " * depth + GAP)

    def _ends_with_mark(self) -> bool:
        return bool(self.lines) and self.lines[-1].strip() == f"- {GAP}"

    def _leaf(self, node: int, depth: int) -> None:
        if self.by_line:
            self._leaf_line(node, depth)
            return
        if depth != self.indent or not (self.values or self.start):
            self._flush()
            self.start = " " * depth
            self.indent = depth
        text = self.changed_text.get(node) or self.reading.leaf_text(node)
        self.written += len(text) + 2
        if node in self.naming:
            self.named_at[self.naming[node]] = self.written
        elif node in self.reading.answers:
            text = self._with_owner(node, text)
        alone = not self.tree.key[node] and self.tree.kind[self.tree.parent[node]] == OBJECT
        if alone and self.values:
            self._flush()
            self.start = " " * depth
        self.values.append(text)
        if alone or len(text) > 160 or sum(map(len, self.values)) > 400:
            self._flush()

    def _with_owner(self, node: int, text: str) -> str:
        """Repeat the record's name if it is too far above the value."""
        owner, name = self.reading.owner(node)
        if owner >= 0 and self.written - self.named_at.get(owner, self.written) > 110 and len(name) < 80:
            self.named_at[owner] = self.written
            return f"[{name}] {text}"
        return text

    def _owner(self, node: int, depth: int, path: str) -> None:
        tree, shape = self.tree, self.shape
        children = self.inside.get(node, [])
        if self.by_line and children and children[0] in tree.written:
            # The owner is a part of the keys below it and no line of its own.
            self.named_at[node] = self.written
            self.stack.extend((child, depth, "") for child in reversed(children))
            return
        label = path + self.reading.label(node)
        if self.by_line:
            brief = self.changed_text.get(node)
            label = brief.strip() + " " if brief else self._owner_line(node, label)
        self.written += len(label) + depth
        if tree.value[node] or tree.parent[node] in shape.maps:
            self.named_at[node] = self.written
        if self.by_line and self._opens_item(node):
            label = self.start.strip() + " " + label
            self.start = ""
            depth -= 1
        elif self.by_line and label:
            self._flush()
            self._mark_gap(tree.line[node], depth)
            self.last_line = max(self.last_line, tree.line[node])
        if self.by_line and tree.joint.get(node) and tree.parent[node] >= 0 and not tree.key[node]:
            # The line that opens a document owns what follows without being above it.
            self._flush()
            self.lines.append(" " * depth + label.strip())
            label = ""
        if tree.kind[node] == TEXT:
            self._flush()
            if self.by_line and node in tree.apart:
                self._lines_below(depth, label, children)
            else:
                self.lines.append(" " * depth + label + self.reading.joined(children))
        elif tree.kind[node] == LIST and children and all(tree.kind[child] == LEAF for child in children):
            self._flush()
            self._plain_list(node, depth, label, children)
        elif self._is_only_step(node, label, children):
            self.stack.append((children[0], depth, label.removesuffix(": ") + "."))
        else:
            self._flush()
            note = self._share(node, children)
            self.start = " " * depth + (label.rstrip(", ") + " " if note and self.by_line and label else label) + note
            self.indent = depth + 1 if label else depth
            if not self.by_line and label == "- " and children and tree.kind[children[0]] != LEAF:
                # An item opens with its values, wherever they are among its fields.
                children = sorted(children, key=lambda child: tree.kind[child] != LEAF)
            self.stack.extend((child, self.indent, "") for child in reversed(children))

    def _share(self, node: int, children: list[int]) -> str:
        """Return how many of the elements of a list are shown, if not all: `[3 of 40] `."""
        tree = self.tree
        every = self.shape.children[node] or []
        shown = sum(map(self.reading.times, children))
        if tree.kind[node] == LIST or node in self.shape.maps:
            return f"[{shown} of {len(every)}] " if 0 < shown < len(every) else ""
        if self.by_line or len(every) < _FEWEST_REPEATED or not children:
            return ""
        # Elements of XML are repeated keys.
        totals = Counter(tree.key[child] for child in every)
        counts = Counter(tree.key[child] for child in children for _ in range(self.reading.times(child)))
        if len(totals) == 1:
            return f"[{shown} of {len(every)}] " if shown < len(every) else ""
        some = [key for key in counts if _FEWEST_REPEATED <= totals[key] > counts[key]]
        return "".join(f"[{counts[key]} of {totals[key]} {key}] " for key in some)

    def _owner_line(self, node: int, label: str) -> str:
        """Return the label of an owner as the source has it: without the sign of an item where there is none."""
        if not label:
            return label
        if label != "- ":
            written = self._as_written(node, label)
            return written.removeprefix("- ") + " " if self._opens_item(node) else written + " "
        written = self._as_written(node, "")
        self.cut_item = len(written) > 1
        return label if not written or written.startswith("-") else ""

    def _lines_below(self, depth: int, label: str, pieces: list[int]) -> None:
        """Write the shown lines of a value below its key, as in the source."""
        self.lines.append(" " * depth + label.rstrip())
        by_line: dict[int, list[int]] = {}
        for piece in pieces:
            by_line.setdefault(self.tree.line[piece], []).append(piece)
        for line, parts in by_line.items():
            self._mark_gap(line, depth + 1)
            self.lines.append(" " * (depth + 1) + self.reading.joined(parts, line))
            self.last_line = line

    def _plain_list(self, node: int, depth: int, label: str, children: list[int]) -> None:
        total = len(self.shape.children[node] or ())
        shown = sum(map(self.reading.times, children))
        note = f" [{shown} of {total}]" if shown < total else ""
        values = (self.changed_text.get(child) or self.reading.leaf_text(child) for child in children)
        if self.by_line:
            self.lines.append((" " * depth + label).rstrip() + note)
            for child, value in zip(children, values, strict=True):
                self._mark_gap(self.tree.line[child], depth + 1)
                written = self._as_written(child, value)
                if self._is_written(child, written):
                    continue
                written = written.replace("\n", "\n" + " " * (depth + 2))
                self.lines.append(" " * (depth + 1) + (written if written != value else "- " + value))
                self.last_line = self.tree.ends.get(child, self.tree.line[child])
            return
        self.lines.append(" " * depth + label + ", ".join(values) + note)

    def _is_only_step(self, node: int, label: str, children: list[int]) -> bool:
        """Whether an object only leads to another one, so that both share a line: `spec.template: `."""
        kind = self.tree.kind
        return (
            len(children) == 1
            and not self.by_line
            and kind[children[0]] == OBJECT
            and kind[node] == OBJECT
            and not label.lstrip().startswith("- ")
            and label.endswith(": ")
            and not self._share(node, children)
        )
