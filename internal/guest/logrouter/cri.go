//go:build linux

package logrouter

import (
	"strings"
	"time"
)

// The largest lines, in bytes: of a file, above which it is skipped, as Skip_Long_Lines does with a Buffer_Max_Size of
// 66KB; and of one that is joined of parts, after which the next part begins a line of its own. containerd's parts have
// at most 16 KiB.
const (
	maxLine   = 66000
	maxJoined = 240000
)

// criLine is a line in the format of CRI: 2026-11-30T06:00:00.123456789Z stdout F text.
type criLine struct {
	at            time.Time
	stamp, stream string
	partial       bool
	text          string
}

// parseCRI takes a line apart; ok is false when it is not in that format.
func parseCRI(line string) (c criLine, ok bool) {
	stamp, rest, ok1 := strings.Cut(line, " ")
	stream, rest, ok2 := strings.Cut(rest, " ")
	tags, text, _ := strings.Cut(rest, " ")
	if !ok1 || !ok2 || stream != "stdout" && stream != "stderr" {
		return c, false
	}
	tag, _, _ := strings.Cut(tags, ":")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || tag != "P" && tag != "F" {
		return c, false
	}
	return criLine{at: at, stamp: stamp, stream: stream, partial: tag == "P", text: text}, true
}

// joiner joins the parts of the lines of a file; those of its two streams are mixed.
type joiner struct{ stdout, stderr part }

// part is the beginning of a line whose end has not been read.
type part struct {
	text  []byte
	stamp string
	at    time.Time
	start int64 // of its first part, in the file
	open  bool
}

func (j *joiner) of(stream string) *part {
	if stream == "stderr" {
		return &j.stderr
	}
	return &j.stdout
}

// start returns the position of the first part that is not delivered, or end if there is none.
func (j *joiner) start(end int64) int64 {
	for _, p := range []*part{&j.stdout, &j.stderr} {
		if p.open {
			end = min(end, p.start)
		}
	}
	return end
}

// add takes a line that begins at a position. It returns the line that is complete with it, if one is.
func (j *joiner) add(line string, position int64, now time.Time) (complete string, at time.Time, ok bool) {
	c, isCRI := parseCRI(line)
	if !isCRI {
		return line, now, true
	}
	p := j.of(c.stream)
	if !c.partial && !p.open {
		return line, c.at, true
	}
	if !p.open {
		*p = part{text: p.text[:0], stamp: c.stamp, at: c.at, start: position, open: true}
	}
	p.text = append(p.text, c.text...)
	tag := " F "
	if c.partial {
		if len(p.text) < maxJoined {
			return "", time.Time{}, false
		}
		tag = " P "
	}
	complete, at = p.stamp+" "+c.stream+tag+string(p.text), p.at
	*p = part{}
	return complete, at, true
}
