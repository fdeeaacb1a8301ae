package vpcresource

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// fields says what is read of a JSON value: the members of an object by their names, and the elements of an array by
// their indexes, each as its own fields say. Nothing is read of those that are not named, unless "*" is.
type fields map[string]fields

// whole reads all of a value.
var whole = fields{}

// of returns what is read of a member.
func (f fields) of(name string) fields {
	if own, named := f[name]; named {
		return own
	}
	return f["*"]
}

// reviewFields returns what is read of a review, of whose objects those fields are.
func reviewFields(object, old fields) fields {
	return fields{"apiVersion": whole, "kind": whole, "request": {"uid": whole, "resource": whole, "subResource": whole,
		"operation": whole, "namespace": whole, "userInfo": {"username": whole}, "object": object, "oldObject": old}}
}

// maxName is the longest name of a member that is read, in bytes.
const maxName = 4 << 10

var errNoJSON = errors.New("the text is no JSON value")

// pruner copies what is to be read of a JSON text, up to a size: objects have megabytes of which nothing is needed. A
// member that does not fit is left out.
type pruner struct {
	in  *bufio.Reader
	out []byte
	max int
	// exceeded is true when what is copied does not fit, and partial when something was left out.
	exceeded, partial bool
}

// prune copies the fields of a JSON value, of that size at most, and reports whether it left out any.
func prune(r io.Reader, f fields, max int) (content []byte, partial bool, err error) {
	p := &pruner{in: bufio.NewReader(r), max: max}
	first, err := p.next()
	if err == nil {
		err = p.value(f, first)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return p.out, p.partial || p.exceeded, err
}

// next returns the next character that is no space.
func (p *pruner) next() (byte, error) {
	for {
		c, err := p.in.ReadByte()
		if err != nil || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, err
		}
	}
}

// value reads a value after its first character.
func (p *pruner) value(f fields, first byte) error {
	switch {
	case len(f) > 0 && first == '{':
		return p.object(f)
	case len(f) > 0 && first == '[':
		return p.array(f)
	}
	return p.copy(first, f != nil)
}

// object reads an object after its brace.
func (p *pruner) object(f fields) error {
	p.out = append(p.out, '{')
	for n := 0; ; n++ {
		c, err := p.following(n, '}')
		if err != nil || c == '}' {
			p.out = append(p.out, '}')
			return err
		}
		if c != '"' {
			return errNoJSON
		}
		text, name, err := p.name()
		if err != nil {
			return err
		}
		if c, err = p.next(); err == nil && c != ':' {
			err = errNoJSON
		}
		if err == nil {
			c, err = p.next()
		}
		if err != nil {
			return err
		}
		own := f.of(name)
		if len(text) > maxName {
			own, p.partial = nil, p.partial || f["*"] != nil
		}
		if err := p.member(own, append(text, ':'), c); err != nil {
			return err
		}
	}
}

// array reads an array after its bracket.
func (p *pruner) array(f fields) error {
	p.out = append(p.out, '[')
	for n := 0; ; n++ {
		c, err := p.following(n, ']')
		if err != nil || c == ']' {
			p.out = append(p.out, ']')
			return err
		}
		if err := p.member(f.of(strconv.Itoa(n)), nil, c); err != nil {
			return err
		}
	}
}

// following returns the first character of the next member, of which there are n already, or the end of all.
func (p *pruner) following(n int, end byte) (byte, error) {
	c, err := p.next()
	if err == nil && n > 0 && c != end {
		if c != ',' {
			return 0, errNoJSON
		}
		c, err = p.next()
	}
	return c, err
}

// name reads the name of a member after its quote. It returns the text and what it says; of one that is too long, the
// beginning of the text, longer than maxName.
func (p *pruner) name() (text []byte, name string, err error) {
	text = []byte{'"'}
	for escaped := false; ; {
		c, err := p.in.ReadByte()
		if err != nil {
			return nil, "", err
		}
		if len(text) <= maxName {
			text = append(text, c)
		}
		if c == '"' && !escaped {
			break
		}
		escaped = c == '\\' && !escaped
	}
	if len(text) > maxName {
		return text, "", nil
	}
	return text, name, json.Unmarshal(text, &name)
}

// member reads a member, or an element of an array, after its first character, and copies it behind a prefix.
func (p *pruner) member(f fields, prefix []byte, first byte) error {
	before := len(p.out)
	if f != nil {
		if last := p.out[before-1]; last != '{' && last != '[' {
			p.add(',')
		}
		for _, c := range prefix {
			p.add(c)
		}
	}
	err := p.value(f, first)
	if p.exceeded {
		p.out, p.exceeded, p.partial = p.out[:before], false, true
	}
	return err
}

// add copies a character.
func (p *pruner) add(c byte) {
	if len(p.out) >= p.max {
		p.exceeded = true
		return
	}
	p.out = append(p.out, c)
}

// copy reads a value to its end, and copies it if it is kept.
func (p *pruner) copy(first byte, kept bool) error {
	depth, inString, escaped := 0, false, false
	isText := first == '"' || first == '{' || first == '['
	for c := first; ; {
		if !isText && (c == ',' || c == '}' || c == ']' || c <= ' ') {
			return p.in.UnreadByte() // the end of a number
		}
		if kept {
			p.add(c)
		}
		switch {
		case escaped:
			escaped = false
		case inString:
			inString, escaped = c != '"', c == '\\'
		case c == '"':
			inString = true
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		}
		if isText && depth == 0 && !inString {
			return nil
		}
		var err error
		if c, err = p.in.ReadByte(); err != nil {
			return err
		}
	}
}
