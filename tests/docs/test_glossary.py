"""One word for one thing, in the names of all classes: `ARCHITECTURE.md` begins with the ten nouns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.documents import ROOT

INSTEAD = {
    "Ask": "Question, or Form",
    "Asked": "Question, or Form",
    "Asking": "Asker",
    "Asks": "Form",
    "Bundle": "Settings",
    "Given": "Answer",
    "Helper": "the noun of what it is",
    "Info": "the noun of what it is",
    "Manager": "the noun of what it is",
    "Parts": "Settings",
    "Question": "Form, where it is several",
    "Util": "the noun of what it is",
}
"""Last words of names that belong to the family of another word."""
KEPT = {
    "Ask": "a step of the walk: ask this",
    "Asked": "what a stream yields; public",
    "Question": "the noun itself",
    "NoSuchQuestion": "the noun, and what is wrong; public",
    "OpenQuestion": "the noun, and what it adds",
    "PersistedQuestion": "the noun, and what it adds",
    "InquiryAsked": "what a side request is about; public",
    "Asking": "what the adapters of frameworks give a program; public",
    "CommandParts": "to be one with the settings of a session",
    "RunParts": "to be one with the settings of a session",
    "_Parts": "what a provider's library calls the parts of a message",
}


def _names() -> Iterator[str]:
    for path in sorted((ROOT / "src" / "midturn").rglob("*.py")):
        yield from re.findall(r"^ *class (\w+)[(:\[]", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_no_class_is_named_by_a_word_of_another_family() -> None:
    """A name ends in the noun of what it is; where another noun is meant, the list says which."""
    found = {name: INSTEAD[last] for name in _names() if (last := re.split(r"(?=[A-Z])", name)[-1]) in INSTEAD}

    assert {name: instead for name, instead in found.items() if name not in KEPT} == {}
    assert set(KEPT) <= set(found), "a name that is not there any more needs no reason"
