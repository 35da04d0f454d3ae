#!/usr/bin/env bash
# debian.sh PURPOSE PACKAGE...: installs packages of Debian where it may, as root with apt-get, and
# says so; otherwise it says what will not work.
set -euo pipefail

purpose=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "without $*: $purpose will not run; install it as root with apt-get install $*"
  exit 0
fi
echo "installing $* with apt-get, for $purpose"
quietly=(-qq -y -o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o Dpkg::Use-Pty=0)
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install "${quietly[@]}" --no-install-recommends "$@"; }
if ! install "$@" >/dev/null 2>&1 && ! { apt-get update "${quietly[@]}" && install "$@"; } >/dev/null; then
  echo "apt-get could not install $*: $purpose will not run"
fi
