"""Planning: what is asked for, what the machine has, and what `auto` makes of both."""
