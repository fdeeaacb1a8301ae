package fargate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// unreachableAfter is the time for which an API server may be unreachable before that counts as an issue, and
	// nothing that goes away waits for it any longer.
	unreachableAfter = 30 * time.Second
	// issueRetryInterval is the interval at which an issue is checked that no event reports.
	issueRetryInterval = 10 * time.Second
	// retryInterval is the time before an object is read again whose change a watch reports.
	retryInterval = 2 * time.Second
)

// profilePass is one reconcile pass over one profile.
type profilePass struct {
	c           *Controller
	row         record.FargateProfile
	cluster     record.Cluster
	clusterGone bool // the cluster is
	// state is the known state; steps change it, and saveState writes it.
	state  record.FargateProfileState
	saved  store.Row[record.FargateProfileState] // no revision before it was written
	server *server                               // nil while the API server cannot be reached
}

// errGone reports that nothing is left of the profile.
var errGone = errors.New("the Fargate profile is gone")

// reconcileProfile reconciles the profile with the given key.
func (c *Controller) reconcileProfile(ctx context.Context, key string) (reconcile.Result, error) {
	p, err := c.loadProfile(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	var after time.Duration
	switch {
	case p.row.Deleting:
		after, err = p.deleteProfile(ctx)
	case !p.clusterGone && !p.state.Failed:
		after, err = p.create(ctx)
	}
	if errors.Is(err, errGone) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		err = fmt.Errorf("reconcile Fargate profile %s of cluster %s: %w", p.row.Name, p.row.Cluster, err)
	}
	return reconcile.Result{After: after}, errors.Join(err, p.saveState(ctx))
}

func (c *Controller) loadProfile(ctx context.Context, key string) (*profilePass, error) {
	row, err := c.profiles.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	p := &profilePass{c: c, row: row.Value}
	if p.saved, err = c.states.Copy(ctx, key); store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if p.saved.Value.ProfileID == p.row.ID {
		p.state = p.saved.Value
		if p.saved, err = c.states.Copy(ctx, key); err != nil { // one to change, one to compare with
			return nil, err
		}
	} else {
		p.state.ProfileID = p.row.ID // the rest is of another profile of that name
	}
	cluster, err := c.clusters.Get(ctx, record.ClusterKey(p.row.Account, p.row.Region, p.row.Cluster))
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	p.cluster, p.clusterGone = cluster.Value, err != nil || cluster.Value.ID != p.row.ClusterID
	if s, ok := c.servers.Get(cluster.Key); ok && !p.clusterGone {
		p.server = s
	}
	return p, nil
}

// saveState writes the observed state of the profile if it has changed.
func (p *profilePass) saveState(ctx context.Context) error {
	if p.saved.Revision != 0 && reflect.DeepEqual(p.saved.Value, p.state) {
		return nil
	}
	key := p.row.Key()
	var err error
	if p.saved.Revision == 0 {
		_, err = p.c.states.Create(ctx, key, p.state)
	} else {
		// The API server decides how often, and with which texts.
		_, err = p.c.states.Update(store.Paced(ctx), store.Row[record.FargateProfileState]{Key: key, Value: p.state,
			Revision: p.saved.Revision})
	}
	if err == nil {
		p.saved, err = p.c.states.Copy(ctx, key)
	}
	return err
}

// create authorizes the role of a profile and applies the webhook. It does so for an ACTIVE profile, too, because the
// cluster's authentication mode, or the webhook, may have changed since.
func (p *profilePass) create(ctx context.Context) (time.Duration, error) {
	for _, step := range []func(context.Context) error{p.checkRole, p.grantAccess, p.applyWebhook} {
		err := step(ctx)
		if err == nil {
			continue
		}
		found, ok := asProblem(err, p.row.Name)
		late := p.c.now().Sub(p.row.CreatedAt) >= p.c.o.CreateTimeout
		if !ok && (!late || p.state.Created) {
			return 0, err
		}
		if !ok {
			errors.As(newProblem(ekstypes.FargateProfileIssueCodeInternalFailure, true, err.Error(), p.row.Name), &found)
		}
		p.state.Issues = []ekstypes.FargateProfileIssue{found.issue}
		if !p.state.Created && (found.final || late) {
			p.state.Failed = true
			p.c.log.Warn("Fargate profile creation failed", "cluster", p.row.Cluster, "profile", p.row.Name, "issue",
				*found.issue.Message)
			return 0, nil
		}
		return issueRetryInterval, nil
	}
	if p.server == nil {
		return p.awaitServer(), nil
	}
	issues, err := p.findIssues(ctx)
	if err != nil {
		return 0, err
	}
	after := time.Duration(0)
	if p.state.Issues = issues; len(issues) > 0 {
		after = issueRetryInterval
	}
	if !p.state.Created {
		p.state.Created = true
		p.c.log.Info("Fargate profile is active", "cluster", p.row.Cluster, "profile", p.row.Name, "after",
			p.c.now().Sub(p.row.CreatedAt).Round(time.Millisecond))
	}
	return after, nil
}

// findIssues returns what is wrong with a profile that has all that EKS makes for it. That the cluster does not let EKS
// look is wrong, too.
func (p *profilePass) findIssues(ctx context.Context) (issues []ekstypes.FargateProfileIssue, err error) {
	for _, find := range []func(context.Context) (issue, err error){p.roleIssue, p.cleanUpRefusal} {
		issue, err := find(ctx)
		if err != nil {
			issue = err
		}
		if found, ok := asProblem(issue, p.row.Name); ok {
			issues = append(issues, found.issue)
		} else if err != nil {
			return nil, err
		}
	}
	return issues, nil
}

// awaitServer reports an API server that cannot be reached for long, and returns when to look again. Its connection
// wakes the profile when it opens.
func (p *profilePass) awaitServer() time.Duration {
	since, reason := p.c.servers.Failing(p.cluster.Key())
	if since.IsZero() {
		return issueRetryInterval
	}
	if remaining := unreachableAfter - p.c.now().Sub(since); remaining > 0 {
		return remaining
	}
	var found *problem
	errors.As(newProblem(ekstypes.FargateProfileIssueCodeClusterUnreachable, false,
		"Amazon EKS is unable to communicate with your Kubernetes cluster API server: "+reason.Error(), p.row.Cluster),
		&found)
	p.state.Issues = []ekstypes.FargateProfileIssue{found.issue}
	if !p.state.Created && p.c.now().Sub(p.row.CreatedAt) >= p.c.o.CreateTimeout {
		p.state.Failed = true
	}
	return issueRetryInterval
}

// serverLost reports whether nothing that goes away waits for the API server of a cluster any longer.
func (c *Controller) serverLost(cluster string) bool {
	if _, open := c.servers.Get(cluster); open {
		return false
	}
	since, _ := c.servers.Failing(cluster)
	return !since.IsZero() && c.now().Sub(since) >= unreachableAfter
}
