package events

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// GroupID is the number of a log group, record.LogGroup.ID.
type GroupID uint64

// Reserved is the lowest number of a group that is no log group: those of CloudTrail's event history.
const Reserved GroupID = 1 << 63

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
	// SealBytes is the size of the messages of a group, in bytes, from which they are sealed; 0 is 8 MiB.
	SealBytes int64
	// SealRows is the number of events of a group from which they are sealed, however short they are; 0 is 262,144.
	SealRows int
	// MinFree is the free space of the disk, in bytes, below which nothing more is taken in; 0 is 64 MiB.
	MinFree int64
}

var (
	// ErrClosed is returned for what is asked of a store that was closed.
	ErrClosed = errors.New("the store of log events is closed")
	// ErrFull is returned while the disk has less free space than Options.MinFree.
	ErrFull = errors.New("the disk is full")
	// ErrDamaged is returned when a file is not what was written.
	ErrDamaged = errors.New("damaged log events")
)

// Store keeps log events in a directory. Its methods may be called by many goroutines at once.
type Store struct {
	Options
	log   *slog.Logger
	dir   string
	parts string // directory of the parts
	db    *pebble.DB
	lock  *pebble.Lock

	failure atomic.Pointer[error] // why the catalog cannot be written any more
	write   sync.Mutex            // held by who adds to the catalog's log

	life    sync.RWMutex // read-held by each call; Close takes it
	closed  bool
	closing <-chan struct{} // closed when Close begins: the end of background
	// background is the context of work that no caller waits for.
	background context.Context
	stop       context.CancelFunc

	mu     sync.Mutex
	views  map[*View]bool // that have a snapshot of the catalog
	groups map[GroupID]*group
	floor  uint64 // the highest Seq that a deleted group had: new groups begin behind

	files    sync.RWMutex // read-held by who removes parts, so that Checkpoint may stop it
	lastPart atomic.Uint64
	upkeep   upkeep
}

// group is the state of a group in memory.
type group struct {
	id GroupID

	mu sync.Mutex
	groupRow
	durable uint64 // Seq up to which events are on the disk and may be read
	live    uint64 // no event behind this Seq is there for readers
	streams map[StreamID]StreamStat
	dead    map[StreamID]uint64 // up to this Seq the stream's events are deleted; never changed, only replaced
	parts   []*part             // in the order of Seq; never changed, only replaced
	deleted bool
	// deletions reports that something was deleted since the unsealed events were last looked through for it.
	deletions bool
	removed   int64         // bytes deleted since the catalog was made to give back their space
	changed   chan struct{} // closed and replaced when durable, sealed or sealError change
	// sealError is the error of the last attempt to seal.
	sealError error
}

// never is the mark of expiry of a group that had none.
const never = math.MinInt64 / 2

// Open opens the store in a directory, which it makes if there is none. A directory that another
// process has open is refused.
func Open(dir string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.SealBytes == 0 {
		o.SealBytes = 8 << 20
	}
	if o.SealRows == 0 {
		o.SealRows = 256 << 10
	}
	if o.MinFree == 0 {
		o.MinFree = 64 << 20
	}
	s := &Store{
		Options: o, log: o.Log, dir: dir, parts: filepath.Join(dir, "parts"),
		groups: map[GroupID]*group{}, views: map[*View]bool{},
	}
	s.background, s.stop = context.WithCancel(context.Background())
	s.closing = s.background.Done()
	s.upkeep.wake = make(chan struct{}, 1)
	if err := s.openStore(); err != nil {
		return nil, fmt.Errorf("open the store of log events in %s: %w", dir, err)
	}
	for _, g := range s.groups {
		g.deletions = g.expired > never || len(g.dead) > 0
		s.upkeep.enqueue(g)
	}
	s.upkeep.done.Go(s.runMaintenance)
	return s, nil
}

func (s *Store) openStore() (err error) {
	catalog := filepath.Join(s.dir, catalogDirectory)
	for _, dir := range []string{catalog, s.parts} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if s.lock, err = pebble.LockDirectory(catalog, vfs.Default); err != nil {
		return fmt.Errorf("is another process using it? %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		err = errors.Join(err, s.lock.Close())
	}()
	if s.db, err = pebble.Open(catalog, s.pebbleOptions()); err != nil {
		return err
	}
	if err = s.checkVersion(); err != nil {
		return err
	}
	if err = s.loadCatalog(); err != nil {
		return err
	}
	return s.removeOrphans()
}

// pebbleOptions returns options of a small database: its content is either tiny or on its way into a part.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		Lock:                        s.lock,
		FS:                          vfs.OnDiskFull(vfs.Default, s.waitForSpace),
		Logger:                      logger{s},
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   4 << 20,
		MemTableSize:                4 << 20, // many chunks are sealed before they would leave it
		L0CompactionThreshold:       8,       // and others before they would be merged
		L0StopWritesThreshold:       24,
		MemTableStopWritesThreshold: 3,
		Cleaner:                     cleaner{},
		MaxOpenFiles:                200,
		WALBytesPerSync:             1 << 20,
		FlushDelayDeleteRange:       10 * time.Second, // then the space of what was deleted returns
	}
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) { s.log.Warn("the catalog of log events failed in the background", "error", err) },
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			s.log.Error("the catalog of log events is damaged", "file", i.Path, "error", i.Details)
		},
	}
	o.Levels[0].BlockSize = 32 << 10
	// Chunks are compressed already; this is for the many small ones of groups with little traffic.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	return o
}

func (s *Store) checkVersion() error {
	value, closer, err := s.db.Get(encodeKey(keyVersion))
	if errors.Is(err, pebble.ErrNotFound) {
		return s.db.Set(encodeKey(keyVersion), []byte{storeVersion}, pebble.Sync)
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	if len(value) != 1 || value[0] != storeVersion {
		return fmt.Errorf("it has version %d of the format, and this program knows version %d", value, storeVersion)
	}
	return nil
}

// loadCatalog reads the catalog.
func (s *Store) loadCatalog() error {
	if err := s.forEachEntry(encodeKey(keyFloor), encodeKey(keyFloor+1), func(_, v []byte) error {
		c := &cursor{b: v}
		s.floor = c.uvarint()
		return c.checkEnd()
	}); err != nil {
		return err
	}
	read := func(kind byte, f func(g *group, number uint64, value []byte) error) error {
		return s.forEachEntry([]byte{kind}, []byte{kind + 1}, func(k, v []byte) error {
			id := GroupID(keyNumber(k, 0))
			if s.groups[id] == nil {
				s.groups[id] = s.newGroup(id)
			}
			if err := f(s.groups[id], keyNumber(k, 1), v); err != nil {
				return fmt.Errorf("%w: catalog, key %x: %w", ErrDamaged, k, err)
			}
			return nil
		})
	}
	return errors.Join(
		read(keyGroup, func(g *group, _ uint64, v []byte) (err error) {
			g.groupRow, err = readGroupRow(v)
			g.durable, g.live = g.last, g.last
			return err
		}),
		read(keyStream, func(g *group, n uint64, v []byte) (err error) {
			g.streams[StreamID(n)], err = readStreamStat(v)
			return err
		}),
		read(keyDead, func(g *group, n uint64, v []byte) error {
			c := &cursor{b: v}
			g.dead[StreamID(n)] = c.uvarint()
			return c.checkEnd()
		}),
		read(keyPart, func(g *group, n uint64, v []byte) error {
			p, err := readPart(s, g.id, n, v)
			if err != nil {
				return err
			}
			g.parts = append(g.parts, p)
			sortParts(g.parts)
			s.lastPart.Store(max(s.lastPart.Load(), n))
			return nil
		}))
}

// forEachEntry reads the rows of the catalog with from <= key < to. What f gets is valid until it returns.
func (s *Store) forEachEntry(from, to []byte, f func(k, v []byte) error) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// removeOrphans removes files that a crash left before they were in the catalog, or after they were
// out of it, and says which are missing.
func (s *Store) removeOrphans() error {
	known := map[string]bool{}
	for _, g := range s.groups {
		for _, p := range g.parts {
			known[filepath.Base(p.filePath())] = true
			if info, err := os.Stat(p.filePath()); err != nil {
				s.log.Error("log events are missing; queries that need them will fail", "error", err)
			} else if info.Size() != p.size() {
				s.log.Error("a file of log events has the wrong size; queries that need it may fail",
					"file", p.filePath(), "bytes", info.Size(), "want", p.size())
			}
		}
	}
	entries, err := os.ReadDir(s.parts)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ours := strings.HasSuffix(e.Name(), partSuffix) || strings.HasSuffix(e.Name(), partSuffix+".tmp")
		if !ours || known[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(s.parts, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close waits for the work in the background and closes the files. Views that are still open read nothing more.
func (s *Store) Close() error {
	s.stop()
	s.life.Lock()
	closed := s.closed
	s.closed = true
	s.life.Unlock()
	if closed {
		return ErrClosed
	}
	s.upkeep.done.Wait()
	s.mu.Lock()
	views := slices.Collect(maps.Keys(s.views))
	s.mu.Unlock()
	var err error
	for _, v := range views {
		err = errors.Join(err, s.closeCatalog(v))
	}
	return errors.Join(err, s.db.Close(), s.lock.Close())
}

// beginCall begins a call; each that succeeds is followed by s.life.RUnlock.
func (s *Store) beginCall() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *Store) newGroup(id GroupID) *group {
	return &group{
		id: id, groupRow: groupRow{last: s.floor, sealed: s.floor, expired: never}, durable: s.floor, live: s.floor,
		streams: map[StreamID]StreamStat{}, dead: map[StreamID]uint64{}, changed: make(chan struct{}),
	}
}

// findGroup returns the group if there is anything of it, or nil.
func (s *Store) findGroup(id GroupID) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[id]
}

// ensureGroup returns the group, which comes into being if there is none.
func (s *Store) ensureGroup(id GroupID) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[id] == nil {
		s.groups[id] = s.newGroup(id)
	}
	return s.groups[id]
}

// notifyWaiters wakes who waits for the group. The group is locked.
func (g *group) notifyWaiters() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func sortParts(parts []*part) {
	slices.SortFunc(parts, func(a, b *part) int {
		if a.minSeq < b.minSeq {
			return -1
		}
		return 1
	})
}

// Groups returns the groups that hold anything, in order.
func (s *Store) Groups() []GroupID {
	s.mu.Lock()
	groups := slices.Collect(maps.Values(s.groups))
	s.mu.Unlock()
	var ids []GroupID
	for _, g := range groups {
		g.mu.Lock()
		if len(g.streams) > 0 || len(g.parts) > 0 || g.unsealed > 0 {
			ids = append(ids, g.id)
		}
		g.mu.Unlock()
	}
	slices.Sort(ids)
	return ids
}

// Streams returns the streams of the group that hold anything, in order.
func (s *Store) Streams(id GroupID) []StreamID {
	g := s.findGroup(id)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.streams))
}
