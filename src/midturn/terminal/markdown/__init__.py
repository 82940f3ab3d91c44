"""Markdown on terminals, drawn row by row while it arrives."""
