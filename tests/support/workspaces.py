"""A user with a home and a workspace on disk, whose configuration tests load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from midturn.config.approvals import Approvals
from midturn.config.assign import Assignment
from midturn.config.load import Loaded, LoadRequest, load
from midturn.config.settings import Toggle
from midturn.question.json_value import Json


class Workspace:
    """Writes configuration files and loads them. Nothing outside `directory` is read or written."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "work"
        self.file = self.root / ".midturn" / "config.toml"
        self.user_file = directory / "home" / "config.toml"
        self.state = directory / "state"
        self.file.parent.mkdir(parents=True)
        self.user_file.parent.mkdir()

    def user(self, text: str) -> None:
        """Write the user's configuration."""
        self.user_file.write_text(text)

    def workspace(self, text: str) -> None:
        """Write the workspace's configuration."""
        self.file.write_text(text)

    def extra(self, name: str, text: str) -> Path:
        """Write a file in `config.d`."""
        file = self.file.parent / "config.d" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def load(
        self,
        *cfg: str,
        environment: Mapping[str, str] | None = None,
        flags: Sequence[Assignment] = (),
        toggles: Sequence[Toggle] = (),
        recorded: Sequence[Json] = (),
    ) -> Loaded:
        """Load the configuration with these `--cfg` arguments, variables, flags and recorded
        changes.
        """
        return load(
            LoadRequest(
                cwd=self.root,
                root=self.root,
                environment=environment or {},
                cfg=cfg,
                flags=flags,
                toggles=toggles,
                recorded=recorded,
                user_file=self.user_file,
                state=self.state,
            )
        )

    @property
    def approvals(self) -> Approvals:
        """The approvals of this user."""
        return Approvals.of(self.state, {})

    def trust(self) -> None:
        """Approve every file as it is."""
        for file in self.load().files:
            self.approvals.approve(file.subject)
