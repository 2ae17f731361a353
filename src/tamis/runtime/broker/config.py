"""The configuration of a broker: a TOML file, or the embedded defaults.

An unknown name is an error that lists the names there are. A broker that others could reach must have TLS
and tokens, or it does not start (promise S1).
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from tamis.errors import ModelError
from tamis.files.fields import read_fields
from tamis.model.schema import Schema
from tamis.routing.core.broker import PATIENCE_SECONDS
from tamis.routing.edge.audit import MAX_AUDIT
from tamis.routing.edge.backlogs import MAX_BACKLOG_BYTES
from tamis.routing.edge.limits import MAX_BACKLOG, MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ADDRESS
from tamis.routing.policies import CellOptions, Policy, find_policy
from tamis.routing.webhooks.rules import WebhookRules
from tamis.runtime.broker_addresses import check_broker_url
from tamis.runtime.client.clear_text import check_encrypted, is_loopback

__all__ = [
    "AuthConfig",
    "BrokerConfig",
    "BrokerLimits",
    "ClaimsConfig",
    "JwtConfig",
    "LinkConfig",
    "TenantConfig",
    "read_config",
]


Config = TypeVar("Config", bound=msgspec.Struct)


class LinkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link to another broker. With a ``url`` this end dials; the token is read from a file or the environment."""

    #: The neighbour's name, as in its own configuration.
    name: str
    #: The neighbour's address, as ``https://middle.example:8443``; without one the neighbour dials.
    url: str = ""
    #: Where the same neighbour is when it is not at ``url``: the addresses of its standbys, tried in turn.
    standbys: tuple[str, ...] = ()
    #: The link policy, which decides what is announced to the neighbour.
    policy: str = "covering"
    #: The options of the policy.
    options: dict[str, bool | int | float | str] = {}
    #: A file of cells for the ``mics`` policies (``tamis tune --cells``), the same at all brokers.
    cells: str = ""
    #: A file with the token that this end shows.
    token_file: str = ""
    #: Without a file: the environment variable that holds the token.
    token_env: str = ""
    #: The certificates of the authorities that may have signed the other end's; without it those of the system.
    ca_file: str = ""
    #: Whether the token may be sent unencrypted to another machine.
    insecure: bool = False
    #: What happens to events that must cross while it is full: ``refuse`` them, or ``drop`` the oldest.
    when_full: Literal["refuse", "drop"] = "refuse"
    #: The namespaces whose subscriptions and events may cross; all when there are none.
    namespaces: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Every address of the neighbour; none when it dials."""
        return (self.url, *self.standbys) if self.url else ()

    def check(self) -> None:
        """Raise `ModelError` unless the policy can be read and the addresses may be dialled."""
        self.read_policy()
        self.check_addresses()
        for url in self.urls or ("",):
            check_encrypted(url, self.token_file or self.token_env, insecure=self.insecure)
            if self.ca_file and not url.startswith(("https://", "wss://")):
                raise ModelError(f"link {self.name!r}: ca_file is for a url with https://")
        if self.standbys and not self.url:
            raise ModelError(f"link {self.name!r}: standbys are for a link with a url")

    def check_addresses(self) -> None:
        """Raise `ModelError` unless each address can be that of a broker."""
        for url in self.urls:
            try:
                check_broker_url(url)
            except ModelError as error:
                raise ModelError(f"link {self.name!r}: {error}") from None

    def read_policy(self) -> Policy:
        """Return the policy with its options and cells; `ModelError` names the link and what is allowed."""
        try:
            policy = find_policy(self.policy, self.options)
            if not self.cells:
                return policy
            if policy.cells is None:
                raise ModelError(f"cells need a policy that announces cells, such as mics, not {self.policy!r}")
            return replace(policy, cells=replace(policy.cells, spaces=_read_cells(Path(self.cells))))
        except ModelError as error:
            raise ModelError(f"link {self.name!r}: {error}") from None


class TenantConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A namespace with a policy: a filter that all its subscriptions and events are held to."""

    #: The namespace.
    namespace: str
    #: The filter, as CQL2 text.
    policy: str


class ClaimsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The claims of a JWT that say who its bearer is and what it may do."""

    #: The claim with the name of the bearer.
    principal: str = "sub"
    #: The claim with namespaces, ``*`` for all. Without it a token allows nothing.
    namespaces: str = "tamis_namespaces"
    #: The claim with rights: ``publish``, ``subscribe``, ``admin``. Without it a token allows nothing.
    rights: str = "tamis_rights"
    #: The claim with a filter, as CQL2 text, that restricts what the bearer may publish and receive.
    policy: str = "tamis_policy"
    #: The claim with the largest number of subscriptions of the bearer.
    max_subscriptions: str = "tamis_max_subscriptions"


class JwtConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An issuer of JSON Web Tokens whose tokens are accepted beside the broker's own."""

    #: What the claim ``iss`` must be.
    issuer: str
    #: What the claim ``aud`` must name.
    audience: str
    #: A file of the issuer's public keys, JWKS or PEM. Name one of ``keys``, ``keys_url`` and ``secret_file``.
    keys: str = ""
    #: An address that answers with the issuer's public keys as JWKS.
    keys_url: str = ""
    #: The file of a secret that the issuer shares with this broker, for HS256 and no other algorithm.
    secret_file: str = ""
    #: The algorithms that are accepted.
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    #: Seconds by which the clocks may differ.
    leeway: float = 30.0
    #: The names of the claims that are read, a table of its own.
    claims: ClaimsConfig = ClaimsConfig()

    def check(self) -> None:
        """Raise `ModelError` unless there is one source of keys, and it fits the algorithms."""
        if not self.issuer or not self.audience:
            raise ModelError("[auth.jwt]: name the issuer and the audience")
        if sum(map(bool, (self.keys, self.keys_url, self.secret_file))) != 1:
            raise ModelError("[auth.jwt]: name one of keys, keys_url and secret_file")
        allowed = ("HS256",) if self.secret_file else ("RS256", "ES256", "EdDSA")
        if not self.algorithms or not {*self.algorithms} <= {*allowed}:
            raise ModelError(f"[auth.jwt]: algorithms for these keys: {', '.join(allowed)}")
        if not 0 <= self.leeway <= 300:
            raise ModelError("[auth.jwt]: leeway is 0 to 300 seconds")
        try:
            address = urlsplit(self.keys_url)
            is_safe = address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname or ""))
        except ValueError as error:  # brackets that are not an IPv6 address
            raise ModelError(f"[auth.jwt]: keys_url is not an address: {error}") from None
        if self.keys_url and not is_safe:
            raise ModelError("[auth.jwt]: keys_url is https://, or http:// on this machine: keys must not be replaced")


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may use a broker besides those who have a token of its own."""

    #: The issuer of JSON Web Tokens that are accepted, a table of its own.
    jwt: JwtConfig | None = None


class BrokerLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much a broker keeps, and for how long."""

    #: How long acknowledged deliveries can be replayed, in seconds.
    retention: float = 24 * 3600.0
    #: How many bytes of acknowledged deliveries are kept at most.
    retention_bytes: int = 4 * 1024 * 1024 * 1024
    #: How long records of the audit are kept, in seconds.
    audit_retention: float = 90 * 24 * 3600.0
    #: How many records each of the two logs of the audit keeps at most.
    max_audit: int = MAX_AUDIT
    #: Messages that may wait for one client; with more it is suspended.
    max_backlog: int = MAX_BACKLOG
    #: Bytes of messages that may wait for one client; with more it is suspended.
    max_backlog_bytes: int = MAX_BACKLOG_BYTES
    #: Messages that may wait for a neighbour; then the link is full, and ``when_full`` applies.
    max_link_messages: int = 100_000
    #: Bytes of messages that may wait for a neighbour; then the link is full, and ``when_full`` applies.
    max_link_bytes: int = 256 * 1024 * 1024
    #: Bytes that stay free on the disk: below this nothing new is accepted.
    min_free: int = 64 * 1024 * 1024
    #: Connections of all clients; links and admins have a reserve in addition.
    max_connections: int = MAX_CONNECTIONS
    #: Connections of one address; raise it behind a reverse proxy, where all clients have one address.
    max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS
    #: Seconds after which a subscription that is not active says which neighbours have not confirmed it.
    active_seconds: float = PATIENCE_SECONDS


class _Port(BrokerLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a broker listens, and which requests it answers."""

    #: The address to listen at. One that other machines can reach needs TLS and tokens.
    host: str = "127.0.0.1"
    #: The port to listen at.
    port: int = 8080
    #: A file with the certificate, reloaded within seconds when it changes.
    tls_certificate: str = ""
    #: A file with the key of the certificate.
    tls_key: str = ""
    #: Whether requests without a token are refused.
    require_tokens: bool = False
    #: Where pages may come from that open a WebSocket or post; the broker's own are always allowed.
    origins: tuple[str, ...] = ()
    #: Names under which browsers may reach this broker, besides localhost.
    hosts: tuple[str, ...] = ()
    #: Who else may use the broker, a table of its own.
    auth: AuthConfig = AuthConfig()


class BrokerConfig(_Port, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything about one broker."""

    #: The broker's name; brokers of a network have different names.
    name: str = "broker"
    #: The directory of the broker's state.
    data: str = "tamis-data"
    #: The address of a PostgreSQL database that holds the state instead of ``data``; passwords stay out of it.
    store: str = ""
    #: Whether to wait while another broker is alive in the same store, and to take over when it dies.
    standby: bool = False
    #: A file with the types of attributes, the same at every broker of a network; without one types are learned.
    schema: str = ""
    #: A directory or URI of snapshots whose subscriptions this broker has; newer versions are followed.
    snapshot: str = ""
    #: The links to other brokers, tables of their own.
    links: tuple[LinkConfig, ...] = ()
    #: The namespaces with a policy, tables of their own.
    tenants: tuple[TenantConfig, ...] = ()
    #: Where webhooks may lead, a table of its own; nowhere by default.
    webhooks: WebhookRules = WebhookRules()
    #: The address of an OpenTelemetry collector that gets traces of events (OTLP over HTTP); ``env``: the one that
    #: ``OTEL_EXPORTER_OTLP_ENDPOINT`` names.
    traces: str = ""
    #: The share of events that is traced, 0 to 1, the same at all brokers.
    trace_share: float = 1.0

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the broker."""
        return is_loopback(self.host)

    def check(self) -> BrokerConfig:
        """Return this configuration; `ModelError` when a broker must not start with it."""
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ModelError("tls_certificate and tls_key go together")
        if not self.is_loopback and not (self.tls_certificate and self.require_tokens):
            raise ModelError(
                f"other machines can reach {self.host}: set tls_certificate, tls_key and require_tokens = true"
            )
        if self.auth.jwt is not None:
            self.auth.jwt.check()
        self._check_store()
        self._check_traces()
        self.webhooks.check()
        for link in self.links:
            link.check()
        if self.links and not self.schema:
            raise ModelError("brokers that are linked need the same schema: set schema = 'schema.json'")
        if any(link.namespaces and link.read_policy().floods for link in self.links):
            raise ModelError("a link that floods asks for all namespaces: choose another policy, or name no namespaces")
        names = [self.name, *(link.name for link in self.links)]
        if len(set(names)) < len(names) or any(":" in name or not name for name in names):
            raise ModelError(f"names of brokers differ, are not empty and have no colon: {', '.join(names)}")
        return self

    def _check_store(self) -> None:
        if self.store and not self.store.startswith(("postgresql://", "postgres://")):
            raise ModelError("store: expected postgresql://user@host:port/database; without one, data is a directory")
        if self.standby and not self.store:
            raise ModelError("standby needs a store that two brokers can share: --store postgresql://...")

    def _check_traces(self) -> None:
        expected = "expected the address of a collector, such as http://127.0.0.1:4318, or env for that of "
        try:
            address = urlsplit(self.traces)
            is_address = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
        except ValueError:  # brackets, or a port that is not a number
            raise ModelError(f"traces: {expected}OTEL_EXPORTER_OTLP_ENDPOINT") from None
        if self.traces not in ("", "env") and not is_address:
            raise ModelError(f"traces: {expected}OTEL_EXPORTER_OTLP_ENDPOINT")
        if address.username or address.password or address.query:
            raise ModelError("traces: an address has no password or token; put that into OTEL_EXPORTER_OTLP_HEADERS")
        if not 0 <= self.trace_share <= 1:
            raise ModelError(f"trace_share: a share is 0 to 1, got {self.trace_share}")

    def read_schema(self) -> Schema | None:
        """Return the configured schema, None when types are to be learned."""
        return Schema.from_json(Path(self.schema).read_bytes()) if self.schema else None

    def token_of(self, link: LinkConfig) -> str:
        """Return the token that this end of a link shows."""
        if link.token_file:
            return Path(link.token_file).read_text().strip()
        if link.token_env:
            return os.environ.get(link.token_env, "")
        return ""


def read_config(path: Path) -> BrokerConfig:
    """Read a TOML file; files that it names are relative to it."""
    try:
        config = read_fields(tomllib.loads(path.read_text(encoding="utf-8")), BrokerConfig)
    except (ValueError, RecursionError) as error:  # TOML, a field, UTF-8, or a number of 5,000 digits
        raise ModelError(f"{path}: {error}") from None
    links = tuple(_beside(link, path, "token_file", "ca_file", "cells") for link in config.links)
    jwt = None if config.auth.jwt is None else _beside(config.auth.jwt, path, "keys", "secret_file")
    webhooks = _beside(config.webhooks, path, "ca_file")
    return _beside(
        msgspec.structs.replace(config, links=links, auth=AuthConfig(jwt), webhooks=webhooks),
        path,
        "data",
        "schema",
        "snapshot",
        "tls_certificate",
        "tls_key",
    )


def _read_cells(path: Path) -> tuple[str, ...]:
    """Return the content spaces of a file that ``tamis tune --cells`` wrote."""
    try:
        spaces = tuple(
            bytes(space).decode() for space in msgspec.json.decode(path.read_bytes(), type=list[msgspec.Raw])
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: {error}; write it with tamis tune --cells") from None
    CellOptions(spaces=spaces).spaces_of(Schema())
    return spaces


def _beside(config: Config, path: Path, *names: str) -> Config:
    """Return a configuration whose fields ``names`` are paths relative to the file ``path``, or URLs."""
    values = {name: getattr(config, name) for name in names if getattr(config, name)}
    paths = {name: value if "://" in value else str(path.parent / value) for name, value in values.items()}
    return msgspec.structs.replace(config, **paths)
