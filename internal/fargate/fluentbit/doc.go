// Package fluentbit parses and validates the configuration of the log router of Fargate: the subset of Fluent Bit's
// classic configuration format that Amazon EKS takes from the ConfigMap aws-logging in the namespace aws-observability.
//
// The ConfigMap has the keys filters.conf, output.conf, parsers.conf and flb_log_cw. EKS allows the sections [FILTER],
// [OUTPUT] and [PARSER], each below its own key, and names the plugins that they may have:
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html. The properties are those of Fluent Bit's
// manual: https://docs.fluentbit.io/manual.
//
// It is pure. It runs on the host, where the text is that of an administrator of a cluster, and in the machine of a
// pod.
package fluentbit
