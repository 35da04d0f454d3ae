#!/usr/bin/env bash
# Looks for the library that Procgen draws its games with, and installs it where it may.
set -euo pipefail

if ! { PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q 'libQt5Gui\.so\.5'; }; then
  exec "$(dirname "$0")/debian.sh" Procgen libqt5gui5
fi
