package isolation

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// named is a test as SECURITY.md names it: `TestTenants` (test/isolation).
var named = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)` \\(([a-z0-9/]+)\\)")

// TestSecurityModel checks that every test that SECURITY.md names exists.
func TestSecurityModel(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(testenv.Root(), "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := named.FindAllStringSubmatch(string(document), -1)
	if len(tests) < 10 {
		t.Errorf("SECURITY.md names %d tests: does it still name them as `TestName` (path/of/package)?", len(tests))
	}
	for _, test := range tests {
		files, err := filepath.Glob(filepath.Join(testenv.Root(), test[2], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		function, found := regexp.MustCompile(`(?m)^func `+test[1]+`\(`), false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || function.Match(source)
		}
		if !found {
			t.Errorf("SECURITY.md names %s in %s, which does not exist", test[1], test[2])
		}
	}
}
