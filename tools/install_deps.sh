#!/bin/sh
# Installs the Debian packages that are missing, saying which and why; silent and instant when all are there.
#   tools/install_deps.sh [LIST...]      default: tools/apt-packages.txt
# Never asks anything (sudo may ask for a password). Where it may not install, it prints the one command for an
# administrator and exits 1. On a system without dpkg it does nothing: the build then names what it misses.
set -eu
directory=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v dpkg-query >/dev/null 2>&1 || exit 0
[ $# -gt 0 ] || set -- "$directory/apt-packages.txt"

wanted=$(sed 's/#.*//' "$@")
# shellcheck disable=SC2086
installed=" $(dpkg-query -W -f='${Package}=${db:Status-Status} ' $wanted 2>/dev/null || :)"
missing=
for package in $wanted; do
  case $installed in *" $package=installed "*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
{
  echo "Sluice needs Debian packages that are not installed:"
  for package in $missing; do
    cat "$@" | sed -n "s/^$package  *#  */  $(printf %-20s "$package") /p" | head -n 1
  done
} >&2

refuse() {
  echo "$1 An administrator can install them by:" >&2
  echo "  sudo sh -c 'apt-get update && $install'" >&2
  exit 1
}
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  as_root="sudo "
else
  refuse "They cannot be installed from here: you are not root, and sudo is missing or wants a password."
fi
echo "Installing them with: $as_root$install" >&2
quietly="env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a"
# shellcheck disable=SC2086
$as_root $quietly apt-get update -qq </dev/null >/dev/null ||
  echo "apt-get update failed; trying with the lists there are." >&2
# apt reports its progress as lines "dlstatus:1:12.5:..." and "pmstatus:package:12.5:..."; a fifth of the way is news.
progress() {
  last=
  while IFS=: read -r kind _ percent _; do
    case $kind in
      dlstatus) kind=download ;;
      pmstatus) kind=install ;;
      failed) return 1 ;;
      *) continue ;;
    esac
    now="$kind $((${percent%.*} / 20 * 20)) %"
    [ "$now" = "$last" ] || echo "  $now" >&2
    last=$now
  done
}
# shellcheck disable=SC2086
{
  $as_root $quietly $install -qq -o Dpkg::Use-Pty=0 -o APT::Status-Fd=1 </dev/null || echo failed
} | progress || refuse "The installation failed (above)."
