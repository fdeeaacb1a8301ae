package catalog

import (
	"cmp"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// addonFile is the file that the directory of an entry must have.
const addonFile = "addon.yaml"

// entryFile is addon.yaml.
type entryFile struct {
	Name      string `yaml:"name"`
	Type      string `yaml:"type"` // what it is for: networking, storage, security, observability, ...
	Publisher string `yaml:"publisher"`
	Owner     string `yaml:"owner"`
	Namespace string `yaml:"namespace"` // where it goes unless the user says otherwise
	// Marketplace is that of AWS Marketplace; none for EKS's own.
	Marketplace *struct {
		ProductID  string `yaml:"productId"`
		ProductURL string `yaml:"productUrl"`
	} `yaml:"marketplace"`

	// What follows a version may say otherwise.
	versionFields `yaml:",inline"`

	// Images are the images that its pods run, by the name that manifests use for them; Components are built into these
	// images.
	Images     map[string]imageEntry     `yaml:"images"`
	Components map[string]componentEntry `yaml:"components"`
	Versions   []versionFile             `yaml:"versions"`
}

// versionFile is one of its versions.
type versionFile struct {
	Version string `yaml:"version"`
	// Default are the Kubernetes versions of which it is the default.
	Default []string `yaml:"default"`
	// Images are the versions of those images that have not the add-on's: side-cars.
	Images        map[string]string `yaml:"images"`
	versionFields `yaml:",inline"`
}

// versionFields are the fields that an entry sets for all of its versions, or a version for itself.
type versionFields struct {
	Kubernetes             []string   `yaml:"kubernetes"` // the minor versions that it may be used with
	Architectures          []string   `yaml:"architectures"`
	ComputeTypes           []string   `yaml:"computeTypes"`
	RequiresConfiguration  *bool      `yaml:"requiresConfiguration"`
	RequiresIAMPermissions *bool      `yaml:"requiresIAMPermissions"`
	Identities             []Identity `yaml:"identities"`
	// Manifests are the files of objects, Defaults that of the configuration when there is none, Schema that of what it
	// may be.
	Manifests []string `yaml:"manifests"`
	Defaults  string   `yaml:"defaults"`
	Schema    string   `yaml:"schema"`
	// Yields are patterns of fields that the add-on leaves to others who set them, by "Kind/name".
	Yields map[string][]string `yaml:"yields"`
}

// withDefaults returns the fields of a version, with those of the entry where the version sets none.
func (f versionFields) withDefaults(all versionFields) versionFields {
	or := func(mine, all []string) []string {
		if mine == nil {
			return all
		}
		return mine
	}
	out := versionFields{
		Kubernetes: or(f.Kubernetes, all.Kubernetes), Architectures: or(f.Architectures, all.Architectures),
		ComputeTypes:           or(f.ComputeTypes, all.ComputeTypes),
		RequiresConfiguration:  cmp.Or(f.RequiresConfiguration, all.RequiresConfiguration),
		RequiresIAMPermissions: cmp.Or(f.RequiresIAMPermissions, all.RequiresIAMPermissions),
		Identities:             f.Identities, Manifests: or(f.Manifests, all.Manifests),
		Defaults: cmp.Or(f.Defaults, all.Defaults),
		Schema:   cmp.Or(f.Schema, all.Schema),
		Yields:   f.Yields,
	}
	if f.Identities == nil {
		out.Identities = all.Identities
	}
	if f.Yields == nil {
		out.Yields = all.Yields
	}
	return out
}

// source is the input that a version is rendered from.
type source struct {
	manifests     []*manifest
	defaults      *template.Template // nil: none
	schema        *jsonschema.Schema
	yields        map[string][]pattern
	images        map[string]imageEntry
	imageVersions map[string]string // of those that have not the add-on's
	components    map[string]componentEntry
	private       bool
	file          func(name string) ([]byte, error) // of the entry's directory
	namespace     string
	data          func(Build, string) ([]byte, error)
}
