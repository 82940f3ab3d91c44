"""The units, images and manifests in share/midturn/deploy are valid, and their commands exist
with these options.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from midturn.cli.main import midturn
from operations.deploy_files import DEPLOY, DeployedCommand, commands, units

COMMANDS = list(commands())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.place)
def test_every_command_is_accepted_with_its_options(command: DeployedCommand) -> None:
    parent = click.Context(midturn, info_name="midturn")
    group: click.Command = midturn
    arguments = list(command.arguments)
    while (
        isinstance(group, click.Group)
        and arguments
        and (found := group.get_command(parent, arguments[0])) is not None
    ):
        group, parent = found, click.Context(found, info_name=arguments.pop(0), parent=parent)
    assert group is not midturn, command.place

    group.make_parser(parent).parse_args(arguments)  # an unknown option is a usage error


def test_all_places_have_commands() -> None:
    places = {command.place.partition(":")[0].partition("/")[0] for command in COMMANDS}

    assert places == {"systemd", "Containerfile", "compose.yaml", "kubernetes.yaml"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", units())
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    program = shutil.which("true")
    assert program
    unit = tmp_path / name.replace("@.", "@1.")
    unit.write_text(text.replace("/srv/midturn/.venv/bin/midturn", program), encoding="utf-8")
    (tmp_path / name).write_text(unit.read_text(encoding="utf-8"), encoding="utf-8")

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )

    about_it = [
        line
        for line in verified.stderr.splitlines()
        if name.partition(".")[0].partition("@")[0] in line
    ]
    assert (verified.returncode, about_it) == (0, []), verified.stderr


def test_units_treat_the_exit_of_a_stopped_worker_as_success() -> None:
    assert {unit["Service"]["SuccessExitStatus"] for unit in units().values()} == {"143"}


def test_kubernetes_accepts_the_manifests() -> None:
    validated = subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", str(DEPLOY / "kubernetes.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert validated.returncode == 0, validated.stdout + validated.stderr
    assert (validated.stdout + validated.stderr).count(" passed ") == 4


def test_selectors_match_the_labels_of_their_pods() -> None:
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
    pods = [
        m["spec"]["template"]["metadata"]["labels"] for m in manifests if "template" in m["spec"]
    ]
    selectors = [
        m["spec"]["selector"].get("matchLabels", m["spec"]["selector"])
        for m in manifests
        if "selector" in m["spec"]
    ]

    assert all(selector in pods for selector in selectors)
    assert len(selectors) == 3


def test_compose_waits_for_the_database_and_the_upgrade() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    needs = {
        name: {on: how["condition"] for on, how in s.get("depends_on", {}).items()}
        for name, s in compose["services"].items()
    }

    assert needs == {
        "database": {},
        "upgrade": {"database": "service_healthy"},
        "worker": {"upgrade": "service_completed_successfully"},
        "page": {"upgrade": "service_completed_successfully"},
    }
    assert all(port.startswith("127.0.0.1:") for port in compose["services"]["page"]["ports"])
