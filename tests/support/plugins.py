"""Creates installed packages that extend midturn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    place: Path, package: str, entry_points: Mapping[str, Mapping[str, str]], code: str = ""
) -> Path:
    """Install version 1.0 of a package whose module has the same name. Return the directory to
    add to the path.
    """
    place.mkdir(parents=True, exist_ok=True)
    metadata = place / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = [
        f"[midturn.{group}]\n" + "".join(f"{name} = {home}\n" for name, home in homes.items())
        for group, homes in entry_points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    (place / f"{package}.py").write_text(code)
    return place
