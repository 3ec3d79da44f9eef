"""Host: holds members where they live, and runs their calls."""
