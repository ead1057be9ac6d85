#!/usr/bin/env bash
# Gathers what a bare machine with an NVIDIA GPU needs to test and measure the
# CUDA engine: gpu-bundle/ and gpu-bundle.tar.gz in the repository's root, for
# linux/amd64. There it is one command: ./gpu-check.sh [--quick].
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/gpu-bundle}
limit=$((60 * 1000 * 1000))
cd "$root"
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out/pkg/policy/cuda" "$out/pkg/policy/testdata"
# The tests read their files by paths within the repository, whose folders the
# bundle keeps.
GOOS=linux GOARCH=amd64 CGO_ENABLED=1 go test -c -trimpath -ldflags '-s -w' -o "$out/pkg/policy/cuda/cuda.test" ./pkg/policy/cuda
mkdir -p "$out/pkg/run" "$out/jobs"
GOOS=linux GOARCH=amd64 CGO_ENABLED=1 go test -c -trimpath -ldflags '-s -w' -o "$out/pkg/run/run.test" ./pkg/run
cp go.mod "$out/go.mod"
cp jobs/smoke.yaml "$out/jobs/smoke.yaml"
cp cuda/engine.h "$out/pkg/policy/cuda/engine.h"
cp -R pkg/policy/testdata/golden "$out/pkg/policy/testdata/golden"
mkdir "$out/cuda"
(cd cuda && find . -name build -prune -o -name __pycache__ -prune -o -type f -print) | while IFS= read -r file; do
	mkdir -p "$out/cuda/$(dirname "$file")"
	cp "cuda/$file" "$out/cuda/$file"
done
mv "$out/cuda/gpu-check.sh" "$out/gpu-check.sh"
git describe --always --dirty >"$out/COMMIT" 2>/dev/null || echo unknown >"$out/COMMIT"
tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
bytes=$(du -sb "$out" | cut -f1)
printf '%s: %d bytes, as .tar.gz %d\n' "$out" "$bytes" "$(stat -c %s "$out.tar.gz")"
if ((bytes > limit)); then
	echo "gpu-bundle: more than $limit bytes" >&2
	exit 1
fi
