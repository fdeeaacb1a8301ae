// Package version knows which coracle this is.
package version

import (
	"runtime/debug"
	"strings"
)

// stamped is set by the linker: "make build" puts what git describe says here.
var stamped string

// String returns the version: "v0.1.0", or the commit of a build without a tag.
func String() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = "-dirty"
			}
		}
	}
	if revision != "" {
		return revision[:min(12, len(revision))] + modified
	}
	if v := info.Main.Version; v != "" && !strings.HasPrefix(v, "(") {
		return v
	}
	return "development"
}
