package capability

import (
	"context"
	"errors"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// internalFailure is the code of problems that are neither of the two for which EKS has codes.
	internalFailure = ekstypes.CapabilityIssueCode("InternalFailure")
	// issueRetryInterval is the interval at which an issue is checked that no event reports.
	issueRetryInterval = 10 * time.Second
	// healthInterval is the interval at which a program that has been started is asked whether it is ready.
	healthInterval = 250 * time.Millisecond
)

// problem is what keeps a capability from working: an issue of its health. A final one does not go away by itself.
type problem struct {
	issue ekstypes.CapabilityIssue
	final bool
}

func (p *problem) Error() string { return string(p.issue.Code) + ": " + *p.issue.Message }

// errStarting reports a program that is not ready yet.
var errStarting = errors.New("the program is starting")

// errUnwanted is the cause that ends what is done for a capability that is being deleted.
var errUnwanted = errors.New("the capability is being deleted")

// converge runs the program of a capability and records how that goes. It returns when to look again.
func (p *pass) converge(ctx context.Context) (time.Duration, error) {
	if p.state.Failed {
		return 0, nil
	}
	if reason := unavailable(p.row.Type); reason != "" {
		p.state.Failed = true
		p.state.Issues = []ekstypes.CapabilityIssue{issueOf(internalFailure, reason)}
		return 0, nil
	}
	if !p.plane.Ready || p.plane.ClusterID != p.row.ClusterID {
		return 0, nil // the record of the control plane wakes it
	}
	ctx, release := p.whileWanted(ctx)
	defer release()
	err := p.run(ctx)
	ctx, cancel := context.WithTimeout(ctx, passTimeout) // run has built what takes longer
	defer cancel()
	switch {
	case errors.Is(context.Cause(ctx), errUnwanted):
		return 0, nil
	case err == nil:
		return refreshInterval, p.recordSuccess(ctx)
	case errors.Is(err, errStarting):
		return p.awaitProgram(ctx)
	}
	found := asProblem(err)
	if found == nil {
		return 0, err
	}
	p.state.Issues = []ekstypes.CapabilityIssue{found.issue}
	return issueRetryInterval, p.giveUpLate(ctx, found)
}

// awaitProgram returns when to look again at a program that is not ready. Nobody waits for that of a capability that
// has been ACTIVE, and what keeps it from becoming ready may be there for good.
func (p *pass) awaitProgram(ctx context.Context) (time.Duration, error) {
	found := &problem{issueOf(internalFailure, string(p.row.Type)+" has been started and is not ready."), false}
	if !p.state.Created || p.updating() {
		return healthInterval, p.giveUpLate(ctx, found)
	}
	now := p.c.o.Now().UTC().Truncate(time.Millisecond)
	if p.state.StartingAt.IsZero() {
		p.state.StartingAt = now
	}
	if now.Sub(p.state.StartingAt) >= p.c.o.CreateTimeout {
		p.state.Issues = []ekstypes.CapabilityIssue{found.issue}
	}
	return issueRetryInterval, nil
}

// asProblem returns what an error means for the health of the capability, nil for one that is tried again at once.
func asProblem(err error) *problem {
	var found *problem
	var denied *AccessDenied
	var away *client.Unreachable
	switch {
	case errors.As(err, &found):
		return found
	case errors.As(err, &denied):
		return &problem{issueOf(ekstypes.CapabilityIssueCodeAccessDenied, denied.Reason), false}
	case errors.As(err, &away):
		return &problem{issueOf(ekstypes.CapabilityIssueCodeClusterUnreachable,
			"Amazon EKS is unable to communicate with your Kubernetes cluster API server: "+oneLine(err)), false}
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(client.Cut(err.Error())), " ") }

// recordSuccess records that the capability works, and ends its update.
func (p *pass) recordSuccess(ctx context.Context) error {
	if !p.state.Created {
		p.c.log.Info("capability is active", "cluster", p.row.Cluster, "capability", p.row.Name, "type", p.row.Type,
			"version", kro.Version)
	}
	p.state.StartingAt = time.Time{}
	p.state.Created, p.state.Issues, p.state.Version, p.state.Change = true, nil, kro.Version, p.row.Change
	if err := p.saveState(ctx); err != nil {
		return err
	}
	return p.endUpdate(ctx, nil)
}

// giveUpLate ends the creation or the update of a capability that does not come up in time, or cannot at all.
func (p *pass) giveUpLate(ctx context.Context, found *problem) error {
	now := p.c.o.Now()
	late := !p.state.BuiltAt.IsZero() && now.Sub(p.state.BuiltAt) >= p.c.o.CreateTimeout
	switch {
	case !p.state.Created && (found.final || late):
		p.state.Failed, p.state.Issues = true, []ekstypes.CapabilityIssue{found.issue}
		p.c.log.Warn("capability creation failed", "cluster", p.row.Cluster, "capability", p.row.Name, "issue",
			*found.issue.Message)
		return p.c.o.Host.Stop(ctx, p.processName())
	case p.updating() && now.Sub(p.last.CreatedAt) >= p.c.o.UpdateTimeout:
		return p.endUpdate(ctx, found) // the change of the update's record wakes nobody, but the retry comes
	}
	return nil
}

// updating reports whether an update of the capability is in progress.
func (p *pass) updating() bool {
	return p.last.Status == ekstypes.UpdateStatusInProgress && p.last.CapabilityID == p.row.ID
}

// endUpdate marks the update in progress Successful, or Failed when a problem says why.
func (p *pass) endUpdate(ctx context.Context, found *problem) error {
	if !p.updating() {
		return nil
	}
	key := record.UpdateKey(p.row.Account, p.row.Region, p.row.Cluster, p.last.ID)
	_, err := p.c.updates.Modify(ctx, key, func(u *record.Update) error {
		if u.Status != ekstypes.UpdateStatusInProgress {
			return nil
		}
		u.Status = ekstypes.UpdateStatusSuccessful
		if found != nil {
			u.Status = ekstypes.UpdateStatusFailed
			u.Errors = append(u.Errors, ekstypes.ErrorDetail{
				ErrorCode: updateCode(found.issue.Code), ErrorMessage: found.issue.Message,
			})
		}
		return nil
	})
	return store.IgnoreNotFound(err)
}

// updateCode returns the code that an update has for an issue.
func updateCode(code ekstypes.CapabilityIssueCode) ekstypes.ErrorCode {
	switch code {
	case ekstypes.CapabilityIssueCodeAccessDenied:
		return ekstypes.ErrorCodeAccessDenied
	case ekstypes.CapabilityIssueCodeClusterUnreachable:
		return ekstypes.ErrorCodeClusterUnreachable
	}
	return ekstypes.ErrorCodeUnknown
}

// whileWanted returns a context that ends with ctx, or when the capability is deleted: a build is not waited for then.
func (p *pass) whileWanted(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching conc.WaitGroup
	watching.Go(func() {
		p.c.capabilities.Notify(ctx, p.row.Key(), func(string) {
			row, err := p.c.capabilities.Get(ctx, p.row.Key())
			if errors.Is(err, store.ErrNotFound) || err == nil && (row.Value.Deleting || row.Value.ID != p.row.ID) {
				cancel(errUnwanted)
			}
		})
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}
