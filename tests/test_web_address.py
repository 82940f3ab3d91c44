"""The question that asks a user to open a web address from a third-party server."""

from __future__ import annotations

import pytest

from midturn.protocol_forms import opens, web_address_form


def test_international_host_is_shown_in_punycode() -> None:
    (question,) = web_address_form("Log in.", "https://xn--pple-43d.example/login?a=b").questions
    context = question.context or ""

    assert "Address: `https://xn--pple-43d.example/login?a=b`" in context
    assert "Host: `xn--pple-43d.example` (international letters" in context


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/in", "example.org"),
        ("https://[", "(no host)"),
        ("nothing", "(no host)"),
    ],
)
def test_host_is_shown_separately(url: str, host: str) -> None:
    assert f"Host: `{host}`" in (web_address_form("Log in.", url).questions[0].context or "")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [({"open_address": True}, True), ({"open_address": False}, False), ({}, False)],
)
def test_only_yes_opens_the_address(answers: dict[str, bool], *, expected: bool) -> None:
    assert opens(answers) is expected
