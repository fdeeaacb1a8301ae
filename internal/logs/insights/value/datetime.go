package value

import (
	"io/fs"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // time zones by name, also where the host has none
	"unicode/utf8"
)

// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-datetime
//
// A timestamp is a moment (@timestamp, the result of another of these) or a number of milliseconds since 1970, in the
// years 1 to 9999.
var datetime = []Function{
	{Name: "bin", Min: 1, Max: 1, UsesTimestamp: true,
		Call: func(env *Env, a []Value) Value { return truncate(env.Timestamp, a[0], false) }},
	{Name: "datefloor", Min: 2, Max: 2, Call: func(_ *Env, a []Value) Value { return truncate(a[0], a[1], false) }},
	{Name: "dateceil", Min: 2, Max: 2, Call: func(_ *Env, a []Value) Value { return truncate(a[0], a[1], true) }},
	{Name: "fromMillis", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		ms, ok := timestampValue(a[0])
		if !ok {
			return Value{}
		}
		return Time(ms)
	}},
	{Name: "toMillis", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		ms, ok := timestampValue(a[0])
		if !ok {
			return Value{}
		}
		return Int(ms)
	}},
	{Name: "now", Call: func(env *Env, _ []Value) Value { return Int(int64(math.Floor(float64(env.Now) / 1000))) }},
	{Name: "parseDate", Min: 2, Max: 3, Call: func(_ *Env, a []Value) Value { return parseDate(a) }},
	{Name: "formatDate", Min: 2, Max: 3, Call: func(_ *Env, a []Value) Value { return formatDate(a) }},
	{Name: "strftime", Min: 2, Max: 3, Call: func(_ *Env, a []Value) Value { return formatDate(a) }},
}

// truncate moves a moment to the start of its period or, with up, to that of the next one unless it is at a start.
func truncate(v, p Value, up bool) Value {
	ms, ok := timestampValue(v)
	n, u, isPeriod := periodValue(p)
	if !ok || !isPeriod {
		return Value{}
	}
	start := periodStart(ms, n, u)
	if up && start != ms {
		start = following(start, n, u)
	}
	return Time(start)
}

// maxFormat limits the bytes of a date format; a longer one makes the result Null. Optional parts may be
// nested as deeply.
const maxFormat = 1024

var zones sync.Map // by name; only of zones that exist, of which there are a few hundred

// parseZone returns the time zone of an optional argument: UTC without one, else a name of the IANA database or an
// offset (+02:00).
func parseZone(a []Value) (*time.Location, bool) {
	if len(a) == 0 {
		return time.UTC, true
	}
	name, ok := stringArgument(a[0])
	if !ok || name == "" || name == "Local" {
		return nil, false
	}
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), true
	}
	if seconds, rest, ok := parseOffset(name); ok && rest == "" {
		return time.FixedZone(name, seconds), true
	}
	if !fs.ValidPath(name) { // "./UTC" is UTC, too: a zone has as many such names as anybody likes
		return nil, false
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	zones.Store(strings.Clone(name), z)
	return z, true
}

// parseOffset reads Z, +02, +0200, +02:00 or +02:00:00 at the start of s.
func parseOffset(s string) (seconds int, rest string, ok bool) {
	if strings.HasPrefix(s, "Z") {
		return 0, s[1:], true
	}
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0, s, false
	}
	sign := 1
	if s[0] == '-' {
		sign = -1
	}
	rest = s[1:]
	for i, unit := range []int{3600, 60, 1} {
		part := rest
		if i > 0 {
			part = strings.TrimPrefix(part, ":")
		}
		if countDigits(part) < 2 {
			return sign * seconds, rest, i > 0
		}
		n, _ := strconv.Atoi(part[:2])
		if n >= 60 || i == 0 && n > 18 {
			return 0, s, false
		}
		seconds += n * unit
		rest = part[2:]
	}
	return sign * seconds, rest, true
}

// parseDate reads a date by a pattern of Java's DateTimeFormatter:
// https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/time/format/DateTimeFormatter.html
//
// Letters: y u M L d D H k h K m s S n A a E e-less weekday names, X x Z (offsets), z V (zone names), O (GMT+2),
// literals in 'quotes', [optional parts]. Names are English. What the pattern lacks is the first: January, the 1st,
// midnight, 1970. A zone in the text wins over the third argument; without both it is UTC. Null if the text does not
// fit, if the pattern has another letter, or if the date does not exist (February 30).
func parseDate(a []Value) Value {
	s, ok1 := stringArgument(a[0])
	pattern, ok2 := stringArgument(a[1])
	z, ok3 := parseZone(a[2:])
	if !ok1 || !ok2 || !ok3 || len(pattern) > maxFormat {
		return Value{}
	}
	d := date{year: 1970, month: 1, day: 1, zone: z}
	rest, ok := d.parse(s, pattern)
	if !ok || rest != "" {
		return Value{}
	}
	t, ok := d.resolveTime()
	if !ok {
		return Value{}
	}
	return Int(t.UnixMilli())
}

// date holds the fields that a date pattern reads.
type date struct {
	year, month, day int
	dayOfYear        int // if not 0
	hour             int
	half             int // 0: 24 hours, 1: before noon, 2: after
	minute, second   int
	nano             int
	zone             *time.Location
}

func (d *date) resolveTime() (time.Time, bool) {
	hour := d.hour
	if d.half > 0 {
		hour = hour%12 + 12*(d.half-1)
	}
	if hour > 23 || d.minute > 59 || d.second > 59 {
		return time.Time{}, false
	}
	month, day := d.month, d.day
	if d.dayOfYear > 0 {
		month, day = 1, d.dayOfYear
	}
	t := time.Date(d.year, time.Month(month), day, hour, d.minute, d.second, d.nano, d.zone)
	if d.dayOfYear > 0 {
		return t, t.Year() == d.year || t.YearDay() == d.dayOfYear
	}
	// Compared as a day: an hour that a zone skips is moved, not refused.
	day1 := time.Date(d.year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t, day1.Day() == day && int(day1.Month()) == month
}

// parse reads s by pattern and returns what is left of s.
func (d *date) parse(s, pattern string) (rest string, ok bool) {
	for pattern != "" {
		c := pattern[0]
		n := 1
		switch {
		case c == '\'':
			end := strings.IndexByte(pattern[1:], '\'')
			if end < 0 {
				return s, false
			}
			quoted := pattern[1 : 1+end]
			if end == 0 {
				quoted = "'"
			}
			if s, ok = strings.CutPrefix(s, quoted); !ok {
				return s, false
			}
			n = end + 2
		case c == '[':
			end := closing(pattern)
			if end < 0 {
				return s, false
			}
			before := *d
			if after, ok := d.parse(s, pattern[1:end]); ok {
				s = after
			} else {
				*d = before
			}
			n = end + 1
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			for n < len(pattern) && pattern[n] == c {
				n++
			}
			next := n < len(pattern) && strings.IndexByte("yuMLdDHkhKmsSnA", pattern[n]) >= 0
			if s, ok = d.parseField(s, c, n, next); !ok {
				return s, false
			}
		default:
			_, n = utf8.DecodeRuneInString(pattern)
			if s, ok = strings.CutPrefix(s, pattern[:n]); !ok {
				return s, false
			}
		}
		pattern = pattern[n:]
	}
	return s, true
}

// closing returns the index of the bracket that closes the one pattern begins with.
func closing(pattern string) int {
	depth := 0
	for i := range len(pattern) {
		switch pattern[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

var (
	monthNames = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December"}
	dayNames = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// parseField reads one field of n letters c. With next another number follows directly, so that this one has exactly n
// digits.
func (d *date) parseField(s string, c byte, n int, next bool) (rest string, ok bool) {
	digits := func(least, most int) (int, bool) {
		m := countDigits(s[:min(len(s), most)])
		if next {
			m = min(m, max(n, least))
		}
		if m < least || m == 0 {
			return 0, false
		}
		v, err := strconv.Atoi(s[:m])
		s = s[m:]
		return v, err == nil
	}
	name := func(names []string) (int, bool) {
		for _, length := range []int{math.MaxInt, 3} { // in full, or the first three letters
			for i, name := range names {
				name = name[:min(length, len(name))]
				if len(s) >= len(name) && strings.EqualFold(s[:len(name)], name) {
					s = s[len(name):]
					return i, true
				}
			}
		}
		return 0, false
	}
	two := min(n, 2)
	switch c {
	case 'y', 'u':
		if n == 2 {
			if d.year, ok = digits(2, 2); ok {
				d.year += 2000
			}
			break
		}
		d.year, ok = digits(min(n, 4), 4)
	case 'M', 'L':
		if n >= 3 {
			d.month, ok = name(monthNames)
			d.month++
			break
		}
		d.month, ok = digits(two, 2)
		ok = ok && d.month >= 1 && d.month <= 12
	case 'd':
		d.day, ok = digits(two, 2)
		ok = ok && d.day >= 1
	case 'D':
		d.dayOfYear, ok = digits(min(n, 3), 3)
		ok = ok && d.dayOfYear >= 1 && d.dayOfYear <= 366
	case 'E':
		_, ok = name(dayNames)
	case 'H':
		d.hour, ok = digits(two, 2)
	case 'k': // 1 to 24
		d.hour, ok = digits(two, 2)
		ok = ok && d.hour >= 1 && d.hour <= 24
		d.hour %= 24
	case 'h', 'K': // 1 to 12, 0 to 11
		d.hour, ok = digits(two, 2)
		ok = ok && d.hour <= 12
		d.half = max(d.half, 1)
	case 'a':
		if len(s) >= 2 {
			i := strings.Index("AMPM", strings.ToUpper(s[:2]))
			ok = i == 0 || i == 2
			d.half, s = 1+i/2, s[2:]
		}
	case 'm':
		d.minute, ok = digits(two, 2)
	case 's':
		d.second, ok = digits(two, 2)
	case 'S':
		m := n
		if !next {
			m = countDigits(s[:min(len(s), n)])
		}
		var v int
		if m > 9 || m < n || len(s) < m {
			return s, false
		}
		v, err := strconv.Atoi(s[:m])
		for range 9 - m {
			v *= 10
		}
		d.nano, s, ok = v, s[m:], err == nil
	case 'n':
		d.nano, ok = digits(1, 9)
	case 'X', 'x', 'Z':
		var seconds int
		if seconds, s, ok = parseOffset(s); ok {
			d.zone = time.FixedZone("", seconds)
		}
	case 'O':
		if s, ok = strings.CutPrefix(s, "GMT"); ok {
			seconds := 0
			if s != "" && (s[0] == '+' || s[0] == '-') {
				at := s[:1]
				if countDigits(s[1:]) == 1 { // GMT+2
					at += "0"
				}
				seconds, s, ok = parseOffset(at + s[1:])
			}
			d.zone = time.FixedZone("", seconds)
		}
	case 'z', 'V', 'v':
		m := 0
		for m < len(s) && (s[m]|0x20 >= 'a' && s[m]|0x20 <= 'z' || strings.IndexByte("/_+-:0123456789", s[m]) >= 0) {
			m++
		}
		d.zone, ok = parseZone([]Value{String(s[:m])})
		s = s[m:]
	}
	return s, ok
}

// formatDate shows a moment by a format of strftime: %a %A %b %B %c %C %d %D %e %f %F %g %G %h %H %I %j %k %l %L %m
// %M %n %N %p %P %R %r %s %S %t %T %u %U %V %w %W %x %X %y %Y %z %Z %%, with - behind the % for no padding. %f is
// microseconds, %L milliseconds, %N nanoseconds. Names are English. Another letter makes it Null.
func formatDate(a []Value) Value {
	ms, ok1 := timestampValue(a[0])
	format, ok2 := stringArgument(a[1])
	z, ok3 := parseZone(a[2:])
	if !ok1 || !ok2 || !ok3 || len(format) > maxFormat {
		return Value{}
	}
	b, ok := strftime(nil, time.UnixMilli(ms).In(z), format)
	if !ok {
		return Value{}
	}
	return limited(string(b))
}

// layouts are the formats of strftime that Go has as they are.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'D': "01/02/06",
	'x': "01/02/06",
	'F': "2006-01-02", 'p': "PM", 'P': "pm", 'R': "15:04", 'r': "03:04:05 PM", 'T': "15:04:05", 'X': "15:04:05",
	'z': "-0700", 'Z': "MST",
}

func strftime(b []byte, t time.Time, format string) ([]byte, bool) {
	padded := true
	pad := func(n, width int, with byte) {
		s := strconv.Itoa(n)
		for i := len(s); padded && i < width; i++ {
			b = append(b, with)
		}
		b = append(b, s...)
	}
	week := func(first time.Weekday) int { // of the year, from the first such day on
		return (t.YearDay() + 6 - (int(t.Weekday())-int(first)+7)%7) / 7
	}
	hour12 := (t.Hour()+11)%12 + 1
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b = append(b, format[i])
			continue
		}
		if i++; i == len(format) {
			return b, false
		}
		if padded = format[i] != '-'; !padded {
			if i++; i == len(format) {
				return b, false
			}
		}
		c := format[i]
		if layout, ok := layouts[c]; ok {
			b = t.AppendFormat(b, layout)
			continue
		}
		switch c {
		case '%':
			b = append(b, '%')
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'C':
			pad(t.Year()/100, 2, '0')
		case 'd':
			pad(t.Day(), 2, '0')
		case 'e':
			pad(t.Day(), 2, ' ')
		case 'f':
			pad(t.Nanosecond()/1000, 6, '0')
		case 'g', 'G', 'V':
			year, week := t.ISOWeek()
			switch c {
			case 'g':
				pad(year%100, 2, '0')
			case 'G':
				pad(year, 4, '0')
			case 'V':
				pad(week, 2, '0')
			}
		case 'H':
			pad(t.Hour(), 2, '0')
		case 'I':
			pad(hour12, 2, '0')
		case 'j':
			pad(t.YearDay(), 3, '0')
		case 'k':
			pad(t.Hour(), 2, ' ')
		case 'l':
			pad(hour12, 2, ' ')
		case 'L':
			pad(t.Nanosecond()/1_000_000, 3, '0')
		case 'm':
			pad(int(t.Month()), 2, '0')
		case 'M':
			pad(t.Minute(), 2, '0')
		case 'N':
			pad(t.Nanosecond(), 9, '0')
		case 's':
			b = strconv.AppendInt(b, t.Unix(), 10)
		case 'S':
			pad(t.Second(), 2, '0')
		case 'u':
			pad((int(t.Weekday())+6)%7+1, 1, '0')
		case 'U':
			pad(week(time.Sunday), 2, '0')
		case 'w':
			pad(int(t.Weekday()), 1, '0')
		case 'W':
			pad(week(time.Monday), 2, '0')
		case 'y':
			pad(t.Year()%100, 2, '0')
		case 'Y':
			pad(t.Year(), 4, '0')
		default:
			return b, false
		}
	}
	return b, true
}
