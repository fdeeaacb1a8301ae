package events

import (
	"errors"
	"log/slog"
)

// GroupID is the number of a log group, record.LogGroup.ID.
type GroupID uint64

// StreamID is the number of a log stream in its group, record.LogStream.ID.
type StreamID uint64

// Event is one log event.
type Event struct {
	Stream    StreamID
	Timestamp int64 // of the event, as its writer said, in milliseconds since 1970 UTC
	Ingested  int64 // when it came in, in milliseconds since 1970 UTC
	// Seq is the event's place in its group: Append assigns it, from 1, strictly increasing, and never
	// the same twice.
	Seq     uint64
	Message string
}

// Options are the choices of who opens a store. The zero value is good.
type Options struct {
	Log *slog.Logger // nil: slog.Default()
	// SealBytes is the size of the messages of a group, in bytes, from which they are sealed; 0 is 16 MiB.
	SealBytes int64
}

// ErrClosed is returned for what is asked of a store that was closed.
var ErrClosed = errors.New("the store of log events is closed")

// Store keeps log events in a directory.
type Store struct{}

// Open opens the store in a directory, which it makes if there is none. A directory that another
// process has open is refused.
func Open(dir string, o Options) (*Store, error) { return nil, errors.New("unfinished") }

// Close waits for the work in the background and closes the files. Views must be closed before.
func (s *Store) Close() error { return errors.New("unfinished") }
