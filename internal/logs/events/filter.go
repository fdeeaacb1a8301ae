package events

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// The word filter of a block is a Bloom filter over the words of its messages. filterBits for each
// word and filterProbes of them make about 1 false answer of 120.
const (
	filterBits   = 10
	filterProbes = 6
)

// wordHash returns the hash that stands for a word in sets and filters, never 0.
func wordHash(w []byte) uint64 { return max(xxhash.Sum64(w), 1) }

// wordSet collects the different words of a block, by their hashes.
type wordSet struct {
	slots []uint64 // open addressing, a power of two; 0 is free
	count int
}

func (s *wordSet) reset() {
	if s.slots == nil {
		s.slots = make([]uint64, 1<<15)
	}
	clear(s.slots)
	s.count = 0
}

func (s *wordSet) add(h uint64) {
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case h:
			return
		case 0:
			s.slots[i] = h
			s.count++
			if s.count > len(s.slots)/2 {
				s.grow()
			}
			return
		}
	}
}

func (s *wordSet) grow() {
	old := s.slots
	s.slots, s.count = make([]uint64, 2*len(old)), 0
	for _, h := range old {
		if h != 0 {
			s.add(h)
		}
	}
}

// addWords adds the words of a message: as it is written, and where it is JSON with ASCII characters
// written as \u00XX, as it reads.
func (s *wordSet) addWords(message []byte) {
	add := func(w []byte) bool {
		s.add(wordHash(w))
		return true
	}
	tokenizer.Each(message, add)
	// Only the surroundings of escapes read otherwise than they are written: from the beginning of the
	// run that one stands in or behind, over all that follow without anything else between.
	for i := 0; ; {
		next := bytes.Index(message[i:], []byte(`\u00`))
		if next < 0 {
			return
		}
		from, start := i, i+next
		i = start
		for i < len(message) && (tokenizer.Is(message[i]) || bytes.HasPrefix(message[i:], []byte(`\u00`))) {
			i++
		}
		for start > from && (tokenizer.Is(message[start-1]) || message[start-1] == '\\') {
			start--
		}
		if plain, ok := tokenizer.Unescaped(message[start:i]); ok {
			tokenizer.Each(plain, add)
		}
	}
}

// buildFilter returns the filter over the set.
func (s *wordSet) buildFilter() []byte {
	f := make([]byte, (s.count*filterBits+7)/8)
	if len(f) == 0 {
		return f
	}
	for _, h := range s.slots {
		if h != 0 {
			for i := range filterProbes {
				at := probeIndex(h, i, len(f))
				f[at/8] |= 1 << (at % 8)
			}
		}
	}
	return f
}

// probeIndex returns the index of bit i of a word in a filter of so many bytes.
func probeIndex(h uint64, i, bytes int) uint64 {
	a, b := uint32(h), uint32(h>>32)|1
	return uint64(a+uint32(i)*b) * uint64(bytes) * 8 >> 32
}

// mayContain asks a filter.
func mayContain(filter []byte, h uint64) bool {
	if len(filter) == 0 {
		return false // of no words at all
	}
	for i := range filterProbes {
		if at := probeIndex(h, i, len(filter)); filter[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}
