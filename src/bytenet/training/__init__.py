"""From a corpus to a trained model: objective, optimisers, checkpoints, the loop."""
