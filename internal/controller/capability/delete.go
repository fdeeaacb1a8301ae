package capability

import (
	"context"
	"errors"
	"fmt"
	"os"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// remove ends the program of a capability and removes its files, and its records last. What the capability made in the
// cluster stays: the delete propagation policy is RETAIN.
func (p *pass) remove(ctx context.Context) error {
	err := p.removeProgram(ctx)
	if err != nil {
		p.state.DeleteFailed = true
		p.state.Issues = []ekstypes.CapabilityIssue{issueOf(internalFailure, "The program cannot be ended: "+oneLine(err))}
		return errors.Join(fmt.Errorf("delete capability %s of cluster %s: %w", p.row.Name, p.row.Cluster, err),
			p.saveState(ctx))
	}
	row, err := p.c.capabilities.Get(ctx, p.row.Key())
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ID != p.row.ID {
		return nil
	}
	if err != nil {
		return err
	}
	err = p.c.o.Store.Txn(ctx, p.c.states.RemoveOp(p.row.Key()), p.c.capabilities.DeleteOp(row))
	if err != nil {
		return err
	}
	p.c.mu.Lock()
	delete(p.c.keyOf, p.row.ID)
	p.c.mu.Unlock()
	p.c.log.Info("capability is gone", "cluster", p.row.Cluster, "capability", p.row.Name)
	return nil
}

func (p *pass) removeProgram(ctx context.Context) error {
	if err := p.c.o.Host.Stop(ctx, p.processName()); err != nil {
		return err
	}
	return os.RemoveAll(p.path(""))
}
