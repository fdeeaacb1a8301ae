package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// writeNotes writes what CHANGELOG.md says of the version, or of what is not released yet.
func (d distribution) writeNotes(_ context.Context, path string, _ []file) error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, err := notesOf(string(changelog), d.version)
	if err != nil {
		return err
	}
	return replaceFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, notes)
		return err
	})
}

// notesOf returns the section of a changelog for a version, without its heading. A version that is no release, such as
// a commit, has the section of what is not released.
func notesOf(changelog, version string) (string, error) {
	heading := "Unreleased"
	if release.MatchString(version) && release.FindString(version) == version {
		heading = version[1:]
	}
	for section := range strings.SplitSeq("\n"+changelog, "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		title, _, _ = strings.Cut(title, " - ") // the date
		if strings.Trim(title, "[] ") == heading {
			return strings.TrimSpace(text) + "\n", nil
		}
	}
	return "", errors.New(`CHANGELOG.md has no section "## ` + heading + `"`)
}
