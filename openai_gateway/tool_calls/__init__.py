"""How models write calls of tools: one form a file."""
