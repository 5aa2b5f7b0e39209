"""Tests, one file a module, in the tree of src/r2et."""

import torch

# the tensors here are tiny: a second thread only spins, and slows workers of a parallel run down fifty times
torch.set_num_threads(1)
