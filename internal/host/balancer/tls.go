//go:build linux

package balancer

import "crypto/tls"

// unverified is for health checks by HTTPS: a load balancer does not verify the certificates of targets.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/target-group-health-checks.html
var unverified = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as on AWS
