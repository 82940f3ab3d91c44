"""Laying one layer over another, field by field."""

from __future__ import annotations

from midturn.config.nodes import Branch, Node
from midturn.config.tree import Tree, TreeEntry


def merge(low: Tree, high: Tree, node: Node) -> Tree:
    """Lay the layer `high` over `low`: each field of `high` wins, what it does not say stays.

    Questions compare the layer first, then how specific they are: a field that `high` sets for `'*'` also replaces what `low` said
    about single ids.
    """
    below = _without_fields(low, high.get("*")) if isinstance(node, Branch) and node.star_covers_names else low
    merged = dict(below)
    for name, above in high.items():
        standing = merged.get(name)
        if isinstance(above, dict) and isinstance(standing, dict):
            merged[name] = merge(standing, above, node.child(name) if isinstance(node, Branch) else node)
        else:
            merged[name] = above
    return merged


def _without_fields(named: Tree, star: Tree | TreeEntry | None) -> Tree:
    if not isinstance(star, dict):
        return named
    return {name: _minus(tree, star) if isinstance(tree, dict) and name != "*" else tree for name, tree in named.items()}


def _minus(tree: Tree, fields: Tree) -> Tree:
    kept: Tree = {}
    for name, below in tree.items():
        taken = fields.get(name)
        if isinstance(below, dict) and isinstance(taken, dict):
            kept[name] = _minus(below, taken)
        elif taken is None:
            kept[name] = below
    return kept
