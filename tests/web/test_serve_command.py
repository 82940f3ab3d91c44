"""`midturn serve` as a process: address, codes, shutdown, and refused settings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import httpx2
import pytest

from midturn.extras import install_command
from midturn.question.question import Question
from midturn.stores.opening import FileStore
from support.pages import OWN, agent_with, asking, wait_for
from support.serving import enter, free_port, loopback_request

MIDTURN = [sys.executable, "-m", "midturn"]


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """An environment without the settings of the real user."""
    homes = {
        name: str(tmp_path / name)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    return {"PATH": os.environ["PATH"], **homes}


@pytest.fixture
def port() -> int:
    """A free port."""
    return free_port()


@pytest.fixture
def server(
    tmp_path: Path, environment: Mapping[str, str], port: int
) -> Generator[subprocess.Popen[str]]:
    """Serve a store in a separate process."""
    command = [
        *MIDTURN,
        "serve",
        "--store",
        str(tmp_path / "conversations"),
        "--port",
        str(port),
        "--user",
        "ada",
    ]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_printed_address_works_once_and_another_code_is_available(
    server: subprocess.Popen[str], environment: Mapping[str, str], port: int, tmp_path: Path
) -> None:
    waiting = wait_for(
        agent_with(FileStore(tmp_path / "conversations"), asking(Question.boolean("q", "Deploy?")))
    )
    assert server.stdout
    address = server.stdout.readline().strip()
    assert re.fullmatch(
        rf"http://[a-z]{{16}}\.localhost:{port}/enter\?code=[A-Z2-9]{{4}}(-[A-Z2-9]{{4}}){{3}}",
        address,
    )
    entrance, host = loopback_request(address)
    with httpx2.Client(headers=OWN | host, timeout=120) as browser:
        assert browser.get(f"http://127.0.0.1:{port}/").status_code == 401
        assert enter(browser, entrance).status_code == 303
        assert "Deploy?" in browser.get(f"http://127.0.0.1:{port}/").text
        assert (
            browser.post(
                f"http://127.0.0.1:{port}/q/{waiting.id}", data={"answer": "no"}
            ).status_code
            == 303
        )
        assert "ada (web) answered" in browser.get(f"http://127.0.0.1:{port}/q/{waiting.id}").text
    code = subprocess.run(
        [*MIDTURN, "serve", "code"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.strip()
    with httpx2.Client(headers=host, timeout=120) as telephone:
        assert enter(telephone, entrance).status_code == 401
        assert enter(telephone, loopback_request(code)[0]).status_code == 303
    server.send_signal(signal.SIGINT)
    printed, errors = server.communicate(timeout=120)
    assert server.returncode == 0, errors
    assert "code=" not in printed + errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "others on the network could read questions"),
        (["--host", "192.0.2.7"], "--behind-proxy"),
        (["--user-header", "X-User"], "`--user-header` requires `--behind-proxy`."),
        (
            ["--host", "0.0.0.0", "--behind-proxy"],
            "stands for all addresses of this machine. Set the URL of the page with `--url`.",
        ),
        (
            ["--url", "questions.example.org"],
            "Expected a complete URL",
        ),
    ],
)
def test_unsafe_settings_are_refused_with_a_hint(
    tmp_path: Path, environment: Mapping[str, str], arguments: list[str], said: str
) -> None:
    command = [*MIDTURN, "serve", "--store", str(tmp_path), *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_missing_extra_is_named(tmp_path: Path, environment: Mapping[str, str]) -> None:
    missing = tmp_path / "missing" / "starlette.py"
    missing.parent.mkdir()
    missing.write_text("raise ModuleNotFoundError('No module named starlette', name='starlette')")
    without = {**environment, "PYTHONPATH": str(missing.parent)}
    for command in (["serve"], ["serve", "code"]):
        run = subprocess.run(
            [*MIDTURN, *command],
            env=without,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (run.returncode, run.stdout) == (2, "")
        said = (
            "The web page needs the package 'starlette', which is not installed. Install the extra"
            f" `web`: {install_command('web')}"
        )
        assert run.stderr == f"midturn: {said}\n"
