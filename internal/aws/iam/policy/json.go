package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// node is a JSON value with its position in the text: messages and the policy simulator point at it. Unlike a map it
// keeps duplicate names, which a policy must not have.
type node struct {
	value      any // string, json.Number, bool, nil; or members; or elements
	start, end int // byte offsets in the text, end exclusive
}

type (
	members  []member
	elements []node
	member   struct {
		name string
		node
	}
)

// maxDepth is deeper than any valid document: Policy > Statement > Condition > operator > key > values.
const maxDepth = 16

func parseJSON(text string) (node, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	n, err := parseValue(decoder, text, 0)
	if err != nil {
		return node{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return node{}, fmt.Errorf("there is text after the document, at %s", position(text, int(decoder.InputOffset())))
	}
	return n, nil
}

func parseValue(decoder *json.Decoder, text string, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, errors.New("the document is nested too deeply")
	}
	start := skipSeparators(text, int(decoder.InputOffset()))
	token, err := decoder.Token()
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("unexpected end of the document")
		}
		return node{}, fmt.Errorf("%w, at %s", err, position(text, int(decoder.InputOffset())))
	}
	n := node{value: token, start: start}
	if delimiter, ok := token.(json.Delim); ok {
		if delimiter == '{' {
			n.value, err = parseMembers(decoder, text, depth)
		} else {
			n.value, err = parseElements(decoder, text, depth)
		}
		if err != nil {
			return node{}, err
		}
		if _, err := decoder.Token(); err != nil { // the closing bracket
			return node{}, fmt.Errorf("%w, at %s", err, position(text, int(decoder.InputOffset())))
		}
	}
	n.end = int(decoder.InputOffset())
	return n, nil
}

func parseMembers(decoder *json.Decoder, text string, depth int) (members, error) {
	all, given := members{}, map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("%w, at %s", err, position(text, int(decoder.InputOffset())))
		}
		name := key.(string) // the decoder lets nothing else stand before a colon
		if given[name] {
			return nil, fmt.Errorf("%q is given twice, at %s", name, position(text, int(decoder.InputOffset())))
		}
		given[name] = true
		value, err := parseValue(decoder, text, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, member{name, value})
	}
	return all, nil
}

func parseElements(decoder *json.Decoder, text string, depth int) (elements, error) {
	all := elements{}
	for decoder.More() {
		value, err := parseValue(decoder, text, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

// skipSeparators moves from the end of one token to the start of the next.
func skipSeparators(text string, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n:,", text[at]) >= 0 {
		at++
	}
	return at
}

// Position is a position in the text of a document; both count from 1.
type Position struct{ Line, Column int }

func (p Position) String() string { return fmt.Sprintf("line %d, column %d", p.Line, p.Column) }

func position(text string, offset int) Position {
	before := text[:min(offset, len(text))]
	line := strings.Count(before, "\n")
	return Position{Line: line + 1, Column: len(before) - strings.LastIndexByte(before, '\n')}
}

// lines are the offsets at which the lines of a text begin, for many positions in it.
type lines []int

func findLines(text string) lines {
	starts := lines{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func (l lines) position(offset int) Position {
	line := sort.SearchInts(l, offset+1) // how many begin at offset or before
	return Position{Line: line, Column: offset - l[line-1] + 1}
}

// Size returns the size of a document for AWS's quotas, which do not count white space.
func Size(text string) int {
	n := 0
	for _, r := range text {
		if r != ' ' && r != '\t' && r != '\n' && r != '\r' {
			n++
		}
	}
	return n
}
