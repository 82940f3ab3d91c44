"""The files of share/midturn/deploy, and the midturn commands that they contain."""

from __future__ import annotations

import configparser
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "share" / "midturn" / "deploy"
ENVIRONMENT = {
    line.partition("=")[0]: line.partition("=")[2]
    for line in (DEPLOY / "midturn.env.example").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
}


@dataclass(frozen=True)
class DeployedCommand:
    """Arguments of a midturn command, and the file that contains it."""

    place: str
    arguments: tuple[str, ...]


def units() -> dict[str, configparser.RawConfigParser]:
    """Return the systemd units by file name."""
    found: dict[str, configparser.RawConfigParser] = {}
    for path in sorted((DEPLOY / "systemd").iterdir()):
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  systemd's keys have capitals
        unit.read_string(path.read_text(encoding="utf-8"))
        found[path.name] = unit
    return found


def commands() -> Iterator[DeployedCommand]:
    """Yield every midturn command of the units, the Containerfile, the Compose file and the
    Kubernetes manifests.
    """
    for name, unit in units().items():
        line = unit["Service"]["ExecStart"].replace("%i", "1")
        for key, value in ENVIRONMENT.items():
            line = line.replace(f"${{{key}}}", value)
        yield DeployedCommand(f"systemd/{name}", tuple(shlex.split(line)[1:]))
    for line in (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines():
        if line.startswith("CMD "):
            yield DeployedCommand("Containerfile", tuple(yaml.safe_load(line.removeprefix("CMD "))))
    for name, service in yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))[
        "services"
    ].items():
        if "command" in service:
            yield DeployedCommand(f"compose.yaml: {name}", tuple(service["command"]))
    for manifest in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")):
        for container in _containers(manifest):
            yield DeployedCommand(
                f"kubernetes.yaml: {manifest['metadata']['name']}", tuple(container["args"])
            )


def _containers(
    manifest: Mapping[str, dict[str, dict[str, dict[str, list[dict[str, list[str]]]]]]],
) -> list[dict[str, list[str]]]:
    return (
        manifest["spec"]["template"]["spec"]["containers"] if "template" in manifest["spec"] else []
    )
