"""Commands on videos: check, predict, embed, evaluate and measure them."""
