"""Adapters: what other packages make, in the shapes that we expect."""
