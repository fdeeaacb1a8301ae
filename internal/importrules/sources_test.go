package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// source is a Go file.
type source struct {
	name  string // from the root of the repository
	dir   string
	file  *ast.File
	files *token.FileSet
}

// eachSource visits the sources below some directories that are no tests, without those of other modules.
func eachSource(t *testing.T, roots []string, visit func(s source)) {
	t.Helper()
	eachFile(t, roots, func(s source) {
		if !strings.HasSuffix(s.name, "_test.go") {
			visit(s)
		}
	})
}

// eachFile visits the sources below some directories, without those of other modules.
func eachFile(t *testing.T, roots []string, visit func(s source)) {
	t.Helper()
	const repository = "../../"
	seen := 0
	for _, root := range roots {
		err := filepath.WalkDir(repository+root, func(file string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(file), repository)
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(name, "kubernetes/v")):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go"):
				return nil
			}
			s := source{name: name, dir: path.Dir(name), files: token.NewFileSet()}
			if s.file, err = parser.ParseFile(s.files, file, nil, parser.ParseComments); err != nil {
				return err
			}
			seen++
			visit(s)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Fatalf("only %d files were found", seen)
	}
}
