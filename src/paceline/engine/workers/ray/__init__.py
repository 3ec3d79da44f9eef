"""Workers in Ray actors, on this machine or on all machines of a cluster."""
