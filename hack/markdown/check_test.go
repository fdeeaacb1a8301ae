package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("words ", 20) + "ä" // 121 characters
	for name, c := range map[string]struct {
		page string
		want []string
	}{
		"a correct page": {
			page: "# Title\n\n## First `part`: one, two\n\nSee [below](#second), [there](other.md#a-part-1), [code](code.go#L1)\n" +
				"and [the web](https://example.com/missing.md).\n\n### Detail\n\n## Second\n",
		},
		"a line of 120 characters": {page: "# Title\n\n" + strings.TrimSuffix(long, " ä") + "." + "\n"},
		"a line of 121 characters": {
			page: "# Title\n\n" + long + "\n",
			want: []string{"page.md:3: the line has 121 characters: break it before 121"},
		},
		"long lines of code and of tables": {
			page: "# Title\n\n```\n" + long + "  \n\n\n\ttab\n```\n\n    " + long + "\n\n| a |\n|---|\n| " + long + " |\n",
		},
		"white space": {
			page: "# Title\n\n\nspace \n\ttab",
			want: []string{
				"page.md:3: one blank line too many",
				"page.md:4: the line ends with white space",
				"page.md:5: the last line does not end with a newline",
				"page.md:5: the line has a tab: indent with spaces",
			},
		},
		"blank lines at both ends": {
			page: "\n# Title\n\ntext\n\n",
			want: []string{"page.md:1: one blank line too many", "page.md:5: one blank line too many"},
		},
		"no title": {page: "text\n", want: []string{"page.md:1: the page does not begin with its title: # Title"}},
		"a title below text": {
			page: "text\n\n# Title\n",
			want: []string{"page.md:1: the page does not begin with its title: # Title"},
		},
		"two titles": {page: "# Title\n\n# Title\n", want: []string{"page.md:3: a second title: the page has one"}},
		"a level left out": {
			page: "# Title\n\n### Detail\n",
			want: []string{"page.md:3: a heading of level 3 under one of level 1"},
		},
		"a heading in a code block": {page: "# Title\n\n```\n# comment\n```\n"},
		"broken links": {
			page: "# Title\n\ntext\n[a](missing.md), [b](#missing), [c](other.md#missing)\n\n| ![d](missing.png) |\n|---|\n",
			want: []string{
				`page.md:4: link "missing.md": there is no missing.md`,
				`page.md:4: link "#missing": page.md has no heading with the anchor #missing`,
				`page.md:4: link "other.md#missing": other.md has no heading with the anchor #missing`,
				`page.md:6: link "missing.png": there is no missing.png`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range map[string]string{
				"page.md": c.page, "other.md": "# Other\n\n## A part\n\n## A part\n", "code.go": "package code\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			findings, err := checkFiles([]string{filepath.Join(dir, "page.md")})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, finding := range findings {
				got = append(got, strings.ReplaceAll(finding.String(), dir+"/", ""))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckFilesReportsMissingFiles(t *testing.T) {
	t.Parallel()
	if _, err := checkFiles([]string{filepath.Join(t.TempDir(), "missing.md")}); err == nil {
		t.Error("no error")
	}
}
