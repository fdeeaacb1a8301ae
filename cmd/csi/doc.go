// Command coracle-csi is what the images of the add-ons aws-ebs-csi-driver and aws-efs-csi-driver run that is not
// upstream's: one program with several names. It is not a part of coracle-node, which stays in memory on every machine:
// its libraries are a multiple of those of init.
package main
