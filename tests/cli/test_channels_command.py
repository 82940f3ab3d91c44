"""`midturn channels` and `midturn people`."""

from __future__ import annotations

import pytest

from support.cli import CommandLine
from support.hooks import until

PHONE = """
[people.ana]
[channels.phone]
kind = "slack"
token_env = "PHONE_TOKEN"
app_token_env = "PHONE_APP_TOKEN"
people = ["ana"]
asks = ["run", "tool"]
"""


def test_what_is_configured_is_listed(midturn: CommandLine) -> None:
    midturn.configure(PHONE)

    assert midturn.ok("channels", "ls").stdout == "phone  slack  ana\n"
    assert midturn.ok("channels", "ls", "--json").json == [
        {"name": "phone", "kind": "slack", "asks": ["run", "tool"], "people": ["ana"], "rooms": []}
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[channels.phone]\nkind = "pigeon"\n', "no channel `pigeon`"),
        (PHONE, "the environment has no PHONE_TOKEN, which `token_env` names"),
        ('[channels.phone]\nkind = "slack"\ntoken_file = "/nowhere"\n', "/nowhere, which `token_file` names, cannot be read"),
        ('[channels.phone]\nkind = "slack"\npaper = "A4"\n', "unexpected keyword argument 'paper'"),
        ('[channels.phone]\ntoken_env = "X"\n', "`kind` is missing"),
        ('[channels.phone]\nkind = "slack"\nasks = ["all"]\n', "`asks` has 'all'"),
        ("", "No channel is configured"),
    ],
)
def test_what_cannot_be_run_is_said(midturn: CommandLine, table: str, said: str) -> None:
    midturn.configure(table)

    refused = midturn.run("channels", "run")

    assert refused.status in (1, 2)
    assert said in refused.stderr


def test_a_token_that_others_can_read_is_not_taken(midturn: CommandLine) -> None:
    token = midturn.root / "token"
    token.write_text("xoxb-1")
    token.chmod(0o644)
    midturn.configure(f'[channels.phone]\nkind = "slack"\ntoken_file = "{token}"\n')

    assert "others can read" in midturn.run("channels", "run").stderr


def test_a_code_is_printed_and_nobody_is_paired_by_it_alone(midturn: CommandLine) -> None:
    midturn.configure(PHONE)

    code = midturn.ok("people", "pair", "ana", "slack").stdout.strip()

    assert len(code) == 8
    assert midturn.ok("people", "ls").stdout == "No account is paired.\n"
    assert "There is no person 'bo'" in midturn.run("people", "pair", "bo", "slack").stderr
    assert "No account of 'ana' is paired" in midturn.run("people", "remove", "ana").stderr


def test_a_workspace_that_is_not_trusted_opens_no_channel(midturn: CommandLine) -> None:
    (midturn.root / ".midturn").mkdir(exist_ok=True)
    (midturn.root / ".midturn" / "config.toml").write_text(PHONE)

    assert "slack" not in midturn.run("channels", "ls").stdout


NTFY = """
[channels.phone]
kind = "ntfy"
topic = "ana-questions"
server = "http://127.0.0.1:{port}"
people = ["ana"]
"""


def test_the_doctor_says_what_a_channel_lacks(midturn: CommandLine) -> None:
    pytest.importorskip("aiohttp")

    midturn.configure(PHONE)
    assert "-- channel phone  `[channels.phone]`: the environment has no PHONE_TOKEN" in _lines(midturn)

    midturn.configure(NTFY.format(port=1))
    assert "-- channel phone  ntfy cannot be reached: ClientConnectorError." in _lines(midturn)


def test_a_code_pairs_and_a_tap_answers_what_a_tool_asks(midturn: CommandLine) -> None:
    """As docs/guides/channels.md says: configure, pair, run, answer."""
    pytest.importorskip("aiohttp")
    from support.channels.phones import ThreadedPhone

    with ThreadedPhone("ntfy") as on:
        midturn.configure(NTFY.format(port=str(on.phone.options()["server"]).rpartition(":")[2]))
        assert "-- channel phone  no account is paired: `midturn people pair NAME ntfy`" in _lines(midturn)
        code = midturn.ok("people", "pair", "ana", "ntfy").stdout.strip()
        running = midturn.start("channels", "run")
        try:
            on.do(on.phone.write(code))
            until(lambda: midturn.ok("people", "ls").stdout, lambda said: said == "ana  ntfy  ana-questions\n")
            assert "ok channel phone  it is reached; 1 account paired" in _lines(midturn)
        finally:
            running.kill()
            running.communicate()


def _lines(midturn: CommandLine) -> str:
    return "\n".join(" ".join(line.split(maxsplit=1)) for line in midturn.run("doctor").stdout.splitlines() if "channel phone" in line)
