"""The library's front door for people who build agents."""
