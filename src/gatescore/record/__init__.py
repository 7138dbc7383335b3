"""The record of what a guard saw and did: events, and the spans that carry them."""
