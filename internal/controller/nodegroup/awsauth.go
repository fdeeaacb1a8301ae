package nodegroup

import (
	"context"
	"errors"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/store"
)

// Ways in which a role was let in, of NodegroupState.Mapped.
const (
	throughMap   = "aws-auth"
	throughEntry = "access-entry"
)

// usesMap and usesEntries say how roles are let into the cluster.
func (g *group) usesMap() bool {
	return g.cluster.AuthenticationMode != ekstypes.AuthenticationModeApi
}

func (g *group) usesEntries() bool {
	return g.cluster.AuthenticationMode == ekstypes.AuthenticationModeApi ||
		g.cluster.AuthenticationMode == ekstypes.AuthenticationModeApiAndConfigMap
}

// grantAccess lets the node role into the cluster.
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
func (g *group) grantAccess(ctx context.Context) error {
	if g.usesEntries() {
		if err := g.ensureAccessEntry(ctx); err != nil {
			return err
		}
	}
	if !g.usesMap() || g.kube == nil {
		return nil
	}
	has, err := g.server.roles.Load().Has(awsauth.Role(g.row.Account, g.roleName()))
	if err != nil {
		return g.malformed(err)
	}
	if !has {
		err := g.editMapRoles(ctx, awsauth.Nodes.Add)
		if awsauth.IsMalformed(err) || client.IsRefusal(err) {
			return g.malformed(err)
		}
		if err != nil {
			return err
		}
		crashMapped.Here()
	}
	g.recordAccess(throughMap)
	return nil
}

// recordAccess records how the role was granted access.
func (g *group) recordAccess(how string) {
	if !slices.Contains(g.state.Mapped, how) {
		g.state.Mapped = append(g.state.Mapped, how)
		slices.Sort(g.state.Mapped)
	}
}

// malformed returns what is wrong with aws-auth, or who does not let it be changed; nothing in it is touched.
func (g *group) malformed(err error) error {
	return &problem{ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeAccessDenied, Message: ptr(err.Error()),
		ResourceIds: []string{awsauth.Namespace + "/" + awsauth.Name}}}
}

// editMapRoles changes mapRoles of aws-auth, and nothing else in it.
func (g *group) editMapRoles(ctx context.Context, edit func(text, role string) (string, error)) error {
	role := awsauth.Role(g.row.Account, g.roleName())
	return g.server.auth.Edit(ctx, agent, func(text string) (string, error) { return edit(text, role) })
}

// revokeAccess takes the role's mapping away, when this was the last of the cluster's node groups with it.
// https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
func (g *group) revokeAccess(ctx context.Context) error {
	// Of several that are deleted at once, the one that sees the others without nodes does it.
	g.state.AutoScalingGroup = ""
	if err := g.saveState(ctx); err != nil {
		return err
	}
	rows, err := g.c.groups.List(ctx, g.siblings())
	if err != nil {
		return err
	}
	for _, other := range rows {
		if other.Key == g.row.Key() || other.Value.NodeRoleARN != g.row.NodeRoleARN {
			continue
		}
		state, err := g.c.states.Get(ctx, other.Key)
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		if !other.Value.Deleting || state.Value.NodegroupID == other.Value.ID && state.Value.AutoScalingGroup != "" {
			return nil
		}
	}
	if slices.Contains(g.state.Mapped, throughEntry) {
		if err := g.removeAccessEntry(ctx); err != nil {
			return err
		}
	}
	if !slices.Contains(g.state.Mapped, throughMap) {
		return nil
	}
	err = errUnreachable
	if g.kube != nil {
		err = g.editMapRoles(ctx, awsauth.Nodes.Remove)
	}
	last := awsauth.GiveUp(err, g.c.now(), &g.state.RefusedAt, &g.state.FailedAt,
		&g.state.TriedAt)
	switch {
	case err == nil || awsauth.IsMalformed(err):
		return nil // there is nothing to take out
	case last:
		g.c.log.Warn("the role of a deleted node group stays in aws-auth, which the cluster does not let EKS change",
			"cluster", g.row.Cluster, "nodegroup", g.row.Name, "error", err)
		return nil
	case !client.IsAnswer(err):
		return err
	}
	return errRefused
}

// errRefused reports that something waits for the cluster's API server to do it, which answers. It is no issue of the
// group: clients take one for the end of the deletion.
var errRefused = errors.New("the cluster's API server refuses")

// errUnreachable reports that something waits for the cluster's API server.
var errUnreachable = client.ErrUnreached

// followAuth mirrors the roles of mapRoles until the API server goes away. It calls known once it has them, and changed
// whenever the text changes. A text is parsed once, whatever number of passes need its roles.
func (s *server) followAuth(ctx context.Context, known, changed func()) error {
	first := true
	return s.auth.Follow(ctx, func(data map[string]string) {
		text := data[awsauth.MapRoles]
		same := s.roles.Load().IsOf(text)
		if !same {
			s.roles.Store(awsauth.ParseRoles(text))
		}
		switch {
		case first:
			first = false
			known()
		case !same:
			changed()
		}
	})
}
