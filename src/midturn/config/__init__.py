"""Configuration: layers of files, environment and flags, resolved into frozen settings."""
