"""Policies that work out what a text world asks for, from what it shows."""
