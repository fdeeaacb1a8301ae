#!/usr/bin/env bash
# Pulls the sandbox image of /etc/containerd/config.toml, unless it is there already.
exec /usr/lib/coracle/coracle-node pull-sandbox-image
