// Package ebscsi is what the images of the add-on aws-ebs-csi-driver run that cannot be had as Go modules: the CSI
// driver ebs.csi.aws.com itself, the program that makes it known to kubelet, and the one that answers probes.
//
// They keep the contract of upstream's programs: names, arguments, parameters of storage classes, tags, topology, calls
// of EC2, and codes of errors (https://github.com/kubernetes-sigs/aws-ebs-csi-driver/tree/master/docs). The driver
// makes every call for itself where upstream's gathers some into one (--batching, coalesced modifications), and has no
// metrics of its own. What needs operations of EC2 that are not served here it refuses by name: fast snapshot restores,
// locks of snapshots, Outposts.
package ebscsi
