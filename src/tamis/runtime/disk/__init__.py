"""How a broker's file lives on its disk: how much room there is (`room`), and what is deleted when (`retention`)."""
