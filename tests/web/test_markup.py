"""Rendering of text from tools and models on a page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from midturn.web.templating import block, rich_text


def test_markdown_is_rendered() -> None:
    html = rich_text(
        "# Title\n\nIt *is* **so**, `code`:\n\n- one\n- two\n\n| a | b |\n| --- | --- |\n| 1 |"
        " 2 |\n"
    )
    for part in (
        "<h3>Title</h3>",
        "<em>is</em>",
        "<strong>so</strong>",
        "<code>code</code>",
        "<li>one</li>",
        "<td>1</td>",
    ):
        assert part in html


def test_html_is_shown_as_text() -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in rich_text("<script>alert(1)</script>")
    assert "<b>" not in rich_text("an <b>inline</b> one")


def test_pictures_become_links_and_links_show_their_target() -> None:
    html = rich_text("![a cat](https://evil.example/c.png) and [your bank](https://evil.example/)")
    assert "<img" not in html
    assert html.count('href="https://evil.example/') == 2
    assert "(https://evil.example/)" in html
    assert html.count('rel="noopener noreferrer nofollow"') == 2


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "/leave",
        "?q",
    ],
)
def test_only_web_links_are_allowed(target: str) -> None:
    assert "href" not in rich_text(f"[x]({target}) <{target}> ![x]({target})")


def test_invisible_characters_are_shown() -> None:
    assert "⟨U+202E⟩" in rich_text("a\u202eb")
    assert rich_text("```\na\u202eb\n```").count("⟨U+202E⟩") == 1
    assert "⟨U+200B⟩" in block("a\u200bb")
    assert "⟨U+0009⟩" in block("a\tb")


def test_diff_is_coloured_and_trailing_spaces_are_visible() -> None:
    html = block("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new  \n same")
    assert '<span class="del">-old</span>' in html
    assert '<span class="add">+new<span class="blank">  </span></span>' in html
    assert 'class="diff"' in html
    assert 'class="diff"' not in block("+ a shopping list\n- without a head")


@given(st.text(alphabet=st.sampled_from("<>\"'&/`[]()!#*_-=\n ax1:;\u202e\u200b\x00"), max_size=80))
def test_text_produces_only_allowed_elements(text: str) -> None:
    for html in (rich_text(text), block(text)):
        assert (
            re.search(
                r"<(?!/?(?:p|br|hr|em|strong|s|del|code|pre|span|blockquote|ul|ol|li|h[3-6]|table|thead|tbody|tr|th|td|a)\b)",
                html,
            )
            is None
        )
        assert re.search(r"\son\w+=|style=|src=", re.sub(r">[^<]*<", "><", f">{html}<")) is None
