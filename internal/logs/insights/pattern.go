package insights

import (
	"fmt"
	"time"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// patternSink is the pattern command, and diff: the same over two windows.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Pattern.html,
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData_Compare.html
type patternSink struct {
	of      code
	windows []Window // diff: the range asked for, and the one compared with; else nil
	time    code     // diff: @timestamp
}

// diffColumns are the columns that diff adds to those of pattern: how many events more (or, negative, fewer) there are
// than in the window compared with, and the same in words. AWS shows both in its console; how it calls them in results
// is not documented.
var diffColumns = []string{"@diffEventCount", "@diffDescription"}

type patternState struct {
	sink     *patternSink
	env      value.Env
	patterns *value.Patterns
	bytes    int
	account  account
}

func (p *patternSink) newState(s *segment, b *budget, command string) state {
	patterns := value.NewPatterns()
	patterns.Done = s.env.Done
	return &patternState{sink: p, env: s.env, patterns: patterns, account: account{
		budget: b, command: command, advice: "filter more, or shorten the time range",
	}}
}

func (s *patternState) add(f *frame) error {
	of := s.sink.of.eval(f)
	if f.stopped() || of.IsNull() {
		return f.err
	}
	if s.sink.windows == nil {
		s.patterns.Add(of.String())
	} else {
		at, _ := s.sink.time.eval(f).AsNumber()
		if s.sink.windows[0].contains(at) {
			s.patterns.Add(of.String())
		}
		if s.sink.windows[1].contains(at) {
			s.patterns.AddEarlier(of.String())
		}
	}
	before := s.bytes
	if s.bytes = s.patterns.Bytes(); s.bytes != before {
		return s.account.reserve(s.bytes - before)
	}
	return nil
}

func (w Window) contains(ms float64) bool { return float64(w.Start) <= ms && ms <= float64(w.End) }

func (s *patternState) merge(other state) error {
	s.patterns.Merge(other.(*patternState).patterns)
	return s.stopped()
}

func (s *patternState) stopped() error {
	if s.env.Stopped() {
		return ErrStopped
	}
	return nil
}

func (s *patternState) rows() ([]passedRow, error) {
	var rows []passedRow
	if s.sink.windows == nil {
		for _, r := range s.patterns.Results() {
			rows = append(rows, r)
		}
		if err := s.stopped(); err != nil {
			return nil, err
		}
		return rows, s.chargeRows(rows)
	}
	patterns := s.patterns.Patterns()
	if err := s.stopped(); err != nil {
		return nil, err
	}
	total := int64(0)
	for _, p := range patterns {
		total += p.Count
	}
	for _, p := range patterns {
		rows = append(rows, passedRow{
			value.String(p.Text), value.Div(value.Int(p.Count), value.Int(max(total, 1))), value.Int(p.Count),
			value.String(p.Severity),
			value.Int(p.Count - p.Earlier), value.String(difference(p.Earlier, p.Count)),
		})
	}
	return rows, s.chargeRows(rows)
}

// chargeRows takes memory for rows, of which there are not more than patterns.
func (s *patternState) chargeRows(rows []passedRow) error {
	bytes := 0
	for _, row := range rows {
		bytes += 24
		for _, v := range row {
			bytes += v.Bytes()
		}
	}
	return s.account.reserve(bytes)
}

// difference describes the change in the occurrences of a pattern.
func difference(before, now int64) string {
	switch {
	case before == 0:
		return "New"
	case now == 0:
		return "Disappeared"
	case now == before:
		return "No change"
	case now > before:
		return fmt.Sprintf("%.1f%% more", float64(now-before)/float64(before)*100)
	}
	return fmt.Sprintf("%.1f%% fewer", float64(before-now)/float64(before)*100)
}

func (s *patternState) release() { s.account.release() }

// compared returns the window that diff compares a window with.
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
