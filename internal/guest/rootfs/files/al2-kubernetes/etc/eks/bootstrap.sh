#!/usr/bin/env bash
# Bootstraps an instance into an EKS cluster; --help lists the options.
exec /usr/lib/coracle/coracle-node eks-bootstrap "$@"
