// Package networkpolicyagent is the program of the container aws-eks-nodeagent of the DaemonSet aws-node: it enforces
// network policies on the pods of a node.
//
// It reads the PolicyEndpoints that the network policy controller of EKS writes, and serves the CNI plugin, which tells
// it of each pod before the pod starts, at /var/run/aws-node/npa.sock. It writes one nftables table of the node's
// network namespace (ruleset.go), and the pods that it was told of to a file beside the socket (state.go). The table
// stays when the agent ends, and is replaced in one transaction by what the next one finds, once that has read all
// PolicyEndpoints.
//
// Upstream's agent attaches eBPF programs to the interfaces of pods, which machines of Coracle may not load
// (docs/design/network-policies.md). This one keeps its contract: arguments, ports, socket, files, log, and what is
// allowed. https://github.com/aws/aws-network-policy-agent
package networkpolicyagent
