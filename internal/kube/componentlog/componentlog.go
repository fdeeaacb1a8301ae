// Package componentlog names and rotates the log files of control-plane components.
//
// It is what the writers of these files (internal/controller/controlplane, internal/kube/authenticator) and their
// reader (internal/controller/logshipper) agree on. The files of a cluster are in one directory. A file whose name ends
// with a time has been rotated: no component writes to it any more, and logshipper removes it when it has been shipped
// or is not wanted.
package componentlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// Audit is the component of audit logs. The audit log of an API server has a file of its own, because two API
	// servers run side by side during an upgrade, and the library that rotates audit logs expects to be the only one.
	Audit = "kube-apiserver-audit"
	// AuditMaxSize is the size in MiB at which an API server rotates its audit log.
	AuditMaxSize = 50
	// AuthenticatorMaxSize is the size in bytes at which the log of the authenticator is rotated.
	AuthenticatorMaxSize = 32 << 20
	// MaxMessage is the length of the longest message in bytes: CloudWatch's limit of 1 MiB less the 26
	// bytes that it counts for an event. Longer lines become several events. The API server truncates audit
	// events, because it can keep them valid.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
	MaxMessage = 1<<20 - 26

	rotatedTime = "2006-01-02T15-04-05.000" // as in the names of lumberjack, which the API server rotates with
)

// fileName matches the component, the instance, and the time of the rotation.
var fileName = regexp.MustCompile(`^([a-z-]+?)(-[0-9a-f]{8})?(-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})?\.log$`)

// Parse returns the component that a log file belongs to, and whether the file has been rotated; ok is false for other
// files.
func Parse(name string) (component string, rotated, ok bool) {
	m := fileName.FindStringSubmatch(name)
	if m == nil {
		return "", false, false
	}
	return m[1], m[3] != "", true
}

// AuditLog returns the name of the audit log of an API server. The instance distinguishes the API servers of a cluster:
// eight lower-case hexadecimal digits.
func AuditLog(instance string) string { return Audit + "-" + instance + ".log" }

// Rotated returns the path to which a log is moved when it is full, or when no component writes to it any more.
func Rotated(log string, now time.Time) string {
	return strings.TrimSuffix(log, ".log") + "-" + now.UTC().Format(rotatedTime) + ".log"
}

// RotateOtherAuditLogs rotates the audit logs in dir of all API servers other than the given instance. Those API
// servers must not run.
func RotateOtherAuditLogs(dir, instance string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		component, rotated, ok := Parse(e.Name())
		if !ok || rotated || component != Audit || e.Name() == AuditLog(instance) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := os.Rename(path, Rotated(path, now)); err != nil {
			return err
		}
	}
	return nil
}
