#!/bin/sh
# Install a broker into a new virtual environment: every package in its locked version, checked by its hash.
# usage: deploy/install.sh DIRECTORY, from the root of the repository. The Dockerfile runs it.
set -eu
target=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in hatchling packaging pathspec pluggy tomlkit trove-classifiers; do
    sed -n "/^$name==/,/[^\\\\]\$/p" requirements/lock.txt
done >"$scratch/build.txt"
python3 -m venv "$scratch/build"
"$scratch/build/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$scratch/build.txt"
"$scratch/build/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$scratch" .
python3 -m venv "$target"
"$target/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r deploy/requirements.txt
"$target/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index "$scratch"/tamis-*.whl
"$target/bin/pip" check
"$target/bin/tamis" --version
