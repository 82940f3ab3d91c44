"""The question layer for AI agents (spec 8b). Every public name is loaded on first use."""
