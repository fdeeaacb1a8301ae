// Package upstream finds the upstream Go programs that clusters and nodes run, and the node image, and builds those
// that are missing.
//
// There are three sets of programs, one file each, and one image:
//
//   - [Bundles]: the Kubernetes programs of a minor version, as one multi-call program ("kube kube-apiserver ..."),
//     from the module of that version in package kubernetes (kubernetes.go);
//   - [NodePrograms]: containerd, the VPC CNI, CoreDNS and whatever else nodes run, from the module that package node
//     pins (node.go);
//   - [Components]: what add-ons run, from the modules that package catalog names (component.go), and the files of
//     data that come with those modules (componentdata.go);
//   - the node image, which is made of Debian packages by package nodeimage ([NodePrograms.EnsureImage], node.go).
//
// All of them are found, built and cached in the same way (cache.go). A directory is chosen from, in this order,
//
//  1. the directory that the user names, by a flag or an environment variable, and if there is one no other;
//  2. a directory beside the coracle program, where "make build" and "make bundles" put programs;
//  3. a directory in the data directory, where a daemon builds what is missing.
//
// They contain, for example,
//
//	bundles/v1.35/kube                               with version and .lock beside it
//	node/containerd, node/coredns, ...               with node/version and node/.lock
//	node/image/node-image.tar.zst                    with node-image.json, version and .lock beside it
//	node/components/cert-manager/v1.21.2/controller  with version and .lock beside it
//	node/components/data/0123456789ab-crds.yaml
//
// In a downloaded archive, in which tar would decompress all of them for seconds, bundles and the programs of nodes are
// packed: kube.zst stands for kube. They are unpacked when they are first looked for (packed.go).
//
// The file "version" identifies everything that a program was built from. In the second and third place, programs of
// another version than this coracle would build are ignored, so that a new coracle does not start old programs.
//
// A build takes up to minutes with a cold Go cache. It runs once, whoever asks for it: callers in one process share a
// build and its progress (progress.go), and processes that share a directory take turns by a file lock. Programs
// appear under their names only when they are complete.
package upstream

import "errors"

// The environment variables that name the only directory to search and to build into, when [Options.Dir] is empty.
const (
	// EnvBundles names the directory of bundles.
	EnvBundles = "CORACLE_BUNDLES"
	// EnvNode names the directory of the programs of nodes, and of components.
	EnvNode = "CORACLE_NODE"
)

// ErrNotBuilt is returned for programs that no directory contains.
var ErrNotBuilt = errors.New("not built yet")

// Options locate programs.
type Options struct {
	// Dir, if not empty, is the only directory that is searched and built into.
	Dir string
	// DataDir is the daemon's data directory.
	DataDir string
}
