"""The guard: the one place that keeps a denied tool from being entered."""
