package events

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// catalogDirectory is the directory of the catalog in the directory of a store. The spelling is that of existing data
// directories.
const catalogDirectory = "catalogue" //nolint:misspell // renaming it would lose the logs of existing data directories

// applyBatch adds a batch to the catalog. It is visible when apply returns, and durable when the function
// that it returns has.
func (s *Store) applyBatch(b *pebble.Batch) (durable func() error, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.catalogError(); err != nil {
		return nil, err
	}
	// Pebble panics when its log cannot be written.
	defer func() {
		if r := recover(); r != nil {
			s.recordFailure(fmt.Errorf("%v", r))
			err = s.catalogError()
		}
	}()
	if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		s.recordFailure(err)
		return nil, s.catalogError()
	}
	return func() error {
		if err := b.SyncWait(); err != nil {
			s.recordFailure(err)
		}
		if err := s.catalogError(); err != nil {
			return err
		}
		return b.Close()
	}, nil
}

// commitBatch adds a batch to the catalog durably.
func (s *Store) commitBatch(b *pebble.Batch) error {
	durable, err := s.applyBatch(b)
	if err != nil {
		return err
	}
	return durable()
}

// recordFailure records that the catalog cannot be written any more. What was acknowledged is safe: it is read back
// when the store is opened the next time.
func (s *Store) recordFailure(err error) {
	err = fmt.Errorf(
		"the catalog of log events in %s failed, and takes no more until the daemon is started again: %w", s.dir, err)
	if s.failure.CompareAndSwap(nil, &err) {
		s.log.Error("log events can't be stored", "error", err)
	}
}

func (s *Store) catalogError() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// checkSpace returns ErrFull when the disk has too little free space for taking in more.
func (s *Store) checkSpace() error {
	free, err := s.freeBytes()
	if err == nil && free < uint64(s.MinFree) {
		err = fmt.Errorf("%w: %s has %d MiB left, and log events are taken in again from %d MiB on: make room there",
			ErrFull, s.dir, free>>20, s.MinFree>>20)
	}
	return err
}

func (s *Store) freeBytes() (uint64, error) {
	free, err := diskspace.Free(s.dir)
	return uint64(free), err
}

// waitForSpace blocks a write of the catalog that found the disk full, which Pebble would not survive. It returns when
// there is space, or because the store is being closed; the write is then tried again. This is rare, since space is
// reserved before a write; another process must have used it.
func (s *Store) waitForSpace() {
	s.log.Error("the disk is full; the store of log events waits for space", "directory", s.dir)
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		if free, err := s.freeBytes(); err != nil || free >= max(uint64(s.MinFree)/4, 1<<20) {
			return
		}
		select {
		case <-s.closing:
			return
		case <-poll.C:
		}
	}
}

// logger takes what Pebble says.
type logger struct{ s *Store }

func (l logger) Infof(format string, args ...any) {
	l.s.log.Debug(fmt.Sprintf("pebble: "+format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.s.log.Warn(fmt.Sprintf("pebble: "+format, args...))
}

// Fatalf records that the catalog cannot go on. Pebble calls it. Nothing more is written to the catalog then, and what
// is stored stays readable, instead of taking the daemon down.
func (l logger) Fatalf(format string, args ...any) { l.s.recordFailure(fmt.Errorf(format, args...)) }

// cleaner removes the files that Pebble no longer needs. Beside removing them, as DeleteCleaner does, it
// looks like one that needs what is in them: that stops Pebble from keeping old logs for later use,
// which would take more space than all the rest of a small store.
type cleaner struct {
	pebble.DeleteCleaner
	needsContents
}

type needsContents struct{ pebble.ArchiveCleaner }
