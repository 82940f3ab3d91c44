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


def test_configured_channels_are_listed(midturn: CommandLine) -> None:
    midturn.configure(PHONE)

    assert midturn.ok("channels", "ls").stdout == "phone  slack  ana\n"
    assert midturn.ok("channels", "ls", "--json").json == [
        {"name": "phone", "kind": "slack", "asks": ["run", "tool"], "people": ["ana"], "rooms": []}
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[channels.phone]\nkind = "pigeon"\n', "no channel `pigeon`"),
        (PHONE, "the environment variable PHONE_TOKEN, named by `token_env`, is not set"),
        (
            '[channels.phone]\nkind = "slack"\ntoken_file = "/nowhere"\n',
            "/nowhere, named by `token_file`, cannot be read",
        ),
        ('[channels.phone]\nkind = "slack"\npaper = "A4"\n', "unexpected keyword argument 'paper'"),
        ('[channels.phone]\ntoken_env = "X"\n', "`kind` is missing"),
        ('[channels.phone]\nkind = "slack"\nasks = ["all"]\n', "unknown kind 'all' in `asks`"),
        ("", "No channel is configured"),
    ],
)
def test_unusable_channel_is_reported(midturn: CommandLine, table: str, said: str) -> None:
    midturn.configure(table)

    refused = midturn.run("channels", "run")

    assert refused.status in (1, 2)
    assert said in refused.stderr


def test_token_file_readable_by_others_is_refused(midturn: CommandLine) -> None:
    token = midturn.root / "token"
    token.write_text("xoxb-1")
    token.chmod(0o644)
    midturn.configure(f'[channels.phone]\nkind = "slack"\ntoken_file = "{token}"\n')

    assert "other users can read" in midturn.run("channels", "run").stderr


def test_printing_a_code_pairs_no_one(midturn: CommandLine) -> None:
    midturn.configure(PHONE)

    code = midturn.ok("people", "pair", "ana", "slack").stdout.strip()

    assert len(code) == 8
    assert midturn.ok("people", "ls").stdout == "There are no paired accounts.\n"
    assert (
        "No person is named 'bo' in the configuration."
        in midturn.run("people", "pair", "bo", "slack").stderr
    )
    assert "No account of 'ana' is paired" in midturn.run("people", "remove", "ana").stderr


def test_untrusted_workspace_opens_no_channel(midturn: CommandLine) -> None:
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


def test_doctor_reports_missing_parts_of_a_channel(midturn: CommandLine) -> None:
    pytest.importorskip("aiohttp")

    midturn.configure(PHONE)
    assert "-- channel phone  `[channels.phone]`: the environment variable PHONE_TOKEN" in _lines(
        midturn
    )

    midturn.configure(NTFY.format(port=1))
    assert "-- channel phone  ntfy cannot be reached: ClientConnectorError." in _lines(midturn)


def test_code_pairs_an_account_and_a_button_answers(midturn: CommandLine) -> None:
    """Follows docs/channels/index.md: configure, pair, run, answer."""
    pytest.importorskip("aiohttp")
    from support.channels.phones import ThreadedPhone

    with ThreadedPhone("ntfy") as on:
        midturn.configure(NTFY.format(port=str(on.phone.options()["server"]).rpartition(":")[2]))
        assert (
            "-- channel phone  no account is paired; to pair one: `midturn people pair NAME ntfy`"
            in _lines(midturn)
        )
        code = midturn.ok("people", "pair", "ana", "ntfy").stdout.strip()
        running = midturn.start("channels", "run")
        try:
            on.do(on.phone.write(code))
            until(
                lambda: midturn.ok("people", "ls").stdout,
                lambda said: said == "ana  ntfy  ana-questions\n",
            )
            assert "ok channel phone  reachable; 1 account paired" in _lines(midturn)
        finally:
            running.kill()
            running.communicate()


def _lines(midturn: CommandLine) -> str:
    return "\n".join(
        " ".join(line.split(maxsplit=1))
        for line in midturn.run("doctor").stdout.splitlines()
        if "channel phone" in line
    )
