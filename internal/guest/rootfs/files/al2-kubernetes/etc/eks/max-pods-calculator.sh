#!/usr/bin/env bash
# Prints how many pods an instance type can have with the VPC CNI; --help lists the options.
exec /usr/lib/coracle/coracle-node max-pods-calculator "$@"
