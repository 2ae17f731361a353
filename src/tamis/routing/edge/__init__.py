"""The edge of a broker: what clients may say, and how much may wait for them."""
