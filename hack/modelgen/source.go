package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is the description of the wire format in one SDK package.
type source struct {
	name       string
	hasSchemas bool
	isREST     bool // restJson1 without schemas
	isJSON     bool // awsJson1.1 without schemas
	operations []operation
	structs    map[string]*structure // by Go type: CreateRoleInput, Tag
	unions     map[string][]string   // interface -> member names
	enums      map[string]bool
	errors     []*exception

	results  map[string]bool   // operations whose deserializer looks for a Result element
	raisedBy map[string]string // error -> an operation whose deserializer reads it

	requests  map[string]*codec // by shape: how serializers.go writes it
	responses map[string]*codec // by shape: how deserializers.go reads it
	routes    map[string]*route // by operation, of restJson1
	outside   map[string]*codec // by Go type, of restJson1: the members that do not travel in the body
}

// route is where an operation of restJson1 is found.
type route struct{ method, path string }

type operation struct {
	name string
	void bool // a query operation without an output: the answer has no Result element
	// of restJson1
	route
	status int // of an answer
	// the operation, its input and its output, as variables of package schemas; nil for an empty structure
	schemas [3]string
}

type structure struct {
	name   string
	fields []*field
}

type field struct {
	name     string
	expr     ast.Expr
	required bool
	limits   string // constraints as written in the model
}

type exception struct {
	goType string
	code   string
	status int
	schema string
	raised string // an operation that can answer with it; empty when the SDK reads it from none
}

// codec is one serializer or deserializer function.
type codec struct {
	goType   string              // of a structure or union
	bindings map[string]*binding // by Go field or union member
	item     string              // of a list: the element name
	key      string              // of a map
	value    string
	elem     string // shape of list elements or map values, when not a scalar
}

type binding struct {
	name  string // parameter or element name
	in    string // "path" or "query", of restJson1; empty for the body
	flat  bool
	shape string // of the value, when not a scalar
}

func parseSDK(name, dir string) (*source, error) {
	s := &source{
		name: name, structs: map[string]*structure{}, unions: map[string][]string{}, enums: map[string]bool{},
		requests: map[string]*codec{}, responses: map[string]*codec{}, raisedBy: map[string]string{},
		results: map[string]bool{}, routes: map[string]*route{}, outside: map[string]*codec{},
	}
	var files []*ast.File
	for _, pattern := range []string{"*.go", "types/*.go"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
			if base, ok := strings.CutPrefix(filepath.Base(path), "api_op_"); ok {
				s.operations = append(s.operations, operation{name: strings.TrimSuffix(base, ".go")})
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "schemas")); err == nil {
		s.hasSchemas = true
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, spec := range g.Specs {
					s.addType(spec.(*ast.TypeSpec))
				}
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				s.addFunc(fn)
			}
		}
	}
	for i := range s.operations {
		op := &s.operations[i]
		op.void = !s.hasSchemas && !s.isREST && !s.isJSON && s.name != "ec2" && !s.results[op.name]
		if r := s.routes[op.name]; r != nil {
			op.route = *r
		} else if s.isREST {
			return nil, fmt.Errorf("operation %s has no path", op.name)
		}
	}
	for _, e := range s.errors {
		e.raised = s.raisedBy[e.goType]
		if s.hasSchemas {
			e.raised = s.operations[0].name // the SDK looks errors up by name, whatever the operation
		}
	}
	slices.SortFunc(s.errors, func(a, b *exception) int { return strings.Compare(a.goType, b.goType) })
	if s.hasSchemas {
		return s, s.addSchemas(filepath.Join(dir, "schemas", "schemas.go"))
	}
	return s, nil
}

func (s *source) addType(t *ast.TypeSpec) {
	name := t.Name.Name
	switch x := t.Type.(type) {
	case *ast.StructType:
		st := &structure{name: name}
		for _, f := range x.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() && n.Name != "ResultMetadata" && n.Name != "ErrorCodeOverride" {
					st.fields = append(st.fields, &field{name: n.Name, expr: f.Type})
				}
			}
		}
		s.structs[name] = st
	case *ast.InterfaceType:
		for _, m := range x.Methods.List {
			if len(m.Names) == 1 && m.Names[0].Name == "is"+name {
				s.unions[name] = nil
			}
		}
	case *ast.Ident:
		if x.Name == "string" {
			s.enums[name] = true
		}
	}
}

var (
	serializer   = regexp.MustCompile(`^aws\w+?_serialize(?:Op)?Document(\w+)$`)
	deserializer = regexp.MustCompile(`^aws\w+?_deserialize(?:Op)?Document(\w+)$`)
	opError      = regexp.MustCompile(`^aws\w+?_deserializeOpError(\w+)$`)
	errorReader  = regexp.MustCompile(`^aws\w+?_deserializeError(\w+)$`)

	// of restJson1
	restSerializer = regexp.MustCompile(`^\*awsRestjson1_serializeOp(\w+)$`)
	httpBindings   = regexp.MustCompile(`^awsRestjson1_serializeOpHttpBindings(\w+)$`)
)

func (s *source) addFunc(fn *ast.FuncDecl) {
	name := fn.Name.Name
	if fn.Recv != nil && name == "HandleDeserialize" {
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && strings.HasSuffix(typeString(call.Fun), ".GetElement") {
				if op, ok := strings.CutSuffix(stringLit(call.Args[0]), "Result"); ok {
					s.results[op] = true
				}
			}
			return true
		})
		return
	}
	if fn.Recv != nil && name == "HandleSerialize" {
		s.isJSON = s.isJSON || strings.HasPrefix(typeString(fn.Recv.List[0].Type), "*awsAwsjson") && !s.hasSchemas
		if m := restSerializer.FindStringSubmatch(typeString(fn.Recv.List[0].Type)); m != nil && !s.hasSchemas {
			s.isREST, s.routes[m[1]] = true, findRoute(fn)
		}
		return
	}
	if fn.Recv != nil {
		recv := strings.TrimPrefix(typeString(fn.Recv.List[0].Type), "*")
		switch {
		case name == "ErrorCode":
			s.errors = append(s.errors, &exception{goType: recv, code: lastString(fn.Body)})
		case name == "ErrorFault":
			// Errors keep the order of their methods: ErrorCode comes before ErrorFault.
			e := s.errors[len(s.errors)-1]
			e.status = 400
			if strings.Contains(nodeText(fn.Body), "FaultServer") {
				e.status = 500
			}
		case strings.HasPrefix(name, "is") && len(fn.Type.Params.List) == 0:
			if union := strings.TrimPrefix(name, "is"); s.isUnion(union) {
				if member, ok := strings.CutPrefix(recv, union+"Member"); ok {
					s.unions[union] = append(s.unions[union], member)
				}
			}
		}
		return
	}
	if m := httpBindings.FindStringSubmatch(name); m != nil {
		s.outside[m[1]] = bindingsCodec(fn)
		return
	}
	if m := serializer.FindStringSubmatch(name); m != nil {
		s.requests[m[1]] = serializerCodec(fn)
		return
	}
	if m := deserializer.FindStringSubmatch(name); m != nil {
		s.responses[m[1]] = deserializerCodec(fn)
		return
	}
	if m := opError.FindStringSubmatch(name); m != nil {
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if e := errorReader.FindStringSubmatch(typeString(call.Fun)); e != nil && s.raisedBy[e[1]] == "" {
					s.raisedBy[e[1]] = m[1]
				}
			}
			return true
		})
	}
	if strings.HasPrefix(name, "validate") && len(fn.Type.Params.List) == 1 {
		s.addRequired(fn)
	}
}

func (s *source) isUnion(name string) bool { _, ok := s.unions[name]; return ok }

func (s *source) addRequired(fn *ast.FuncDecl) {
	st := s.structs[goTypeName(fn.Type.Params.List[0].Type)]
	if st == nil {
		return
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !strings.HasSuffix(typeString(call.Fun), "NewErrParamRequired") {
			return true
		}
		member := stringLit(call.Args[0])
		for _, f := range st.fields {
			if f.name == member {
				f.required = true
			}
		}
		return true
	})
}

// serializerCodec reads one function of serializers.go. Every member is one statement of the form
//
//	if v.Tags != nil { objectKey := object.FlatKey("Tag"); if err := ...DocumentTagList(v.Tags, objectKey); ... }
//
// and every union member one case of a type switch.
func serializerCodec(fn *ast.FuncDecl) *codec {
	c := &codec{goType: goTypeName(fn.Type.Params.List[0].Type), bindings: map[string]*binding{}}
	record := func(owner string, body ast.Node) {
		p := &binding{}
		ast.Inspect(body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch f := typeString(call.Fun); {
			case f == "object.Key" || f == "object.FlatKey":
				if lit := stringLit(call.Args[0]); lit != "" {
					p.name, p.flat = lit, f == "object.FlatKey"
				}
			case serializer.MatchString(f):
				p.shape = serializer.FindStringSubmatch(f)[1]
			}
			return true
		})
		if p.name != "" {
			c.bindings[owner] = p
		}
	}
	for _, stmt := range fn.Body.List {
		switch x := stmt.(type) {
		case *ast.IfStmt:
			if owner := selected(x.Cond, "v"); owner != "" {
				record(owner, x.Body)
			}
		case *ast.BlockStmt:
			if owner := selected(x, "v"); owner != "" {
				record(owner, x)
			}
		case *ast.TypeSwitchStmt:
			for _, cc := range x.Body.List {
				clause := cc.(*ast.CaseClause)
				if len(clause.List) == 1 {
					_, member, ok := strings.Cut(goTypeName(clause.List[0]), c.goType+"Member")
					if ok {
						record(member, &ast.BlockStmt{List: clause.Body})
					}
				}
			}
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := typeString(call.Fun); {
		case f == "value.Array":
			c.item = "member"
			if len(call.Args) > 0 {
				c.item = stringLit(call.Args[0])
			}
		case f == "value.Map":
			c.key, c.value = stringLit(call.Args[0]), stringLit(call.Args[1])
		case serializer.MatchString(f):
			c.elem = serializer.FindStringSubmatch(f)[1]
		}
		return true
	})
	return c
}

// findRoute reads the path and the method of an operation of restJson1.
func findRoute(fn *ast.FuncDecl) *route {
	r := &route{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			if typeString(x.Fun) == "httpbinding.SplitURI" {
				r.path = stringLit(x.Args[0])
			}
		case *ast.AssignStmt:
			if typeString(x.Lhs[0]) == "request.Method" {
				r.method = stringLit(x.Rhs[0])
			}
		}
		return true
	})
	return r
}

// bindingsCodec reads the members of an operation of restJson1 that travel in the path and in the query:
//
//	if v.MaxItems != nil { encoder.SetQuery("MaxItems").Integer(*v.MaxItems) }
func bindingsCodec(fn *ast.FuncDecl) *codec {
	c := &codec{goType: goTypeName(fn.Type.Params.List[0].Type), bindings: map[string]*binding{}}
	for _, stmt := range fn.Body.List {
		x, ok := stmt.(*ast.IfStmt)
		if !ok {
			continue
		}
		owner := selected(x.Cond, "v")
		ast.Inspect(x.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch typeString(call.Fun) {
			case "encoder.SetURI":
				c.bindings[owner] = &binding{name: stringLit(call.Args[0]), in: "path"}
			case "encoder.SetQuery", "encoder.AddQuery":
				c.bindings[owner] = &binding{name: stringLit(call.Args[0]), in: "query"}
			}
			return true
		})
	}
	return c
}

// deserializerCodec reads one function of deserializers.go. Every member is one case of the form
//
//	case strings.EqualFold("vpcSet", t.Name.Local): ... sv.Vpcs ...
//	case "FileSystemId": ... sv.FileSystemId ...
//	case "message", "Message": ... sv.Message ...
func deserializerCodec(fn *ast.FuncDecl) *codec {
	c := &codec{goType: goTypeName(fn.Type.Params.List[0].Type), bindings: map[string]*binding{}}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok || len(clause.List) == 0 {
			return true
		}
		// Of several names, as of "message" and "Message", the last is the member's.
		p := &binding{name: stringLit(clause.List[len(clause.List)-1])}
		if call, ok := clause.List[0].(*ast.CallExpr); ok && typeString(call.Fun) == "strings.EqualFold" &&
			typeString(call.Args[1]) == "t.Name.Local" {
			p.name = stringLit(call.Args[0])
		}
		if p.name == "" {
			return true
		}
		body := &ast.BlockStmt{List: clause.Body}
		ast.Inspect(body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if m := deserializer.FindStringSubmatch(typeString(call.Fun)); m != nil {
					p.shape, p.flat = strings.CutSuffix(m[1], "Unwrapped")
				}
			}
			return true
		})
		owner := selected(body, "sv")
		if owner == "" {
			// A union member: uv = &types.XMemberY{Value: mv}
			ast.Inspect(body, func(n ast.Node) bool {
				if lit, ok := n.(*ast.CompositeLit); ok {
					if _, member, ok := strings.Cut(goTypeName(lit.Type), c.goType+"Member"); ok && c.goType != "" {
						owner = member
					}
				}
				return true
			})
		}
		switch {
		case owner != "":
			c.bindings[owner] = p
		case isMapParam(fn):
			if c.key == "" {
				c.key = p.name
			} else {
				c.value, c.elem = p.name, p.shape
			}
		default:
			c.item, c.elem = p.name, p.shape
		}
		return true
	})
	return c
}

func isMapParam(fn *ast.FuncDecl) bool {
	star, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	_, ok = star.X.(*ast.MapType)
	return ok
}

// addSchemas finds the schema variables of operations and errors, and the status of errors.
func (s *source) addSchemas(path string) error {
	used := regexp.MustCompile(`smithy\.NewOperationSchema\(schemas\.(\w+), (nil|schemas\.\w+), (nil|schemas\.\w+)\)`)
	dir := filepath.Dir(filepath.Dir(path))
	for i, op := range s.operations {
		code, err := os.ReadFile(filepath.Join(dir, "api_op_"+op.name+".go"))
		if err != nil {
			return err
		}
		m := used.FindSubmatch(code)
		if m == nil {
			return fmt.Errorf("api_op_%s.go names no schemas", op.name)
		}
		s.operations[i].schemas = [3]string{"schemas." + string(m[1]), string(m[2]), string(m[3])}
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	errors, err := os.ReadFile(filepath.Join(dir, "types", "errors.go"))
	if err != nil {
		return err
	}
	for _, e := range s.errors {
		m := regexp.MustCompile(`func \(v \*` + e.goType +
			`\) Serialize\(s smithy\.ShapeSerializer\) \{\s+s\.WriteStruct\(schemas\.(\w+)\)`).FindSubmatch(errors)
		if m == nil {
			return fmt.Errorf("types/errors.go: %s has no schema", e.goType)
		}
		e.schema = string(m[1])
		declared := regexp.MustCompile(`(?s)var ` + e.schema + ` = smithy\.NewSchema\(.*?\n\n`).Find(code)
		if m := regexp.MustCompile(`HTTPError\{Code: (\d+)\}`).FindSubmatch(declared); m != nil {
			e.status, _ = strconv.Atoi(string(m[1]))
		}
		// The status beside this code is that of the query protocol, which these services spoke once.
		if m := regexp.MustCompile(`AWSQueryError\{ErrorCode: "([^"]+)"`).FindSubmatch(declared); m != nil {
			e.code = string(m[1])
		}
	}
	return nil
}

// Small readings of syntax.

func typeString(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return typeString(x.X) + "." + x.Sel.Name
	case *ast.StarExpr:
		return "*" + typeString(x.X)
	case *ast.ArrayType:
		return "[]" + typeString(x.Elt)
	case *ast.MapType:
		return "map[" + typeString(x.Key) + "]" + typeString(x.Value)
	}
	return ""
}

// goTypeName returns X for **types.X, *XInput, types.X and &types.X; empty for other types.
func goTypeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return goTypeName(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// selected returns the first field that node selects from the variable: F of v.F.
func selected(node ast.Node, variable string) string {
	var name string
	ast.Inspect(node, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && name == "" {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == variable {
				name = sel.Sel.Name
			}
		}
		return name == ""
	})
	return name
}

func stringLit(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

func lastString(body ast.Node) string {
	var last string
	ast.Inspect(body, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if s := stringLit(e); s != "" {
				last = s
			}
		}
		return true
	})
	return last
}

func nodeText(n ast.Node) string {
	var b strings.Builder
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			b.WriteString(id.Name + " ")
		}
		return true
	})
	return b.String()
}
