package daemon

import (
	"context"
	"log/slog"
)

// libraryLog is the log of the Kubernetes libraries. What is information to them, such as a line for each pod that the
// webhook changes, is for debugging here.
type libraryLog struct{ slog.Handler }

func libraryLevel(level slog.Level) slog.Level {
	if level < slog.LevelWarn {
		return slog.LevelDebug
	}
	return level
}

// Enabled is part of slog.Handler.
func (l libraryLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, libraryLevel(level))
}

// Handle is part of slog.Handler.
func (l libraryLog) Handle(ctx context.Context, r slog.Record) error {
	r.Level = libraryLevel(r.Level)
	return l.Handler.Handle(ctx, r)
}

// WithAttrs is part of slog.Handler.
func (l libraryLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryLog{l.Handler.WithAttrs(attrs)}
}

// WithGroup is part of slog.Handler.
func (l libraryLog) WithGroup(name string) slog.Handler { return libraryLog{l.Handler.WithGroup(name)} }
