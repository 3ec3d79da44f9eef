"""Randomness: whose random numbers a process-wide generator gives."""
