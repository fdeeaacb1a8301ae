package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/terminal"
)

// Denial is a request that policies refused, or several that differ in time alone.
type Denial struct {
	// Principal is the ARN of the caller; of a role that is assumed by the token of a pod, the subject of that.
	Principal string `json:"principal"`
	Region    string `json:"region,omitempty"`
	Action    string `json:"action"`
	Resource  string `json:"resource"`
	// Reason is AWS's explanation.
	Reason string `json:"reason"`
	// Policy and Statement denied explicitly; empty when no statement allowed.
	Policy    string    `json:"policy,omitempty"`
	Statement string    `json:"statement,omitempty"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Count     int       `json:"count"`
	// RequestID, SourceIP and UserAgent are of the last request.
	RequestID string `json:"requestId,omitempty"`
	SourceIP  string `json:"sourceIp,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
}

// Denials asks for what policies refused in an account, the newest first; the account of the daemon when it is empty.
func (c *Client) Denials(ctx context.Context, account string) (all []Denial, err error) {
	return all, c.callJSON(ctx, http.MethodGet, "/denials?"+url.Values{"account": {account}}.Encode(), nil, &all)
}

// PrintDenials writes denials for a person, with the statement that denied or the one that is missing.
func PrintDenials(w io.Writer, all []Denial) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing was refused")
	}
	for _, d := range all {
		repeated := ""
		if d.Count > 1 {
			repeated = fmt.Sprintf(", %d times since %s", d.Count, d.First.Local().Format(time.TimeOnly))
		}
		terminal.Fprintf(w, "%s%s  %s\n  may not %s on %s\n  %s\n", d.Last.Local().Format(time.TimeOnly), repeated,
			d.Principal, d.Action, d.Resource, d.Reason)
		switch {
		case d.Statement != "":
			terminal.Fprintf(w, "  denied by the statement %s of %s\n", d.Statement, d.Policy)
		case strings.HasPrefix(d.Reason, "with an explicit deny"):
			terminal.Fprintf(w, "  denied by a statement of %s\n", d.Policy)
		case strings.Contains(d.Reason, "role trust policy"):
			terminal.Fprintf(w, "  missing: a statement of that trust policy which allows it to this principal\n")
		default:
			statement, _ := json.Marshal(struct{ Effect, Action, Resource string }{"Allow", d.Action, d.Resource})
			terminal.Fprintf(w, "  missing: %s\n", string(statement)) // texts always marshal
		}
	}
}
