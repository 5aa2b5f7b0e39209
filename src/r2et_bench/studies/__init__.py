"""What is measured on a trained model: a file with one function per study, found by the registry `STUDIES`."""
