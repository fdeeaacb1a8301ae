// Package etcd runs the etcd that holds the store and every cluster, or connects to one that is
// there already.
//
// The embedded etcd is a process of its own ("coracle etcd"), so that the control planes of the
// clusters keep their state while the daemon is down. Its life:
//
//  1. [Prepare] makes its certificate authority, certificates and port, once.
//  2. The daemon starts the process ([Embedded.Args]) or finds it running.
//  3. [Embedded.Connect] waits until it serves, and sees to it that authentication is on.
//  4. [Serve] runs in the process itself, until it is asked to end.
//
// Clients show a certificate; its common name is their etcd user. The user root may do all. Each
// cluster has a user of its own that sees the cluster's prefix only ([Connection.IssueClient]).
// Writes are always synced to the disk.
//
// No cluster can fill the database: each has a share of it ([shares]). A database that is full all the
// same is compacted and defragmented, at start and while the daemon runs ([Connection.RepairWhenFull]).
//
// With --etcd-endpoints nothing is started: [External.Connect] uses the given cluster with the
// given certificate, and leaves its settings alone.
package etcd
