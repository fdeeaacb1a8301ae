package testenv

import (
	"os"
	"path/filepath"
)

// root is found before a test changes the working directory.
var root = findRoot()

// Root returns the repository's directory. The working directory of a test is in it; the paths that the compiler knows
// are not used, because -trimpath leaves them out.
func Root() string {
	if root == "" {
		panic("the test does not run in the repository")
	}
	return root
}

// findRoot returns the first directory above the working directory that has a go.mod and CONTRIBUTING.md.
func findRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; ; dir = filepath.Dir(dir) {
		_, module := os.Stat(filepath.Join(dir, "go.mod"))
		_, guide := os.Stat(filepath.Join(dir, "CONTRIBUTING.md")) // the modules of examples have none
		switch {
		case module == nil && guide == nil:
			return dir
		case dir == filepath.Dir(dir):
			return ""
		}
	}
}
