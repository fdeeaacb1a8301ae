package events

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// pieces returns encoded data for each decoder, as it is written.
func pieces(tb testing.TB) map[string][]byte {
	tb.Helper()
	random := rand.New(rand.NewPCG(9, 9))
	var rows []row
	var buffer []byte
	var events []Event
	for i := range 50 {
		m := randomMessage(random)
		events = append(events, Event{StreamID(i % 3), int64(i), int64(i * 2), 0, m})
		rows = append(rows, row{StreamID(i % 3), int64(i), int64(i * 2), uint64(i + 1), len(buffer), len(m)})
		buffer = append(buffer, m...)
	}
	slices.SortFunc(rows, blockOrder)
	w := newBlockWriter()
	encoded, meta := w.encodeBlock(rows, buffer)
	chunk, _ := encodeChunk(nil, events)
	return map[string][]byte{
		"directory": bytes.Clone(encoded[len(encoded)-int(meta.directory):]),
		"rows":      appendRows(nil, rows),
		"column":    appendColumn(nil, &Column{Values: []string{`"a"`, "1"}, Codes: []uint16{0, 1, NoValue, 1}}),
		"part":      newPart(nil, 1, 1, []blockMeta{meta, meta}).encode(),
		"chunk":     chunk,
	}
}

// decode gives bytes to every decoder. It must neither panic nor allocate much more than it was given.
func decode(b []byte) {
	_, _ = readDirectory(b)
	_, _ = readRows(b, 50)
	_, _ = readColumn(b, 4)
	_, _ = readPart(nil, 1, 1, b)
	_, _ = readGroupRow(b)
	_, _ = readStreamStat(b)
	_, _ = section{size: len(b), raw: 1000, checksum: checksum(b)}.decodeSection(nil, b)
	if c, err := readChunk(1, b); err == nil && c.raw < 1<<20 {
		if messages, err := c.forEachRow(func(row) {}); err == nil {
			_ = c.decompress(make([]byte, c.raw), messages)
		}
	}
}

func TestDamagedPiecesAreErrors(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, whole := range pieces(t) {
		t.Run(name, func(t *testing.T) {
			decode(whole)
			for n := range min(len(whole), 500) {
				decode(whole[:n])
			}
			for range 2000 {
				b := bytes.Clone(whole)
				for range 1 + random.IntN(4) {
					b[random.IntN(len(b))] = byte(random.Uint32())
				}
				decode(b)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range pieces(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { decode(b) })
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for message, words := range map[string][]string{
		``:                                   nil,
		`a b c`:                              nil,
		`system:serviceaccount:x`:            {"system", "serviceaccount"},
		`{"q":"a1\u0026limit=5"}`:            {"a1", "u0026limit", "limit"},
		`"\u0061ws-n\u006fde\u002f\u0078yz"`: {"aws", "node", "xyz"},
		`\\u0061bc \n\u0062cd`:               {"u0061bc", "nbcd"},
		`x\u003c\u003cyy\u0041\nzz\u0042`:    {"yyA", "nzzB"},
		`\u00`:                               {"u00"},
	} {
		var s wordSet
		s.reset()
		s.addWords([]byte(message))
		f := s.buildFilter()
		for _, w := range words {
			if !mayContain(f, wordHash([]byte(w))) {
				t.Errorf("the filter of %q denies %q", message, w)
			}
		}
		if plain, ok := tokenizer.Unescaped([]byte(message)); ok {
			tokenizer.Each(plain, func(w []byte) bool {
				if !mayContain(f, wordHash(w)) {
					t.Errorf("the filter of %q denies %q of its plain form %q", message, w, plain)
				}
				return true
			})
		}
	}
}

func FuzzFilterHasTheWordsOfThePlainForm(f *testing.F) {
	f.Add([]byte(`{"q":"a1\u0026limit=5\\u0041b"}`))
	f.Fuzz(func(t *testing.T, message []byte) {
		var s wordSet
		s.reset()
		s.addWords(message)
		filter := s.buildFilter()
		check := func(w []byte) bool {
			if !mayContain(filter, wordHash(w)) {
				t.Errorf("the filter of %q denies %q", message, w)
			}
			return true
		}
		tokenizer.Each(message, check)
		if plain, ok := tokenizer.Unescaped(message); ok {
			tokenizer.Each(plain, check)
		}
	})
}

func TestFilterIsRarelyWrong(t *testing.T) {
	t.Parallel()
	var s wordSet
	s.reset()
	for i := range 100_000 {
		s.add(wordHash([]byte{'a', byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	f, wrong := s.buildFilter(), 0
	for i := range 100_000 {
		if mayContain(f, wordHash([]byte{'b', byte(i), byte(i >> 8), byte(i >> 16)})) {
			wrong++
		}
	}
	if wrong > 2000 {
		t.Errorf("%d of 100000 words that are not there may be there", wrong)
	}
}
