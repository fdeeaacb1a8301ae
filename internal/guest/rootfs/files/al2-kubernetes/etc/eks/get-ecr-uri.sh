#!/usr/bin/env bash
# Prints the registry of the EKS images in a region: get-ecr-uri.sh REGION DOMAIN [ACCOUNT]
set -euo pipefail
exec /usr/lib/coracle/coracle-node get-ecr-uri "$@"
