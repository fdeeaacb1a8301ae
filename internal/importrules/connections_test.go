package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// connecting are the names, by package, with which a program connects to others or asks a DNS server. A "*" at the end
// stands for anything.
var connecting = map[string][]string{
	"net": {"Dial*", "Dialer", "Resolver", "DefaultResolver", "Lookup*"},
	"net/http": {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post",
		"PostForm"},
	"net/rpc":                    {"*"},
	"net/smtp":                   {"*"},
	"crypto/tls":                 {"Dial*", "Client"},
	"syscall":                    {"Connect"},
	"golang.org/x/sys/unix":      {"Connect"},
	"google.golang.org/grpc":     {"Dial*", "NewClient"},
	"github.com/miekg/dns":       {"Client", "Exchange*", "Dial*", "Transfer"},
	"go.etcd.io/etcd/client/v3":  {"New*"},
	"k8s.io/client-go/rest":      {"*ClientFor*", "TransportFor"},
	"k8s.io/client-go/transport": {"New*", "TLSConfigFor"},
	"github.com/google/go-containerregistry/pkg/v1/remote": {"Get", "Head", "Image", "Index", "Layer",
		"List*", "Catalog*", "Write*", "Put", "Push", "MultiWrite", "Tag", "Delete", "Referrers", "NewPu*"},
	"github.com/google/go-containerregistry/pkg/v1/remote/transport": {"New*", "Ping"},
	"github.com/google/go-containerregistry/pkg/crane":               {"*"},
	"github.com/coreos/go-oidc/v3/oidc":                              {"NewProvider*", "NewRemoteKeySet"},
	"github.com/aws/aws-sdk-go-v2/config":                            {"LoadDefaultConfig"},
	"github.com/aws/aws-sdk-go-v2/aws/transport/http":                {"New*"},
}

// everywhere are names that connect in any package below a path.
var everywhere = map[string][]string{"k8s.io/client-go/": {"NewForConfig", "NewForConfigOrDie",
	"NewDiscoveryClientForConfig", "NewDiscoveryClientForConfigOrDie"}}

// clientOptions reports whether a type is a structure of the AWS SDK that makes a client of the network unless
// HTTPClient is set.
func clientOptions(importPath, name string) bool {
	return importPath == "github.com/aws/aws-sdk-go-v2/aws" && name == "Config" ||
		strings.HasPrefix(importPath, "github.com/aws/aws-sdk-go-v2/service/") && name == "Options"
}

func connects(importPath, name string) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	}
	if slices.ContainsFunc(connecting[importPath], matches) {
		return true
	}
	for prefix, patterns := range everywhere {
		if strings.HasPrefix(importPath, prefix) && slices.ContainsFunc(patterns, matches) {
			return true
		}
	}
	return false
}

// place is a declaration that connects, and by what.
type place struct{ name, by string }

// connections lists the places in a file that connect to something.
func connections(file *ast.File, name string) (found []place) {
	imports := make(map[string]string)
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		local := path.Base(importPath)
		if len(local) > 1 && local[0] == 'v' && strings.Trim(local[1:], "0123456789") == "" { // .../client/v3
			local = path.Base(path.Dir(importPath))
		}
		switch {
		case spec.Name != nil:
			local = spec.Name.Name
		case importPath == "go.etcd.io/etcd/client/v3":
			local = "clientv3"
		}
		imports[local] = importPath
	}
	selected := func(n ast.Expr) (importPath, name string, ok bool) {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return "", "", false
		}
		x, ok := s.X.(*ast.Ident)
		if !ok || x.Obj != nil { // a variable of that name
			return "", "", false
		}
		importPath, ok = imports[x.Name]
		return importPath, s.Sel.Name, ok
	}
	for _, declaration := range file.Decls {
		at := name
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			at += " " + d.Name.Name
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					at += " " + s.Name.Name
				case *ast.ValueSpec:
					at += " " + s.Names[0].Name
				}
			}
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StarExpr: // a pointer to a client that somebody else made
				if importPath, name, ok := selected(n.X); ok && connects(importPath, name) {
					return false
				}
			case *ast.CompositeLit:
				importPath, name, ok := selected(n.Type)
				if !ok || !clientOptions(importPath, name) {
					break
				}
				set := slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
					pair, ok := e.(*ast.KeyValueExpr)
					if !ok {
						return false
					}
					key, ok := pair.Key.(*ast.Ident)
					return ok && key.Name == "HTTPClient"
				})
				if !set && len(n.Elts) > 0 {
					found = append(found, place{at, importPath + "." + name + " without HTTPClient"})
				}
			case *ast.SelectorExpr:
				if importPath, name, ok := selected(n); ok && connects(importPath, name) {
					found = append(found, place{at, importPath + "." + name})
				}
			}
			return true
		})
	}
	return found
}

// apiServerClients is the file that makes the connections of all clients of API servers.
const apiServerClients = "internal/kube/client/http.go"

// A request to an address that a user chose goes through package outbound, which refuses this host and its neighbors.
// So whoever connects to something else is in the table, with the reason why no user chooses the address.
func TestOnlyNamedPlacesConnect(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	eachSource(t, []string{"internal", "cmd/coracle", "kubernetes", "node"}, func(s source) {
		if slices.ContainsFunc(Inside, func(dir string) bool { return isWithinPath(s.dir, dir) }) {
			return
		}
		if slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
			return // part of tests
		}
		kubernetes := slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool {
			return strings.HasPrefix(i.Path.Value, `"k8s.io/client-go/`)
		})
		for _, p := range connections(s.file, s.name) {
			if kubernetes && s.name != apiServerClients {
				t.Errorf("%s uses %s: clients of API servers are made by HTTP of %s, which bounds what they read",
					p.name, p.by, apiServerClients)
			}
			if _, named := Connections[p.name]; !named {
				t.Errorf(
					"%s uses %s: connect to addresses that users choose by package outbound, or name the place "+
						"in internal/importrules and say why no user chooses where it leads", p.name, p.by)
			}
			used[p.name] = true
		}
	})
	for name := range Connections {
		if !used[name] {
			t.Errorf("the table has %s, which connects to nothing", name)
		}
	}
}

func TestConnectionsAreSeen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code string
		want int
	}{
		{`import "net"; var d net.Dialer`, 1},
		{`import "net"; func f() { net.Dial("tcp", "x") }`, 1},
		{`import other "net"; func f() { other.DialTimeout("tcp", "x", 0) }`, 1},
		{`import "net"; func f() { net.Listen("tcp", "x") }`, 0},
		{`import "net"; func f() { d := new(net.Dialer); _ = d }`, 1},
		{`import "net/http"; func f(c *http.Client) { c.Get("x") }`, 0},
		{`import "net/http"; func f() { http.Get("x") }`, 1},
		{`import "net/http"; type t struct { c http.Client }`, 1},
		{`import "net/http"; func f() any { return &http.Client{Transport: http.DefaultTransport} }`, 2},
		{`import "net"; func f() { net.LookupHost("x") }`, 1},
		{`import "example.com/net"; func f() { net.Dial() }`, 0},
		{`func f() { var net struct{ Dial func() }; net.Dial() }`, 0},
		{`import "net"; func f() { var net struct{ Dial func() }; net.Dial() }`, 0},
		{`import "k8s.io/client-go/kubernetes"; func f() { kubernetes.NewForConfig(nil) }`, 1},
		{`import clientv3 "go.etcd.io/etcd/client/v3"; func f() { clientv3.New(c) }`, 1},
		{`import "github.com/aws/aws-sdk-go-v2/aws"; func f() any { return aws.Config{Region: "x"} }`, 1},
		{`import "github.com/aws/aws-sdk-go-v2/aws"; func f() any { return aws.Config{HTTPClient: nil} }`, 0},
		{`import "github.com/aws/aws-sdk-go-v2/aws"; func f() (aws.Config, error) { return aws.Config{}, nil }`, 0},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+test.code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := connections(file, "x.go"); len(got) != test.want {
			t.Errorf("%s: %v, want %d", test.code, got, test.want)
		}
	}
}
