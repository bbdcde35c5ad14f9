"""Writing text with a model, one character a step at constant cost."""
