"""The built-in worlds that are played in words."""
