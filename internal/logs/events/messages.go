package events

import (
	"bytes"
	"fmt"
	"sync"
)

// Messages are the decompressed messages of a block.
type Messages struct {
	buffer *[]byte
	data   []byte
	ends   []uint32 // of each message in data
}

var messageBuffers, compressedBuffers = sync.Pool{New: newBuffer}, sync.Pool{New: newBuffer}

func newBuffer() any { return new([]byte) }

// Messages decompresses the messages. They are read until Release is called.
func (b *Block) Messages() (*Messages, error) {
	m := &Messages{buffer: messageBuffers.Get().(*[]byte), ends: make([]uint32, 0, b.rows)}
	var err error
	if b.part != nil {
		err = b.readMessages(m)
	} else {
		err = b.readChunks(m)
	}
	if err != nil {
		m.Release()
		return nil, err
	}
	*m.buffer = m.data[:0]
	return m, nil
}

func (b *Block) readMessages(m *Messages) error {
	t, err := b.view.readTail(b)
	if err != nil {
		return err
	}
	rows, err := b.section(t, t.directory.rows)
	if err != nil {
		return err
	}
	c := &cursor{b: rows}
	end := int64(0)
	for _, size := range readSizes(c, b.rows) {
		end += int64(size)
		m.ends = append(m.ends, uint32(end))
	}
	if c.err == nil && end != b.raw {
		c.recordError(fmt.Errorf("its messages are %d bytes together, not %d", end, b.raw))
	}
	if c.err != nil {
		return b.part.damaged(b.meta.offset, c.err)
	}
	s := t.directory.messages
	scratch := compressedBuffers.Get().(*[]byte)
	defer compressedBuffers.Put(scratch)
	raw, err := b.rawSection(*scratch, t, s)
	if err != nil {
		return err
	}
	*scratch = raw[:0]
	if m.data, err = s.decodeSection(*m.buffer, raw); err == nil && int64(len(m.data)) != b.raw {
		err = errShort
	}
	if err != nil {
		return b.part.damaged(b.meta.offset, err)
	}
	if s.raw == 0 {
		m.data = bytes.Clone(m.data) // the scratch buffer is given back
	}
	return nil
}

func (b *Block) readChunks(m *Messages) error {
	if int64(cap(*m.buffer)) < b.raw {
		*m.buffer = make([]byte, b.raw)
	}
	m.data = (*m.buffer)[:b.raw]
	start := 0
	return b.forEachChunk(func(c *chunk) error {
		messages, err := c.forEachRow(func(r row) { m.ends = append(m.ends, uint32(start+r.at+r.size)) })
		if err != nil {
			return err
		}
		at := start
		start += int(c.raw)
		return c.decompress(m.data[at:], messages)
	})
}

// At returns the message of row i; the caller doesn't change it, and copies what it needs longer than until Release.
func (m *Messages) At(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = m.ends[i-1]
	}
	return m.data[start:m.ends[i]:m.ends[i]]
}

// Release gives the memory back. It is called once.
func (m *Messages) Release() {
	messageBuffers.Put(m.buffer)
	m.buffer, m.data = nil, nil
}
