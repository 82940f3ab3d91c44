"""Engines that wake workers: for people who run one already. The log of events stays the truth; an engine only says when to look."""
