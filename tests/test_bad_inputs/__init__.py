"""Bad input of every kind ends with a sentence: one table of (input, expected error, words) a file."""
