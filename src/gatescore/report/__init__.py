"""Cards and explanations for people and programs. One module for each format."""
