"""Pool: what a caller holds."""
