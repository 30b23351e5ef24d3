"""What the features party trains: columns made into inputs, and the paper's networks. Importing this needs no torch."""
