"""Events to the two streams of a session."""
