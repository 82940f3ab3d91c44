"""An address that somebody else's server wants opened."""

from __future__ import annotations

import pytest

from midturn.protocol_forms import opens, web_address_form


def test_an_address_that_looks_like_another_is_spelled_out() -> None:
    (question,) = web_address_form("Log in.", "https://xn--pple-43d.example/login?a=b").questions
    context = question.context or ""

    assert "Address: `https://xn--pple-43d.example/login?a=b`" in context
    assert "Host: `xn--pple-43d.example` (international letters" in context


@pytest.mark.parametrize(("url", "host"), [("https://example.org/in", "example.org"), ("https://[", "(no host)"), ("nothing", "(no host)")])
def test_the_host_is_shown_by_itself(url: str, host: str) -> None:
    assert f"Host: `{host}`" in (web_address_form("Log in.", url).questions[0].context or "")


@pytest.mark.parametrize(("answers", "expected"), [({"open_address": True}, True), ({"open_address": False}, False), ({}, False)])
def test_only_a_yes_opens_it(answers: dict[str, bool], *, expected: bool) -> None:
    assert opens(answers) is expected
