// Package vended carries the logs that load balancers write to where they are delivered: the log groups of their
// owners. AWS calls such logs vended.
//
// A [Type] is a kind of log, with its fields as AWS documents them. The process that forwards writes entries with a
// [Writer] into files, a directory for each [Log]; the daemon reads them from a [Position] on ([Read]), makes what a
// delivery wants of each ([Format]), and removes what all deliveries have had ([Trim]). So neither waits for the other,
// and either may be killed: what is in the files is delivered once, when the daemon is back.
//
// What a load balancer logs takes a bounded part of memory and of the disk, for each account; entries beyond that are
// lost, counted, and told in the log of the process.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-and-resource-policy.html
package vended
