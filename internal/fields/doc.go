// Package fields says who owns each field of a Kubernetes object, and what an add-on of EKS would change of it: what
// `coracle fields` prints.
//
// The API server keeps, in metadata.managedFields, which field manager set which field, by which operation. [Read]
// reads that; [Object.Tree] lays it over the object, so that every field has its owners; [Compare] lays two versions of
// an object over each other, such as the one that there is and the one that a dry run of EKS's server-side apply would
// make of it. [Print] shows either as a tree with the owners in the margin.
//
// EKS owns what its field manager "eks" does. It manages a field fully when a change of anything in it conflicts with
// EKS's, and partly when only a change of some of it does: of a list whose items are merged by a key ("k:" in
// managedFields), others may add items, and of an item the keys that EKS did not set.
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html
//
// The package is pure: the object and the plan come from the daemon, as an [Answer].
package fields
