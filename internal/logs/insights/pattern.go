package insights

import (
	"fmt"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// patternSink is the pattern command, and diff: the same over two windows.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Pattern.html,
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData_Compare.html
type patternSink struct {
	of      code
	windows []Window // diff: the range asked for, and the one compared with
	time    code     // diff: @timestamp
}

// diffColumns are what diff adds to the columns of pattern.
var diffColumns = []string{"@diffEventCount", "@diffDescription"}

type patternState struct {
	sink     *patternSink
	patterns []*value.Patterns // by window
	bytes    int
	account  account
}

func (p *patternSink) newState(_ *segment, b *budget, command string) state {
	s := &patternState{sink: p, account: account{budget: b, command: command, advice: "filter more, or shorten the time range"}}
	for range max(1, len(p.windows)) {
		s.patterns = append(s.patterns, value.NewPatterns())
	}
	return s
}

func (s *patternState) add(f *frame) error {
	of := s.sink.of.eval(f)
	if of.IsNull() {
		return nil
	}
	message := of.String()
	if len(s.sink.windows) == 0 {
		s.patterns[0].Add(message)
	} else {
		ms, _ := s.sink.time.eval(f).AsNumber()
		for i, w := range s.sink.windows {
			if float64(w.Start) <= ms && ms <= float64(w.End) {
				s.patterns[i].Add(message)
			}
		}
	}
	before := s.bytes
	s.bytes = 0
	for _, p := range s.patterns {
		s.bytes += p.Bytes()
	}
	if s.bytes != before {
		return s.account.take(s.bytes - before)
	}
	return nil
}

func (s *patternState) merge(other state) error {
	for i, p := range s.patterns {
		p.Merge(other.(*patternState).patterns[i])
	}
	return nil
}

func (s *patternState) rows() []keptRow {
	var rows []keptRow
	if len(s.sink.windows) == 0 {
		for _, r := range s.patterns[0].Results() {
			rows = append(rows, r)
		}
		return rows
	}
	pattern, count := slices.Index(value.PatternColumns, "@pattern"), slices.Index(value.PatternColumns, "@sampleCount")
	before := make(map[string][]value.Value)
	previous := s.patterns[1].Results()
	for _, r := range previous {
		before[r[pattern].String()] = r
	}
	for _, r := range s.patterns[0].Results() {
		was, now := 0.0, 0.0
		now, _ = r[count].AsNumber()
		if p := before[r[pattern].String()]; p != nil {
			was, _ = p[count].AsNumber()
			delete(before, r[pattern].String())
		}
		rows = append(rows, append(slices.Clone(r), value.Number(now-was), value.String(described(was, now))))
	}
	for _, r := range previous {
		if before[r[pattern].String()] == nil {
			continue
		}
		was, _ := r[count].AsNumber()
		gone := slices.Clone(r)
		gone[count] = value.Int(0)
		if ratio := slices.Index(value.PatternColumns, "@ratio"); ratio >= 0 {
			gone[ratio] = value.Int(0)
		}
		rows = append(rows, append(gone, value.Number(-was), value.String(described(was, 0))))
	}
	return rows
}

// described says in words how often a pattern occurs, compared with the previous window.
func described(was, now float64) string {
	switch {
	case was == 0:
		return "New"
	case now == 0:
		return "Disappeared"
	case now == was:
		return "No change"
	case now > was:
		return fmt.Sprintf("%.1f%% increase", (now-was)/was*100)
	}
	return fmt.Sprintf("%.1f%% decrease", (was-now)/was*100)
}

func (s *patternState) release() { s.account.release() }

// compared is the window that diff compares a window with.
func compared(w Window, with string) Window {
	shift := func(years, months, days int) Window {
		start := time.UnixMilli(w.Start).UTC().AddDate(years, months, days).UnixMilli()
		return Window{start, start + w.End - w.Start}
	}
	switch with {
	case "previousDay":
		return shift(0, 0, -1)
	case "previousWeek":
		return shift(0, 0, -7)
	case "previousMonth":
		return shift(0, -1, 0)
	}
	return Window{w.Start - (w.End - w.Start) - 1, w.Start - 1}
}
