package authenticator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// nodeUser precedes the name of a node in that of its user.
const nodeUser = "system:node:"

// isFargateNode reports whether a user name is that of a node of Fargate.
func isFargateNode(username string) bool {
	return strings.HasPrefix(username, nodeUser+fargatenode.NamePrefix)
}

// checkFargateNode returns why a session is not that of the machine of a Fargate pod of the cluster: whoever may assume
// a pod execution role names its session, and one role may serve many clusters. The machine's record is written in the
// transaction that makes the machine, before it can boot, so that no kubelet comes too early; the pod's row is written
// before that, and says when the machine is given up.
func (a *Authenticator) checkFargateNode(ctx context.Context, c record.Cluster, username string, id Identity) error {
	node := strings.TrimPrefix(username, nodeUser)
	if node != id.SessionName || id.kind != assumedRole {
		return fmt.Errorf("session %q is not that of the machine of node %q", id.SessionName, node)
	}
	rows, err := a.fargateNodes.List(ctx, record.FargateKey(c.ID, node))
	if err != nil {
		return fmt.Errorf("find the machine of Fargate node %s: %w", node, err)
	}
	for _, row := range rows {
		alive, err := a.isFargateMachine(ctx, c, row)
		if err != nil {
			return fmt.Errorf("find the pod of Fargate node %s: %w", node, err)
		}
		if alive && withoutPath(row.Value.Fargate.RoleARN) == id.CanonicalARN {
			return nil
		}
	}
	return fmt.Errorf("no Fargate pod of the cluster runs on %q with role %s", node, id.CanonicalARN)
}

// isFargateMachine reports whether an instance runs, or is about to, for a Fargate pod of the cluster that needs it.
func (a *Authenticator) isFargateMachine(ctx context.Context, c record.Cluster,
	row store.Row[record.Instance]) (bool, error) {
	i := row.Value
	machine, err := a.machines.Get(ctx, row.Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	if record.InstanceState(i, machine.Value) == ec2types.InstanceStateNameTerminated {
		return false, nil
	}
	pods, err := a.fargatePods.List(ctx, record.FargateKey(c.ID, i.Fargate.Capacity))
	if err != nil {
		return false, err
	}
	for _, pod := range pods {
		p := pod.Value
		// The row may not say yet which machine was launched for it.
		if !p.Ending && !p.Retired && (p.InstanceID == "" || p.InstanceID == i.ID) {
			return true, nil
		}
	}
	return false, nil
}
