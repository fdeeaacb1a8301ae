package vended

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Delimiters are what may separate the fields of an entry in plain text. The first is the default.
var Delimiters = []string{" ", "\t", ","}

// Format makes the message of a log event of an entry.
type Format struct {
	fields    []int // their indexes in an entry
	names     []string
	quoted    []bool
	json      bool
	delimiter string
}

// NewFormat returns the format of a delivery: of the fields with those names, all of the log's if there are none, as
// JSON or in plain text with a delimiter between them.
func NewFormat(t Type, names []string, asJSON bool, delimiter string) (*Format, error) {
	if len(names) == 0 {
		names = t.FieldNames()
	}
	if delimiter == "" {
		delimiter = Delimiters[0]
	}
	f := &Format{json: asJSON, delimiter: delimiter}
	for _, name := range names {
		i := slices.IndexFunc(t.Fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("logs of the type %s have no field %q", t.Name, name)
		}
		f.fields = append(f.fields, i)
		f.names = append(f.names, `"`+name+`":`)
		f.quoted = append(f.quoted, t.Fields[i].Quoted)
	}
	return f, nil
}

// Message returns the message for an entry. A field that the entry does not have, as it was written by an earlier
// version, is "-".
func (f *Format) Message(entry string) string {
	values := split(entry)
	var b []byte
	if f.json {
		b = append(b, '{')
	}
	for n, i := range f.fields {
		value := "-"
		if i < len(values) {
			value = values[i]
		}
		switch {
		case !f.json:
			if n > 0 {
				b = append(b, f.delimiter...)
			}
			b = append(b, value...)
			continue
		case n > 0:
			b = append(b, ',')
		}
		b = append(b, f.names[n]...)
		if f.quoted[n] {
			value = unescape(strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`))
		}
		b = appendString(b, value)
	}
	if f.json {
		b = append(b, '}')
	}
	return string(b)
}

// split returns the fields of an entry, with their quotes.
func split(entry string) (fields []string) {
	for entry != "" {
		end := strings.IndexByte(entry, ' ')
		if entry[0] == '"' {
			if end = strings.Index(entry, `" `); end >= 0 {
				end++
			}
		}
		if end < 0 {
			return append(fields, entry)
		}
		fields, entry = append(fields, entry[:end]), entry[end+1:]
	}
	return fields
}

// Escape returns a text in which nothing ends a field or a line: other characters than those of ASCII that are printed,
// quotes and backslashes are \xNN.
func Escape(text string) string {
	at := strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c >= 0x7f || c == '"' || c == '\\' })
	if at < 0 {
		return text
	}
	b := []byte(text[:at])
	for i := at; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			b = fmt.Appendf(b, `\x%02x`, c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// unescape returns what Escape was given.
func unescape(text string) string {
	at := strings.Index(text, `\x`)
	if at < 0 {
		return text
	}
	b := []byte(text[:at])
	for i := at; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) && text[i+1] == 'x' {
			if c, err := strconv.ParseUint(text[i+2:i+4], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 3
				continue
			}
		}
		b = append(b, text[i])
	}
	return string(b)
}

// appendString appends a string of JSON, in which no character is escaped that need not be.
func appendString(b []byte, text string) []byte {
	if strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c >= 0x7f || c == '"' || c == '\\' }) < 0 {
		return append(append(append(b, '"'), text...), '"')
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // a string always marshals
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
