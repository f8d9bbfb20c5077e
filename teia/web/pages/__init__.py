"""One module per page: the record it shows, how that is made, and where it is found. `add_to` registers them."""
