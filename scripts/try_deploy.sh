#!/bin/sh
# Build what deploy/Dockerfile builds, without containers, and run it: install, serve, ask for its health, stop.
set -eu
place=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker"; rm -rf "$place"' EXIT
sh deploy/install.sh "$place/tamis"
env -i PATH="$place/tamis/bin:/usr/bin:/bin" TMPDIR="$place" tamis serve --port 18080 --data "$place/data" &
broker=$!
for attempt in $(seq 60); do
    if "$place/tamis/bin/python" deploy/health.py http://127.0.0.1:18080/healthz; then
        exit 0
    fi
    sleep 1
done
exit 1
