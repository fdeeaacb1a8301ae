package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLibrariesAreQuiet(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "level=WARN msg=b from=client-go group.a=1\n",
		slog.LevelDebug: "level=DEBUG msg=a from=client-go group.a=1\nlevel=WARN msg=b from=client-go group.a=1\n",
	} {
		var b bytes.Buffer
		h := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		log := slog.New(libraryLog{slog.New(h).With("from", "client-go").Handler()}).WithGroup("group").With("a", 1)
		log.Info("a")
		log.Warn("b")
		if got := b.String(); strings.TrimLeft(got, " ") != want {
			t.Errorf("%v: %q, want %q", level, got, want)
		}
	}
}
