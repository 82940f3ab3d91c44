"""`midturn mcp`: any client of the Model Context Protocol asks the user through us."""
