#!/bin/sh
set -e
# Debian says "remove" or "upgrade", RPM how many versions will be left.
case "$1" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now coracle.service
fi
# Their programs go with this package. What they have written stays: "coracle reset" removes it, before or after.
coracle down --all
