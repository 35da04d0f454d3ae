#!/usr/bin/env bash
# Looks for a Chromium for the tests of the viewer, and installs one where it may: as root with
# apt-get. Without one, these tests are skipped, or fail if RADT_NEED_CHROMIUM is set.
set -euo pipefail

for name in "${RADT_CHROMIUM:-}" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && command -v "$name" >/dev/null; then
    exit 0
  fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "no Chromium found: the browser tests of the viewer will be skipped"
  exit 0
fi
echo "installing chromium and fonts-dejavu-core with apt-get, for the tests of the viewer"
quietly=(-qq -y -o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o Dpkg::Use-Pty=0)
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install "${quietly[@]}" --no-install-recommends chromium fonts-dejavu-core; }
if ! install >/dev/null 2>&1 && ! { apt-get update "${quietly[@]}" && install; } >/dev/null; then
  echo "apt-get could not install chromium: the browser tests of the viewer will not run"
fi
