"""An MCP server over the API, so that an agent can look things up and go back by itself."""
