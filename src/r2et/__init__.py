"""Explanations that stay put: measure, attack and train for stable top-k salient features."""
