package catalog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
)

// manifest is a file of objects.
type manifest struct {
	template *template.Template
	// always are its objects when they are the same for every cluster, as those of CRDs are: read once, for that is
	// most of the work of a rendering.
	always []*unstructured.Unstructured
}

func newManifest(t *template.Template) (*manifest, error) {
	m := &manifest{template: t}
	for _, node := range t.Root.Nodes {
		if node.Type() != parse.NodeText {
			return m, nil
		}
	}
	var err error
	m.always, err = m.parseObjects(nil, values{})
	return m, err
}

func (m *manifest) renderObjects(f template.FuncMap, v values) ([]*unstructured.Unstructured, error) {
	if m.always == nil {
		return m.parseObjects(f, v)
	}
	objects := make([]*unstructured.Unstructured, 0, len(m.always))
	for _, o := range m.always {
		objects = append(objects, o.DeepCopy())
	}
	return objects, nil
}

func (m *manifest) parseObjects(f template.FuncMap, v values) ([]*unstructured.Unstructured, error) {
	text, err := execute(m.template, f, v)
	if err != nil {
		return nil, err
	}
	objects, err := documents(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.template.Name(), err)
	}
	return objects, nil
}

func execute(t *template.Template, f template.FuncMap, values values) ([]byte, error) {
	mine, err := t.Clone()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := mine.Funcs(f).Execute(&text, values); err != nil {
		return nil, templateError(err)
	}
	return text.Bytes(), nil
}

var noField = regexp.MustCompile(`executing "[^"]*" at <([^>]*)>: can't evaluate field (\w+) in type catalog\.\w+`)

// templateError returns an error of the template package without the package's own names: "vpc-cni/aws-node.yaml:9:14:
// there is no .Replicas".
func templateError(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: ")
	return &plainError{noField.ReplaceAllString(text, "there is no $1"), err}
}

// plainError is an error in other words.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// documents parses the objects of a file of YAML documents. It leaves out empty documents and null fields.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		part, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		// A template may have put what a tenant configured into it.
		if err = document.CheckYAML(part); err == nil {
			err = sigsyaml.UnmarshalStrict(part, &o.Object)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("document %d: an object needs apiVersion, kind and metadata.name", n)
		}
		o.Object = normalizeValue(o.Object).(map[string]any)
		all = append(all, o)
	}
}

// normalizeValue removes null fields from a value, and converts its numbers to the types of the API machinery.
func normalizeValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
			} else {
				v[key] = normalizeValue(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = normalizeValue(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case int:
		return int64(v)
	}
	return v
}
