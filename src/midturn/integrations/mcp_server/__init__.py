"""MCP server (`midturn mcp`): any MCP client can ask the user questions through midturn."""
