"""Prompts that answer to single keys and redraw their last rows: presenters, key in, rows out (spec 5.3, 5.4)."""
