package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// decodeEvent reads a message of the audit log. Its error tells that the message is none of the log's.
func decodeEvent(message []byte) (*auditv1.Event, error) {
	var e auditv1.Event
	if err := json.Unmarshal(message, &e); err != nil {
		return nil, fmt.Errorf("an event of the audit log is no JSON: %w", err)
	}
	if e.Kind != "Event" || e.AuditID == "" {
		return nil, fmt.Errorf("an event of the audit log has kind %q and ID %q", e.Kind, e.AuditID)
	}
	return &e, nil
}

// content returns a requestObject or responseObject: a map, a list (a JSON patch), or nil when the log has none.
// Numbers stay as they were written.
func content(u *runtime.Unknown) any {
	if u == nil || len(u.Raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(u.Raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// decodeObject returns content that is an object of Kubernetes rather than a Status, a list or options.
func decodeObject(u *runtime.Unknown) map[string]any {
	m, _ := content(u).(map[string]any)
	if nestedString(m, "kind") == "Status" || nestedString(m, "kind") == "DeleteOptions" ||
		nestedField(m, "metadata") == nil {
		return nil
	}
	return m
}

// nestedField descends into maps; nil when there is no such field.
func nestedField(v any, names ...string) any {
	for _, n := range names {
		m, _ := v.(map[string]any)
		v = m[n]
	}
	return v
}

// nestedString returns a field that is a string, or "".
func nestedString(v any, names ...string) string {
	s, _ := nestedField(v, names...).(string)
	return s
}

// nestedList returns a field that is a list, or nil.
func nestedList(v any, names ...string) []any {
	l, _ := nestedField(v, names...).([]any)
	return l
}

// revision returns an object's resource version, which grows with every write; 0 when unknown.
func revision(obj map[string]any) uint64 {
	rv, err := strconv.ParseUint(nestedString(obj, "metadata", "resourceVersion"), 10, 64)
	if err != nil {
		return 0
	}
	return rv
}

// requestQuery returns the parameters of the request.
func requestQuery(e *auditv1.Event) url.Values {
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		return nil
	}
	return u.Query()
}

func received(e *auditv1.Event) time.Time { return e.RequestReceivedTimestamp.UTC() }
