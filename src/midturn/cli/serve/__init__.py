"""`midturn serve`: the open questions on a web page."""
