//go:build linux

package logrouter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

var (
	months = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
		"november", "december"}
	days = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	// zones are the abbreviations that Fluent Bit knows and that are not ambiguous in the United States.
	zones = map[string]int{"UTC": 0, "GMT": 0, "Z": 0, "UT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7,
		"MDT": -6, "PST": -8, "PDT": -7, "CET": 1, "CEST": 2, "JST": 9}
)

// parseTime reads a time in a format of strptime(3), with %L for a fraction of a second of any length. What the format
// lacks of the date is today's.
func parseTime(p *fluentbit.Parser, s string, now time.Time) (time.Time, error) {
	t := clock{year: -1, offset: int(p.TimeOffset / time.Second), strict: p.TimeStrict, hour12: -1, yday: -1}
	rest, err := t.read(p.TimeFormat, s)
	if err != nil {
		return time.Time{}, err
	}
	if strings.TrimSpace(rest) != "" && p.TimeStrict {
		return time.Time{}, fmt.Errorf("%.60q has more than the format", s)
	}
	return t.time(now)
}

// clock is a time of which parts have been read.
type clock struct {
	year, month, day, yday int
	hour, minute, second   int
	hour12                 int
	pm                     bool
	nanosecond             int
	offset                 int
	unix                   int64
	isUnix, strict         bool
}

func (t *clock) time(now time.Time) (time.Time, error) {
	if t.isUnix {
		return time.Unix(t.unix, int64(t.nanosecond)).UTC(), nil
	}
	if t.hour12 >= 0 {
		t.hour = t.hour12 % 12
		if t.pm {
			t.hour += 12
		}
	}
	now = now.In(time.FixedZone("", t.offset))
	year, month, day := t.year, t.month, t.day
	if year < 0 {
		year = now.Year()
	}
	if t.yday >= 0 {
		month, day = 1, t.yday+1
	}
	if month == 0 && day == 0 {
		month, day = int(now.Month()), now.Day()
	}
	at := time.Date(year, time.Month(max(month, 1)), max(day, 1), t.hour, t.minute, t.second, t.nanosecond,
		now.Location())
	if at.Year() < 1970 || at.Year() > 2200 {
		return time.Time{}, fmt.Errorf("the year %d is out of range", at.Year())
	}
	return at.UTC(), nil
}

// read reads a text in a format and returns what is left of the text.
func (t *clock) read(format, s string) (string, error) {
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c == ' ' || c == '\t' {
			s = strings.TrimLeft(s, " \t")
			continue
		}
		if c != '%' || i+1 == len(format) {
			if s == "" || s[0] != c {
				if !t.strict && c == '.' && strings.HasPrefix(format[i+1:], "%L") {
					continue // the fraction is not there
				}
				return s, fmt.Errorf("%.60q does not match the format at %q", s, format[i:])
			}
			s = s[1:]
			continue
		}
		i++
		if (format[i] == 'E' || format[i] == 'O') && i+1 < len(format) {
			i++
		}
		var err error
		if s, err = t.convert(format[i], s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// convert reads what one conversion stands for.
func (t *clock) convert(c byte, s string) (string, error) {
	number := func(digits, least, most int, to *int) error {
		s = strings.TrimLeft(s, " ")
		n := 0
		for n < len(s) && n < digits && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		v, err := strconv.Atoi(s[:n])
		if err != nil || v < least || v > most {
			return fmt.Errorf("%.60q does not begin with a number for %%%c", s, c)
		}
		*to, s = v, s[n:]
		return nil
	}
	name := func(names []string, to *int) error {
		for i, name := range names {
			for _, form := range []string{name, name[:3]} {
				if len(s) >= len(form) && strings.EqualFold(s[:len(form)], form) {
					*to, s = i, s[len(form):]
					return nil
				}
			}
		}
		return fmt.Errorf("%.60q does not begin with a name for %%%c", s, c)
	}
	var ignored int
	var err error
	switch c {
	case '%':
		if !strings.HasPrefix(s, "%") {
			return s, fmt.Errorf("%.60q does not begin with %%", s)
		}
		return s[1:], nil
	case 'n', 't':
		return strings.TrimLeft(s, " \t\n"), nil
	case 'a', 'A':
		err = name(days, &ignored)
	case 'b', 'B', 'h':
		if err = name(months, &t.month); err == nil {
			t.month++
		}
	case 'd', 'e':
		err = number(2, 1, 31, &t.day)
	case 'm':
		err = number(2, 1, 12, &t.month)
	case 'Y':
		err = number(4, 0, 9999, &t.year)
	case 'y':
		if err = number(2, 0, 99, &t.year); err == nil {
			t.year += map[bool]int{true: 2000, false: 1900}[t.year < 69]
		}
	case 'j':
		if err = number(3, 1, 366, &t.yday); err == nil {
			t.yday--
		}
	case 'H', 'k':
		err = number(2, 0, 23, &t.hour)
	case 'I', 'l':
		err = number(2, 1, 12, &t.hour12)
	case 'M':
		err = number(2, 0, 59, &t.minute)
	case 'S':
		err = number(2, 0, 60, &t.second)
	case 'p':
		if len(s) < 2 || !strings.EqualFold(s[1:2], "m") || !strings.ContainsAny(s[:1], "aApP") {
			return s, fmt.Errorf("%.60q does not begin with AM or PM", s)
		}
		t.pm, s = s[0] == 'p' || s[0] == 'P', s[2:]
	case 's':
		n := 0
		for n < len(s) && n < 11 && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		t.unix, err = strconv.ParseInt(s[:n], 10, 64)
		t.isUnix, s = true, s[n:]
	case 'L':
		n := 0
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		if n == 0 {
			if t.strict {
				return s, fmt.Errorf("%.60q does not begin with a fraction", s)
			}
			return s, nil
		}
		t.nanosecond, err = strconv.Atoi((s[:n] + "000000000")[:9])
		s = s[n:]
	case 'z', 'Z':
		s, err = t.zone(s)
	case 'D':
		return t.read("%m/%d/%y", s)
	case 'F':
		return t.read("%Y-%m-%d", s)
	case 'T':
		return t.read("%H:%M:%S", s)
	case 'R':
		return t.read("%H:%M", s)
	case 'r':
		return t.read("%I:%M:%S %p", s)
	case 'c':
		return t.read("%a %b %e %H:%M:%S %Y", s)
	default:
		err = fmt.Errorf("the conversion %%%c is unknown", c)
	}
	return s, err
}

// zone reads a time zone: Z, +0200, +02:00, +02 or an abbreviation.
func (t *clock) zone(s string) (string, error) {
	s = strings.TrimLeft(s, " ")
	if s != "" && (s[0] == '+' || s[0] == '-') {
		for _, layout := range []string{"-07:00", "-0700", "-07"} {
			if len(s) < len(layout) {
				continue
			}
			if at, err := time.Parse(layout, s[:len(layout)]); err == nil {
				_, t.offset = at.Zone()
				return s[len(layout):], nil
			}
		}
	}
	n := 0
	for n < len(s) && ('A' <= s[n] && s[n] <= 'Z' || 'a' <= s[n] && s[n] <= 'z') {
		n++
	}
	hours, ok := zones[strings.ToUpper(s[:n])]
	if !ok {
		return s, fmt.Errorf("%.60q does not begin with a time zone", s)
	}
	t.offset = hours * 3600
	return s[n:], nil
}
