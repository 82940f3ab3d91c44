"""Serves the application of the module whose file is the argument. First it prints its port."""

from __future__ import annotations

import importlib
import socket
import sys
from pathlib import Path

import uvicorn

module = Path(sys.argv[1])
sys.path.insert(0, str(module.parent))
app = importlib.import_module(module.stem).app
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)  # noqa: T201  the parent process reads it
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
