"""Transport: values to bytes and back, packets between processes, memory that processes share."""
