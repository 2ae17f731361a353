"""Who a bearer of a JSON Web Token is: the keys of an issuer, and what its claims allow.

Start with `jwt_tokens`. `key_set` holds the public keys of a file or an address. A broker without ``[auth.jwt]`` in its
configuration imports neither. Tokens that a broker makes itself are in `tamis.runtime.broker.tokens`.
"""
