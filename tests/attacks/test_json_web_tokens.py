"""Attack: JSON Web Tokens that their issuer did not sign, or not for this broker, or not for now."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.requests import HTTPConnection

from tamis.errors import ModelError, RefusedError
from tamis.routing.edge.limits import MAX_TOKEN
from tamis.runtime.broker.config import AuthConfig, BrokerConfig, JwtConfig, read_config
from tamis.runtime.broker.tokens import Tokens, jti_digest
from tamis.runtime.identity import key_set
from tamis.runtime.identity.jwt_tokens import JwtTokens
from tamis.web.access import Access
from tests.attacks.callers import Guarded, guarded_broker, tokens_beside
from tests.attacks.issuer import AUDIENCE, ISSUER, MAKERS, Issuer, jwks, plain
from tests.attacks.wire import HANGS
from tests.server.processes import Answer, ask, wait_until
from tests.server.receiver import Receiver


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def config(tmp_path: Path, issuer: Issuer) -> JwtConfig:
    (tmp_path / "jwks.json").write_text(jwks(issuer))
    return JwtConfig(ISSUER, AUDIENCE, keys=str(tmp_path / "jwks.json"))


@pytest.fixture
def tokens(tmp_path: Path, config: JwtConfig) -> JwtTokens:
    return JwtTokens(config, Tokens(tmp_path / "tokens.json"))


def test_a_good_token_allows_what_its_claims_say(tokens: JwtTokens, issuer: Issuer) -> None:
    rights = tokens.rights(issuer.sign())
    assert (rights.principal, rights.namespaces) == ("jwt/alice", frozenset({"default"}))
    assert (rights.may_publish, rights.may_subscribe, rights.is_admin) == (True, True, False)
    narrow = tokens.rights(
        issuer.sign(sub="a:b%", tamis_rights="subscribe", tamis_policy="price < 100", tamis_max_subscriptions=3)
    )
    assert (narrow.principal, narrow.may_publish, narrow.policy) == ("jwt/a%3Ab%25", False, "price < 100")
    assert narrow.max_subscriptions == 3
    wide = tokens.rights(issuer.sign(tamis_namespaces="*", tamis_rights=["subscribe", "admin"]))
    assert (wide.namespaces, wide.is_admin) == (None, True)
    assert issuer.sign() not in repr(narrow)


@pytest.mark.parametrize("algorithm", MAKERS)
@pytest.mark.parametrize("is_pem", [False, True], ids=["jwks", "pem"])
def test_every_kind_of_key_is_read(tmp_path: Path, algorithm: str, is_pem: bool) -> None:
    issuer = Issuer(algorithm)
    (tmp_path / "keys").write_bytes(issuer.pem() if is_pem else jwks(issuer).encode())
    tokens = JwtTokens(JwtConfig(ISSUER, AUDIENCE, keys=str(tmp_path / "keys")), Tokens(tmp_path / "tokens.json"))
    assert tokens.rights(issuer.sign({} if is_pem else None)).principal == "jwt/alice"
    other = Issuer(algorithm)
    with pytest.raises(RefusedError, match="Signature verification failed"):
        tokens.rights(other.sign({} if is_pem else None))


def confused(issuer: Issuer) -> str:
    """A token whose HMAC has the public key as its secret: a reader that trusts ``alg`` takes it for a good one."""
    start = f"{plain({'alg': 'HS256', 'kid': issuer.kid})}.{plain(issuer.payload())}"
    mac = hmac.new(issuer.pem(), start.encode(), hashlib.sha256).digest()
    return f"{start}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def headed(issuer: Issuer, **header: Any) -> str:
    """A token with any header, whose signature is none."""
    return f"{plain(header)}.{plain(issuer.payload())}.AAAA"


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def signed(issuer: Issuer, claims: bytes) -> str:
    """A token with a good signature over claims that no library would write."""
    return jwt.api_jws.encode(claims, issuer.key, issuer.algorithm, {"kid": issuer.kid})


BAD: dict[str, tuple[Any, str]] = {
    "expired": (lambda issuer: issuer.sign(exp=time.time() - 60), "expired"),
    "no end": (lambda issuer: issuer.sign(exp=None), '"exp" claim'),
    "not yet": (lambda issuer: issuer.sign(nbf=time.time() + 600), "not yet valid"),
    "issued later": (lambda issuer: issuer.sign(iat=time.time() + 600), "not yet valid"),
    "audience": (lambda issuer: issuer.sign(aud="another"), "[Aa]udience"),
    "no audience": (lambda issuer: issuer.sign(aud=None), '"aud" claim'),
    "issuer": (lambda issuer: issuer.sign(iss="https://evil.example"), "[Ii]ssuer"),
    "no issuer": (lambda issuer: issuer.sign(iss=None), '"iss" claim'),
    "no subject": (lambda issuer: issuer.sign(sub=None), '"sub" claim'),
    "alg none": (lambda issuer: headed(issuer, alg="none"), "unsigned tokens are not accepted"),
    "no algorithm": (lambda issuer: headed(issuer, kid=issuer.kid), "names no algorithm"),
    "no signature": (
        lambda issuer: f"{plain({'alg': 'none'})}.{plain(issuer.payload())}.",
        "unsigned tokens are not accepted",
    ),
    "a signature of RS256 that is empty": (
        lambda issuer: f"{plain({'alg': 'RS256', 'kid': issuer.kid})}.{plain(issuer.payload())}.",
        "unsigned tokens are not accepted",
    ),
    "detached claims": (
        lambda issuer: issuer.sign({"kid": issuer.kid, "b64": False}),
        "detached payloads are not accepted",
    ),
    "claims as they are": (lambda issuer: headed(issuer, alg="RS256", kid=issuer.kid, b64=False), "b64 in its header"),
    "key confusion": (confused, "signed by 'HS256'"),
    "another algorithm": (
        lambda issuer: f"{plain({'alg': 'ES256', 'kid': issuer.kid})}.{plain(issuer.payload())}.AAAA",
        "signed by ES256, but the key that it names is for RS256",
    ),
    "unknown key": (lambda issuer: issuer.sign({"kid": "another"}), "names no key"),
    "changed": (lambda issuer: issuer.sign()[:-6] + "AAAAAA", "Signature verification failed"),
    "no JSON": (lambda issuer: "AAAA.AAAA.AAAA", "its header is not a JSON object"),
    "a deep header": (lambda issuer: f"{encoded(b'[' * 2_900)}.AAAA.AAAA", "nested too deeply"),
    "deep claims": (lambda issuer: signed(issuer, b"[" * 2_900), "nested too deeply"),
    "claims that are a list": (lambda issuer: signed(issuer, b"[]"), "its claims are not a JSON object"),
    "nested": (lambda issuer: f"{plain(json.loads('[' * 90 + ']' * 90))}.AAAA.AAAA", "JWT"),
    "kid a list": (lambda issuer: headed(issuer, alg="RS256", kid=[]), "kid in its header is not text"),
    "an end beyond all numbers": (lambda issuer: issuer.sign(exp=10**400), "cannot be read"),
    "exp text": (lambda issuer: issuer.sign(exp="soon"), "JWT"),
    "rights unknown": (lambda issuer: issuer.sign(tamis_rights=["root"]), "'root'"),
    "no rights": (lambda issuer: issuer.sign(tamis_rights=None), "allows nothing"),
    "no namespaces": (lambda issuer: issuer.sign(tamis_namespaces=None), "allows nothing"),
    "namespaces a number": (lambda issuer: issuer.sign(tamis_namespaces=7), "not a list of words"),
    "policy no filter": (lambda issuer: issuer.sign(tamis_policy="price <"), "not a filter"),
    "too many": (lambda issuer: issuer.sign(tamis_max_subscriptions=10**9), "whole number"),
    "long subject": (lambda issuer: issuer.sign(sub="x" * 500), "subject"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_token_is_refused(tokens: JwtTokens, issuer: Issuer, kind: str) -> None:
    make, problem = BAD[kind]
    token = make(issuer)
    with pytest.raises(RefusedError, match=problem) as refused:
        tokens.rights(token)
    assert refused.value.code in (401, 403)
    assert token not in str(refused.value)


def test_a_withdrawn_key_ends_its_tokens(tokens: JwtTokens, issuer: Issuer, tmp_path: Path) -> None:
    digest = tokens.rights(issuer.sign()).digest
    assert tokens.is_live(digest)
    (tmp_path / "jwks.json").write_text("{broken")
    with pytest.raises(ModelError):
        asyncio.run(tokens.keys.look())
    assert tokens.is_live(digest)  # a slip of an editor locks no client out
    (tmp_path / "jwks.json").write_text(jwks(Issuer("ES256", kid=issuer.kid)))
    asyncio.run(tokens.keys.look())
    assert not tokens.is_live(digest)


def test_clocks_may_differ_by_the_leeway(tokens: JwtTokens, issuer: Issuer) -> None:
    assert tokens.rights(issuer.sign(exp=time.time() - 10, iat=time.time() + 10)).principal == "jwt/alice"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"algorithms": ("HS256",)}, "algorithms"),
        ({"algorithms": ("RS256", "HS256")}, "algorithms"),
        ({"algorithms": ("none",)}, "algorithms"),
        ({"algorithms": ()}, "algorithms"),
        ({"secret_file": "secret"}, "one of"),
        ({"keys": ""}, "one of"),
        ({"keys": "", "secret_file": "secret"}, "algorithms"),
        ({"keys": "", "keys_url": "http://login.example/keys"}, "https"),
        ({"keys": "", "keys_url": "file:///etc/passwd"}, "https"),
        ({"leeway": 1e9}, "leeway"),
        ({"audience": ""}, "audience"),
    ],
)
def test_a_careless_configuration_is_refused(changes: dict[str, Any], problem: str) -> None:
    config = JwtConfig(**{"issuer": ISSUER, "audience": AUDIENCE, "keys": "jwks.json", **changes})
    with pytest.raises(ModelError, match=problem):
        BrokerConfig(auth=AuthConfig(config)).check()


@pytest.mark.parametrize(
    "data",
    [
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "d": "AQAB"}]}',
        b'{"keys": []}',
        b'{"keys": {}}',
        b"[" * 100_000,
        b"\xff",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b" " * (key_set.MAX_KEY_BYTES + 1),
    ],
    ids=["secret", "private", "empty", "no list", "deep", "no text", "bad PEM", "large"],
)
def test_what_is_not_a_set_of_public_keys_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError):
        key_set.read_keys(data, ("RS256", "ES256", "EdDSA"))


def test_a_short_rsa_key_is_refused() -> None:
    with pytest.raises(ModelError, match="2,048 bits"):
        key_set.read_keys(Issuer(key=rsa.generate_private_key(65537, 1024)).pem(), ("RS256",))


class _Keys(http.server.BaseHTTPRequestHandler):
    answers: list[tuple[int, bytes]]
    requests = 0

    def do_GET(self) -> None:
        type(self).requests += 1
        status, body = self.answers[min(self.requests, len(self.answers)) - 1]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def serving(*answers: tuple[int, bytes]) -> tuple[http.server.HTTPServer, type[_Keys]]:
    handler = type("Handler", (_Keys,), {"answers": list(answers)})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, handler


def test_keys_of_an_address_are_cached_and_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Issuer("ES256", "one"), Issuer("ES256", "two")
    server, handler = serving(
        (200, jwks(first).encode()), (200, jwks(second).encode()), (302, b""), (200, b"x" * 300_000)
    )
    with server:
        config = JwtConfig(ISSUER, AUDIENCE, keys_url=f"http://127.0.0.1:{server.server_port}/keys")
        config.check()
        tokens = JwtTokens(config, Tokens(tmp_path / "tokens.json"))
        with pytest.raises(RefusedError, match="names no key"):
            tokens.rights(first.sign())
        asyncio.run(tokens.keys.look())
        for _ in range(20):
            assert tokens.rights(first.sign()).principal == "jwt/alice"
            asyncio.run(tokens.keys.look())
        assert handler.requests == 1
        with pytest.raises(RefusedError, match="names no key"):  # which asks soon, and not for each such token
            tokens.rights(second.sign())
        asyncio.run(tokens.keys.look())
        assert handler.requests == 1
        monkeypatch.setattr(key_set, "HASTE_SECONDS", -1.0)
        with pytest.raises(RefusedError, match="names no key"):
            tokens.rights(second.sign())
        asyncio.run(tokens.keys.look())
        assert tokens.rights(second.sign()).principal == "jwt/alice"
        for count in (3, 4):  # a redirection, and an answer that is too long: the keys stay
            tokens.keys.find("nothing", "ES256")
            with pytest.raises((OSError, ModelError)):
                asyncio.run(tokens.keys.look())
            assert handler.requests == count
            assert tokens.rights(second.sign()).principal == "jwt/alice"
        server.shutdown()


def test_a_request_for_keys_that_fails_is_repeated_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer = Issuer("ES256", "one")
    server, handler = serving((503, b""), (200, jwks(issuer).encode()))
    with server:
        config = JwtConfig(ISSUER, AUDIENCE, keys_url=f"http://127.0.0.1:{server.server_port}/keys")
        keys = JwtTokens(config, Tokens(tmp_path / "tokens.json")).keys
        monkeypatch.setattr(key_set, "HASTE_SECONDS", 0.0)
        with pytest.raises(ModelError, match="503"):
            asyncio.run(keys.look())
        assert keys.find(None, "ES256") is None
        for _ in range(3):
            asyncio.run(keys.look())
        assert keys.find(None, "ES256") is not None
        assert handler.requests == 2
        server.shutdown()


# A whole broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("broker")
    (directory / "jwks.json").write_text(jwks(issuer))
    table = f'[auth.jwt]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\nkeys = "jwks.json"\nleeway = 0\n'
    table += '[webhooks]\nhosts = ["localhost"]\nnetworks = ["127.0.0.0/8", "::1/128"]\nhttp = true\n'
    with guarded_broker(directory, table) as broker:
        yield broker


def ask_with(
    guarded: Guarded, token: str, path: str = "/v1/subscriptions", method: str = "GET", body: Any = None
) -> Answer:
    return ask(guarded.broker.url + path, method, body, Authorization=f"Bearer {token}")


def test_a_broker_takes_jwts_beside_its_own_tokens(guarded: Guarded, issuer: Issuer) -> None:
    guarded.add("own")
    assert guarded.ask("own", "/v1/subscriptions").status == 200
    assert ask_with(guarded, issuer.sign()).status == 200
    made = ask_with(guarded, issuer.sign(), "/v1/subscriptions", "POST", {"filter": "n > 1", "id": "mine"})
    assert (made.status, made.json["owner"]) == (201, "jwt/alice")
    assert ask_with(guarded, issuer.sign(sub="bob"), "/v1/subscriptions/mine", "DELETE").status == 403
    reader = issuer.sign(tamis_rights=["subscribe"])
    assert ask_with(guarded, reader, "/v1/events", "POST", {"n": 1}).status == 403
    cheap = issuer.sign(tamis_policy="n < 100")
    assert ask_with(guarded, cheap, "/v1/events", "POST", {"n": 500}).status == 403
    assert ask_with(guarded, issuer.sign(tamis_namespaces=["acme"]), "/v1/events", "POST", {"n": 1}).status == 403
    assert ask_with(guarded, issuer.sign(), "/v1/audit").status == 403
    assert (
        ask_with(guarded, issuer.sign(tamis_namespaces="*", tamis_rights="subscribe admin"), "/v1/audit").status == 200
    )


@pytest.mark.parametrize("token", ["x" * (MAX_TOKEN + 1), "a.b.c" * MAX_TOKEN, "....", "a.b"])
def test_odd_tokens_are_answered_401(guarded: Guarded, token: str) -> None:
    assert ask_with(guarded, token[:60_000]).status == 401


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://[", "keys_url is not an address: Invalid IPv6 URL"),
        ("http://example.com/keys", "keys_url is https://"),
    ],
)
def test_an_invalid_or_unencrypted_address_of_keys_is_refused(url: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        JwtConfig(ISSUER, AUDIENCE, keys_url=url).check()


def test_a_jwt_opens_no_link(tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "jwks.json").write_text(jwks(issuer))
    text = f'[auth.jwt]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\nkeys = "jwks.json"\n'
    (tmp_path / "broker.toml").write_text('require_tokens = true\nschema = "s"\n[[links]]\nname = "north"\n' + text)
    config = read_config(tmp_path / "broker.toml")
    access = Access(config, tokens_beside(tmp_path), {link.name: link for link in config.links})
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {issuer.sign()}".encode())]
    connection = HTTPConnection({"type": "http", "headers": headers, "http_version": "1.1", "query_string": b""})
    assert access.rights(connection).principal == "jwt/alice"
    with pytest.raises(RefusedError, match="unknown"):
        access.broker(connection, "north")


def test_a_webhook_outlives_the_jwt_that_made_it_until_that_is_revoked(guarded: Guarded, issuer: Issuer) -> None:
    owner = issuer.sign(sub="hooks")
    token = issuer.sign(sub="hooks", jti="id-hooks", exp=time.time() + 2)
    path = "/v1/subscriptions/hooks"
    assert ask_with(guarded, owner, "/v1/subscriptions", "POST", {"filter": "hook > 0", "id": "hooks"}).status == 201
    with Receiver() as receiver:
        assert ask_with(guarded, token, f"{path}/webhook", "PUT", {"url": receiver.url}).status == 200
        wait_until(lambda: ask_with(guarded, token).status == 401, "the end of the token")
        time.sleep(2.5)  # tokens of webhooks are looked at every second
        assert ask_with(guarded, owner, "/v1/events", "POST", {"hook": 1}).status == 200
        wait_until(lambda: len(receiver.requests) == 1, "the message")
        assert ask_with(guarded, owner, f"{path}/webhook").json["state"] == "active"
        guarded.tokens.revoke_foreign("hooks", jti_digest("id-hooks"))
        suspended = wait_until(
            lambda: (shown := ask_with(guarded, owner, f"{path}/webhook").json)["state"] == "suspended" and shown,
            "the end",
        )
        assert "revoked" in suspended["problem"]
        assert ask_with(guarded, owner, "/v1/events", "POST", {"hook": 2}).status == 200
        assert ask_with(guarded, owner, f"{path}/webhook/resume", "POST").status == 200  # with a token that is valid
        wait_until(lambda: len(receiver.requests) == 2, "the message that waited")


@pytest.mark.parametrize("how", ["jti", "digest", "expiry"])
def test_a_stream_ends_with_its_token(guarded: Guarded, issuer: Issuer, how: str) -> None:
    """Within seconds: the stream is read until its end comes, which it would not without the revocation."""
    owner = issuer.sign(sub=how)
    assert ask_with(guarded, owner, "/v1/subscriptions", "POST", {"filter": "n > 1", "id": how}).status == 201
    token = issuer.sign(sub=how, jti=f"id-{how}", exp=time.time() + (8 if how == "expiry" else 3600))
    url = f"{guarded.broker.url}/v1/subscriptions/{how}/events"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=HANGS) as stream:
        assert stream.readline() == b"retry: 1000\n"
        if how == "jti":
            guarded.tokens.revoke_foreign("stolen", jti_digest("id-jti"))
        if how == "digest":
            guarded.tokens.revoke_foreign("stolen", hashlib.sha256(token.encode()).hexdigest())
        stream.read()  # TimeoutError without an end: a stream that stays open says every 2 s that it is alive
    assert wait_until(lambda: ask_with(guarded, token).status == 401, "the refusal")
    assert ask_with(guarded, owner).status == 200
