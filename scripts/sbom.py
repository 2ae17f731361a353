"""Write the bill of materials of tamis as CycloneDX 1.5: every package of the lock file with its version and hashes.

``python scripts/sbom.py [FILE]`` or ``make sbom``. The lock file is what ``make setup`` installs and what CI tests, so
the bill says what a checked installation consists of. The same lock file gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "lock.txt"


class Package(NamedTuple):
    """One line of the lock file: a package, its version, for which systems it is, and the hashes of its files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def read_lock(text: str) -> list[Package]:
    """Return the packages of a lock file; ValueError names a line that has no exact version or no hash.

    >>> read_lock("a==1 ; sys_platform == 'win32' \\\\\\n    --hash=sha256:" + "0" * 64)[0].marker
    "sys_platform == 'win32'"
    """
    packages = []
    for entry in re.split(r"\n(?=\S)", "\n" + re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))[1:]:
        if not entry.strip():
            continue
        head, *options = entry.replace("\\\n", " ").split(" --hash=")
        requirement = re.fullmatch(r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*])?==([^\s;]+)\s*(?:;\s*(.*?))?\s*", head)
        hashes = tuple(option.strip() for option in options)
        if (
            requirement is None
            or not hashes
            or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes)
        ):
            raise ValueError(f"{head.strip()!r}: expected an exact version and SHA-256 hashes; run `make lock`")
        packages.append(Package(requirement[1], requirement[2], requirement[3] or "", hashes))
    return packages


def bill(packages: list[Package]) -> dict[str, Any]:
    """Return the bill of materials."""
    names = "".join(f"{package.name} {package.version} {package.hashes}" for package in packages)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, names)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tamis", "bom-ref": "tamis"}},
        "components": [_component(package) for package in packages],
    }


def _component(package: Package) -> dict[str, Any]:
    address = f"pkg:pypi/{package.name}@{package.version}"
    component: dict[str, Any] = {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": address,
        "bom-ref": address if not package.marker else f"{address}#{package.marker}",
        "hashes": [{"alg": "SHA-256", "content": digest.partition(":")[2]} for digest in package.hashes],
    }
    if package.marker:
        component["properties"] = [{"name": "tamis:marker", "value": package.marker}]
    return component


def main() -> int:
    """Write the bill to a file, or to standard output."""
    try:
        text = json.dumps(bill(read_lock(LOCK.read_text(encoding="utf-8"))), indent=1) + "\n"
    except (OSError, ValueError) as error:
        print(f"{LOCK}: {error}", file=sys.stderr)
        return 1
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
