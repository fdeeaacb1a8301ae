package identity

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const (
	// maxDenials is the number of denials that are kept of an account, without those that differ in time alone.
	maxDenials = 500
	// maxDenialText is the length of each of their texts in bytes.
	maxDenialText = 1024
	// denialTime is how long a denial is kept.
	denialTime = 24 * time.Hour
)

// Denial is a request that policies refused.
type Denial struct {
	DenialCause
	First, Last time.Time
	Count       int
	// RequestID, SourceIP and UserAgent are of the last request.
	RequestID, SourceIP, UserAgent string
}

// DenialCause tells denials apart that are more than repetitions.
type DenialCause struct {
	// Principal is the ARN of the caller; of a role that is assumed by the token of a pod, the subject of that.
	Principal string
	Region    string
	Action    string
	Resource  string
	// Reason is AWS's explanation: "because no identity-based policy allows the iam:ListRoles action".
	Reason string
	// Statement is the ID of the statement that denied, if it has one, and Policy the name of its policy; empty when no
	// statement allowed.
	Policy, Statement string
}

// denials keeps what was refused in each account, in memory: it is for who debugs, and no audit log.
type denials struct {
	mu        sync.Mutex
	byAccount map[string]*lru.Cache[DenialCause, *Denial]
}

// recordDenial keeps a decision that refuses.
func (i *Identity) recordDenial(ctx context.Context, account, principal string, t wire.Target, d policy.Decision) {
	if d.Allowed() || d.Err != nil {
		return
	}
	cause := DenialCause{Principal: cutDenial(principal), Region: wire.RegionFrom(ctx), Action: cutDenial(t.Action),
		Resource: cutDenial(cmp.Or(t.Named, t.Resource)), Reason: cutDenial(d.Reason())}
	if d.Statement != nil {
		cause.Statement = cutDenial(d.Statement.SID)
	}
	if d.Policy != nil {
		cause.Policy = cutDenial(cmp.Or(d.Policy.ARN, d.Policy.Name))
	}
	now := i.now()
	i.denials.mu.Lock()
	defer i.denials.mu.Unlock()
	kept := i.denials.byAccount[account]
	if kept == nil {
		kept, _ = lru.New[DenialCause, *Denial](maxDenials) // fails for sizes below 1 alone
		i.denials.byAccount[account] = kept
	}
	denial, ok := kept.Get(cause)
	if !ok {
		denial = &Denial{DenialCause: cause, First: now}
		kept.Add(cause, denial)
	}
	denial.Last, denial.Count, denial.RequestID = now, denial.Count+1, wire.RequestIDFrom(ctx)
	denial.SourceIP, denial.UserAgent = wire.SourceIPFrom(ctx), cutDenial(wire.UserAgentFrom(ctx))
}

// Denials returns what was refused in an account, the newest first.
func (i *Identity) Denials(account string) []Denial {
	i.denials.mu.Lock()
	defer i.denials.mu.Unlock()
	kept := i.denials.byAccount[account]
	if kept == nil {
		return nil
	}
	var all []Denial
	for _, denial := range kept.Values() {
		if i.now().Sub(denial.Last) < denialTime {
			all = append(all, *denial)
		}
	}
	slices.SortStableFunc(all, func(a, b Denial) int { return b.Last.Compare(a.Last) })
	return all
}

// cutDenial returns a text of its own: one that is a part of a request would keep all of that in memory.
func cutDenial(text string) string { return strings.Clone(text[:min(len(text), maxDenialText)]) }
