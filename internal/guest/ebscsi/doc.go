// Package ebscsi is the CSI driver ebs.csi.aws.com, which the images of the add-on aws-ebs-csi-driver run. Upstream's
// cannot be had as a Go module.
//
// It keeps the contract of upstream's: names, arguments, parameters of storage classes, tags, topology, calls of EC2,
// and codes of errors (https://github.com/kubernetes-sigs/aws-ebs-csi-driver/tree/master/docs). It makes every call for
// itself where upstream's gathers some into one (--batching, coalesced modifications), and has no metrics of its own.
// What needs operations of EC2 that are not served here it refuses by name: fast snapshot restores, locks of snapshots,
// Outposts.
package ebscsi
