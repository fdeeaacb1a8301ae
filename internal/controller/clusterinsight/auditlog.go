package clusterinsight

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// window is the time for which EKS counts requests, and day the form of its days.
	window = 30 * 24 * time.Hour
	day    = time.DateOnly
	// perPass is how much of an audit log one pass reads.
	perPass = 64 << 20
	// maxLine is the length of the longest event, with its end.
	maxLine = componentlog.MaxMessage + 1
	// beginning is the length of the beginning that identifies a file: each event has an ID. No event is shorter.
	beginning = 256

	maxAPIs, maxClients, maxUserAgent, maxName = 50, 20, 256, 253
)

// removedRelease is the annotation with which an API server marks requests to a version of an API that will be removed.
var removedRelease = []byte(`"k8s.io/removed-release"`)

var minorVersion = regexp.MustCompile(`^1\.[1-9][0-9]{0,2}$`)

// readAuditLog counts the requests to deprecated APIs in what the audit log of a cluster has grown by. more reports
// that there is more of it than one pass reads.
//
// A file that is full is removed when it has been shipped, or at once where nobody wants the audit log: what was
// written within the last minute before that is not counted then.
func (c *Controller) readAuditLog(cluster record.Cluster, in *record.Insights, now time.Time) (more bool, err error) {
	offsets := map[string]int64{}
	known := in.AuditOffsets
	entries, err := os.ReadDir(c.logDir(cluster.ID))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	left := int64(perPass)
	for _, e := range entries {
		if component, _, ok := componentlog.Parse(e.Name()); !ok || component != componentlog.Audit {
			continue
		}
		id, n, failed := readAuditFile(filepath.Join(c.logDir(cluster.ID), e.Name()), known, left, func(line []byte) {
			addEvent(in, line)
		})
		if err = errors.Join(err, failed); id == "" || failed != nil {
			continue
		}
		offsets[id] = n
		left -= n - known[id]
	}
	in.AuditOffsets = offsets
	forgetOld(in, now)
	return left <= 0, err
}

// readAuditFile passes the lines of a file beyond its known offset on, at most limit bytes of them, and one line. It
// returns the ID of the file, empty when it has none yet, and its new offset.
func readAuditFile(path string, known map[string]int64, limit int64, each func(line []byte)) (
	id string, offset int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	} else if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	first := make([]byte, beginning)
	if _, err = io.ReadFull(f, first); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "", 0, nil
	} else if err != nil {
		return "", 0, err
	}
	digest := sha256.Sum256(first)
	id = hex.EncodeToString(digest[:8])
	offset = known[id]
	if limit <= 0 {
		return id, offset, nil
	}
	if _, err = f.Seek(offset, io.SeekStart); err != nil {
		return "", 0, err
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var line []byte
	for start := offset; offset-start < limit; {
		length := 0
		line = line[:0]
		for {
			part, err := r.ReadSlice('\n')
			length += len(part)
			if length <= maxLine {
				line = append(line, part...)
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if errors.Is(err, io.EOF) {
				return id, offset, nil // the line is being written
			}
			if err != nil {
				return "", 0, err
			}
			break
		}
		offset += int64(length)
		if length <= maxLine && bytes.Contains(line, removedRelease) {
			each(line)
		}
	}
	return id, offset, nil
}

// event is what is read of an audit event.
type event struct {
	Stage     string `json:"stage"`
	User      struct{ Username string }
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource, Subresource, APIGroup, APIVersion string
	}
	RequestReceivedTimestamp time.Time
	Annotations              map[string]string
}

// addEvent counts a request to a deprecated API. Requests of the control plane itself do not count: nobody can change
// them, and the next version does not make them.
func addEvent(in *record.Insights, line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return
	}
	removed := e.Annotations["k8s.io/removed-release"]
	of := e.ObjectRef
	if e.Annotations["k8s.io/deprecated"] != "true" || !minorVersion.MatchString(removed) || of.Resource == "" ||
		max(len(of.Resource), len(of.Subresource), len(of.APIGroup), len(of.APIVersion)) > maxName ||
		e.User.Username == "system:apiserver" || e.User.Username == "system:kube-controller-manager" {
		return
	}
	at := e.RequestReceivedTimestamp.UTC().Truncate(time.Second)
	resource := of.Resource
	if of.Subresource != "" {
		resource += "/" + of.Subresource
	}
	i := slices.IndexFunc(in.Deprecated, func(d record.DeprecatedAPI) bool {
		return d.Group == of.APIGroup && d.Version == of.APIVersion && d.Resource == resource
	})
	if i < 0 {
		if len(in.Deprecated) == maxAPIs {
			return
		}
		i, in.Deprecated = len(in.Deprecated), append(in.Deprecated, record.DeprecatedAPI{
			Group: of.APIGroup, Version: of.APIVersion, Resource: resource, RemovedIn: removed,
		})
	}
	in.Deprecated[i].Clients = addRequest(in.Deprecated[i].Clients, e.UserAgent, at)
}

func addRequest(clients []record.DeprecatedAPIClient, userAgent string, at time.Time) []record.DeprecatedAPIClient {
	userAgent = strings.ToValidUTF8(userAgent[:min(len(userAgent), maxUserAgent)], "")
	i := slices.IndexFunc(clients, func(c record.DeprecatedAPIClient) bool { return c.UserAgent == userAgent })
	if i < 0 {
		if len(clients) == maxClients { // the one that was not seen for longest
			oldest := 0
			for n := range clients {
				if clients[n].Last.Before(clients[oldest].Last) {
					oldest = n
				}
			}
			clients = slices.Delete(clients, oldest, oldest+1)
		}
		i, clients = len(clients), append(clients, record.DeprecatedAPIClient{
			UserAgent: userAgent, Days: map[string]int32{},
		})
	}
	if at.After(clients[i].Last) {
		clients[i].Last = at
	}
	clients[i].Days[at.Format(day)]++
	return clients
}

// forgetOld forgets the requests of more than 30 days ago.
func forgetOld(in *record.Insights, now time.Time) {
	since := now.Add(-window)
	for i := range in.Deprecated {
		in.Deprecated[i].Clients = slices.DeleteFunc(in.Deprecated[i].Clients, func(c record.DeprecatedAPIClient) bool {
			for d := range c.Days {
				if d < since.Format(day) {
					delete(c.Days, d)
				}
			}
			return c.Last.Before(since)
		})
	}
	in.Deprecated = slices.DeleteFunc(in.Deprecated, func(d record.DeprecatedAPI) bool { return len(d.Clients) == 0 })
}
