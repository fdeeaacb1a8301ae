package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/semver"
)

var (
	nameForm    = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9-_]{0,99}$`)
	versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	minorForm   = regexp.MustCompile(`^1\.[0-9]+$`)
)

// emptySchema allows no configuration at all.
const emptySchema = `{"$schema":"http://json-schema.org/draft-06/schema#","type":"object","properties":{},` +
	`"additionalProperties":false}`

// readAddon reads the entry in the root of files, which is not needed afterwards. dir is its name in errors.
func readAddon(files fs.FS, dir string, private bool, data func(Build, string) ([]byte, error)) (Addon, error) {
	name := dir + "/" + addonFile
	text, err := fs.ReadFile(files, addonFile)
	if err != nil {
		return Addon{}, err
	}
	var file entryFile
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return Addon{}, fmt.Errorf("%s: %s", name, inTheirWords(err))
	}
	r := reader{files: files, dir: dir, private: private, entry: &file, data: data, contents: map[string][]byte{},
		templates: map[string]*template.Template{}, manifests: map[string]*manifest{}}
	addon, err := r.parseAddon()
	if err != nil {
		return Addon{}, fmt.Errorf("%s: %w", name, err)
	}
	return addon, nil
}

var goType = regexp.MustCompile(` (not found )?in type catalog\.\w+`)

// inTheirWords returns the text of an error of the YAML parser without the names of Go types.
func inTheirWords(err error) string {
	text := goType.ReplaceAllStringFunc(err.Error(), func(s string) string {
		if strings.Contains(s, "not found") {
			return " is not known here"
		}
		return ""
	})
	text = strings.TrimPrefix(text, "yaml: unmarshal errors:\n  ")
	return strings.ReplaceAll(strings.TrimPrefix(text, "yaml: "), "\n  ", "; ")
}

type reader struct {
	files     fs.FS
	dir       string
	private   bool
	entry     *entryFile
	data      func(Build, string) ([]byte, error)
	contents  map[string][]byte             // of files that were read
	templates map[string]*template.Template // by file
	manifests map[string]*manifest          // by file
}

func (r *reader) parseAddon() (Addon, error) {
	f := r.entry
	switch {
	case !nameForm.MatchString(f.Name):
		return Addon{}, fmt.Errorf("name: %q is not up to 100 letters, digits, - and _", f.Name)
	case f.Namespace == "":
		return Addon{}, errors.New("namespace: it must say where the add-on goes")
	case len(f.Versions) == 0:
		return Addon{}, errors.New("versions: there are none")
	}
	if err := r.validate(); err != nil {
		return Addon{}, err
	}
	a := Addon{
		Name: f.Name, Type: f.Type, Publisher: cmp.Or(f.Publisher, "private"), Owner: cmp.Or(f.Owner, "private"),
		DefaultNamespace: f.Namespace, Private: r.private,
	}
	if m := f.Marketplace; m != nil {
		a.Marketplace = &ekstypes.MarketplaceInformation{ProductId: pointer(m.ProductID),
			ProductUrl: pointer(m.ProductURL)}
	}
	defaults := map[string]string{}
	for i, vf := range f.Versions {
		v, err := r.version(vf)
		if err != nil {
			return Addon{}, fmt.Errorf("versions[%d]: %w", i, err)
		}
		if _, twice := a.Version(v.Version); twice {
			return Addon{}, fmt.Errorf("versions[%d].version: %s is there twice", i, v.Version)
		}
		for _, c := range v.Compatibilities {
			if other := defaults[c.Minor]; c.Default && other != "" {
				return Addon{}, fmt.Errorf("versions[%d].default: Kubernetes %s has the default version %s already", i,
					c.Minor, other)
			}
			if c.Default {
				defaults[c.Minor] = v.Version
			}
		}
		a.Versions = append(a.Versions, v)
	}
	slices.SortStableFunc(a.Versions, func(x, y Version) int { return -compareVersions(x.Version, y.Version) })
	return a, nil
}

// validate checks what is the same for all versions.
func (r *reader) validate() error {
	for _, name := range slices.Sorted(maps.Keys(r.entry.Components)) {
		if err := r.entry.Components[name].validate(r.contentsOf); err != nil {
			return fmt.Errorf("components.%s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.entry.Images)) {
		if err := r.entry.Images[name].validate(r.entry.Components, r.private); err != nil {
			return fmt.Errorf("images.%s: %w", name, err)
		}
	}
	return nil
}

// contentsOf reads a file of the entry once.
func (r *reader) contentsOf(name string) ([]byte, error) {
	if b, found := r.contents[name]; found {
		return b, nil
	}
	b, err := fs.ReadFile(r.files, name)
	if err == nil {
		r.contents[name] = b
	}
	return b, err
}

func pointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// compareVersions compares versions in semver's order, and equal ones by their text.
func compareVersions(a, b string) int {
	return cmp.Or(semver.Compare(a, b), strings.Compare(a, b))
}

func (r *reader) version(f versionFile) (Version, error) {
	fields := f.versionFields.withDefaults(r.entry.versionFields)
	v := Version{
		Addon: r.entry.Name, Version: f.Version,
		Architectures: fields.Architectures, ComputeTypes: fields.ComputeTypes,
		RequiresConfiguration:  fields.RequiresConfiguration != nil && *fields.RequiresConfiguration,
		RequiresIAMPermissions: fields.RequiresIAMPermissions != nil && *fields.RequiresIAMPermissions,
		Identities:             fields.Identities,
	}
	if len(v.Architectures) == 0 {
		v.Architectures = []string{"amd64", "arm64"}
	}
	if len(v.ComputeTypes) == 0 {
		v.ComputeTypes = []string{"ec2"}
	}
	if !versionForm.MatchString(f.Version) {
		return v, fmt.Errorf("version: %q is not of the form v1.2.3-eksbuild.1", f.Version)
	}
	if len(fields.Kubernetes) == 0 {
		return v, errors.New("kubernetes: it must list the Kubernetes versions that it is for")
	}
	for _, minor := range fields.Kubernetes {
		if !minorForm.MatchString(minor) {
			return v, fmt.Errorf("kubernetes: %q is not a minor version such as \"1.35\" (with its quotes)", minor)
		}
		v.Compatibilities = append(v.Compatibilities, Compatibility{Minor: minor, Default: slices.Contains(f.Default,
			minor)})
	}
	slices.SortFunc(v.Compatibilities, func(a, b Compatibility) int { return semver.Compare("v"+a.Minor, "v"+b.Minor) })
	for _, minor := range f.Default {
		if !v.Serves(minor) {
			return v, fmt.Errorf("default: %q is not among its Kubernetes versions", minor)
		}
	}
	for i, identity := range v.Identities {
		if identity.ServiceAccount == "" {
			return v, fmt.Errorf("identities[%d].serviceAccount: it is missing", i)
		}
	}
	for name := range f.Images {
		if _, found := r.entry.Images[name]; !found {
			return v, fmt.Errorf("images: there is no %q among the images of the add-on", name)
		}
	}
	s, err := r.loadSource(fields, &v)
	if err != nil {
		return v, err
	}
	s.imageVersions = f.Images
	v.source = s
	for name := range s.images {
		if _, err := v.resolveImage(name, "us-east-1"); err != nil {
			return v, fmt.Errorf("images.%s: %w", name, err)
		}
	}
	return v, nil
}

func (r *reader) loadSource(f versionFields, v *Version) (*source, error) {
	s := &source{
		yields: map[string][]pattern{}, images: r.entry.Images, components: r.entry.Components, private: r.private,
		file:      r.contentsOf,
		namespace: r.entry.Namespace, data: r.data,
	}
	if len(f.Manifests) == 0 {
		return nil, errors.New("manifests: there are none")
	}
	for _, name := range f.Manifests {
		m, err := r.manifest(name)
		if err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
		s.manifests = append(s.manifests, m)
	}
	if f.Defaults != "" {
		t, err := r.template(f.Defaults)
		if err != nil {
			return nil, fmt.Errorf("defaults: %w", err)
		}
		s.defaults = t
	}
	schema := []byte(emptySchema)
	if f.Schema != "" {
		text, err := r.contentsOf(f.Schema)
		if err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
		schema = text
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, schema); err != nil {
		return nil, fmt.Errorf("schema: %s/%s: %w", r.dir, f.Schema, err)
	}
	v.Schema = compact.Bytes()
	var err error
	if s.schema, err = compileSchema(v.Schema); err != nil {
		return nil, fmt.Errorf("schema: %s/%s: %w", r.dir, f.Schema, err)
	}
	for object, patterns := range f.Yields {
		for _, text := range patterns {
			p, err := parsePattern(text)
			if err != nil {
				return nil, fmt.Errorf("yields: %s: %w", object, err)
			}
			s.yields[object] = append(s.yields[object], p)
		}
	}
	return s, nil
}

func (r *reader) manifest(name string) (*manifest, error) {
	if m := r.manifests[name]; m != nil {
		return m, nil
	}
	t, err := r.template(name)
	if err != nil {
		return nil, err
	}
	m, err := newManifest(t)
	r.manifests[name] = m
	return m, err
}

// template reads a file once.
func (r *reader) template(name string) (*template.Template, error) {
	if t := r.templates[name]; t != nil {
		return t, nil
	}
	text, err := r.contentsOf(name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(r.dir + "/" + name).Option("missingkey=error").Funcs(functions(nil)).Parse(string(text))
	if err != nil {
		return nil, templateError(err)
	}
	r.templates[name] = t
	return t, nil
}
