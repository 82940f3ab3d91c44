"""Prompts that answer to single keys and redraw their last rows: presenters, key in, rows out."""
