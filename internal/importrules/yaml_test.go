package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pairwise are the YAML libraries that compare each pair of keys of a mapping when they decode it, and keep an error
// for each pair that is equal. Their nodes are safe to read.
var pairwise = []string{"go.yaml.in/yaml/v3", "go.yaml.in/yaml/v4", "gopkg.in/yaml.v3", "sigs.k8s.io/yaml/goyaml.v3",
	"sigs.k8s.io/yaml/kyaml"}

// linear are those whose work is in proportion to the document once its aliases are replaced.
var linear = []string{"go.yaml.in/yaml/v2", "gopkg.in/yaml.v2", "sigs.k8s.io/yaml", "sigs.k8s.io/yaml/goyaml.v2",
	"k8s.io/apimachinery/pkg/util/yaml"}

// trusted are the declarations that decode YAML without asking package document first, and why no tenant wrote it.
var trusted = map[string]string{
	"internal/document/document.go ParseYAML":                      "it makes nodes, and is how others make them",
	"internal/catalog/configuration.go readConfiguration":          "it makes nodes, to count documents",
	"internal/catalog/read.go readAddon":                           "a file of the operator's catalog",
	"internal/host/simulated/pods.go podStages":                    "built in",
	"internal/controller/controlplane/bootstrap.go parseManifests": "built in",
	"internal/controller/capability/definitions.go parseObjects":   "comes with the module of a program",
}

// shallow are the declarations that encode with a library that has nodes, and why what they encode is not deep: each
// line is indented as deeply as its node is nested, so that 100 KB of brackets become gigabytes.
var shallow = map[string]string{
	"internal/kube/awsauth/maproles.go Remove": "parseRoles refuses more than maxDepth levels",
}

// encoders returns the places in a file that encode YAML with a pairwise library, as shallow calls them.
func encoders(file *ast.File, name string) []string {
	local, _ := yamlImports(file)
	var found []string
	for _, declaration := range file.Decls {
		encodes := false
		ast.Inspect(declaration, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Marshal", "NewEncoder", "Dump", "NewDumper"},
				s.Sel.Name) && slices.Contains(pairwise, pathOf(s, local)) {
				encodes = true
			}
			return true
		})
		if encodes {
			found = append(found, placeOf(declaration, name))
		}
	}
	return found
}

// pathOf returns the package of a selector, by the imports of its file; "" when it is of no package.
func pathOf(s *ast.SelectorExpr, local map[string]string) string {
	if x, _ := s.X.(*ast.Ident); x != nil && x.Obj == nil { // no variable of that name
		return local[x.Name]
	}
	return ""
}

// placeOf names a declaration of a file, as trusted calls it.
func placeOf(declaration ast.Decl, name string) string {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		name += " " + d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.ValueSpec); ok {
				name += " " + s.Names[0].Name
			}
		}
	}
	return name
}

// yamlImports returns the path of each import by its name in the file, and whether there may be nodes of a pairwise
// library.
func yamlImports(file *ast.File) (local map[string]string, nodes bool) {
	local = make(map[string]string)
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		nodes = nodes || slices.Contains(pairwise, path) || path == Module+"internal/document"
		if spec.Name != nil {
			local[spec.Name.Name] = path
		} else if slices.Contains(pairwise, path) || slices.Contains(linear, path) {
			local["yaml"] = path
		} else {
			local[filepath.Base(path)] = path
		}
	}
	return local, nodes
}

// decoders returns the places in a file that decode YAML, as trusted calls them, and whether each has the document
// checked.
func decoders(file *ast.File, name string) map[string]bool {
	local, nodes := yamlImports(file)
	found := make(map[string]bool)
	for _, declaration := range file.Decls {
		decodes, checks, never := false, false, false
		ast.Inspect(declaration, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			path := pathOf(s, local)
			means := slices.ContainsFunc([]string{"Unmarshal", "NewDecoder", "NewYAML", "YAMLToJSON", "Load", "ToJSON"},
				func(prefix string) bool { return strings.HasPrefix(s.Sel.Name, prefix) })
			switch {
			case path == Module+"internal/document" && strings.HasPrefix(s.Sel.Name, "CheckYAML"):
				checks = true
			case means && slices.Contains(linear, path):
				decodes = true
			case means && slices.Contains(pairwise, path), nodes && path == "" && s.Sel.Name == "Decode":
				never = true
			}
			return true
		})
		if decodes || never {
			found[placeOf(declaration, name)] = checks && !never
		}
	}
	return found
}

// TestYAMLOfTenantsIsReadInProportion refuses decoders of YAML on what tenants write, unless package document has
// checked that the document is no larger than it looks.
func TestYAMLOfTenantsIsReadInProportion(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	eachSource(t, []string{"cmd", "internal", "kubernetes", "node"}, func(s source) {
		for at, checked := range decoders(s.file, s.name) {
			used[at] = true
			if _, named := trusted[at]; !named && !checked {
				t.Errorf("%s decodes YAML: read the nodes of document.ParseYAML, or call document.CheckYAML before "+
					"a decoder of sigs.k8s.io/yaml, or name it here and say why no tenant wrote the text", at)
			}
		}
	})
	for at := range trusted {
		if !used[at] {
			t.Errorf("the table has %s, which decodes no YAML", at)
		}
	}
}

// TestNodesOfTenantsAreNotEncoded keeps the nodes of what tenants write from encoders, unless their depth is bounded.
func TestNodesOfTenantsAreNotEncoded(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	eachSource(t, []string{"cmd", "internal", "kubernetes", "node"}, func(s source) {
		for _, at := range encoders(s.file, s.name) {
			used[at] = true
			if shallow[at] == "" {
				t.Errorf("%s encodes YAML with a library that has nodes: edit the text, or encode values with "+
					"sigs.k8s.io/yaml, or name it here and say what bounds the depth of its nodes", at)
			}
		}
	})
	for at := range shallow {
		if !used[at] {
			t.Errorf("the table has %s, which encodes no YAML", at)
		}
	}
}

func TestEncodersOfYAMLAreSeen(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		`import "go.yaml.in/yaml/v3"; func f(n *yaml.Node) { yaml.Marshal(n) }`:                  true,
		`import y "sigs.k8s.io/yaml/goyaml.v3"; func f(n *y.Node) { y.NewEncoder(w).Encode(n) }`: true,
		`import "go.yaml.in/yaml/v4"; var encode = yaml.Marshal`:                                 true,
		`import "go.yaml.in/yaml/v3"; func f(n *yaml.Node) { yaml.Unmarshal(n) }`:                false,
		`import "sigs.k8s.io/yaml"; func f() { yaml.Marshal(a) }`:                                false,
		`import "encoding/json"; func f() { json.Marshal(a) }`:                                   false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(encoders(file, "x.go")) > 0; got != want {
			t.Errorf("%s encodes: %v, want %v", code, got, want)
		}
	}
}

func TestDecodersOfYAMLAreSeen(t *testing.T) {
	t.Parallel()
	const document = `import "` + Module + `internal/document"; `
	for code, want := range map[string]string{
		`import "sigs.k8s.io/yaml"; func f() { yaml.Unmarshal(a, &b) }`:                                    "unchecked",
		`import "sigs.k8s.io/yaml"; func f() { yaml.Marshal(a) }`:                                          "",
		document + `import "sigs.k8s.io/yaml"; func f() { document.CheckYAML(a); yaml.YAMLToJSON(a) }`:     "checked",
		document + `import y "go.yaml.in/yaml/v3"; func f() { document.CheckYAML(a); y.Unmarshal(a, &b) }`: "unchecked",
		document + `import "go.yaml.in/yaml/v3"; func f(n *yaml.Node) { n.Decode(&b) }`:                    "unchecked",
		document + `func f() { n, _ := document.ParseYAML(a); n.Content[0].Decode(&b) }`:                   "unchecked",
		document + `import "example.com/base"; func f() { base.Decode(a); document.ParseYAML(a) }`:         "",
		`import "encoding/json"; func f() { json.NewDecoder(r).Decode(&a); json.Unmarshal(a, &b) }`:        "",
		`import k "k8s.io/apimachinery/pkg/util/yaml"; var d = k.NewYAMLOrJSONDecoder(r, 1)`:               "unchecked",
		`import "sigs.k8s.io/yaml"; func f() { yaml := struct{ Unmarshal func() }{}; yaml.Unmarshal() }`:   "",
		`import "sigs.k8s.io/yaml/goyaml.v3"; func f() { yaml.Unmarshal(a, &b) }`:                          "unchecked",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, checked := range decoders(file, "x.go") {
			got = map[bool]string{true: "checked", false: "unchecked"}[checked]
		}
		if got != want {
			t.Errorf("%s is %q, want %q", code, got, want)
		}
	}
}
