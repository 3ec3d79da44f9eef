"""RAGEN's names, written by hand for tests: two environments in its registries, its manager, context and proxy."""
