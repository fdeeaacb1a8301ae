package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheModuleHasAllPrograms(t *testing.T) {
	t.Parallel()
	mod := string(Source()["go.mod"])
	for name, pkg := range Programs() {
		if dir, ours := strings.CutPrefix(pkg, "./"); ours {
			if Source()[dir+"/main.go"] == nil {
				t.Errorf("%s is built from %s, which is not embedded", name, pkg)
			}
		} else if !strings.Contains(mod, "\n\t"+pkg+"\n") {
			t.Errorf(
				"%s is built from %s, which go.mod does not list as a tool: \"go mod tidy\" would drop what it needs",
				name, pkg)
		}
	}
	for name, file := range Data() {
		module, path, ok := strings.Cut(file, "//")
		if !ok || path == "" || Pinned(module) == "" {
			t.Errorf("%s is %s, want a file of a pinned module", name, file)
		}
	}
	version := regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
	for variable, value := range Stamps() {
		if !version.MatchString(value) {
			t.Errorf("%s is stamped %q, want a release", variable, value)
		}
	}
	if !regexp.MustCompile(`^node-[0-9a-f]{12}$`).MatchString(Version()) {
		t.Errorf("the version is %q", Version())
	}
}

// The links make "cd node/programs && go get ..." work on the embedded files.
func TestTheLinksLeadToTheSources(t *testing.T) {
	t.Parallel()
	for name, content := range Source() {
		linked, err := os.ReadFile(filepath.Join("programs", name))
		if err != nil || string(linked) != string(content) {
			t.Errorf("programs/%s is not what is embedded: %v", name, err)
		}
	}
}
