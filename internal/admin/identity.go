package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/terminal"
)

// IdentityQuestion asks which IAM role a pod has, or the pods of a service account.
type IdentityQuestion struct {
	Cluster        string `json:"cluster,omitempty"` // its name or ARN; empty for the only one
	Namespace      string `json:"namespace"`
	Pod            string `json:"pod,omitempty"` // empty for the pods of ServiceAccount
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// Identity is the way from a pod to its IAM role, and what the role may do.
type Identity struct {
	Cluster        string `json:"cluster"`
	Namespace      string `json:"namespace"`
	Pod            string `json:"pod,omitempty"`
	ServiceAccount string `json:"serviceAccount"`
	// Role is the ARN of the role whose credentials pods get; empty when they have none of their own.
	Role string `json:"role,omitempty"`
	// Steps are the parts of the way, in order.
	Steps []IdentityStep `json:"steps"`
	// Policies are those of the role.
	Policies []IdentityPolicy `json:"policies,omitempty"`
	// Denials are the requests of the role's sessions, and for it, that policies refused.
	Denials []Denial `json:"denials,omitempty"`
}

// IdentityStep is a part of the way from a pod to its role.
type IdentityStep struct {
	Name  string `json:"name"`  // "trust policy"
	State string `json:"state"` // what is there
	// Problem says what stands in the way, and what to do; empty when nothing does.
	Problem string `json:"problem,omitempty"`
}

// IdentityPolicy is a policy of a role.
type IdentityPolicy struct {
	Name       string   `json:"name"`
	Boundary   bool     `json:"boundary,omitempty"`
	Statements []string `json:"statements"` // "Allow s3:GetObject on *"
}

// Identity asks which IAM role a pod has. The error of a question that nothing answers is a *[Refused].
func (c *Client) Identity(ctx context.Context, q IdentityQuestion) (i Identity, err error) {
	return i, c.callJSON(ctx, http.MethodPost, "/identity", q, &i)
}

// PrintIdentity writes an identity for a person.
func PrintIdentity(w io.Writer, i Identity) {
	subject := "service account " + i.ServiceAccount
	if i.Pod != "" {
		subject = "pod " + i.Pod
	}
	terminal.Fprintf(w, "%s of namespace %s, cluster %s\n\n", subject, i.Namespace, i.Cluster)
	for _, step := range i.Steps {
		terminal.Fprintf(w, "%-16s %s\n", step.Name, step.State)
		if step.Problem != "" {
			terminal.Fprintf(w, "%16s ! %s\n", "", step.Problem)
		}
	}
	if i.Role == "" {
		return
	}
	for _, p := range i.Policies {
		name := "policy"
		if p.Boundary {
			name = "boundary"
		}
		terminal.Fprintf(w, "%-16s %s\n", name, p.Name)
		for _, s := range p.Statements {
			terminal.Fprintf(w, "%16s   %s\n", "", s)
		}
	}
	if len(i.Policies) == 0 {
		terminal.Fprintf(w, "%-16s none: the role may do nothing\n", "policy")
	}
	for _, d := range i.Denials {
		terminal.Fprintf(w, "%-16s %s  %s on %s, %s\n", "denied", d.Last.Local().Format(time.TimeOnly), d.Action, d.Resource,
			strings.TrimPrefix(d.Reason, "because "))
	}
}
