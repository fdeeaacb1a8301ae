// Package machine makes EC2 instances of Linux namespaces: it stands in for the hosts of EC2.
//
// A machine is one process that the daemon supervises and that outlives it, "coracle-node launch" (package launch): it
// makes the machine's namespaces, cgroup and root file system, and is its power switches. Everything else of the
// machine is inside. The [Controller] prepares what launch needs, and writes down what it sees.
//
// It reads Instances (what is wanted), the VPCs and DHCPOptions of their networks, and writes Machines and
// MachineConsoles. A machine's life: pending while its network is plugged and its disk made, running once launch has
// started its init; a reboot, or a start after a stop, is another Boot of the instance and thereby another revision of
// the process. A machine that is shut down from inside stays off (PoweredOff) until the instance wants another boot.
// One that dies is started again on the same disk, as EC2 recovers an instance. One that cannot be launched in the
// first place is terminated with the reason.
//
// Of what machines are made is found on disk, below Options.Dir:
//
//	ami/<name>/       base images of root file systems, one for each image
//	i-…/spec.json     what launch is to make, written before each boot
//	i-…/status.json   how launch says it is
//	i-…/console.log   what init has to say
//	i-…/root          what the machine has written over the base image
//	i-…/containerd, kubelet, log   its /var/lib/containerd, /var/lib/kubelet, /var/log
//	i-…/layers        the layers of the images in its cache: links of files that all machines share, and only read
//	i-…/dhcp.json     the DHCP lease of eth0, of which each boot gives the machine a copy
//	i-…/run           its /run/coracle, where init reports the boot (package boot)
//
// A machine can write in its root, containerd, kubelet, log and run, and into its console: what lies there is
// read by package guestfile alone, and nothing of the host's is written there.
//
// Nothing of it is needed to remove a machine; see [Remove].
package machine
