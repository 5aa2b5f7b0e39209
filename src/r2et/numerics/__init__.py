"""The floor that all stands on: derivatives, evaluation mode, one look at a model, checks of what comes in."""
