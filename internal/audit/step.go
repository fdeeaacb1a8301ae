package audit

import (
	"slices"
	"time"
)

// Step is one request in the timeline of an object, as `-o json` prints it: one object per line. Fields
// are added, but keep their names and meanings.
type Step struct {
	// Time is the time when the API server received the request, Completed the time when it had answered.
	Time      time.Time `json:"time"`
	Completed time.Time `json:"completed"`
	AuditID   string    `json:"auditID"`
	Level     string    `json:"level"` // None of the content is known at Metadata
	Cluster   string    `json:"cluster"`
	Object    Object    `json:"object"`
	// Verb is the audit log's; Action says the same as people do: apply, scale, exec, evict, ...
	Verb   string `json:"verb"`
	Action string `json:"action"`
	Who    Who    `json:"who"`
	Client Client `json:"client"`
	// Code is the HTTP status of the answer, 0 when the request still goes on.
	Code   int32  `json:"code"`
	DryRun bool   `json:"dryRun,omitempty"`
	Open   bool   `json:"open,omitempty"` // answered, and still going on: a watch, an exec
	URI    string `json:"uri"`
	// FieldManager is under whose name the request wrote, Force whether it took fields from others.
	FieldManager string `json:"fieldManager,omitempty"`
	Force        bool   `json:"force,omitempty"`
	// Summary is a short summary of each created object.
	Summary []string `json:"summary,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Requested is set when Changes are what the request asks for, because the version before is not in the log.
	Requested bool        `json:"requested,omitempty"`
	Ownership []Ownership `json:"ownership,omitempty"`
	Webhooks  []Webhook   `json:"webhooks,omitempty"`
	Refusal   *Refusal    `json:"refusal,omitempty"`
	// Notes are further remarks.
	Notes []string `json:"notes,omitempty"`
	// Authorization is the authorizer's reason.
	Authorization string `json:"authorization,omitempty"`

	quiet bool // a status written by the machinery, without anything else
}

// Object is the object of a request.
type Object struct {
	Kind        string `json:"kind,omitempty"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	UID         string `json:"uid,omitempty"`
	// ResourceVersion is that of the answer.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// objectKey identifies an object through its versions.
func (o Object) objectKey() string {
	return o.Group + "/" + o.Resource + "/" + o.Namespace + "/" + o.Name
}

// qualifiedName returns the object as it is written in a timeline of several: namespace/name.
func (o Object) qualifiedName() string {
	if k, ok := kindForResource(o.Group, o.Resource); o.Namespace == "" || ok && k.Cluster {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// isMetadataOnly reports whether the log has no content of a change, only who made it and when.
func (s *Step) isMetadataOnly() bool { return s.Level == "Metadata" && !slices.Contains(reads, s.Verb) }

// Refused reports whether the request was answered with an error.
func (s *Step) Refused() bool { return s.Code >= 400 }
