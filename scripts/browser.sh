#!/usr/bin/env bash
# Looks for a Chromium for the tests of the viewer, and installs one where it may. Without one, these
# tests are skipped, or fail if RADT_NEED_CHROMIUM is set.
set -euo pipefail

for name in "${RADT_CHROMIUM:-}" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && command -v "$name" >/dev/null; then
    exit 0
  fi
done
exec "$(dirname "$0")/debian.sh" "the browser tests of the viewer" chromium fonts-dejavu-core
