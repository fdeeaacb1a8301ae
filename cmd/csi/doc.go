// Command coracle-csi is what the images of the add-ons aws-ebs-csi-driver, aws-efs-csi-driver and vpc-cni run that is
// not upstream's: CSI drivers and the network policy agent, one program with several names. It is not a part of
// coracle-node, which stays in memory on every machine: its libraries are a multiple of those of init.
package main
