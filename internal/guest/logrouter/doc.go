//go:build linux

// Package logrouter is the log router of a Fargate machine: it sends the logs of the pod's containers to CloudWatch
// Logs, as the ConfigMap aws-logging in the namespace aws-observability says. It replaces Fluent Bit, which AWS runs,
// and has its semantics for what EKS allows there (internal/fargate/fluentbit).
//
// It reads the files that the kubelet and containerd write below /var/log/containers, follows their rotation, and keeps
// the positions up to which records have been delivered in a file. After a restart it goes on from there: nothing is
// lost, and what was on its way is sent twice. Memory is bounded: it stops reading while too many bytes are in flight.
//
// As on AWS, a record begins as {"log": LINE}, where LINE is a line in the format of CRI: time, stream, P or F, and the
// text. The parts of a long line (P) are joined into one line with F.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
package logrouter
