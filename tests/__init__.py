"""The tests of gatescore."""
