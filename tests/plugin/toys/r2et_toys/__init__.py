"""Three toys for r2et."""
