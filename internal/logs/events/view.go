package events

import "errors"

// View is a snapshot of a group: what is appended or deleted later does not change it.
type View struct{}

// View takes a snapshot of the blocks which may hold events with from <= Timestamp < to.
func (s *Store) View(g GroupID, from, to int64) (*View, error) { return nil, errors.New("unfinished") }

// Blocks are the view's blocks, in no order that means anything.
func (v *View) Blocks() []*Block { return nil }

// Close ends the view. Its blocks, and what was read from them, are not used after it.
func (v *View) Close() error { return nil }

// Block is some thousand events of a view. One goroutine uses a block at a time; several blocks may be
// used by several.
type Block struct{}

// Len is the number of rows, dead ones included (see Rows.Live).
func (b *Block) Len() int { return 0 }

// MinTime is the earliest Timestamp of the block's rows.
func (b *Block) MinTime() int64 { return 0 }

// MaxTime is the latest Timestamp of the block's rows.
func (b *Block) MaxTime() int64 { return 0 }

// RawBytes is the length of the messages of all rows together.
func (b *Block) RawBytes() int64 { return 0 }

// MayContain is false only when no message of the block has the word (package word) as a whole word.
func (b *Block) MayContain(word string) bool { return true }

// Rows are the columns that every event has, one element per row.
type Rows struct {
	Timestamp []int64
	Ingested  []int64
	Seq       []uint64
	Stream    []StreamID
	Size      []int32 // of the message, in bytes
	// Live says whether row i is there for readers: false when its stream was deleted or its time has
	// expired. Nil: all are.
	Live func(i int) bool
}

// Rows reads the small columns. The caller doesn't change them.
func (b *Block) Rows() (*Rows, error) { return nil, errors.New("unfinished") }

// NoValue is the code in Column.Codes of a row whose message has no such path, or is no JSON object.
const NoValue = 0xffff

// Column is what the messages of a block have at one JSON path.
type Column struct {
	Values []string // raw JSON scalars as the messages write them: "get" with its quotes, 201, true, null
	Codes  []uint16 // per row, an index into Values, or NoValue
}

// Column reads the values of a JSON path that the block keeps apart: keys joined by dots, array elements
// by index, as in `user.groups.0`. It is false when the path is not kept, which says nothing about the
// messages; when it is true, Column tells of every row exactly what its message says.
func (b *Block) Column(path string) (*Column, bool, error) { return nil, false, nil }

// Messages are the decompressed messages of a block.
type Messages struct{}

// Messages decompresses the messages. They are read until Release is called.
func (b *Block) Messages() (*Messages, error) { return nil, errors.New("unfinished") }

// At is the message of row i; the caller doesn't change it, and copies what it needs longer than until Release.
func (m *Messages) At(i int) []byte { return nil }

// Release gives the memory back. It is called once.
func (m *Messages) Release() {}
