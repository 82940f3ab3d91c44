"""Tools: Python functions, local commands and built-in tools, with one interface."""
