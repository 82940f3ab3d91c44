"""Tools: Python functions, local commands and built-ins, behind one contract."""
