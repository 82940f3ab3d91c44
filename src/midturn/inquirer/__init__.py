"""The question layer without our loop, for people who have one."""
