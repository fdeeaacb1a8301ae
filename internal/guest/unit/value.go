package unit

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Last returns the value of a setting that has one; "" when it is not set, or was reset.
func (u *Unit) Last(section, name string) string {
	value := ""
	for _, o := range u.Options {
		if o.Section == section && o.Name == name {
			value = o.Value
		}
	}
	return u.Expand(value)
}

// All returns the values of a setting that is a list; an empty assignment empties it. Specifiers are not expanded,
// because in command lines and environments that comes after splitting.
func (u *Unit) All(section, name string) []string {
	var values []string
	for _, o := range u.Options {
		if o.Section != section || o.Name != name {
			continue
		}
		if o.Value == "" {
			values = nil
			continue
		}
		values = append(values, o.Value)
	}
	return values
}

// Names returns the words of a list of units, as in After=.
func (u *Unit) Names(section, name string) []string {
	var names []string
	for _, v := range u.All(section, name) {
		for _, word := range strings.Fields(v) {
			names = append(names, u.Expand(word))
		}
	}
	return names
}

// Bool returns a boolean setting; otherwise when it is not set or is not a boolean.
func (u *Unit) Bool(section, name string, otherwise bool) bool {
	switch strings.ToLower(u.Last(section, name)) {
	case "1", "yes", "y", "true", "t", "on":
		return true
	case "0", "no", "n", "false", "f", "off":
		return false
	}
	return otherwise
}

// Duration returns a time span setting ("5", "2min 30s", "infinity": 0); otherwise when it is not set or is not a time
// span.
func (u *Unit) Duration(section, name string, otherwise time.Duration) time.Duration {
	value := u.Last(section, name)
	if value == "" {
		return otherwise
	}
	if d, ok := Duration(value); ok {
		return d
	}
	return otherwise
}

var spans = map[string]time.Duration{
	"us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"msec": time.Millisecond,
	"":     time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	"week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}

// Duration reads a time span as systemd.time(7) has it; infinity is 0.
func Duration(s string) (time.Duration, bool) {
	if s == "infinity" {
		return 0, true
	}
	var sum time.Duration
	rest := strings.TrimSpace(s)
	if rest == "" {
		return 0, false
	}
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end < 0 {
			end = len(rest)
		}
		n, err := strconv.ParseFloat(rest[:end], 64)
		if err != nil {
			return 0, false
		}
		rest = strings.TrimLeft(rest[end:], " ")
		end = strings.IndexFunc(rest, func(r rune) bool { return r == ' ' || (r >= '0' && r <= '9') })
		if end < 0 {
			end = len(rest)
		}
		span, ok := spans[rest[:end]]
		if !ok {
			return 0, false
		}
		more := n * float64(span)
		if more >= float64(math.MaxInt64-sum) {
			return 0, false // longer than a time.Duration, which would be negative
		}
		sum += time.Duration(more)
		rest = strings.TrimLeft(rest[end:], " ")
	}
	return sum, true
}

// Expand replaces the specifiers of systemd.unit(5).
func (u *Unit) Expand(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if value, ok := u.specifier(s[i]); ok {
			b.WriteString(value)
		} else {
			b.WriteString(s[i-1 : i+1])
		}
	}
	return b.String()
}

func (u *Unit) specifier(c byte) (string, bool) {
	stem := strings.TrimSuffix(u.Name, filepath.Ext(u.Name))
	prefix, instance, _ := strings.Cut(stem, "@")
	switch c {
	case '%':
		return "%", true
	case 'n':
		return u.Name, true
	case 'N':
		return stem, true
	case 'p':
		return prefix, true
	case 'P':
		return unescape(prefix), true
	case 'i':
		return instance, true
	case 'I':
		return unescape(instance), true
	case 'f':
		if instance == "" {
			instance = prefix
		}
		return "/" + strings.TrimPrefix(unescape(instance), "/"), true
	case 'j', 'J':
		last := prefix[strings.LastIndex(prefix, "-")+1:]
		if c == 'J' {
			last = unescape(last)
		}
		return last, true
	case 'H', 'q', 'l':
		name, _ := os.Hostname()
		if c == 'l' {
			name, _, _ = strings.Cut(name, ".")
		}
		return name, true
	case 'm':
		return firstLine("/etc/machine-id"), true
	case 'b':
		return strings.ReplaceAll(firstLine("/proc/sys/kernel/random/boot_id"), "-", ""), true
	case 'v':
		return firstLine("/proc/sys/kernel/osrelease"), true
	case 't':
		return "/run", true
	case 'S':
		return "/var/lib", true
	case 'C':
		return "/var/cache", true
	case 'L':
		return "/var/log", true
	case 'E':
		return "/etc", true
	case 'T', 'V':
		return map[byte]string{'T': "/tmp", 'V': "/var/tmp"}[c], true
	case 'h':
		return "/root", true
	case 's':
		return "/bin/sh", true
	case 'u', 'g':
		return "root", true
	case 'U', 'G':
		return "0", true
	}
	return "", false
}

func firstLine(file string) string {
	data, _ := os.ReadFile(file)
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// unescape undoes systemd-escape: "-" is "/", "\x2d" a byte.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '-' {
			b.WriteByte('/')
			continue
		}
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
