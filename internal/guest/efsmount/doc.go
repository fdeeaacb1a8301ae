// Package efsmount is mount.efs, the program by which mount(8) mounts EFS file systems ("mount -t efs"). It takes the
// arguments and options of amazon-efs-utils, finds the mount target by its DNS name, signs the client's identity with
// the option iam, and calls mount(2). Whoever makes the mount (the launcher of the machine) asks the mount target.
//
// What amazon-efs-utils runs besides, a proxy with TLS and a watchdog, is not needed: what is between a machine and a
// mount target does not leave the host. Options about it are accepted and have no effect.
//
// https://docs.aws.amazon.com/efs/latest/ug/efs-mount-helper.html
package efsmount
