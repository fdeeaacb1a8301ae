// Package catalog has the data that EKS publishes about its add-ons: their versions, what these are compatible with,
// how they may be configured, and the objects that they are made of.
//
// An add-on is a directory of data files. addon.yaml says all but the objects (entry.go has its fields); these are in
// manifests beside it, which are Go templates (values.go says what they can speak of); defaults.yaml is the
// configuration that they get when a user gives none, and schema.json what a user may give. The directories of EKS's
// add-ons are below addons/ and part of the program. A user's own ("private add-ons") are directories of the same form
// below [Options.Dir], found as soon as they are there. docs/add-ons.md teaches how to write one.
//
// The package is pure but for reading that directory: it renders objects and applies none.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
package catalog

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coracle-eks/coracle/internal/record"
)

// Options say where a Catalog's entries come from.
type Options struct {
	// Dir has the user's own entries; it need not exist. Empty: there are none.
	Dir string
	// Data reads a file of a component that was built for an add-on, such as the CRDs that come with its module. Only
	// Render needs it.
	Data func(build Build, name string) ([]byte, error)
	Log  *slog.Logger // slog.Default() when nil; an entry of the user's that cannot be read is logged once and left out
}

// Addon is one entry. It is read-only.
type Addon struct {
	Name             string // "vpc-cni"
	Type             string // "networking"
	Publisher, Owner string // "eks", "aws"
	DefaultNamespace string // "kube-system"
	Marketplace      *ekstypes.MarketplaceInformation
	// Private is set for an entry of the user's.
	Private bool
	// Versions are sorted, newest first.
	Versions []Version
}

// Version is a version of an add-on. It is read-only.
type Version struct {
	Addon   string // its name
	Version string // "v1.23.2-eksbuild.1"
	// Architectures and ComputeTypes are as EKS names them: "amd64", "ec2".
	Architectures, ComputeTypes []string
	// Compatibilities are sorted by minor version, oldest first.
	Compatibilities        []Compatibility
	RequiresConfiguration  bool
	RequiresIAMPermissions bool
	// Identities are its service accounts that take an IAM role, the first of them the one of serviceAccountRoleArn.
	Identities []Identity
	// Schema is the JSON schema of its configuration.
	Schema json.RawMessage

	source *source // what it is rendered from
}

// Compatibility reports that a version may be used with a Kubernetes version.
type Compatibility struct {
	Minor   string // "1.35"
	Default bool   // it is what CreateAddon takes when asked for none
}

// Identity is a service account of an add-on that takes an IAM role.
type Identity struct {
	ServiceAccount string `yaml:"serviceAccount"`
	// ManagedPolicies are the ARNs of those that EKS recommends.
	ManagedPolicies []string `yaml:"policies"`
	// PodIdentity reports that it supports EKS Pod Identity.
	PodIdentity bool `yaml:"podIdentity"`
}

// RenderOptions is the input of [Version.Render].
type RenderOptions struct {
	Cluster  record.Cluster
	Endpoint string // of its API server, as users know it
	Minor    string // the Kubernetes version that its control plane runs, "1.35"
	// Config is the owner's configuration; an empty Namespace means the add-on's own.
	Config record.AddonConfig
}

// Object is one of the objects that an add-on is made of.
type Object struct {
	*unstructured.Unstructured
	// Yields are paths of fields that EKS sets but leaves to whoever else sets them, in the form of conflicts: values
	// of environment variables, the number of replicas. Those that the user's configuration speaks of are not among
	// them.
	Yields []string
}

// Version returns the version of that name, "v1.23.2-eksbuild.1".
func (a Addon) Version(version string) (Version, bool) {
	for _, v := range a.Versions {
		if v.Version == version {
			return v, true
		}
	}
	return Version{}, false
}

// Default returns the version that CreateAddon takes for a Kubernetes version ("1.35") when the request names none.
func (a Addon) Default(minor string) (Version, bool) {
	for _, v := range a.Versions {
		for _, c := range v.Compatibilities {
			if c.Minor == minor && c.Default {
				return v, true
			}
		}
	}
	return Version{}, false
}

// Serves reports whether the version may be used with a Kubernetes version ("1.35").
func (v Version) Serves(minor string) bool {
	for _, c := range v.Compatibilities {
		if c.Minor == minor {
			return true
		}
	}
	return false
}

// Images returns the images that the version's pods run in a region and Kubernetes version, sorted by reference.
func (v Version) Images(region, minor string) []Image {
	var all []Image
	for name := range v.source.images {
		image, err := v.resolveImage(name, region)
		if err != nil {
			continue // it was tried when the entry was read
		}
		all = append(all, image)
	}
	slices.SortFunc(all, func(a, b Image) int { return strings.Compare(a.Reference, b.Reference) })
	return all
}

// ImagesIn returns the version's images that the objects name anywhere: a configuration may leave some out.
func (v Version) ImagesIn(objects []Object, region, minor string) []Image {
	return slices.DeleteFunc(v.Images(region, minor), func(i Image) bool {
		return !slices.ContainsFunc(objects, func(o Object) bool { return containsText(o.Object, i.Reference) })
	})
}

// containsText reports whether a text within a value has another in it.
func containsText(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return containsText(item, text) })
	case map[string]any:
		for _, field := range v {
			if containsText(field, text) {
				return true
			}
		}
	}
	return false
}
