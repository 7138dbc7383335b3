"""What users need to test their guarded tools without a model."""
