"""Which public APIs a test really calls, how often, and whether gradients flowed through them."""
