from pathlib import Path

import pytest

from support.workspaces import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
