"""Journal: what a member has been asked, to build it again and to see that it is the same."""
