"""Commands on the results in a runs folder: list, report and remove them."""
