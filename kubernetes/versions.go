// Package kubernetes says which Kubernetes versions Coracle serves, and holds what their bundles are
// built from.
//
// Every minor version is a small Go module of its own beside this file (v1.33, v1.34, ...), because
// two minor versions of Kubernetes cannot be linked into one program. Such a module is go.mod,
// go.sum and one main.go; package upstream (internal/upstream) compiles it into the program that
// runs the control planes and nodes of that version.
//
// The coracle program carries the sources of the modules, so that it can build a version on first
// use wherever it is installed. Go does not embed files of another module, hence the files proper
// are in source/, and the modules are symbolic links to them. "cd kubernetes/v1.35 && go mod tidy"
// works as in any module.
//
// A new minor version is a line in the table below, source/v1.NN.mod and .sum, and the links.
package kubernetes

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Default is the minor version of a cluster that is created without naming one.
const Default = "1.35"

// Version is one minor version, with what EKS publishes about it.
type Version struct {
	// Minor is the version as EKS writes it: "1.35".
	Minor string
	// PlatformVersion is the EKS platform version whose behavior is served: "eks.9".
	// https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html
	PlatformVersion string
	// Released is the day on which EKS offered the version; standard and extended support end on
	// the other two, at midnight UTC.
	// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html#kubernetes-release-calendar
	Released             time.Time
	EndOfStandardSupport time.Time
	EndOfExtendedSupport time.Time

	buildDate string // when upstream released the patch version
}

var versions = []Version{
	{"1.33", "eks.33", day(2025, 5, 29), day(2026, 7, 29), day(2027, 7, 29), "2026-06-11T16:59:07Z"},
	{"1.34", "eks.19", day(2025, 10, 2), day(2026, 12, 2), day(2027, 12, 2), "2026-02-10T12:53:36Z"},
	{"1.35", "eks.9", day(2026, 1, 27), day(2027, 3, 27), day(2028, 3, 27), "2026-04-15T18:01:22Z"},
	{"1.36", "eks.13", day(2026, 6, 2), day(2027, 8, 2), day(2028, 8, 2), "2026-07-22T18:07:38Z"},
}

func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// Versions lists the supported versions, oldest first.
func Versions() []Version {
	return append([]Version(nil), versions...)
}

// Lookup finds a version by its minor version, "1.35".
func Lookup(minor string) (Version, bool) {
	for _, v := range versions {
		if v.Minor == minor {
			return v, true
		}
	}
	return Version{}, false
}

// MinorNumber returns the number of a minor version: 35 of "1.35".
func MinorNumber(minor string) int {
	_, number, _ := strings.Cut(minor, ".")
	n, _ := strconv.Atoi(number) // versions come from the table
	return n
}

// Support is the support status of a version, in the words of the EKS API (VersionStatus).
type Support string

// The stages of support, in their order.
const (
	StandardSupport Support = "STANDARD_SUPPORT"
	ExtendedSupport Support = "EXTENDED_SUPPORT"
	Unsupported     Support = "UNSUPPORTED"
)

// Support returns the support status of the version at a time.
func (v Version) Support(at time.Time) Support {
	switch {
	case at.Before(v.EndOfStandardSupport):
		return StandardSupport
	case at.Before(v.EndOfExtendedSupport):
		return ExtendedSupport
	}
	return Unsupported
}

//go:embed source
var source embed.FS

// Source returns the Go module that the bundle of the version is built from: file names and contents.
func (v Version) Source() map[string][]byte {
	files := make(map[string][]byte)
	for name, stored := range map[string]string{
		"go.mod":  "v" + v.Minor + ".mod",
		"go.sum":  "v" + v.Minor + ".sum",
		"main.go": "main.go.txt",
	} {
		content, err := source.ReadFile("source/" + stored)
		if err != nil {
			panic(fmt.Sprintf("kubernetes %s is in the table of versions, but its module is not embedded: %v", v.Minor,
				err))
		}
		files[name] = content
	}
	return files
}

// Patch returns the upstream release that the module pins: "1.35.4".
func (v Version) Patch() string { return pins()[v.Minor].patch }

// GitCommit identifies the sources of the bundle, as 40 hexadecimal digits: a digest, for it is the
// module that is built, with HostPatches, and not a commit of upstream's repository.
func (v Version) GitCommit() string { return pins()[v.Minor].digest }

// GitVersion returns the version that the API server and the nodes report: "v1.35.4-eks-0123abc". As on EKS the last
// part names the build; here it is the beginning of GitCommit, so that equal names mean equal sources.
func (v Version) GitVersion() string {
	return "v" + v.Patch() + "-eks-" + v.GitCommit()[:7]
}

type pin struct{ patch, digest string }

var requiresKubernetes = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\S+)`)

// pins reads from the modules what they pin, by minor version.
var pins = sync.OnceValue(func() map[string]pin {
	pins := make(map[string]pin)
	for _, v := range versions {
		files := v.Source()
		match := requiresKubernetes.FindSubmatch(files["go.mod"])
		if match == nil {
			panic(fmt.Sprintf("kubernetes/source/v%s.mod does not require k8s.io/kubernetes", v.Minor))
		}
		digest := sha256.New()
		for _, name := range []string{"go.mod", "go.sum", "main.go"} {
			fmt.Fprintf(digest, "%s %d\n", name, len(files[name]))
			digest.Write(files[name])
		}
		for _, p := range HostPatches() {
			fmt.Fprintf(digest, "%q\n", p)
		}
		pins[v.Minor] = pin{patch: string(match[1]), digest: hex.EncodeToString(digest.Sum(nil))[:40]}
	}
	return pins
})

// Stamps returns the values that upstream's release puts into the variables of k8s.io/component-base/version and
// k8s.io/client-go/pkg/version, by the name of the variable.
func (v Version) Stamps() map[string]string {
	major, minor, _ := strings.Cut(v.Minor, ".")
	return map[string]string{
		"gitVersion":   v.GitVersion(),
		"gitMajor":     major,
		"gitMinor":     minor,
		"gitCommit":    v.GitCommit(),
		"gitTreeState": "clean",
		"buildDate":    v.buildDate,
	}
}
