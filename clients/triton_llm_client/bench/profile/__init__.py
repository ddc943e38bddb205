"""Where a token's time goes: the engine's own parts, what the server takes from it, and the way to the client."""
