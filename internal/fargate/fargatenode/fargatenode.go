// Package fargatenode names what the nodes of Fargate pods have in common, and the volumes they mount. Those who name
// nodes, authenticate them and configure them share it.
package fargatenode

const (
	// NamePrefix precedes the private DNS name of the network interface in the name of a node.
	NamePrefix = "fargate-"
	// ComputeType is the label of nodes, and the key of their taint. Its value is "fargate".
	ComputeType = "eks.amazonaws.com/compute-type"
)
