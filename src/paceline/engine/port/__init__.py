"""Port: a method of members bound to rows of arrays."""
