"""Markdown on a terminal, row by row as it is written, so that nothing is ever drawn twice."""
