from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given, strategies as st

from midturn.question.json_value import SecretValue
from midturn.tools.decoded_text import views
from midturn.tools.returned import REDACTED, scrub

SECRET = "p\"ä/ss+w & or'd?\\n=1"


def scrubbed(text: str, *secrets: str) -> str:
    return scrub(text, [SecretValue(secret) for secret in secrets])


@pytest.mark.parametrize(
    "echo",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        html.escape(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower().replace("%c3%a4", "%c3%a4"),
        urlencode({"k": SECRET})[2:],
        shlex.quote(SECRET)[1:-1],
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        SECRET.encode().hex(":"),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_every_encoding_of_a_secret_is_replaced(echo: str) -> None:
    before, _, after = scrubbed(f"before {echo} after", SECRET).partition(REDACTED)

    assert (before, after.lstrip("=")) == ("before ", " after")


@pytest.mark.parametrize("prefix", ["", "a", "ab", "user:", "user:x"])
@pytest.mark.parametrize("suffix", ["", "z", "zz", "zzz"])
def test_base64_is_found_at_every_alignment(prefix: str, suffix: str) -> None:
    """`Authorization: Basic` has a user name before the password."""
    encoded = base64.b64encode(f"{prefix}correct-horse{suffix}".encode()).decode()

    before, _, after = scrubbed(f"Basic {encoded}", "correct-horse").partition(REDACTED)

    assert len(before.removeprefix("Basic ")) <= len(prefix) * 4 // 3
    assert len(after.rstrip("=")) <= -(-len(suffix) * 4 // 3)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n    ", "\\n"])
def test_a_secret_wrapped_over_lines_is_replaced(newline: str) -> None:
    secret = "correct-horse-battery-staple"
    wrapped = newline.join(secret[at : at + 10] for at in range(0, len(secret), 10))
    encoded = base64.b64encode(secret.encode()).decode()
    wrapped_encoded = newline.join(encoded[at : at + 16] for at in range(0, len(encoded), 16))

    assert scrubbed(f"a {wrapped} b\n", secret) == f"a {REDACTED} b\n"
    assert scrubbed(f"a {wrapped_encoded} b\n", secret).startswith(f"a {REDACTED}")


def test_a_short_secret_is_replaced_only_as_a_whole_word() -> None:
    assert scrubbed("pin 42, 142, x42; 42!", "42") == f"pin {REDACTED}, 142, x42; {REDACTED}!"


def test_overlapping_secrets_are_replaced_completely() -> None:
    assert scrubbed("xabcdefx", "abcd", "cdef") == f"x{REDACTED}x"
    assert scrubbed("aaaaaaa", "aaaa") == REDACTED


def test_text_without_secrets_is_unchanged() -> None:
    assert scrubbed("nothing here\n", "correct-horse") == "nothing here\n"
    assert scrubbed("nothing here", "") == "nothing here"
    assert scrubbed("nothing here") == "nothing here"


def go_json(text: str) -> str:
    """Write JSON like Go, which escapes the special characters of HTML."""
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return (
        written.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
    )


def rails_json(text: str) -> str:
    """Write JSON like Rails."""
    return go_json(text)


def net_json(text: str) -> str:
    """Write JSON like System.Text.Json of .NET, with more escapes, in capitals."""
    codes = dict.fromkeys("\"'<>&+`", "")
    return "".join(
        f"\\u{ord(char):04X}"
        if char in codes
        else json.dumps(char)[1:-1].upper().replace("\\U", "\\u")
        if not char.isascii()
        else json.dumps(char)[1:-1]
        for char in text
    )


def json_escaped(text: str, *, upper: bool = False) -> str:
    """Write every character as a JSON escape."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [f"{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2)]
    return "".join(f"\\u{code.upper() if upper else code}" for code in codes)


def percent(text: str, *, upper: bool = True) -> str:
    """Write every byte as a percent escape."""
    return "".join(
        f"%{byte:02X}" if upper else f"%{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )


def wrapped(text: str, width: int, newline: str) -> str:
    """Wrap a text in lines of `width` characters."""
    return newline.join(text[at : at + width] for at in range(0, len(text), width))


ENCODERS: dict[str, Callable[[str], str]] = {
    "Go": go_json,
    ".NET": net_json,
    "Go in Go": lambda text: go_json(go_json(text)),
    "JSON in .NET": lambda text: net_json(json.dumps(text)[1:-1]),
    "PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "all codes": json_escaped,
    "all codes in capitals": lambda text: json_escaped(text, upper=True),
    "all codes in JSON": lambda text: json.dumps(json_escaped(text))[1:-1],
    "all percent": percent,
    "all percent in small letters": lambda text: percent(text, upper=False),
    "percent twice": lambda text: quote(percent(text), safe=""),
    "percent in Go": lambda text: go_json(quote(text)),
    "HTML": html.escape,
    "HTML in Go": lambda text: go_json(html.escape(text)),
    "decimal entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "hexadecimal entities": lambda text: "".join(f"&#x{ord(char):04X};" for char in text),
    "base64 in lines": lambda text: wrapped(
        base64.b64encode(b"user:" + text.encode("utf-8", "surrogatepass") * 5).decode(), 76, "\n"
    ),
    "base64 in lines of mail": lambda text: wrapped(
        base64.b64encode(b"us" + text.encode("utf-8", "surrogatepass") * 5).decode(), 76, "\r\n"
    ),
    "base64 in lines in JSON": lambda text: json.dumps(
        base64.encodebytes(text.encode("utf-8", "surrogatepass") * 9).decode()
    )[1:-1],
    "base64 for URLs in lines": lambda text: wrapped(
        base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass") * 5).decode(), 64, "\n  "
    ),
    "base64 in a URL": lambda text: quote(
        base64.b64encode(text.encode("utf-8", "surrogatepass")).decode(), safe=""
    ),
    "base64 in PHP": lambda text: (
        base64.b64encode(text.encode("utf-8", "surrogatepass")).decode().replace("/", "\\/")
    ),
    "hex in lines": lambda text: wrapped(text.encode("utf-8", "surrogatepass").hex(), 16, "\n"),
    "two lines": lambda text: f"{text[:3]}\n{text[3:]}",
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize(
    "secret",
    [
        SECRET,
        "p/W<o&r>d'\"é$x\\y z1",
        "correct horse",
        "日本語のパスワード",
        "k\U0001f511ey+++==&&",
        "<>&'\"+/\\",
    ],
)
def test_secrets_written_by_other_programs_are_found(name: str, secret: str) -> None:
    left = scrubbed(f"before {ENCODERS[name](secret)} after", secret)
    assert REDACTED in left
    before, _, _ = left.partition(REDACTED)
    _, _, after = left.rpartition(REDACTED)
    assert before.startswith("before ")
    assert after.endswith(" after")
    assert (
        len(before) + len(after) <= len("before  after") + 12
    )  # the characters next to it in base64


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=6, max_size=30),
    st.sampled_from(sorted(ENCODERS)),
)
@example(secret="000 01", name="two lines")  # the break is before a blank of the secret
@example(secret="00\\001", name="two lines")  # the break is after a backslash of the secret
@example(secret="00\\ 01", name="two lines")  # both
def test_no_encoding_of_a_secret_is_left(secret: str, name: str) -> None:
    if len(secret.strip()) >= 6 and len(set(secret)) > 2:
        assert REDACTED in scrubbed(f"before {ENCODERS[name](secret)} after", secret)


@given(
    st.text("\\u0041%2&#;x\n ab", max_size=300),
    st.lists(st.text("ab\\%&u0", min_size=4, max_size=8), min_size=1, max_size=3),
)
def test_a_text_without_secrets_in_any_view_is_unchanged(text: str, secrets: list[str]) -> None:
    left = scrubbed(text, *secrets)
    if not any(secret in left or secret in text for secret in secrets) and REDACTED not in left:
        assert left == text


def test_the_cost_is_proportional_to_the_text() -> None:
    """The cost does not depend on how much of the text is escaped.

    There are few decoded views, and none is longer than the text.
    """
    for unit in (
        "\\u0041",
        "%41",
        "&#65;",
        "\\\\\\\\u0041",
        "%2541",
        "&amp;lt;",
        "plain text ",
        "\n",
        "\\n",
        "\\",
    ):
        text = unit * 5_000
        found = views(text)
        assert len(found) <= 11
        assert all(len(view.text) <= len(text) for view in found)
        assert all(
            0 <= start < end <= len(text)
            for view in found
            if view.text
            for start, end in [view.span(0, len(view.text))]
        )


@given(st.text(min_size=4, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_secret_is_left_at_any_position(secret: str, before: str, after: str) -> None:
    if secret.strip():
        left = scrubbed(before + secret + after, secret).replace(
            REDACTED, "\0" if "\0" not in secret else "\1"
        )

        assert secret not in left


@given(
    st.text(st.characters(codec="utf-8"), min_size=4, max_size=30),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_no_base64_of_a_secret_is_left(secret: str, before: int, after: int) -> None:
    """With any text around it, the remaining characters decode to less than the secret."""
    if len(secret.strip()) >= 4:
        encoded = base64.b64encode(b"x" * before + secret.encode() + b"y" * after).decode()
        left = scrubbed(encoded, secret)

        for run in re.findall(r"[A-Za-z0-9+/]+", left.replace(REDACTED, " ")):
            for cut in range(4):
                read = run[cut : len(run) - (len(run) - cut) % 4]
                assert secret.encode() not in base64.b64decode(read)
