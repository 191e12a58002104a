"""Commands on networks and checkpoints: list, adopt, inflate, export and draw them."""
