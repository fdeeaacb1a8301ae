package vended

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrRefused reports that the resource policies of an account do not let a log be delivered to a log group.
var ErrRefused = errors.New("the log group does not take what is delivered")

// Log is a log of a load balancer.
type Log struct {
	Account string
	// ID is that of the load balancer, which no other has: 16 hexadecimal digits.
	ID   string
	Type string // the name of a Type
}

// dir returns the directory of the log's files.
func (l Log) dir(root string) string { return filepath.Join(root, l.Account, l.Type+"-"+l.ID) }

// Logs returns the logs that have files.
func Logs(root string) (all []Log, err error) {
	accounts, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the logs of load balancers: %w", err)
	}
	for _, account := range accounts {
		dirs, err := os.ReadDir(filepath.Join(root, account.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the logs of load balancers: %w", err)
		}
		for _, dir := range dirs {
			if kind, id, ok := strings.Cut(dir.Name(), "-"); ok {
				all = append(all, Log{Account: account.Name(), ID: id, Type: kind})
			}
		}
	}
	return all, nil
}

// Remove removes the files of a log.
func Remove(root string, l Log) error {
	if err := os.RemoveAll(l.dir(root)); err != nil {
		return fmt.Errorf("remove the log of a load balancer: %w", err)
	}
	// The account may have others.
	if err := os.Remove(filepath.Join(root, l.Account)); err != nil && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("remove the log of a load balancer: %w", err)
	}
	return nil
}

// segment is a file of a log. Entries are appended to the one with the highest number.
type segment struct {
	number uint64
	size   int64
}

const suffix = ".log"

func segmentFile(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", number, suffix))
}

// listSegments returns the files of a log, in their order.
func listSegments(dir string) (all []segment, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		number, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), suffix), 16, 64)
		if err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, segment{number, info.Size()})
	}
	slices.SortFunc(all, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// Position is a place in the files of a log. The zero Position is their beginning.
type Position struct {
	Segment uint64
	Offset  int64
}

// Less reports whether p is before q.
func (p Position) Less(q Position) bool {
	return cmp.Or(cmp.Compare(p.Segment, q.Segment), cmp.Compare(p.Offset, q.Offset)) < 0
}

// Entry is an entry of a log, of a time in milliseconds since 1970 UTC.
type Entry struct {
	Time int64
	Text string
}

// readSize is how many bytes of a log are read at once: more than the longest entry has.
const readSize = 1 << 20

// Read returns the entries of a log from a position on, some at a time, and the position after them. Without any it
// returns the position that it was given, or that of a later file.
func Read(root string, l Log, from Position) (entries []Entry, next Position, err error) {
	segments, err := listSegments(l.dir(root))
	if err != nil {
		return nil, from, fmt.Errorf("read the log of a load balancer: %w", err)
	}
	if next = from; len(segments) > 0 && segments[len(segments)-1].number < from.Segment {
		next = Position{} // the files are others: the data directory is that of a backup
	}
	for i, s := range segments {
		if s.number < next.Segment {
			continue
		}
		if s.number > next.Segment {
			next = Position{Segment: s.number}
		}
		entries, end, err := readSegment(segmentFile(l.dir(root), s.number), next.Offset, s.size)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, from, fmt.Errorf("read the log of a load balancer: %w", err)
		}
		if next.Offset = end; len(entries) > 0 || i == len(segments)-1 {
			return entries, next, nil
		}
		// Nobody writes to it any more: what it ends in is no entry, but a part of one.
	}
	return nil, next, nil
}

// readSegment returns entries of a file of a size from an offset on, and the offset after them. Where there are none it
// costs nothing: each delivery asks each second.
func readSegment(file string, offset, size int64) (entries []Entry, end int64, err error) {
	if offset >= size {
		return nil, offset, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, offset, err
	}
	defer f.Close()
	b := make([]byte, min(readSize, size-offset))
	n, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, offset, err
	}
	last := bytes.LastIndexByte(b[:n], '\n') + 1
	text := string(b[:last])
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		at, entry, _ := strings.Cut(line, " ")
		// One that the machine's end has cut is not there.
		if at, err := strconv.ParseInt(at, 10, 64); err == nil && entry != "" {
			entries = append(entries, Entry{Time: at, Text: entry})
		}
	}
	return entries, offset + int64(last), nil
}

// Trim removes the files of a log before a position.
func Trim(root string, l Log, before Position) error {
	segments, err := listSegments(l.dir(root))
	if err != nil {
		return fmt.Errorf("trim the log of a load balancer: %w", err)
	}
	for _, s := range segments {
		if s.number >= before.Segment {
			break
		}
		if err := os.Remove(segmentFile(l.dir(root), s.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trim the log of a load balancer: %w", err)
		}
	}
	return nil
}
