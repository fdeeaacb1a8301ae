//go:build linux

package initd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// journalFile is the size at which a file becomes the older half.
	journalFile = 8 << 20
	// maxMessage is the longest line that is kept whole (journald's LineMax=48K).
	maxMessage = 48 << 10
)

// SystemLog is the file of what is said outside of any unit: by init itself, and over /dev/log.
const SystemLog = "system"

type journal struct {
	dir string

	mu        sync.Mutex
	files     map[string]*journalLog
	lastLines map[string]lastLine // by unit
}

type journalLog struct {
	f    *os.File
	size int64
}

// appendLine adds a line to a unit's file. A journal that cannot be written loses the line: what runs goes on.
func (j *journal) appendLine(name, identifier string, pid int, message []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if pid != 1 { // not what init itself says of it
		j.remember(name, message)
	}
	log := j.files[name]
	path := filepath.Join(j.dir, name+".log")
	if log == nil {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_CLOEXEC, 0o640)
		if os.IsNotExist(err) {
			_ = os.MkdirAll(j.dir, 0o755)
			f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_CLOEXEC, 0o640)
		}
		if err != nil {
			return
		}
		log = &journalLog{f: f}
		if info, err := f.Stat(); err == nil {
			log.size = info.Size()
		}
		if j.files == nil {
			j.files = map[string]*journalLog{}
		}
		j.files[name] = log
	}
	line := make([]byte, 0, len(message)+64)
	line = time.Now().UTC().AppendFormat(line, "2006-01-02T15:04:05.000000Z")
	line = fmt.Appendf(line, " %s[%d]: ", identifier, pid)
	line = append(line, message...)
	line = append(line, '\n')
	n, _ := log.f.Write(line)
	if log.size += int64(n); log.size > journalFile {
		log.f.Close()
		delete(j.files, name)
		_ = os.Rename(path, path+".1")
	}
}

// copyLines writes what comes out of a service line by line, until its last process has closed it.
func (j *journal) copyLines(r io.Reader, name string, source func() (identifier string, pid int), console io.Writer) {
	lines := bufio.NewReaderSize(r, 4096)
	var long []byte
	for {
		part, err := lines.ReadSlice('\n')
		if len(part) > 0 {
			long = append(long, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) && len(long) < maxMessage {
			continue
		}
		if len(long) > 0 {
			message := bytes.TrimRight(long, "\r\n")
			identifier, pid := source()
			j.appendLine(name, identifier, pid, message)
			if console != nil {
				fmt.Fprintf(console, "%s[%d]: %s\n", identifier, pid, message)
			}
			if long = long[:0]; cap(long) > 16<<10 {
				long = nil
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// logMessage logs a message of init, about a unit or, with an empty name, in general.
func (m *manager) logMessage(name, message string) {
	if name == "" {
		name = SystemLog
	}
	m.journal.appendLine(name, "systemd", 1, []byte(message))
}

// logUnit logs a message about a unit that is a whole sentence: "kubelet.service: Main process exited, ...".
func (m *manager) logUnit(name, format string, args ...any) {
	m.logMessage(name, name+": "+fmt.Sprintf(format, args...))
}

// logSyslog takes one message of /dev/log: "<13>Nov 21 14:00:00 name[1]: text".
func (m *manager) logSyslog(data []byte) {
	text := strings.TrimRight(string(data), "\n\x00")
	if i := strings.IndexByte(text, '>'); strings.HasPrefix(text, "<") && i > 0 && i < 5 {
		text = text[i+1:]
	}
	if len(text) > 16 {
		if _, err := time.Parse(time.Stamp, text[:15]); err == nil {
			text = text[16:]
		}
	}
	identifier, message, ok := strings.Cut(text, ": ")
	if !ok || strings.ContainsAny(identifier, " \t") {
		identifier, message = "unknown", text
	}
	pid := 0
	if name, rest, ok := strings.Cut(identifier, "["); ok {
		_, _ = fmt.Sscanf(rest, "%d]", &pid)
		identifier = name
	}
	m.journal.appendLine(SystemLog, identifier, pid, []byte(message))
}
