#!/bin/sh
set -e
# Not running systemd: in a container, or while an image is made.
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl enable coracle.service
# An upgrade: the new program takes over what the old one runs.
systemctl try-restart coracle.service
