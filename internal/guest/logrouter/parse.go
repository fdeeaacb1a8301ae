//go:build linux

package logrouter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

var errNoMatch = errors.New("the text does not match the parser")

// parse returns the fields that a parser makes of a text, and the time in them, which is zero if there is none.
func parse(p *fluentbit.Parser, s string, now time.Time) (object, time.Time, error) {
	var o object
	var err error
	switch p.Format {
	case "regex":
		o, err = parseRegex(p, s)
	case "json":
		o, err = parseJSON(s)
	case "logfmt":
		o, err = parseLogfmt(p, s)
	case "ltsv":
		o, err = parseLTSV(s)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	var at time.Time
	if v, ok := o.get(p.TimeKey); ok && p.TimeKey != "" && p.TimeFormat != "" {
		if s, ok := text(v); ok {
			var err error
			at, err = parseTime(p, s, now)
			// Fluent Bit's parser regex removes a time that it cannot read; the others leave it, or refuse the text.
			if err != nil && p.Format != "json" && p.Format != "regex" {
				return nil, time.Time{}, err
			}
			if !p.TimeKeep && (err == nil || p.Format == "regex") {
				o = o.without(p.TimeKey)
			}
		}
	}
	for i := range o {
		if kind, ok := p.Types[o[i].key]; ok {
			o[i].value = convertType(kind, o[i].value)
		}
	}
	return decodeFields(p.Decoders, o), at, nil
}

func parseRegex(p *fluentbit.Parser, s string) (object, error) {
	match := p.Regex.FindStringSubmatchIndex(s)
	if match == nil {
		return nil, errNoMatch
	}
	var o object
	for i, name := range p.Regex.SubexpNames() {
		if name == "" {
			continue
		}
		value := ""
		if match[2*i] >= 0 {
			value = s[match[2*i]:match[2*i+1]]
		}
		if value == "" && p.SkipEmptyValues {
			continue
		}
		o = append(o, pair{name, value})
	}
	if len(o) == 0 {
		return nil, errNoMatch
	}
	return o, nil
}

// parseLogfmt reads key=value pairs. A key without = is true.
func parseLogfmt(p *fluentbit.Parser, s string) (object, error) {
	ident := func(c byte) bool { return c > ' ' && c != '=' && c != '"' && c != 0x7f }
	var o object
	for i := 0; i < len(s); {
		if !ident(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) && ident(s[i]) {
			i++
		}
		key := s[start:i]
		var value any = true
		switch {
		case i < len(s) && s[i] == '=' && i+1 < len(s) && s[i+1] == '"':
			i += 2
			start := i
			for i < len(s) && s[i] != '"' {
				if s[i] == '\\' {
					i++
				}
				i++
			}
			i = min(i, len(s))
			value = unescape(s[start:i], true)
			i = min(i+1, len(s))
		case i < len(s) && s[i] == '=':
			i++
			start := i
			for i < len(s) && ident(s[i]) {
				i++
			}
			if i > start {
				value = s[start:i]
			}
		case p.NoBareKeys:
			return nil, errNoMatch
		}
		if len(o) >= maxValues {
			return nil, errNoMatch
		}
		o = append(o, pair{key, value})
	}
	if len(o) == 0 {
		return nil, errNoMatch
	}
	return o, nil
}

// parseLTSV reads fields between tabs, each with a label before a colon.
func parseLTSV(s string) (object, error) {
	var o object
	for field := range strings.SplitSeq(strings.TrimRight(s, "\r\n"), "\t") {
		label, value, ok := strings.Cut(field, ":")
		if !ok || label == "" || len(o) >= maxValues {
			continue
		}
		o = append(o, pair{label, value})
	}
	if len(o) == 0 {
		return nil, errNoMatch
	}
	return o, nil
}

// convertType returns a value with the type that a parser gives its field. What cannot be converted stays.
func convertType(kind string, v any) any {
	s, ok := text(v)
	if !ok {
		return v
	}
	switch kind {
	case "string":
		return s
	case "integer":
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
	case "float":
		if n, err := strconv.ParseFloat(s, 64); err == nil {
			return n
		}
	case "hex":
		if n, err := strconv.ParseInt(strings.TrimPrefix(s, "0x"), 16, 64); err == nil {
			return n
		}
	case "bool":
		switch strings.ToLower(s) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	return v
}

// decodeFields applies the decoders of a parser. Those of one field follow each other as do_next and try_next say.
func decodeFields(decoders []fluentbit.Decoder, o object) object {
	done := map[string]bool{}
	for _, d := range decoders {
		v, ok := o.get(d.Field)
		s, isText := v.(string)
		if !ok || !isText || done[d.Field] {
			continue
		}
		decoded, err := decodeField(d.Kind, s)
		if err == nil {
			fields, structured := decoded.(object)
			switch {
			case d.As || !structured:
				o = o.with(d.Field, decoded)
			default:
				o = o.merge(fields)
			}
		}
		if d.Next == "" || d.Next == "try_next" && err == nil {
			done[d.Field] = true
		}
	}
	return o
}

func decodeField(kind, s string) (any, error) {
	switch kind {
	case "json":
		return parseJSON(s)
	case "escaped":
		return unescape(s, false), nil
	case "escaped_utf8":
		return unescape(s, true), nil
	case "mysql_quoted":
		if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
			return nil, fmt.Errorf("%.20q is not quoted", s)
		}
		return unescape(s[1:len(s)-1], false), nil
	}
	return nil, errNoMatch
}

// unescape resolves escapes with a backslash; with unicode, those with \u too.
func unescape(s string, unicode bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if unicode && s[i] == 'u' && i+4 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+5], 16, 32); err == nil {
				i += 4
				if 0xd800 <= n && n < 0xdc00 && strings.HasPrefix(s[i+1:], `\u`) && i+6 < len(s) {
					if low, err := strconv.ParseUint(s[i+3:i+7], 16, 32); err == nil && 0xdc00 <= low && low < 0xe000 {
						n = 0x10000 + (n-0xd800)<<10 + (low - 0xdc00)
						i += 6
					}
				}
				b.WriteRune(rune(n))
				continue
			}
		}
		if j := strings.IndexByte(`ntrbfav0`, s[i]); j >= 0 {
			b.WriteByte("\n\t\r\b\f\a\v\x00"[j])
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
