"""Servers of the Model Context Protocol: their tools, and what they ask."""
