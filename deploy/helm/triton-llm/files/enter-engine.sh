#!/bin/sh
# enter-engine.sh ARTIFACT NAME REPOSITORY SECONDS [--set KNOB=VALUE]...
# Waits for an engine, holds every file to its checksum, and writes the model's entry.
set -eu
artifact=$1 name=$2 repository=$3 seconds=$4
shift 4
waited=0
until [ -f "$artifact/artifact.json" ]; do
    if [ "$waited" -ge "$seconds" ]; then
        echo "engine '$artifact': no artifact.json after $seconds s; look at the build Job, or put the engine there." >&2
        exit 1
    fi
    [ "$((waited % 60))" -ne 0 ] || echo "engine '$artifact': waiting for its build."
    sleep 5
    waited=$((waited + 5))
done
exec triton-llm repo add "$name" --artifact "$artifact" --repository "$repository" --verify "$@"
