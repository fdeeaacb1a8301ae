// Package resource holds what the parts of the EC2 API share: the resources in the store, how requests change and
// describe them, the resources and condition keys that requests are authorized for, and the errors of the API.
//
// [Records] has a [Kind] for every kind of resource: its table, the form of its IDs, its error codes. A part adds a
// [View] of its kinds: what a record looks like in the API, and by what it can be filtered. View.Create and
// View.Describe serve the operations that all kinds have. What the API shows is computed from records, never stored
// twice: which subnets use a route table is recorded in the subnets, the elastic address of an interface in the
// address.
//
// Every write is a [Change]: a plan that reads the store, checks, and collects operations, which are then committed in
// one transaction. When another writer came between, the plan is made again from what is there now. Whatever depends on
// the whole content of a VPC (no overlapping subnets, nothing left that uses what is deleted) holds the VPC's contents
// record; see [record.VPCContents].
//
// It imports no part, and each part embeds [Records].
package resource
