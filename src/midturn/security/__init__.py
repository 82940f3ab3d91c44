"""Sandboxes for tool processes, detection of tool and agent processes, and private files."""
