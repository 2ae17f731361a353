"""What demonstrations, guides and comparisons run on: bundled data sets and questions about them.

`datasets` reads the tables below ``tamis/data``; `comparison` sends the same subscriptions and events through a
simulated network once per link policy. No other package of the product needs this one to match, route or serve.
"""
