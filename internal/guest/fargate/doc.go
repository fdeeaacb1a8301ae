// Package fargate makes a machine the node of one Fargate pod: from the Config that its host gives it, to the
// configuration of containerd, the kubelet, kube-proxy, the EFS CSI driver and the log router, which units of
// fargate.target run (internal/guest/rootfs/files/kubernetes).
//
// The pod has the machine's own network namespace, so that its address is the node's and that of the machine's network
// interface: by the CNI plugin "fargate". What runs beside the pod has credentials of the pod execution role, which the
// metadata service gives for a token in a file that the pod does not see: by the credential process.
//
// It reads boot.HostDir, and writes below /etc and /var/lib. "coracle-node fargate" runs it: see [Main].
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
package fargate
