package vended

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// Bounds, in bytes, of what is not delivered yet.
const (
	accountMemory = 4 << 20  // of an account, until it is written to files
	allMemory     = 32 << 20 // of all accounts
	accountDisk   = 64 << 20 // of the files of an account
	segmentSize   = 4 << 20  // from which another file is begun
)

// mostSegments is the number of logs from which on it is forgotten which file each has, among them those of load
// balancers that have gone. Each then has another file.
const mostSegments = 4096

const (
	// gather is the time for which entries are gathered before they are written to files.
	gather = 200 * time.Millisecond
	// tellLosses is the least time between two lines in the log about lost entries of an account.
	tellLosses = 10 * time.Second
	// recount is the least time between two counts of the files of an account: it has hundreds of logs, and one that
	// stays full has each of them counted.
	recount = time.Second
)

// Writer writes the entries of logs to files. It is safe for concurrent use.
type Writer struct {
	log  *slog.Logger
	free func(dir string) (int64, error) // bytes of the disk
	now  func() time.Time
	wake chan struct{}

	mu       sync.Mutex
	root     string
	buffered int // bytes of all accounts
	accounts map[string]*accountBuffer

	// What follows is of Run alone.
	segments map[Log]*segment     // to which it writes
	disk     map[string]int64     // bytes of the files of an account, at most
	counted  map[string]time.Time // when they were counted, of accounts that were full since
	counts   int                  // directories that were read for that
	told     map[string]time.Time
	losses   map[string]loss // that were not told yet
}

// accountBuffer has the entries of an account that are not in files yet.
type accountBuffer struct {
	bytes int
	logs  map[Log][]byte
	lost  int
}

// loss is how many entries are lost, and why.
type loss struct {
	entries int
	reason  string
}

// NewWriter returns a Writer, which writes nothing until it is run and has a directory.
func NewWriter(log *slog.Logger) *Writer {
	return &Writer{log: log, free: diskspace.Free, now: time.Now, wake: make(chan struct{}, 1),
		accounts: map[string]*accountBuffer{}, segments: map[Log]*segment{}, disk: map[string]int64{},
		counted: map[string]time.Time{}, told: map[string]time.Time{}, losses: map[string]loss{}}
}

// SetDirectory sets the directory of the files of all logs. Without one, entries are dropped.
func (w *Writer) SetDirectory(root string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.root = root
}

// Add adds an entry of a time to a log. It never waits for the disk: an entry that has no place is lost.
func (w *Writer) Add(l Log, at time.Time, entry string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.root == "" {
		return
	}
	a := w.accounts[l.Account]
	if a == nil {
		a = &accountBuffer{logs: map[Log][]byte{}}
		w.accounts[l.Account] = a
	}
	size := len(entry) + 22 // with the time, at most
	if a.bytes+size > accountMemory || w.buffered+size > allMemory || size > readSize {
		a.lost++
	} else {
		a.bytes += size
		w.buffered += size
		b := strconv.AppendInt(a.logs[l], at.UnixMilli(), 10)
		b = append(append(b, ' '), entry...)
		a.logs[l] = append(b, '\n')
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes what is added to files until ctx ends, and then what is left.
func (w *Writer) Run(ctx context.Context) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	<-wait.C
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			w.flush()
			return
		}
		wait.Reset(gather)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		w.flush()
	}
}

// flush writes what was added to files.
func (w *Writer) flush() {
	w.mu.Lock()
	root, accounts := w.root, w.accounts
	w.accounts = map[string]*accountBuffer{}
	w.mu.Unlock()
	if len(w.segments) > mostSegments {
		clear(w.segments)
		clear(w.disk)
	}
	full := len(accounts) > 0 && w.isFull(root)
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		a := accounts[name]
		if a.lost > 0 {
			w.recordLoss(name, a.lost, "there are more than can be written")
		}
		for l, text := range a.logs {
			if full {
				w.recordLoss(name, bytes.Count(text, []byte("\n")), "the disk is full")
			} else if err := w.write(root, l, text); err != nil {
				w.recordLoss(name, bytes.Count(text, []byte("\n")), err.Error())
			}
		}
		w.mu.Lock()
		w.buffered -= a.bytes
		w.mu.Unlock()
	}
	maps.DeleteFunc(w.counted, func(_ string, at time.Time) bool { return w.now().Sub(at) >= recount })
	w.logLosses(w.now())
}

func (w *Writer) isFull(root string) bool {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return false // writing says why
	}
	free, err := w.free(root)
	return err == nil && free < diskspace.Reserve
}

func (w *Writer) recordLoss(account string, entries int, reason string) {
	w.losses[account] = loss{w.losses[account].entries + entries, reason}
}

// logLosses logs which entries were lost.
func (w *Writer) logLosses(now time.Time) {
	for _, account := range slices.Sorted(maps.Keys(w.losses)) {
		if now.Sub(w.told[account]) < tellLosses {
			w.notify() // so that it is told when nothing follows
			continue
		}
		w.log.Warn("entries of the logs of load balancers are lost", "account", account, "entries",
			w.losses[account].entries, "reason", w.losses[account].reason)
		w.told[account] = now
		delete(w.losses, account)
	}
	maps.DeleteFunc(w.told, func(_ string, at time.Time) bool { return now.Sub(at) > tellLosses })
}

func (w *Writer) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

var errAccountFull = fmt.Errorf("%d MiB of them wait for their delivery", accountDisk>>20)

// write appends entries to the files of a log.
func (w *Writer) write(root string, l Log, text []byte) error {
	if err := w.checkAccount(root, l.Account, int64(len(text))); err != nil {
		return err
	}
	dir := l.dir(root)
	s := w.segments[l]
	if s == nil {
		// Another process may have left an entry that is not complete: a file is not continued.
		there, err := listSegments(dir)
		if err != nil {
			return err
		}
		s = &segment{number: 1}
		if len(there) > 0 {
			s.number = there[len(there)-1].number + 1
		}
		w.segments[l] = s
	}
	if s.size >= segmentSize {
		s.number, s.size = s.number+1, 0
	}
	f, err := openSegment(dir, s.number)
	if err != nil {
		return err
	}
	n, err := f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		s.number, s.size = s.number+1, 0
	}
	s.size += int64(n)
	w.disk[l.Account] += int64(n)
	return err
}

// openSegment opens a file to append to it. Its directory may be gone, with the last delivery, and be needed again.
func openSegment(dir string, number uint64) (*os.File, error) {
	for again := false; ; again = true {
		f, err := os.OpenFile(segmentFile(dir, number), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrNotExist) || again {
			return f, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
}

// checkAccount returns errAccountFull where the files of an account would take more than they may.
func (w *Writer) checkAccount(root, account string, more int64) error {
	used, known := w.disk[account]
	if known && used+more <= accountDisk {
		return nil
	}
	if at, ok := w.counted[account]; known && ok && w.now().Sub(at) < recount {
		return errAccountFull
	}
	used = 0 // the daemon removes what is delivered
	dirs, err := os.ReadDir(filepath.Join(root, account))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range dirs {
		w.counts++
		segments, err := listSegments(filepath.Join(root, account, dir.Name()))
		if err != nil {
			return err
		}
		for _, s := range segments {
			used += s.size
		}
	}
	w.counted[account] = w.now()
	if w.disk[account] = used; used+more > accountDisk {
		return errAccountFull
	}
	return nil
}
