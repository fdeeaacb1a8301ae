package authenticator

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/coracle-eks/coracle/internal/kube/componentlog"
)

// clusterLogger returns the authenticator log of a cluster, in the format of aws-iam-authenticator, whose library
// writes it.
func (a *Authenticator) clusterLogger(clusterID string) *logrus.Logger {
	return a.clusterState(clusterID).log.logger
}

// logFile is an append-only file that is opened at the first line, and put aside when it is full.
type logFile struct {
	path   string
	logger *logrus.Logger
	daemon *slog.Logger // where it is told that the file cannot be written

	mu     sync.Mutex
	file   *os.File
	size   int64
	failed bool
}

func newLogFile(path string, daemon *slog.Logger) *logFile {
	f := &logFile{path: path, daemon: daemon}
	f.logger = logrus.New()
	f.logger.SetOutput(f)
	f.logger.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	return f
}

// Write appends a line. A log that cannot be written does not keep anyone out: the failure is
// told once in the daemon's log, and the line is lost.
func (f *logFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.writeLine(line); err != nil {
		if !f.failed {
			f.daemon.Error("the authenticator log cannot be written", "file", f.path, "error", err)
		}
		f.failed = true
		return len(line), nil
	}
	f.failed = false
	return len(line), nil
}

func (f *logFile) writeLine(line []byte) error {
	if f.file != nil && f.size+int64(len(line)) > componentlog.AuthenticatorMaxSize {
		if err := os.Rename(f.path, componentlog.Rotated(f.path, time.Now())); err != nil {
			return fmt.Errorf("put the full log aside: %w", err)
		}
		f.close()
	}
	if f.file == nil {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
			return err
		}
		file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		size, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			file.Close()
			return err
		}
		f.file, f.size = file, size
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	return err
}

// Close closes the file; a later line opens it again.
func (f *logFile) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
}

func (f *logFile) close() {
	if f.file == nil {
		return
	}
	if err := f.file.Close(); err != nil {
		f.daemon.Error("close the authenticator log", "file", f.path, "error", err)
	}
	f.file = nil
}
