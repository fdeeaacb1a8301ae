// Package ec2 serves the networking half of the Amazon EC2 API: regions and zones, VPCs and everything in them, elastic
// addresses, key pairs and tags. It records what is wanted; packets are the business of internal/host/network.
//
// Every kind of resource is a [kind]: its table, the form of its ids, its error codes, how a row looks in the API and
// by what it can be filtered. One generic describe serves them all. What the API shows is computed from rows, never
// stored twice: which subnets use a route table stands in the subnets, an interface's elastic address in the address.
//
// Every write is a [change]: a plan that reads the store, checks, and collects operations, which are then committed in
// one transaction. When another writer came between, the plan is made again from what is there now. Whatever depends on
// the whole content of a VPC (no overlapping subnets, nothing left that uses what is deleted) holds the VPC's contents
// row; see [record.VPCContents].
//
// An account's first call in a region makes the default VPC there, once.
package ec2
