"""A nested text as a tree of named values with the lines of the source on which they stand.

JSON, YAML, XML and outlines all become a `Tree`: flat lists without recursion, so that depth costs nothing.
"""

from collections import Counter
from dataclasses import dataclass, field

from tersely.shapes.pieces import pieces_of

LEAF, OBJECT, LIST, TEXT = 0, 1, 2, 3
"""Kinds of nodes: a value; named children; numbered children; a long value in pieces."""

LONG_VALUE = 320


@dataclass
class Tree:
    """Nodes in source order, parents before children."""

    parent: list[int] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    value: list[str] = field(default_factory=list)
    kind: bytearray = field(default_factory=bytearray)
    line: list[int] = field(default_factory=list)
    joint: dict[int, str] = field(default_factory=dict)
    """The separator between key and value where it is not `: `; the line that opens a record of its own, or ''."""
    named: dict[int, str] = field(default_factory=dict)
    """List elements that represent a field: `{"key": "port", "value": 80}` → `port`."""
    series: dict[int, list[float]] = field(default_factory=dict)
    """Leaves that represent many numbers."""
    whole: dict[int, str] = field(default_factory=dict)
    """Long values in one piece, for `wrapped`."""
    written: dict[int, str] = field(default_factory=dict)
    """Leaves whose key was split → the key as it is written: `net.ipv4.conf.eth0.mtu` for `mtu`."""
    ends: dict[int, int] = field(default_factory=dict)
    """Leaves whose value ends on a later line of the source → that line."""
    apart: set[int] = field(default_factory=set)
    """Those of `whole` whose lines are source lines, starting below their key."""
    pairs: dict[int, str] = field(default_factory=dict)
    """Fields that are written as a pair → all before the value: `Key: port\\nValue` for `{Key: port, Value: 80}`."""
    headers: set[int] = field(default_factory=set)
    """Owners whose value is the header of a table, of which they own the rows."""

    def add(self, parent: int, key: str, kind: int, value: str = "", line: int = 1) -> int:
        self.parent.append(parent)
        self.key.append(key)
        self.value.append(value)
        self.kind.append(kind)
        self.line.append(line)
        return len(self.parent) - 1

    def add_value(self, parent: int, key: str, value: str, line: int = 1, below: int = 0) -> int:
        """Add a leaf, or for a long value its pieces; its lines are those of the source from `below` on, if given."""
        if len(value) <= LONG_VALUE:
            return self.add(parent, key, LEAF, value, line)
        node = self.add(parent, key, TEXT, "", line)
        self.whole[node] = value
        for at, part in enumerate(value.split("\n"), below):
            own = at if below else line
            if len(part) <= LONG_VALUE:
                if part.strip():
                    self.add(node, "", LEAF, part.strip(), own)
            else:
                for piece in pieces_of(part, 160):
                    self.add(node, "", LEAF, piece, own)
        return node

    def drop_last(self) -> None:
        """Remove the last node, which has no children and no value."""
        for column in (self.parent, self.key, self.value, self.kind, self.line):
            column.pop()
        self.joint.pop(len(self), None)

    def __len__(self) -> int:
        return len(self.parent)

    def without(self, dropped: bytearray) -> "Tree":
        """Return the tree without the marked nodes; their descendants must be marked too."""
        kept = [node for node in range(len(self)) if not dropped[node]]
        moved = {node: index for index, node in enumerate(kept)}
        moved[-1] = -1
        return Tree(
            parent=[moved[self.parent[node]] for node in kept],
            key=[self.key[node] for node in kept],
            value=[self.value[node] for node in kept],
            kind=bytearray(self.kind[node] for node in kept),
            line=[self.line[node] for node in kept],
            joint={moved[node]: text for node, text in self.joint.items() if node in moved},
            named={moved[node]: text for node, text in self.named.items() if node in moved},
            series={moved[node]: numbers for node, numbers in self.series.items() if node in moved},
            whole={moved[node]: text for node, text in self.whole.items() if node in moved},
            written={moved[node]: key for node, key in self.written.items() if node in moved},
            ends={moved[node]: line for node, line in self.ends.items() if node in moved},
            apart={moved[node] for node in self.apart if node in moved},
            pairs={moved[node]: text for node, text in self.pairs.items() if node in moved},
            headers={moved[node] for node in self.headers if node in moved},
        )


def grouped_by_dots(tree: Tree) -> Tree:
    """Turn properties with dotted keys, `a.b.size=3`, into records `a.b` with fields; keep keys without a dot."""
    leaves = [node for node in range(1, len(tree)) if tree.kind[node] == LEAF and tree.parent[node] == 0]
    dotted = [node for node in leaves if "." in tree.key[node].strip(".")]
    if len(leaves) < 0.8 * len(tree) or len(dotted) < 0.8 * len(leaves) or len(dotted) < 12:
        return tree
    fields = Counter(tree.key[node].rpartition(".")[2] for node in dotted)
    if len(fields) > len(dotted) / 3:
        return tree
    grouped = Tree()
    root = grouped.add(-1, "", OBJECT)
    owners: dict[str, int] = {}
    before = ""
    for node in range(1, len(tree)):
        prefix, _, name = tree.key[node].rpartition(".")
        if tree.kind[node] != LEAF or tree.parent[node] != 0:
            return tree
        if not prefix:
            leaf = grouped.add(root, name, LEAF, tree.value[node], tree.line[node])
            if node in tree.joint:
                grouped.joint[leaf] = tree.joint[node]
            continue
        if prefix != before or prefix not in owners:
            owners[prefix] = grouped.add(root, prefix, OBJECT, line=tree.line[node])
            before = prefix
        leaf = grouped.add(owners[prefix], name, LEAF, tree.value[node], tree.line[node])
        grouped.written[leaf] = tree.key[node]
        if node in tree.joint:
            grouped.joint[leaf] = tree.joint[node]
    return grouped
