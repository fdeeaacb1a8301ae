// Package store keeps every fact of Coracle: typed tables over etcd.
//
// A [Table] holds rows of one Go type, encoded as JSON under
// "<prefix>t/<table>/<key>". Keys are paths ([Key]), so that a prefix lists one
// account, one region or one cluster.
//
// Reads come from a mirror of the whole store in memory, fed by one etcd watch;
// they cost microseconds and never touch the network. A write is a transaction
// in etcd guarded by the revisions that the writer saw, and returns only once the
// mirror contains it: a process always reads its own writes. Another process that
// shares the etcd cluster sees them as soon as its watch does (milliseconds), and
// a write based on a stale read fails with [ErrConflict] and changes nothing.
//
// A write that depends on a decision by rows, such as an authorization, is carried out only while those rows are as
// the decision read them, and decided anew otherwise ([Decide]).
//
// Values read from a row are shared between readers and immutable. [Table.Modify]
// hands its function a private copy.
//
// The life of a store: [Open] takes an etcd client, refuses a newer schema, runs the migrations that are due, loads the
// mirror, and follows the watch until [Store.Close]. When the watch breaks (etcd restarted or compacted) the mirror is
// loaded again and subscribers are notified of every difference.
package store
