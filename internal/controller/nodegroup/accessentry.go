package nodegroup

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// siblings returns the prefix of the keys of the cluster's node groups.
func (g *group) siblings() string { return store.Prefix(g.row.Account, g.row.Region, g.row.Cluster) }

// ensureAccessEntry lets the node role in by an access entry, unless it has one, of whatever type.
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
func (g *group) ensureAccessEntry(ctx context.Context) error {
	entry, err := record.AccessEntries(g.c.o.Store).Get(ctx, record.AccessEntryKey(g.row.Account, g.row.Region,
		g.row.Cluster, g.row.NodeRoleARN))
	if store.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && entry.Value.ClusterID == g.cluster.ID {
		// Whose it is: EKS takes away what it made, with the last group of the role.
		if slices.Contains(g.state.Mapped, throughEntry) {
			return nil
		}
		if entry.Value.ClientRequestToken == g.entryToken() {
			g.recordAccess(throughEntry)
			return nil
		}
		states, err := g.c.states.List(ctx, g.siblings())
		if err != nil {
			return err
		}
		for _, other := range states {
			if !slices.Contains(other.Value.Mapped, throughEntry) {
				continue
			}
			if row, err := g.c.groups.Get(ctx, other.Key); err == nil && row.Value.NodeRoleARN == g.row.NodeRoleARN {
				g.recordAccess(throughEntry)
			}
		}
		return nil
	}
	_, err = g.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
		ClusterName: &g.row.Cluster, PrincipalArn: &g.row.NodeRoleARN, Type: aws.String("EC2_LINUX"),
		ClientRequestToken: ptr(g.entryToken()),
	})
	if err != nil && apierror.Code(err) != "ResourceInUseException" {
		return fmt.Errorf("create an access entry for %s: %w", g.row.NodeRoleARN, err)
	}
	crashEntry.Here()
	if err == nil {
		g.recordAccess(throughEntry)
	}
	return nil
}

// entryToken makes the creation of the entry the same request whenever it is repeated.
func (g *group) entryToken() string { return "nodegroup-" + g.row.ID }

func (g *group) removeAccessEntry(ctx context.Context) error {
	_, err := g.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: &g.row.Cluster,
		PrincipalArn: &g.row.NodeRoleARN})
	if err != nil && apierror.Code(err) != "ResourceNotFoundException" && apierror.Code(err) != "InvalidRequestException" {
		// the mode may have changed
		return fmt.Errorf("delete the access entry of %s: %w", g.row.NodeRoleARN, err)
	}
	return nil
}
