// Package efscsi is the CSI driver efs.csi.aws.com, which the images of the add-on aws-efs-csi-driver run. Upstream's
// cannot be had as a Go module.
//
// It keeps the contract of upstream's: names, arguments, parameters of storage classes, attributes of volumes, IDs of
// volumes, tags, topology, calls of EFS, and codes of errors
// (https://github.com/kubernetes-sigs/aws-efs-csi-driver/tree/master/docs). The controller makes an access point for
// each volume. A node mounts file systems by mount.efs (package efsmount).
//
// What upstream's has and this one has not: S3 Files, which are refused by name; the settings of efs-utils and its
// watchdog, as there is no proxy here; metrics of its own. Two volumes that are made at the same time get different
// groups, which they may not get of upstream's.
package efscsi
