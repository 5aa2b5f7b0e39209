"""What is measured on a trained model: a file with one function a study, found by the registry `STUDIES`."""
