"""Returns the form data that a browser sends for a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from midturn.web.body import Fields

_ENDS_OF_LINES = re.compile("\r\n|\r|\n")


class _Form(HTMLParser):
    """Collects the successful controls of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[str, str]] = []
        self._area: tuple[str, list[str]] | None = None
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name = _ENDS_OF_LINES.sub("\r\n", given.get("name", "")).replace("\0", "\ufffd")
        match tag:
            case "input" if name and (
                given.get("type") not in ("checkbox", "radio") or "checked" in given
            ):
                self.pairs.append((name, given.get("value", "on")))
            case "textarea" if name:
                self._area = (name, [])
            case "select":
                self._select = name
            case "option" if "selected" in given:
                self.pairs.append((self._select, given["value"]))
            case _:
                pass

    def handle_data(self, data: str) -> None:
        if self._area:
            self._area[1].append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area:
            name, parts = self._area
            self.pairs.append((name, "".join(parts).removeprefix("\n")))
            self._area = None


def submitted(html: str, **more: str) -> Fields:
    """Return the fields that a browser sends for the forms in a document, with `more` as typed or
    pressed controls.
    """
    form = _Form()
    form.feed(html)
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in form.pairs:
        fields[name] = (*fields.get(name, ()), value)
    return Fields(fields | {name: (value,) for name, value in more.items()})
