package events

import (
	"encoding/binary"
	"math"
)

// The rows of the catalog, a Pebble database. Keys begin with a letter; numbers in them are big-endian
// so that they sort.
//
//	v                        the version of all this
//	n                        the highest Seq that a deleted group had
//	g group                  groupRow
//	s group stream           StreamStat
//	d group stream           Seq up to which the stream's events are deleted
//	p group part             a part's blocks
//	c group seq              a chunk of events that are not sealed
//	m mark                   a mark
const (
	keyVersion = 'v'
	keyFloor   = 'n'
	keyGroup   = 'g'
	keyStream  = 's'
	keyDead    = 'd'
	keyPart    = 'p'
	keyChunk   = 'c'
	keyMark    = 'm'
)

const storeVersion = 1

func encodeKey(kind byte, numbers ...uint64) []byte {
	b := make([]byte, 1, 1+8*len(numbers))
	b[0] = kind
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// keyNumber returns number i of a key.
func keyNumber(k []byte, i int) uint64 {
	if len(k) < 1+8*(i+1) {
		return 0
	}
	return binary.BigEndian.Uint64(k[1+8*i:])
}

// groupKeys returns the bounds of a group's keys of a kind.
func groupKeys(kind byte, g GroupID) (from, to []byte) {
	if g == math.MaxUint64 {
		return encodeKey(kind, uint64(g)), []byte{kind + 1}
	}
	return encodeKey(kind, uint64(g)), encodeKey(kind, uint64(g)+1)
}

// groupRow is the catalog's record of a group, beside its streams and parts.
type groupRow struct {
	last     uint64 // Seq given last
	sealed   uint64 // Seq up to which events are in parts
	unsealed int64  // bytes of messages in chunks
	expired  int64  // events with a Timestamp below are gone
}

func (r groupRow) encode() []byte {
	b := binary.AppendUvarint(nil, r.last)
	b = binary.AppendUvarint(b, r.sealed)
	b = binary.AppendVarint(b, r.unsealed)
	return binary.AppendVarint(b, r.expired)
}

func readGroupRow(b []byte) (groupRow, error) {
	c := &cursor{b: b}
	r := groupRow{last: c.uvarint(), sealed: c.uvarint(), unsealed: c.varint(), expired: c.varint()}
	return r, c.checkEnd()
}

func (s StreamStat) encode() []byte {
	b := binary.AppendVarint(nil, s.First)
	b = binary.AppendVarint(b, s.Last)
	b = binary.AppendVarint(b, s.LastIngested)
	b = binary.AppendVarint(b, s.Events)
	return binary.AppendVarint(b, s.StoredBytes)
}

func readStreamStat(b []byte) (StreamStat, error) {
	c := &cursor{b: b}
	s := StreamStat{First: c.varint(), Last: c.varint(), LastIngested: c.varint(), Events: c.varint(),
		StoredBytes: c.varint()}
	return s, c.checkEnd()
}

func uvarintBytes(n uint64) []byte { return binary.AppendUvarint(nil, n) }
