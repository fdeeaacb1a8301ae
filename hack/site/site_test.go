// Package site has the settings of the documentation as a static site; hugo makes it ("make site").
package site

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestEveryPageIsInTheNavigation finds pages that "make site", which nobody runs on each change, would refuse.
func TestEveryPageIsInTheNavigation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("hugo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Params struct{ Sections []struct{ Pages []string } }
	}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, s := range settings.Params.Sections {
		listed = append(listed, s.Pages...)
	}
	root := filepath.Join("..", "..")
	for _, page := range listed {
		if _, err := os.Stat(filepath.Join(root, page+".md")); err != nil {
			t.Errorf("hugo.yaml lists a page that does not exist: %v", err)
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if page, ok := strings.CutSuffix(filepath.ToSlash(rel), ".md"); ok && !slices.Contains(listed, page) {
			t.Errorf("the page %s is in no section of hugo.yaml", page)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
