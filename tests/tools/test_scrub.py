from __future__ import annotations

import base64
import html
import json
import re
import shlex
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given, strategies as st

from midturn.tools.returned import REDACTED, scrub
from midturn.values.json_value import SecretValue

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
def test_every_form_of_a_secret_is_replaced(echo: str) -> None:
    before, _, after = scrubbed(f"before {echo} after", SECRET).partition(REDACTED)

    assert (before, after.lstrip("=")) == ("before ", " after")


@pytest.mark.parametrize("prefix", ["", "a", "ab", "user:", "user:x"])
@pytest.mark.parametrize("suffix", ["", "z", "zz", "zzz"])
def test_base64_is_found_at_every_alignment(prefix: str, suffix: str) -> None:
    """`Authorization: Basic` has a user's name before the password."""
    encoded = base64.b64encode(f"{prefix}correct-horse{suffix}".encode()).decode()

    before, _, after = scrubbed(f"Basic {encoded}", "correct-horse").partition(REDACTED)

    assert len(before.removeprefix("Basic ")) <= len(prefix) * 4 // 3
    assert len(after.rstrip("=")) <= -(-len(suffix) * 4 // 3)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n    ", "\\n"])
def test_a_secret_that_is_broken_over_lines_is_replaced(newline: str) -> None:
    secret = "correct-horse-battery-staple"
    wrapped = newline.join(secret[at : at + 10] for at in range(0, len(secret), 10))
    encoded = base64.b64encode(secret.encode()).decode()
    wrapped_encoded = newline.join(encoded[at : at + 16] for at in range(0, len(encoded), 16))

    assert scrubbed(f"a {wrapped} b\n", secret) == f"a {REDACTED} b\n"
    assert scrubbed(f"a {wrapped_encoded} b\n", secret).startswith(f"a {REDACTED}")


def test_a_short_secret_is_replaced_only_where_it_stands_alone() -> None:
    assert scrubbed("pin 42, 142, x42; 42!", "42") == f"pin {REDACTED}, 142, x42; {REDACTED}!"


def test_overlapping_secrets_leave_no_rest() -> None:
    assert scrubbed("xabcdefx", "abcd", "cdef") == f"x{REDACTED}x"
    assert scrubbed("aaaaaaa", "aaaa") == REDACTED


def test_text_without_secrets_is_returned_as_it_is() -> None:
    assert scrubbed("nothing here\n", "correct-horse") == "nothing here\n"
    assert scrubbed("nothing here", "") == "nothing here"
    assert scrubbed("nothing here") == "nothing here"


@given(st.text(min_size=4, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_secret_survives_anywhere(secret: str, before: str, after: str) -> None:
    if secret.strip():
        left = scrubbed(before + secret + after, secret).replace(REDACTED, "\0" if "\0" not in secret else "\1")

        assert secret not in left


@given(st.text(st.characters(codec="utf-8"), min_size=4, max_size=30), st.integers(0, 5), st.integers(0, 5))
def test_no_base64_of_a_secret_survives(secret: str, before: int, after: int) -> None:
    """Whatever stands beside it, what is left decodes to less than the secret."""
    if len(secret.strip()) >= 4:
        encoded = base64.b64encode(b"x" * before + secret.encode() + b"y" * after).decode()
        left = scrubbed(encoded, secret)

        for run in re.findall(r"[A-Za-z0-9+/]+", left.replace(REDACTED, " ")):
            for cut in range(4):
                read = run[cut : len(run) - (len(run) - cut) % 4]
                assert secret.encode() not in base64.b64decode(read)
