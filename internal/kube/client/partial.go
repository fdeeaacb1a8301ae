package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object that is too large to be decoded must not end the list or the watch that it is in: whoever may make one
// could end those of all others. The client reads it to its end, and decodes of it what is left by pruner.

const (
	// partialLink and bareLink are the self links of objects of which not all was read. API servers set none.
	partialLink, bareLink = "partial", "bare"
	// maxPartial and maxPartialValues are the largest size of such an object.
	maxPartial, maxPartialValues = 512 << 10, 1 << 13
	// MaxFinalizers is the number of finalizers that are read of an object at least: of one with more that is too large,
	// no others are.
	MaxFinalizers = 1000
	// largeObject and largeValues are the size from which objects share half of what a list may have.
	largeObject, largeValues = 256 << 10, 1 << 12
)

type partialKey struct{}

// WithPartial returns a context in which EachPage and Watch pass on objects that are too large to be read, too. Without
// it, such an object counts as one that does not exist. See IsPartial.
func WithPartial(ctx context.Context) context.Context {
	return context.WithValue(ctx, partialKey{}, true)
}

func wantsPartial(ctx context.Context) bool { return ctx.Value(partialKey{}) != nil }

// IsPartial reports whether the object was too large to be read. What is absent of it may be there: an object that is
// read in part is never one that has less, and whoever makes an object can make it such a one at any time. It has
//   - its name, namespace, UID, resource version, deletion timestamp and finalizers (see MaxFinalizers),
//   - the members of its spec and status that are texts of at most 1 KiB, numbers or booleans, such as the address of a
//     pod: of each the first 64,
//   - its labels and owners, as far as HasLabels is true, and the like in the objects of its spec and status.
func IsPartial(o metav1.Object) bool {
	return o.GetSelfLink() == partialLink || o.GetSelfLink() == bareLink
}

// HasLabels reports whether the labels of an object were read.
func HasLabels(o metav1.Object) bool { return o.GetSelfLink() != bareLink }

// items reads an answer that is a list, or a stream of events, object by object. What may be decoded is in ready.
type items struct {
	isStream bool
	list     *listSize
	ready    []byte

	raw     int   // bytes of the answer, or since the last event
	maxRaw  int   // of an answer
	page    meter // of what is ready, but for events
	outside keyScanner
	inside  scanner // of the item
	item    []byte
	meter   meter     // of the item
	pruned  []*pruner // of an item that is too large
	least   *least    // of the same
}

func newItems(isStream bool, list *listSize) *items {
	part := 1
	if list.hasItems() {
		part = list.part
	}
	return &items{isStream: isStream, list: list, maxRaw: maxRawAnswer / part,
		page: meter{maxBytes: MaxAnswer / part, maxValues: MaxValues / part}}
}

// add reads the next piece, and returns an error once the bounds are exceeded.
func (s *items) add(p []byte) error {
	most := s.maxRaw
	if s.isStream {
		most = MaxAnswer
	}
	if s.raw += len(p); s.raw > most {
		return fmt.Errorf("%s is larger than %d MiB, %w", s.subject(), most>>20, ErrTooLarge)
	}
	if err := s.list.addRaw(len(p)); err != nil {
		return err
	}
	for len(p) > 0 {
		if s.inside.depth == 0 {
			n := s.findItem(p)
			if err := s.pass(p[:n]); err != nil {
				return err
			}
			if p = p[n:]; len(p) == 0 {
				return nil
			}
			s.pruned, s.meter = nil, meter{maxBytes: MaxEvent, maxValues: MaxEventValues}
		}
		n := s.inside.end(p)
		s.addToItem(p[:n])
		if p = p[n:]; s.inside.depth > 0 {
			continue
		}
		if err := s.endItem(); err != nil {
			return err
		}
	}
	return nil
}

func (s *items) subject() string {
	if s.isStream {
		return "an event of the watch"
	}
	return "the answer"
}

// findItem returns the number of bytes before the next item.
func (s *items) findItem(p []byte) int {
	if s.isStream {
		if i := bytes.IndexByte(p, '{'); i >= 0 {
			return i
		}
		return len(p)
	}
	for i, c := range p {
		if c == '{' && s.outside.inItems() {
			return i
		}
		s.outside.add(c)
	}
	return len(p)
}

// pass lets a part of the answer be decoded that is outside of items.
func (s *items) pass(p []byte) error {
	if s.isStream {
		if len(bytes.TrimSpace(p)) > 0 {
			return errors.New("the watch has what is no event")
		}
		return nil
	}
	s.ready = append(s.ready, p...)
	values := s.page.values
	if err := s.page.add(p); err != nil {
		return err
	}
	return s.list.add(len(p), s.page.values-values)
}

func (s *items) addToItem(p []byte) {
	if s.pruned == nil && s.meter.add(p) == nil {
		s.item = append(s.item, p...)
		return
	}
	s.prune()
	for _, one := range s.pruned {
		one.add(p)
	}
	s.least.add(p)
}

// prune goes on with what is kept of an item that is too large.
func (s *items) prune() {
	if s.pruned != nil {
		return
	}
	outside := 0
	if s.isStream { // the object is in an event
		outside = -1
	}
	s.pruned = []*pruner{{level: outside, link: partialLink}, {level: outside, link: bareLink}}
	for _, one := range s.pruned {
		one.add(s.item)
	}
	s.least = &least{isEvent: s.isStream}
	s.least.add(s.item)
	s.item = nil
}

// endItem lets an item be decoded.
func (s *items) endItem() error {
	if s.pruned == nil {
		isLarge := len(s.item) > largeObject || s.meter.values > largeValues
		if !isLarge || s.list.addLarge(len(s.item), s.meter.values) {
			return s.passItem(s.item, s.meter.values)
		}
		s.prune()
	}
	for _, one := range s.pruned {
		check := meter{maxBytes: maxPartial, maxValues: maxPartialValues}
		if !one.isTooLarge && check.add(one.out) == nil {
			return s.passItem(one.out, check.values)
		}
	}
	return s.passItem(s.least.object(), leastValues+len(s.least.finalizers))
}

func (s *items) passItem(item []byte, values int) error {
	s.ready = append(s.ready, item...)
	if s.item = s.item[:0]; cap(s.item) > largeObject { // watches go on for long
		s.item = nil
	}
	if s.isStream {
		s.ready = append(s.ready, '\n')
		s.raw = 0
		return nil
	}
	s.page.bytes += len(item)
	s.page.values += values
	if err := s.page.checkBounds(); err != nil {
		return err
	}
	return s.list.add(len(item), values)
}

// scanner follows the nesting of a JSON text.
type scanner struct {
	depth             int
	inString, escaped bool
}

// end reads up to the end of the value that has begun, and returns the number of bytes.
func (s *scanner) end(p []byte) int {
	for i, c := range p {
		if s.add(c); s.depth == 0 {
			return i + 1
		}
	}
	return len(p)
}

func (s *scanner) add(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.inString:
		s.escaped, s.inString = c == '\\', c != '"'
	case c == '"':
		s.inString = true
	case c == '{', c == '[':
		s.depth++
	case c == '}', c == ']':
		s.depth--
	}
}

// keyScanner finds the array items of a list.
type keyScanner struct {
	scanner
	key  []byte // the last text of the list itself
	isIn bool   // an array of the list's is open, whose key is "items"
}

const itemsKey = "items"

func (s *keyScanner) inItems() bool { return s.isIn && s.depth == 2 && !s.inString }

func (s *keyScanner) add(c byte) {
	wasString, depth := s.inString, s.depth
	s.scanner.add(c)
	switch {
	case depth == 1 && s.inString && !wasString:
		s.key = s.key[:0]
	case depth == 1 && s.inString && len(s.key) <= len(itemsKey):
		s.key = append(s.key, c)
	case depth == 1 && s.depth == 2:
		s.isIn = c == '[' && string(s.key) == itemsKey
	}
}

// pruner copies a JSON text without most of what is nested in its object: of the members of the object's own members,
// such as its labels, it keeps texts and numbers.
type pruner struct {
	level int    // of nesting; within the object it is 1
	link  string // the self link that the object gets
	out   []byte
	// isTooLarge is set when out is not all.
	isTooLarge bool

	text     scanner
	skipping int // the depth of what is left out
	isObject [6]bool
	isKey    bool
	keyAt    int
	keys     [2]string // of the members that are open at levels 1 and 2
}

// keeps reports whether what has opened is copied.
func (p *pruner) keeps() bool {
	inMetadata := p.keys[0] == "metadata"
	switch {
	case p.level <= 1:
		return true
	case p.link == bareLink:
		return p.level == 2 && (inMetadata || isState(p.keys[0])) ||
			inMetadata && p.level == 3 && p.keys[1] == "finalizers"
	}
	return p.level == 2 || p.level == 3 && !(inMetadata && p.keys[1] == "annotations") ||
		p.level == 4 && inMetadata && p.keys[1] == "ownerReferences"
}

// isState reports whether a member of an object has its state, of which what is not nested is read in any case.
func isState(key string) bool { return key == "spec" || key == "status" }

func (p *pruner) add(text []byte) {
	for _, c := range text {
		if p.isTooLarge = p.isTooLarge || len(p.out) > maxPartial; p.isTooLarge {
			return
		}
		p.addByte(c)
	}
}

func (p *pruner) addByte(c byte) {
	before := p.text
	p.text.add(c)
	if p.skipping > 0 {
		if p.text.depth < p.skipping {
			p.skipping = 0
			p.out = append(p.out, c)
			p.level--
		}
		return
	}
	switch {
	case before.inString:
		if !p.text.inString && p.isKey && p.level >= 1 && p.level <= len(p.keys) {
			p.keys[p.level-1] = string(p.out[p.keyAt:])
		}
	case c == '"':
		p.keyAt = len(p.out) + 1
	case c == ':':
		p.isKey = false
	case c == ',':
		p.isKey = p.isObject[p.level+1]
	case c == '{', c == '[':
		p.level++
		if !p.keeps() {
			p.skipping = p.text.depth
			break
		}
		p.isKey = c == '{'
		p.isObject[p.level+1] = p.isKey
	case c == '}', c == ']':
		if c == '}' && p.level == 2 && p.keys[0] == "metadata" {
			if last := bytes.TrimRight(p.out, " \t\r\n"); last[len(last)-1] != '{' {
				p.out = append(p.out, ',')
			}
			p.out = append(p.out, `"selfLink":"`+p.link+`"`...)
		}
		p.level--
		p.isKey = false
	}
	p.out = append(p.out, c)
}
