//go:build linux

package logrouter

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// logsPerMinute is the number of lines that the log router writes in a minute; those above are dropped.
const logsPerMinute = 120

// lockedWriter lets two logs write to one writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// processLog is the log of the log router itself, in the form of Fluent Bit's:
// [2026/11/30 06:00:00] [ info] [output:cloudwatch_logs:cloudwatch_logs.0] Created log stream s.
type processLog struct {
	w   io.Writer
	now func() time.Time

	mu      sync.Mutex
	ship    func(line string, at time.Time) // to CloudWatch Logs; nil if it is not shipped
	minute  time.Time
	written int
}

func (l *processLog) info(component, format string, args ...any) {
	l.write(" info", component, format, args...)
}
func (l *processLog) warn(component, format string, args ...any) {
	l.write(" warn", component, format, args...)
}
func (l *processLog) error(component, format string, args ...any) {
	l.write("error", component, format, args...)
}

func (l *processLog) write(level, component, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	if now.Sub(l.minute) >= time.Minute || now.Before(l.minute) {
		if dropped := l.written - logsPerMinute; dropped > 0 {
			l.line(now, " warn", "log", fmt.Sprintf("%d lines of this log were dropped", dropped))
		}
		l.minute, l.written = now, 0
	}
	if l.written++; l.written > logsPerMinute {
		return
	}
	message := fmt.Sprintf(format, args...)
	l.line(now, level, component, message[:min(len(message), 4096)])
}

func (l *processLog) line(now time.Time, level, component, message string) {
	line := fmt.Sprintf("[%s] [%s] [%s] %s", now.Format("2006/01/02 15:04:05"), level, component,
		strings.ToValidUTF8(strings.ReplaceAll(message, "\n", " "), "\uFFFD"))
	fmt.Fprintln(l.w, line)
	if l.ship != nil {
		l.ship(line, now)
	}
}
