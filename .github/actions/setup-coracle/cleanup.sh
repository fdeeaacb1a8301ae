#!/bin/sh
# Prints what the daemon knows and said, for whoever reads the log of a job that failed, and removes all that it made.
set -u

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env "$@"; fi; }

program=${STATE_program:-}
[ -n "$program" ] || exit 0 # it did not come to start
echo "::group::coracle status"
as_root "$program" status
echo "::endgroup::"
echo "::group::log of coracle"
as_root tail -n 500 "${CORACLE_DATA_DIR:-/var/lib/coracle}/serve.log"
echo "::endgroup::"
as_root "$program" reset --yes
