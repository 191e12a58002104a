"""The layers that the networks of the paper share."""
