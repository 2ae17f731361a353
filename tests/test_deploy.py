"""The files of deploy/: each can be read, is closed as it says, and names nothing that is not there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.server.processes import a_line, ask, running

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"

#: What Prometheus adds by itself.
_OF_PROMETHEUS = {"up"}


def read_yaml(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def locked(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each package of a lock file."""
    entries = re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").replace("\\\n", " "))
    documents = {}
    for entry in entries:
        if match := re.match(r"([\w.-]+)==(\S+)", entry):
            documents[match[1]] = match[2], frozenset(re.findall(r"sha256:\w+", entry))
    return documents


def test_the_image_has_packages_of_the_lock_file_alone() -> None:
    image, whole = locked(DEPLOY / "requirements.txt"), locked(ROOT / "requirements" / "lock.txt")
    assert {"starlette", "uvicorn", "apsw", "psycopg", "pyjwt"} <= image.keys()
    assert {name: image[name] for name in image} == {name: whole[name] for name in image}


def test_the_dashboard_shows_metrics_that_a_broker_has(tmp_path: Path) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "tamis.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = {name for text in expressions for name in re.findall(r"\b(?:tamis_\w+|up)\b", text)} - _OF_PROMETHEUS
    with running(a_line(tmp_path, "ab")[0]) as (broker,):
        ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "all", "filter": "n >= 0"})
        text = ask(f"{broker.url}/metrics").body.decode()
    families = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    series = families | {f"{name}_bucket" for name in families} | set(re.findall(r"^(\w+)[ {]", text, re.MULTILINE))
    assert shown <= series, shown - series
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_image_runs_as_no_root_and_is_built_from_what_is_there() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER 10001:10001" in lines
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    assert any(line.startswith("HEALTHCHECK") for line in lines)


def test_compose_starts_a_broker_its_standby_and_what_watches_them() -> None:
    [compose] = read_yaml("compose.yaml")
    services = compose["services"]
    assert services.keys() == {"broker-1", "broker-2", "database", "prometheus", "grafana"}
    for name in ("broker-1", "broker-2"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    used = {secret for service in services.values() for secret in service.get("secrets", ())}
    assert used == compose["secrets"].keys()
    mounts = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())]
    for mount in mounts:
        assert (DEPLOY / mount).exists() if mount.startswith(".") else mount in compose["volumes"], mount
    [prometheus] = read_yaml("prometheus.yml")
    targets = prometheus["scrape_configs"][0]["static_configs"][0]["targets"]
    assert {target.split(":")[0] for target in targets} == {"broker-1", "broker-2"}
    for path in (DEPLOY / "grafana" / "provisioning").rglob("*.yaml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["apiVersion"] == 1


@pytest.mark.parametrize("text", ["compose", "kubernetes"])
def test_brokers_are_configured_by_names_that_are_known(text: str, tmp_path: Path) -> None:
    from tamis.runtime.broker.config import read_config

    toml = (DEPLOY / "broker.toml").read_text(encoding="utf-8")
    if text == "kubernetes":
        [toml] = [
            document["data"]["broker.toml"]
            for document in read_yaml("kubernetes.yaml")
            if document["kind"] == "ConfigMap"
        ]
    (tmp_path / "broker.toml").write_text(toml)
    config = read_config(tmp_path / "broker.toml").check()
    assert (config.standby, config.require_tokens, config.port) == (True, True, 8080)
    assert tomllib.loads(toml)["data"] == "/var/lib/tamis"


def test_pods_are_closed_and_the_service_leads_to_the_one_that_serves() -> None:
    kinds = {document["kind"]: document for document in read_yaml("kubernetes.yaml")}
    pod = kinds["StatefulSet"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    assert kinds["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {
        claim["metadata"]["name"] for claim in kinds["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_password_of_the_database_reaches_libpq() -> None:
    """libpq ignores a pgpass that a group may read, and fsGroup lets its group read every file of a secret."""
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    [pod] = [
        document["spec"]["template"]["spec"]
        for document in read_yaml("kubernetes.yaml")
        if document["kind"] == "StatefulSet"
    ]
    [container] = pod["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    assert "PGPASSFILE" not in variables or "fsGroup" not in pod["securityContext"]
    secret = variables["PGPASSWORD"]["valueFrom"]["secretKeyRef"]
    assert f"kubectl create secret generic {secret['name']} --from-literal={secret['key']}=" in text
    # Compose mounts the file with the owner and mode that it has on the host.
    [compose] = read_yaml("compose.yaml")
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    for name in ("broker-1", "broker-2"):
        variable = Path(compose["services"][name]["environment"]["PGPASSFILE"])
        assert variable.parent == Path("/run/secrets")
        assert variable.name in compose["services"][name]["secrets"]
        assert re.search(
            rf"^chmod 600 .*\b{variable.name}\b.*&& sudo chown 10001 .*\b{variable.name}\b", readme, re.MULTILINE
        )


def test_the_readme_makes_tokens_where_a_broker_serves_and_names_hosts() -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    [made] = [line for line in readme.splitlines() if "serve token add" in line]
    assert " exec $serving " in made
    assert "`hosts`" in readme
    assert "421" in readme
