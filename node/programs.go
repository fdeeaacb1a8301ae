// Package node says what runs on nodes beside Kubernetes itself: containerd and its runtime shim, the CNI
// plugins, the parts of the Amazon VPC CNI, CoreDNS, and the programs by which a node gets credentials.
//
// They are upstream's, pinned in one small Go module beside this file (programs/): one module rather than one
// each because they share most of their libraries, which halves the time of a first build. Package upstream
// (internal/upstream) builds it.
//
// The coracle program carries the sources of the module, as it does those of Kubernetes; the files proper are
// in source/, and programs/ has symbolic links to them, so that "cd node/programs && go get ..." works as in
// any module.
package node

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
)

// Programs returns the packages to build, by the name of the program.
func Programs() map[string]string { return maps.Clone(programs) }

const (
	cni        = "github.com/containernetworking/plugins"
	vpcCNI     = "github.com/aws/amazon-vpc-cni-k8s"
	containerd = "github.com/containerd/containerd/v2"
	coredns    = "github.com/coredns/coredns"
)

var programs = map[string]string{
	"containerd":              containerd + "/cmd/containerd",
	"containerd-shim-runc-v2": containerd + "/cmd/containerd-shim-runc-v2",
	"ctr":                     containerd + "/cmd/ctr",

	"loopback":   cni + "/plugins/main/loopback",
	"bridge":     cni + "/plugins/main/bridge",
	"ptp":        cni + "/plugins/main/ptp",
	"host-local": cni + "/plugins/ipam/host-local",
	"portmap":    cni + "/plugins/meta/portmap",
	"bandwidth":  cni + "/plugins/meta/bandwidth",

	"aws-k8s-agent":     vpcCNI + "/cmd/aws-k8s-agent",
	"aws-vpc-cni":       vpcCNI + "/cmd/aws-vpc-cni",
	"aws-vpc-cni-init":  vpcCNI + "/cmd/aws-vpc-cni-init",
	"aws-cni":           vpcCNI + "/cmd/routed-eni-cni-plugin",
	"egress-cni":        vpcCNI + "/cmd/egress-cni-plugin",
	"grpc-health-probe": vpcCNI + "/cmd/grpc-health-probe",

	"coredns":                 "./coredns",
	"pause":                   "./pause",
	"ecr-credential-provider": "k8s.io/cloud-provider-aws/cmd/ecr-credential-provider",
	"aws-iam-authenticator":   "sigs.k8s.io/aws-iam-authenticator/cmd/aws-iam-authenticator",
	"agnhost":                 "k8s.io/kubernetes/test/images/agnhost",
}

// Data returns files that the programs need, by name: "MODULE//path".
func Data() map[string]string {
	return map[string]string{
		"10-aws.conflist":  vpcCNI + "//misc/10-aws.conflist",
		"eni-max-pods.txt": vpcCNI + "//misc/eni-max-pods.txt",
	}
}

// Tags leave out of containerd what no node here can use: snapshotters that want C or a file system that is rare.
// The tags of releases that are about C, netgo and osusergo, change nothing without it but the files of package net,
// and all that imports it would be compiled twice.
func Tags() []string { return []string{"no_btrfs", "no_devmapper", "no_zfs"} }

// Stamps returns the values that upstream's releases give to variables.
func Stamps() map[string]string {
	return map[string]string{
		containerd + "/version.Version": Pinned(containerd),
		vpcCNI + "/pkg/version.Version": Pinned(vpcCNI),
		// of its plugins: ipamd serves those of its own version only
		"main.version": Pinned(vpcCNI),
		"sigs.k8s.io/aws-iam-authenticator/pkg.Version": Pinned("sigs.k8s.io/aws-iam-authenticator"),
		cni + "/pkg/utils/buildversion.BuildVersion":    Pinned(cni),
		coredns + "/coremain.gitTag":                    Pinned(coredns),
	}
}

//go:embed source
var source embed.FS

// Source is the Go module: file names and contents.
var Source = sync.OnceValue(func() map[string][]byte {
	files := make(map[string][]byte)
	for name, stored := range map[string]string{
		"go.mod":          "programs.mod",
		"go.sum":          "programs.sum",
		"coredns/main.go": "coredns.go.txt",
		"pause/main.go":   "pause.go.txt",
	} {
		content, err := source.ReadFile("source/" + stored)
		if err != nil {
			panic(fmt.Sprintf("the module of the node programs is not embedded: %v", err))
		}
		files[name] = content
	}
	return files
})

// Pinned returns the version of a module that the programs are built from: "v2.4.2".
func Pinned(module string) string {
	match := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(
		Source()["go.mod"])
	if match == nil {
		panic("node/source/programs.mod does not require " + module)
	}
	return string(match[1])
}

// Version names a build of the programs: equal names mean equal sources.
var Version = sync.OnceValue(func() string {
	digest := sha256.New()
	add := func(name string, content []byte) {
		fmt.Fprintf(digest, "%s %d\n", name, len(content))
		digest.Write(content)
	}
	files := Source()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		add(name, files[name])
	}
	add("recipe", fmt.Append(nil, programs, Data(), Tags(), Stamps())) // fmt prints maps in the order of their keys
	return "node-" + hex.EncodeToString(digest.Sum(nil))[:12]
})
