package catalog

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The example of docs/add-ons.md works as it is written there.
func TestTheManualsExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/add-ons.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Your own add-ons\n")
	blocks := regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```").FindAllStringSubmatch(section, 4)
	if !found || len(blocks) < 4 {
		t.Fatalf("the manual has only %d files of an example", len(blocks))
	}
	dir := t.TempDir()
	files := map[string]string{}
	for i, name := range []string{"addon.yaml", "echo.yaml", "defaults.yaml", "schema.json"} {
		files[name] = blocks[i][2]
	}
	write(t, filepath.Join(dir, "echo"), files)
	c := &Catalog{options: Options{Dir: dir}}
	a, err := c.readOwn("echo")
	if err != nil {
		t.Fatal(err)
	}
	s := exampleOptions("1.35")
	s.Config.Configuration = regexp.MustCompile(`--configuration-values '([^']*)'`).FindStringSubmatch(section)[1]
	v, _ := a.Default("1.35")
	if err := v.Check(t.Context(), s.Config.Configuration); err != nil {
		t.Error(err)
	}
	objects, err := v.Render(s)
	if err != nil || len(objects) != 3 {
		t.Fatalf("%d objects: %v", len(objects), err)
	}
	for _, o := range objects {
		known(t, o.Unstructured)
	}
	// The error that it shows is the one that there is.
	shown := regexp.MustCompile(`error="([^"]*)"`).FindStringSubmatch(section)[1]
	files["addon.yaml"] = strings.Replace(files["addon.yaml"], "publisher:", "ownr:", 1)
	write(t, filepath.Join(dir, "echo"), files)
	if _, err := c.readOwn("echo"); err == nil || err.Error() != shown {
		t.Errorf("the manual shows %s, it is %v", shown, err)
	}
}
