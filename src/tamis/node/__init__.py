"""What a node is: a pure core, the links that make its messages reliable, and the effects a driver carries out."""
