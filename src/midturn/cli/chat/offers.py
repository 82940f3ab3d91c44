"""What Tab offers behind a `/` command: models, tools, keys of the configuration and their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from midturn.errors import MidturnError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def offers(words: Sequence[str]) -> Sequence[CompletionItem]:
    """Return what may follow `words`, the first of which is a command; where nothing can be found out, nothing is offered."""
    try:
        return list(_known(words))
    except (MidturnError, OSError):
        return []


def _known(words: Sequence[str]) -> Iterable[CompletionItem]:
    from midturn.cli import completing  # only Tab asks for it

    offered: Iterable[CompletionItem] = ()
    match list(words):
        case ["/model"]:
            offered = completing.models()
        case ["/tools"]:
            offered = completing.tools()
        case ["/inbox"]:
            offered = (completing.item("--all", "of all workspaces"),)
        case ["/show"]:
            offered = (completing.item("--inquiries", "who answered what, and why"), completing.item("--usage", "tokens, turn by turn"))
        case ["/config"]:
            offered = map(completing.item, ("show", "get", "set", "explain"))
        case ["/config", "get" | "set" | "explain"]:
            offered = completing.keys()
        case ["/config", "set", key]:
            offered = completing.values(key)
        case _:
            pass
    return offered
