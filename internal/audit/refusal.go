package audit

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Refusal describes the cause of an error response.
type Refusal struct {
	// Kind is "fieldManagerConflict", "stale" (the object had been modified), "forbidden" (the
	// authorizer), "denied" (an admission plugin, webhook or policy), "invalid", "exists", "notFound" or "error".
	Kind    string `json:"kind"`
	Reason  string `json:"reason,omitempty"` // of the Status
	Message string `json:"message,omitempty"`
	// By is the webhook or policy that denied the request.
	By        string     `json:"by,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Causes    []Cause    `json:"causes,omitempty"`
	Stale     *Stale     `json:"stale,omitempty"`
}

// Conflict is a field that an apply wanted, and that another manager owns.
type Conflict struct {
	Path  string `json:"path"`
	Owner string `json:"owner"` // "kubectl on scale" is the manager's entry for a subresource
	// Is is the field's value, Wanted what the apply would have made it. Absent when the log doesn't tell.
	Is     any `json:"is,omitempty"`
	Wanted any `json:"wanted,omitempty"`
	// Since is the step that last wrote as that owner.
	Since *Writer `json:"since,omitempty"`

	path fieldpath.Path
}

// Cause is one reason of several why an object is invalid.
type Cause struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Stale describes how far a write was behind.
type Stale struct {
	Had string   `json:"had,omitempty"` // the resource version that the client had read
	Is  string   `json:"is,omitempty"`  // that of the object, as far as the log tells
	By  []Writer `json:"by,omitempty"`  // who wrote in between
}

// Writer is the author and the time of a write.
type Writer struct {
	Who    string `json:"who"`
	Client string `json:"client"`
	Action string `json:"action"`
	Time   string `json:"time"`
}

var (
	conflictOwner = regexp.MustCompile(`^conflict with "([^"]*)"(?: with subresource "([^"]*)")?`)
	webhookDenied = regexp.MustCompile(`(?s)^admission webhook "([^"]*)" denied the request(?:: |\.?)(.*)$`)
	webhookFailed = regexp.MustCompile(`(?s)failed calling webhook "([^"]*)": (.*)$`)
	policyDenied  = regexp.MustCompile(
		`(?s)ValidatingAdmissionPolicy '([^']*)' with binding '[^']*' denied request: (.*)$`)
)

// refusal explains an answer with an error. request is what was asked, last the object as it was.
func (s *Timeline) refusal(e *auditv1.Event, request any, key string, last version) *Refusal {
	status := e.ResponseStatus
	r := &Refusal{Kind: "error", Reason: string(status.Reason), Message: status.Message}
	if m := webhookDenied.FindStringSubmatch(r.Message); m != nil {
		r.Kind, r.By, r.Message = "denied", m[1], m[2]
		return r
	}
	if m := policyDenied.FindStringSubmatch(r.Message); m != nil {
		r.Kind, r.By, r.Message = "denied", m[1], m[2]
		return r
	}
	if m := webhookFailed.FindStringSubmatch(r.Message); m != nil {
		r.Kind, r.By, r.Message = "denied", m[1], "the call of the webhook failed: "+m[2]
		return r
	}
	switch {
	case status.Code == 403 && e.Annotations["authorization.k8s.io/decision"] == "forbid":
		r.Kind = "forbidden"
		if _, why, ok := strings.Cut(r.Message, " is forbidden: "); ok {
			r.Message = why
		}
	case status.Code == 403:
		r.Kind = "denied"
		if _, why, ok := strings.Cut(r.Message, " is forbidden: "); ok {
			r.Message = why
		}
	case status.Code == 409 && status.Reason == metav1.StatusReasonAlreadyExists:
		r.Kind = "exists"
	case status.Code == 409 && fieldConflicts(status):
		r.Kind, r.Message = "fieldManagerConflict", ""
		r.Conflicts = s.conflicts(status, request, key, last)
	case status.Code == 409 && strings.Contains(r.Message, "the object has been modified"):
		r.Kind, r.Message = "stale", ""
		r.Stale = s.staleDetails(request, key, last)
	case status.Code == 422:
		r.Kind = "invalid"
		if status.Details != nil {
			for _, c := range status.Details.Causes {
				r.Causes = append(r.Causes, Cause{c.Field, c.Message})
			}
		}
		if r.Causes != nil {
			r.Message = ""
		}
	case status.Code == 404:
		r.Kind = "notFound"
	}
	return r
}

func fieldConflicts(status *metav1.Status) bool {
	if status.Details == nil {
		return false
	}
	for _, c := range status.Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			return true
		}
	}
	return false
}

func (s *Timeline) conflicts(status *metav1.Status, request any, key string, last version) []Conflict {
	var all []Conflict
	for _, cause := range status.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		c := Conflict{Path: cause.Field, Owner: cause.Message}
		if m := conflictOwner.FindStringSubmatch(cause.Message); m != nil {
			c.Owner = managerName(m[1], m[2])
		}
		if path := last.findPath(cause.Field); path != nil {
			c.path = path
			c.Is = lookupPath(last.object, path)
			c.Wanted = lookupPath(request, path)
		}
		if w, ok := s.writers[key][c.Owner]; ok {
			c.Since = &w
		}
		all = append(all, c)
	}
	return all
}

// findPath returns the owned path that is written so.
func (v version) findPath(written string) fieldpath.Path {
	var found fieldpath.Path
	for _, o := range v.owners {
		o.Fields.Iterate(func(p fieldpath.Path) { // All goes on after a break, and panics
			if found == nil && p.String() == written {
				found = p.Copy()
			}
		})
	}
	return found
}

func (s *Timeline) staleDetails(request any, key string, last version) *Stale {
	st := &Stale{Had: nestedString(request, "metadata", "resourceVersion")}
	if st.Had == "" {
		return st
	}
	had := revision(request.(map[string]any))
	if last.revision > had {
		st.Is = fmt.Sprint(last.revision)
	}
	for _, w := range s.writes[key] {
		if w.revision > had {
			st.By = append(st.By, w.Writer)
		}
	}
	return st
}
