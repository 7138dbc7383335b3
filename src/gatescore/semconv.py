"""Span names and attribute keys; events to attributes and back."""
