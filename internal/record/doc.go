// Package record has the records of the store: users, networks and
// clusters, one file per subject.
//
// Every fact has exactly one writer, named in the comment of its struct: what a user
// wants is written by the AWS service that took the call (internal/aws), what is
// observed is written by the controller that looked (internal/controller, internal/host).
// What can be computed from other facts is not stored: a cluster's status, for
// instance, follows from its [Cluster], its [ControlPlane] and its open [Update].
package record
