"""The output of `config show` is equivalent TOML at every terminal width."""

from __future__ import annotations

import tomllib

from hypothesis import given, strategies as st

from midturn.cli.config import assignment, toml

TEXTS = st.text(st.sampled_from('ab "\\\n\té'), max_size=60)
VALUES = st.one_of(
    TEXTS, st.lists(st.one_of(TEXTS, st.integers(), st.booleans()), max_size=6), st.integers()
)


@given(VALUES, st.integers(8, 60) | st.none())
def test_wrapped_toml_is_equivalent(
    value: str | list[str | int | bool] | int, width: int | None
) -> None:
    rows = assignment("a.b", toml(value), width)

    assert tomllib.loads("\n".join(rows))["a"]["b"] == value
    assert width is not None or len(rows) == 1


def test_texts_wrap_between_words_and_lists_between_items() -> None:
    assert assignment("prompt", toml("Use the tools to look before you answer."), 24) == [
        'prompt = """\\',
        "  Use the tools to \\",
        "  look before you \\",
        '  answer."""',
    ]
    assert assignment("urls", toml(["ntfy://example.org", "tgram://1"]), 24) == [
        "urls = [",
        '  "ntfy://example.org",',
        '  "tgram://1",',
        "]",
    ]
    assert assignment("urls", toml(["a", "b"]), 24) == ['urls = ["a", "b"]']
