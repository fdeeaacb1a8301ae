// Package machine makes EC2 instances of Linux namespaces: it stands in for the hosts of EC2.
//
// A machine is one process that the daemon supervises and that outlives it, "coracle-node launch" (package launch): it
// creates the machine's namespaces, cgroup and root file system, and starts, reboots and stops it. The [Controller]
// prepares the disk and the spec of a launch, and records what it observes.
//
// It reads Instances (the desired state), and the VPCs and DHCPOptions of their networks. It writes Machines and
// MachineConsoles. A machine is pending while its network interfaces are plugged and its disk is created, and running
// once launch has started init. A reboot, or a start after a stop, is another Boot of the instance, and thereby another
// revision of the process. A machine that is shut down from inside stays off (PoweredOff) until the instance requests
// another boot. One that crashes is started again on the same disk, as EC2 recovers an instance. One whose first launch
// fails is terminated with the reason.
//
// The files of machines are below Options.Dir:
//
//	ami/<name>/       base images of root file systems, one for each image
//	i-…/spec.json     the specification for launch, written before each boot
//	i-…/status.json   the status, which launch writes
//	i-…/console.log   the output of init
//	i-…/disk          where its root volume is mounted, in its mount namespace alone
//	i-…/disk/root     the files that the machine has written over the base image
//	i-…/disk/containerd, kubelet, log   its /var/lib/containerd, /var/lib/kubelet, /var/log
//	i-…/layers        the layers of the images in its cache: links of files that all machines share, and only read
//	i-…/dhcp.json     the DHCP lease of eth0, of which each boot gives the machine a copy
//	i-…/fargate.json  what the guest of a Fargate pod's machine is to do, and fargate-token: also copied at each boot
//	i-…/run           its /run/coracle, where init reports the boot (package boot)
//	deleted-…         the directory of a machine that has been terminated, while it is removed
//
// A machine without a root volume, as that of an instance of earlier versions, has what is in disk directly in i-….
//
// A machine can write in its root, containerd, kubelet, log and run, and into its console: what lies there is
// read by package guestfile alone, and nothing of the host's is written there.
//
// Nothing of it is needed to remove a machine; see [Remove].
package machine
