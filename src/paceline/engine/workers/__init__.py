"""Workers: the places where members live. Every backend has the name of its module."""
