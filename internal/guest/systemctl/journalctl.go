package systemctl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// entry is one line of the journal.
type entry struct {
	at         time.Time
	unit       string
	identifier string
	pid        string
	message    string
}

// query is a query of journalctl.
type query struct {
	units          []string // patterns; none: all
	identifiers    []string
	since, until   time.Time
	boot           time.Time // entries before are left out
	grep           *regexp.Regexp
	lines          int // the last ones; negative: all
	follow         bool
	reverse        bool
	output         string
	kernel, quiet  bool
	host           string
	noHost, useUTC bool
}

// Journalctl runs the program of that name.
func (c Command) Journalctl(args []string) int {
	q := query{lines: -1, output: "short"}
	q.host, _ = os.Hostname()
	q.host, _, _ = strings.Cut(q.host, ".")
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, hasValue := strings.Cut(arg, "=")
		if !strings.HasPrefix(arg, "--") && len(arg) > 2 && arg[0] == '-' &&
			strings.ContainsRune("unopStUgb", rune(arg[1])) {
			name, value, hasValue = arg[:2], arg[2:], true // -n20, -ukubelet
		} else if !strings.HasPrefix(arg, "--") && len(arg) > 2 && arg[0] == '-' {
			// -xeu kubelet: the last letter may have a value
			letters := arg[1:]
			expanded := make([]string, 0, len(letters))
			for _, l := range letters {
				expanded = append(expanded, "-"+string(l))
			}
			args = slices.Concat(args[:i], expanded, args[i+1:])
			i--
			continue
		}
		next := func() string {
			if hasValue {
				return value
			}
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return ""
		}
		var err error
		switch name {
		case "-u", "--unit":
			q.units = append(q.units, unit.WithType(next()))
		case "-t", "--identifier":
			q.identifiers = append(q.identifiers, next())
		case "-n", "--lines":
			q.lines = 10
			if hasValue || (i+1 < len(args) && (args[i+1] == "all" || isNumeric(args[i+1]))) {
				if v := next(); v == "all" {
					q.lines = -1
				} else if q.lines, err = strconv.Atoi(strings.TrimPrefix(v, "+")); err != nil {
					fmt.Fprintf(c.Stderr, "Failed to parse lines '%s'\n", v)
					return 1
				}
			}
		case "-f", "--follow":
			q.follow = true
		case "-r", "--reverse":
			q.reverse = true
		case "-o", "--output":
			q.output = next()
		case "-S", "--since":
			if q.since, err = parseTime(next(), time.Now()); err != nil {
				fmt.Fprintln(c.Stderr, err)
				return 1
			}
		case "-U", "--until":
			if q.until, err = parseTime(next(), time.Now()); err != nil {
				fmt.Fprintln(c.Stderr, err)
				return 1
			}
		case "-g", "--grep":
			if q.grep, err = regexp.Compile(next()); err != nil {
				fmt.Fprintln(c.Stderr, "Failed to compile the pattern:", err)
				return 1
			}
		case "-b", "--boot":
			if hasValue || (i+1 < len(args) && isNumeric(strings.TrimPrefix(args[i+1], "-"))) {
				next() // every boot is in one journal; which is not told apart
			}
			q.boot = bootTime()
		case "-k", "--dmesg":
			q.kernel = true
		case "-e", "--pager-end":
			if q.lines < 0 {
				q.lines = 1000
			}
		case "-q", "--quiet":
			q.quiet = true
		case "--no-hostname":
			q.noHost = true
		case "--utc":
			q.useUTC = true
		case "-x", "--catalog", "--no-pager", "-a", "--all", "-m", "--merge", "--no-full", "-l", "--full", "--system",
			"--no-tail":
		case "-p", "--priority", "--facility", "-D", "--directory", "--cursor", "--case-sensitive":
			next()
		case "--disk-usage":
			return c.diskUsage()
		case "--vacuum-size", "--vacuum-time", "--vacuum-files", "--rotate", "--flush", "--sync":
			return 0 // the journal is bounded by itself
		case "--version":
			fmt.Fprintln(c.Stdout, "systemd 252 (coracle)")
			return 0
		default:
			if u, ok := strings.CutPrefix(arg, "_SYSTEMD_UNIT="); ok {
				q.units = append(q.units, u)
				continue
			}
			fmt.Fprintf(c.Stderr, "journalctl: unrecognized option '%s'\n", arg)
			return 1
		}
	}
	if q.follow && q.lines < 0 {
		q.lines = 10
	}
	if q.kernel {
		fmt.Fprintln(c.Stdout, "-- No entries --")
		return 0
	}
	return c.journal(q)
}

func isNumeric(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// parseTime reads a time as systemd.time(7) has it, as far as people type it.
func parseTime(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch s {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	if span, ok := strings.CutSuffix(s, " ago"); ok {
		if d, ok := unit.Duration(span); ok {
			return now.Add(-d), nil
		}
	}
	if span, ok := strings.CutPrefix(s, "-"); ok {
		if d, ok := unit.Duration(span); ok {
			return now.Add(-d), nil
		}
	}
	if n, ok := strings.CutPrefix(s, "@"); ok {
		if seconds, err := strconv.ParseInt(n, 10, 64); err == nil {
			return time.Unix(seconds, 0), nil
		}
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC3339,
		"2006-01-02 15:04:05 MST"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			return midnight.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
				time.Duration(t.Second())*time.Second), nil
		}
	}
	return time.Time{}, fmt.Errorf("Failed to parse timestamp: %s", s)
}

// bootTime returns the start time of process 1.
func bootTime() time.Time {
	info, err := os.Stat("/proc/1")
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (c Command) journalDir() string {
	if c.Journal != "" {
		return c.Journal
	}
	return initd.JournalDir
}

// logFiles returns the files that a query reads, with the older halves first.
func (c Command) logFiles(q query) []string {
	found, _ := filepath.Glob(filepath.Join(c.journalDir(), "*.log"))
	older, _ := filepath.Glob(filepath.Join(c.journalDir(), "*.log.1"))
	var files []string
	for _, f := range append(older, found...) {
		if len(q.units) == 0 || slices.ContainsFunc(q.units,
			func(p string) bool { ok, _ := filepath.Match(p, unitName(f)); return ok }) {
			files = append(files, f)
		}
	}
	return files
}

func unitName(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".1"), ".log")
}

func parseEntry(file string, line []byte) (entry, bool) {
	stamp, rest, ok := strings.Cut(string(line), " ")
	if !ok {
		return entry{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	head, message, ok := strings.Cut(rest, "]: ")
	if err != nil || !ok {
		return entry{}, false
	}
	open := strings.LastIndexByte(head, '[')
	if open < 0 {
		return entry{}, false
	}
	return entry{at, unitName(file), head[:open], head[open+1:], message}, true
}

func (q query) matches(e entry) bool {
	return !e.at.Before(q.since) && (q.until.IsZero() || !e.at.After(q.until)) && !e.at.Before(q.boot) &&
		(len(q.identifiers) == 0 || slices.Contains(q.identifiers, e.identifier)) &&
		(q.grep == nil || q.grep.MatchString(e.message))
}

// printTail writes the last lines of a unit, as systemctl status ends.
func (c Command) printTail(name string, lines int) {
	q := query{units: []string{name}, lines: lines, output: "short", quiet: true}
	q.host, _ = os.Hostname()
	q.host, _, _ = strings.Cut(q.host, ".")
	c.journal(q)
}

func (c Command) journal(q query) int {
	var entries []entry
	offsets := map[string]int64{}
	for _, file := range c.logFiles(q) {
		f, err := os.Open(file)
		if err != nil {
			fmt.Fprintln(c.Stderr, "journalctl:", err)
			continue
		}
		read, n := scanEntries(f, file, q)
		f.Close()
		offsets[file] = n
		entries = append(entries, read...)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	if q.lines >= 0 && len(entries) > q.lines {
		entries = entries[len(entries)-q.lines:]
	}
	if q.reverse {
		slices.Reverse(entries)
	}
	if len(entries) == 0 && !q.follow && !q.quiet {
		fmt.Fprintln(c.Stdout, "-- No entries --")
		return 0
	}
	for _, e := range entries {
		q.writeEntry(c.Stdout, e)
	}
	for q.follow {
		// The files are written by init alone; there is nothing that tells of them where inotify may be exhausted.
		time.Sleep(200 * time.Millisecond)
		for _, file := range c.logFiles(q) {
			info, err := os.Stat(file)
			if err != nil || strings.HasSuffix(file, ".1") || info.Size() == offsets[file] {
				continue
			}
			if info.Size() < offsets[file] {
				offsets[file] = 0 // it became the older half
			}
			f, err := os.Open(file)
			if err != nil {
				continue
			}
			if _, err := f.Seek(offsets[file], io.SeekStart); err == nil {
				read, n := scanEntries(f, file, q)
				offsets[file] += n
				for _, e := range read {
					q.writeEntry(c.Stdout, e)
				}
			}
			f.Close()
		}
	}
	return 0
}

// scanEntries reads the whole lines of a file, and how many bytes they are.
func scanEntries(r io.Reader, file string, q query) (entries []entry, n int64) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return entries, n
		}
		n += int64(len(line))
		if e, ok := parseEntry(file, bytes.TrimSuffix(line, []byte("\n"))); ok && q.matches(e) {
			entries = append(entries, e)
			if q.lines >= 0 && len(entries) > 2*q.lines+1000 {
				entries = slices.Delete(entries, 0, len(entries)-q.lines)
			}
		}
	}
}

func (q query) writeEntry(w io.Writer, e entry) {
	host := q.host + " "
	if q.noHost {
		host = ""
	}
	at := e.at.Local()
	if q.useUTC {
		at = e.at.UTC()
	}
	source := e.identifier
	if e.pid != "0" {
		source += "[" + e.pid + "]"
	}
	switch q.output {
	case "cat":
		fmt.Fprintln(w, e.message)
	case "json", "json-pretty", "json-sse":
		data, _ := json.Marshal(map[string]string{
			"__REALTIME_TIMESTAMP": strconv.FormatInt(e.at.UnixMicro(), 10), "_SYSTEMD_UNIT": e.unit,
			"SYSLOG_IDENTIFIER": e.identifier, "_PID": e.pid, "_HOSTNAME": q.host, "MESSAGE": e.message,
		})
		fmt.Fprintf(w, "%s\n", data)
	case "short-iso":
		fmt.Fprintf(w, "%s %s%s: %s\n", at.Format("2006-01-02T15:04:05-0700"), host, source, e.message)
	case "short-precise":
		fmt.Fprintf(w, "%s %s%s: %s\n", at.Format("Jan 02 15:04:05.000000"), host, source, e.message)
	case "short-unix":
		fmt.Fprintf(w, "%d.%06d %s%s: %s\n", e.at.Unix(), e.at.Nanosecond()/1000, host, source, e.message)
	default:
		fmt.Fprintf(w, "%s %s%s: %s\n", at.Format("Jan 02 15:04:05"), host, source, e.message)
	}
}

func (c Command) diskUsage() int {
	var sum int64
	files, _ := filepath.Glob(filepath.Join(c.journalDir(), "*.log*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			sum += info.Size()
		}
	}
	fmt.Fprintf(c.Stdout, "Archived and active journals take up %.1fM in the file system.\n", float64(sum)/(1<<20))
	return 0
}
