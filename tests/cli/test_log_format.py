"""`--log-format json`: servers write their log to stderr, one JSON object per line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.serving import free_port

SHOP = """
import logging
import midturn as mt

logging.getLogger("midturn.tools").error("broken\\nrule \\x1b[31m", exc_info=ValueError("no rule"))
logging.getLogger("shop").warning("from another library")
agent = mt.Agent(mt.ScriptedModel([]), store=mt.open_store("conversations"))
"""
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def _start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    homes = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    (tmp_path / "shop.py").write_text(SHOP)
    return subprocess.Popen(
        [sys.executable, "-m", "midturn", *arguments],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **homes},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _records(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def test_a_worker_logs_records_and_notices_as_json(tmp_path: Path) -> None:
    with _start(tmp_path, "worker", "shop:agent", "--log-format", "json") as worker:
        assert worker.stderr is not None
        broken, other, started = _records("".join(worker.stderr.readline() for _ in range(3)))
        worker.send_signal(signal.SIGTERM)
        _, rest = worker.communicate(timeout=120)

    assert {key: broken[key] for key in ("level", "logger", "process", "message")} == {
        "level": "error",
        "logger": "midturn.tools",
        "process": worker.pid,
        "message": "broken\nrule \x1b[31m",
    }
    assert re.fullmatch(MOMENT, broken["time"])
    assert broken["exception"] == "ValueError: no rule"
    assert (other["logger"], other["level"]) == ("shop", "warning")
    assert (started["level"], started["message"]) == (
        "info",
        "worker started (up to 16 turns at once).",
    )
    assert "exception" not in started
    assert rest == ""
    assert not (tmp_path / "midturn" / "midturn.log").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("worker", "none:agent", "--log-format", "json"),
            "No module 'none' in this directory or among the installed packages.",
        ),
        (
            ("serve", "--log-format", "json", "--user-header", "X-User"),
            "`--user-header` requires `--behind-proxy`.",
        ),
        (
            ("channels", "run", "--log-format", "json"),
            "No channel is configured. See docs/channels/index.md.",
        ),
    ],
)
def test_the_reason_for_a_failed_start_is_json(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    with _start(tmp_path, *arguments) as process:
        _, written = process.communicate(timeout=120)

    assert process.returncode == 2
    [record] = _records(written)
    assert message in record["message"]
    assert record["level"] == "error"


def test_the_page_logs_as_json(tmp_path: Path) -> None:
    with _start(tmp_path, "serve", "--log-format", "json", "--port", str(free_port())) as page:
        assert page.stderr is not None
        first = json.loads(page.stderr.readline())
        assert "midturn serve code" in first["message"]
        page.send_signal(signal.SIGTERM)
        printed, rest = page.communicate(timeout=120)

    assert first["logger"] == "midturn.notices"
    assert printed == "", "the log of a container has no sign-in code"
    assert all(record["level"] == "info" for record in _records(rest))
