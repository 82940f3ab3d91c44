"""Tab completion in real shells. The tests of a shell that is not installed are skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import CommandLine, asks, calls
from support.pty_session import PtySession

SHARE = Path(__file__).parents[2] / "share"
BASH = SHARE / "bash-completion" / "completions" / "midturn"
FISH = SHARE / "fish" / "vendor_completions.d" / "midturn.fish"
OFFERS = [
    ("midturn conversation s", "show"),
    ("midturn answer --rea", "--reason"),
    ("midturn tools show fs_r", "fs_read_file"),
    ("midturn config set prompt.se", "prompt.settle_ms"),
]


def waiting(midturn: CommandLine) -> tuple[str, str]:
    """Leave a question open; return a prefix of its ID and the whole ID."""
    midturn.asker()
    assert (
        midturn.run(
            "query", "-m", midturn.script(calls("deploy", ask=[asks()])), "--defer", "Ship it"
        ).status
        == 3
    )
    id = midturn.ok("inbox", "--json").json[0]["id"]
    return f"midturn answer {id[:9]}", id


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None,
        reason=f"needs {shell}: install it (`apt-get install {shell}`) to run this",
    )


@needs("fish")
def test_fish_completes_commands_options_tools_and_keys_with_descriptions(
    midturn: CommandLine,
) -> None:
    offers = [*OFFERS, waiting(midturn)]
    asked = "\n".join(f'complete -C "{typed}"' for typed, _ in offers)
    path = f"{Path(sys.executable).parent}:{midturn.environment['PATH']}"
    finished = subprocess.run(
        ["fish", "--no-config", "-c", f"source {FISH}\n{asked}"],
        capture_output=True,
        text=True,
        cwd=midturn.root,
        env={**midturn.environment, "PATH": path},
        timeout=120,
        check=True,
    )

    rows = [row.split("\t", 1) for row in finished.stdout.splitlines()]
    offered = {row[0]: row[-1] for row in rows}
    assert {value for _, value in offers} <= set(offered)
    assert offered[offers[-1][1]] == "deploy: Deploy to staging?"
    assert offered["show"].startswith("Show a conversation")
    assert (
        offered["prompt.settle_ms"]
        == "milliseconds for which a new prompt ignores keys, so that keys typed fo…"
    )
    assert finished.stderr == ""


ZSHRC = f"""
fpath=({SHARE / "zsh" / "site-functions"} $fpath)
autoload -Uz compinit && compinit -u -D
unset zle_bracketed_paste
unsetopt prompt_sp beep
bindkey -e
PROMPT='ready> '
"""


@needs("zsh")
def test_zsh_completes_at_the_first_tab_and_at_every_other(
    midturn: CommandLine, tmp_path: Path
) -> None:
    offers = [*OFFERS, waiting(midturn)]
    (tmp_path / ".zshrc").write_text(ZSHRC)
    with midturn.on_a_terminal_run("zsh", "-i", TERM="xterm", ZDOTDIR=str(tmp_path)) as shell:
        completes(shell, offers)


@needs("bash")
def test_bash_completes_commands_options_tools_keys_and_questions(
    midturn: CommandLine, tmp_path: Path
) -> None:
    offers = [*OFFERS, waiting(midturn)]
    (tmp_path / "rc").write_text(
        f"source {BASH}\nPS1='ready> '\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style"
        " none'\n"
    )
    with midturn.on_a_terminal_run(
        "bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i", TERM="xterm"
    ) as shell:
        completes(shell, offers)


def completes(shell: PtySession, offers: list[tuple[str, str]]) -> None:
    """Type each prefix, press Tab, and check the completed word."""
    shell.wait_at("ready> ")
    for typed, offered in offers:
        shell.send(typed)
        shell.wait_at(f"ready> {typed}")
        shell.send("\t")
        whole = f"{typed.rpartition(' ')[0]} {offered}"
        shell.wait_until(
            lambda whole=whole: shell.rows[-1].rstrip() == f"ready> {whole}", whole, seconds=120
        )
        shell.send("\x15")
        shell.wait_at("ready> ")
        shell.wait_until(lambda: shell.rows[-1].rstrip() == "ready>", "an empty line")
    shell.send("exit\r")
    assert shell.wait_for_end() == 0


def test_the_last_part_of_an_id_is_completed_too(midturn: CommandLine) -> None:
    _, id = waiting(midturn)
    last = id.rpartition("-")[2]

    offered = midturn.ok(
        _MIDTURN_COMPLETE="zsh_complete", COMP_WORDS=f"midturn answer {last[:4]}", COMP_CWORD="2"
    ).stdout

    assert offered == f"plain\n{last}\ndeploy: Deploy to staging?\n"
