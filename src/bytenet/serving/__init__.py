"""An HTTP service over models, and its page."""
