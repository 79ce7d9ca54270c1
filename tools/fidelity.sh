#!/usr/bin/env bash
# Makes docs/fidelity.md and its pictures anew, and the shipped constants with --refit.
set -euo pipefail
cd "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."
runs=../shared/data/measured-runs.csv
if [[ ${1:-} == --refit ]]; then
  ./run calibrate "$runs" -o build/restow-2026-11.yaml --from-start
  mv build/restow-2026-11.yaml presets/calibration.yaml
fi
./run validate "$runs" --page docs/fidelity.md --notes docs/fidelity-notes.yaml
