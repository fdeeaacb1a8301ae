// Package kubeproxy starts kube-proxy on a machine of namespaces with EKS's own configuration.
//
// That configuration has kube-proxy set the size of the connection tracking table. In a network namespace that is not
// the host's the two files which it writes are the host's and read-only, and kube-proxy dies of it (kind changes the
// configuration for that reason). Here it gets files of its own in their places, in the mount namespace of its
// container, and is content.
package kubeproxy
