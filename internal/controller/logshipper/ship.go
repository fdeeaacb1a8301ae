package logshipper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// batchBytes is the length of the messages, in bytes, from which a batch is appended.
	batchBytes = 1 << 20
	// atOnce is the number of bytes of a cluster's logs that are read before other clusters get their turn.
	atOnce = 64 << 20
)

// shipment is a reconcile pass over one cluster.
type shipment struct {
	c       *Controller
	cluster record.Cluster
	state   *clusterLogs
	// offsets are written together with the events of the batch.
	offsets *offsets
	ended   bool  // reports that the components have ended
	read    int64 // bytes

	destination destination
	events      []events.Event
	bytes       int // of their messages
}

// runSteps takes the steps 1 to 4 of a reconcile pass.
func (s *shipment) runSteps(ctx context.Context) (more bool, err error) {
	dir := s.c.logDirectory(s.cluster.ID)
	switch id, err := identify(unix.AT_FDCWD, dir); {
	case errors.Is(err, fs.ErrNotExist): // no component has been started yet, or all is gone
	case err != nil:
		return false, err
	case id != s.offsets.Dir:
		s.offsets.Dir, s.offsets.Files = id, nil
	}
	files, err := openAll(dir)
	if err != nil {
		return false, err
	}
	defer closeAll(files)
	if err := s.switchOn(ctx, files); err != nil {
		return false, err
	}
	if err := s.checkOffsets(files); err != nil {
		return false, err
	}
	more, err = s.shipFiles(ctx, files)
	if err != nil {
		s.offsets = s.state.offsets.deepCopy() // what has been read was not taken in
		return false, errors.Join(err, s.removeShipped(files, errors.Is(err, events.ErrFull) && s.mustGiveUp()))
	}
	if more {
		return true, nil
	}
	return false, s.removeShipped(files, false)
}

// shipFiles ships the new lines of the files of enabled types.
func (s *shipment) shipFiles(ctx context.Context, files []*file) (more bool, err error) {
	for _, f := range files {
		if !slices.Contains(s.offsets.On, f.kind) {
			continue
		}
		if err := s.shipFile(ctx, f); err != nil {
			return false, fmt.Errorf("ship %s: %w", f.Name(), err)
		}
		if s.read >= atOnce {
			return true, s.writeBatch(ctx)
		}
	}
	s.switchOff()
	return false, s.writeBatch(ctx)
}

// switchOn starts to ship newly enabled types, from the present end of their files.
func (s *shipment) switchOn(ctx context.Context, files []*file) error {
	added := slices.DeleteFunc(slices.Clone(s.cluster.LoggingTypes),
		func(t ekstypes.LogType) bool { return slices.Contains(s.offsets.On, t) })
	if len(added) == 0 || s.cluster.Deleting {
		return nil
	}
	if err := s.ensureGroup(ctx); err != nil {
		return err
	}
	for _, f := range files {
		if !slices.Contains(added, f.kind) {
			continue
		}
		size, err := f.fileSize()
		if err != nil {
			return err
		}
		p := s.offsets.ensureFileOffset(f)
		p.Offset, p.Done = size, f.aside
	}
	s.offsets.On = append(s.offsets.On, added...)
	slices.Sort(s.offsets.On)
	return nil
}

// switchOff stops shipping disabled types, whose files have been shipped up to this point.
func (s *shipment) switchOff() {
	on := func(t ekstypes.LogType) bool { return slices.Contains(s.cluster.LoggingTypes, t) }
	s.offsets.On = slices.DeleteFunc(s.offsets.On, func(t ekstypes.LogType) bool { return !on(t) })
	s.offsets.Files = slices.DeleteFunc(s.offsets.Files, func(p fileOffset) bool {
		source, _, _ := sourceOf(p.Name)
		return !on(source.kind)
	})
}

// checkOffsets corrects the offsets of files that are shorter than shipped, and drops those of files that are gone.
func (s *shipment) checkOffsets(files []*file) error {
	for _, f := range files {
		i := slices.IndexFunc(s.offsets.Files, func(p fileOffset) bool { return p.matches(f) })
		if i < 0 || f.aside && s.offsets.Files[i].Done {
			continue
		}
		size, err := f.fileSize()
		if err != nil {
			return err
		}
		if p := &s.offsets.Files[i]; size < p.Offset {
			if s.offsets.Boot != bootID {
				// The machine stopped before the end of the file had got to the disk; it was shipped already.
				p.Offset = size
				continue
			}
			s.c.log.Warn("a log of a control plane was cut; it is shipped from its beginning", "cluster",
				s.cluster.Name, "file", f.Name(), "shipped", p.Offset)
			p.Offset = 0
		}
	}
	s.offsets.Files = slices.DeleteFunc(s.offsets.Files, func(p fileOffset) bool {
		if slices.ContainsFunc(files, func(f *file) bool { return p.matches(f) }) {
			return false
		}
		if !p.Done && !s.cluster.Deleting {
			source, _, _ := sourceOf(p.Name)
			s.c.log.Error(
				"a log of a control plane is gone before it was shipped to its end: these lines, and those of files "+
					"that were put aside and removed after it, are lost",
				"cluster", s.cluster.Name, "file", p.Name, "shipped", p.Offset, "bytesLost",
				max(0, source.full-p.Offset))
		}
		return true
	})
	return nil
}

// shipFile adds the lines of a file from its offset on to the batch, and writes full batches. It stops when the
// shipment has read atOnce bytes.
func (s *shipment) shipFile(ctx context.Context, f *file) error {
	p := s.offsets.ensureFileOffset(f)
	if p.Done {
		return nil
	}
	begin, err := findLine(f, p.Offset)
	if err != nil {
		return err
	}
	if begin > p.Offset {
		s.c.log.Error("lines of a control plane's log are lost: the disk was full, and they could not be shipped",
			"cluster", s.cluster.Name, "file", f.Name(), "shipped", p.Offset, "bytesLost", begin-p.Offset)
	}
	p.Offset = begin
	pooled := s.c.buffers.Get().(*[]byte)
	defer s.c.buffers.Put(pooled)
	for s.read < atOnce {
		n, err := f.ReadAt(*pooled, p.Offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		b := (*pooled)[:n]
		end := bytes.LastIndexByte(b, '\n') + 1
		switch {
		case end > 0:
		case n == len(*pooled):
			end = completeLength(b)
		case f.aside || s.ended:
			end = n // a last line whose newline nobody is going to write
		}
		if end == 0 {
			p.Done = f.aside
			return nil
		}
		if err := s.appendLines(ctx, f, string(b[:end])); err != nil {
			return err
		}
		p.Offset += int64(end)
		s.read += int64(end)
		if s.bytes >= batchBytes {
			if err := s.writeBatch(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// findLine returns the offset of the first whole line of a file at or after an offset, at which a line begins. It skips
// the hole of lines that have been trimmed.
func findLine(f *file, offset int64) (int64, error) {
	data, err := unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EINVAL) || data == offset && err == nil {
		return offset, nil // at the end, or no holes at all on this file system, or none here
	}
	if err != nil {
		return 0, fmt.Errorf("find the next line: %w", err)
	}
	b := make([]byte, 64<<10)
	for offset := data; ; {
		n, err := f.ReadAt(b, offset)
		if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
			return offset + int64(i) + 1, nil
		}
		offset += int64(n)
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// completeLength returns the length of b without an incomplete character at its end.
func completeLength(b []byte) int {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// appendLines makes an event of every line of text.
func (s *shipment) appendLines(ctx context.Context, f *file, text string) error {
	stream, err := s.ensureStream(ctx, f.stream)
	if err != nil {
		return err
	}
	now := s.c.clock.Now()
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line == "" {
			continue // CloudWatch has no empty events
		}
		written, ok := f.time(line, now)
		if !ok {
			written = now.UnixMilli()
		}
		s.events = append(s.events, events.Event{Stream: stream, Timestamp: written, Ingested: now.UnixMilli(),
			Message: line})
		s.bytes += len(line)
	}
	return nil
}

// writeBatch appends the events of the batch and moves the offsets, in one atomic write.
func (s *shipment) writeBatch(ctx context.Context) error {
	if len(s.events) == 0 && s.state.stored && s.offsets.equal(s.state.offsets) {
		return nil
	}
	s.offsets.Boot = bootID
	moved := map[string][]byte{marks + s.cluster.ID: s.offsets.encodeJSON()}
	crashRead.Here()
	if len(s.events) == 0 {
		if err := s.c.o.Events.SetMarks(moved); err != nil {
			return err
		}
	} else {
		if err := s.checkGroupExists(ctx); err != nil {
			return err
		}
		if _, err := s.c.o.Events.Append(ctx, events.Batch{Group: s.destination.group, Events: s.events,
			Marks: moved}); err != nil {
			return err
		}
	}
	crashAppended.Here()
	clear(s.events)
	s.events, s.bytes = s.events[:0], 0
	s.state.offsets, s.state.stored = s.offsets.deepCopy(), true
	return nil
}
