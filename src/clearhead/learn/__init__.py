"""Examples → a trained model: packed batches, the training loop, a run with its folder, and its state on
disk."""
