package fargate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Ways in which a role was authorized, of FargateProfileState.Mapped, and the type of the access entry.
const (
	viaConfigMap   = "aws-auth"
	viaAccessEntry = "access-entry"
	entryType      = "FARGATE_LINUX"
)

// usesConfigMap and usesAccessEntries report how a cluster authorizes roles.
func usesConfigMap(c record.Cluster) bool {
	return c.AuthenticationMode != ekstypes.AuthenticationModeApi
}

func usesAccessEntries(c record.Cluster) bool {
	return c.AuthenticationMode == ekstypes.AuthenticationModeApi ||
		c.AuthenticationMode == ekstypes.AuthenticationModeApiAndConfigMap
}

// roleName returns the name of the pod execution role of a profile.
func roleName(p record.FargateProfile) string {
	return p.PodExecutionRoleARN[strings.LastIndexByte(p.PodExecutionRoleARN, '/')+1:]
}

// mappedRole returns the role as aws-auth knows it. The authenticator compares the account of the ARN, too.
func mappedRole(p record.FargateProfile) string { return awsauth.Role(p.Account, roleName(p)) }

// checkRole fails when the role is gone before the profile is made. Afterwards roleIssue reports that.
func (p *profilePass) checkRole(ctx context.Context) error {
	if p.state.Created {
		return nil
	}
	_, err := record.Roles(p.c.o.Store).Get(ctx, record.RoleKey(p.row.Account, roleName(p.row)))
	if err != nil && store.IgnoreNotFound(err) == nil {
		return newProblem(ekstypes.FargateProfileIssueCodeAccessDenied, true,
			"The pod execution role "+p.row.PodExecutionRoleARN+" does not exist.", p.row.PodExecutionRoleARN)
	}
	return err
}

// grantAccess authorizes the pod execution role, in each way that the cluster's authentication mode has. It does so
// once; an administrator's later removal is respected.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (p *profilePass) grantAccess(ctx context.Context) error {
	if usesAccessEntries(p.cluster) && !slices.Contains(p.state.Mapped, viaAccessEntry) {
		if err := p.ensureEntry(ctx); err != nil {
			return err
		}
	}
	if !usesConfigMap(p.cluster) || p.server == nil || slices.Contains(p.state.Mapped, viaConfigMap) {
		return nil
	}
	role := mappedRole(p.row)
	inUse := false
	err := p.server.auth.Edit(ctx, managerAgent, func(text string) (string, error) {
		if inUse = awsauth.Nodes.Maps(text, role); inUse {
			return text, nil
		}
		return awsauth.FargatePods.Add(text, role)
	})
	if inUse {
		return p.roleInUse("It is mapped as the role of nodes in the aws-auth ConfigMap.")
	}
	if awsauth.IsMalformed(err) {
		return newProblem(ekstypes.FargateProfileIssueCodeAccessDenied, true, err.Error(),
			awsauth.Namespace+"/"+awsauth.Name)
	}
	if err != nil {
		return err
	}
	crashMapped.Here()
	p.recordAccess(viaConfigMap)
	return p.saveState(ctx)
}

func (p *profilePass) roleInUse(reason string) error {
	return newProblem(ekstypes.FargateProfileIssueCodePodExecutionRoleAlreadyInUse, true,
		"The pod execution role "+p.row.PodExecutionRoleARN+" is already in use. "+reason, p.row.PodExecutionRoleARN)
}

// recordAccess records how the role was granted access.
func (p *profilePass) recordAccess(how string) {
	if !slices.Contains(p.state.Mapped, how) {
		p.state.Mapped = append(p.state.Mapped, how)
		slices.Sort(p.state.Mapped)
	}
}

// entryToken makes the creation of the entry the same request whenever it is repeated.
func (p *profilePass) entryToken() string { return "fargate-" + p.row.ID }

// ensureEntry authorizes the role by an access entry. Profiles share that of their role.
func (p *profilePass) ensureEntry(ctx context.Context) error {
	entry, err := p.c.entries.Get(ctx, record.AccessEntryKey(p.row.Account, p.row.Region, p.row.Cluster,
		p.row.PodExecutionRoleARN))
	if store.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && entry.Value.ClusterID == p.cluster.ID {
		if entry.Value.Type != entryType {
			return p.roleInUse("It has an access entry of type " + entry.Value.Type + ".")
		}
		ours, err := p.ownsEntry(ctx, entry.Value)
		if err == nil && ours {
			p.recordAccess(viaAccessEntry)
			p.state.EntryID = entry.Value.ID
			err = p.saveState(ctx)
		}
		return err
	}
	out, err := p.c.o.EKS(p.row.Account, p.row.Region).CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
		ClusterName: &p.row.Cluster, PrincipalArn: &p.row.PodExecutionRoleARN, Type: aws.String(entryType),
		ClientRequestToken: aws.String(p.entryToken()),
	})
	if err != nil {
		return fmt.Errorf("create an access entry for %s: %w", p.row.PodExecutionRoleARN, err)
	}
	crashEntry.Here()
	p.recordAccess(viaAccessEntry)
	p.state.EntryID = entryID(out.AccessEntry)
	return p.saveState(ctx)
}

// entryID returns the ID of an access entry, the last part of its ARN.
func entryID(e *ekstypes.AccessEntry) string {
	if e == nil {
		return ""
	}
	arn := aws.ToString(e.AccessEntryArn)
	return arn[strings.LastIndexByte(arn, '/')+1:]
}

// isEntryOurs reports whether the role's access entry still is the one that EKS made.
func (p *profilePass) isEntryOurs(ctx context.Context) (bool, error) {
	if !slices.Contains(p.state.Mapped, viaAccessEntry) {
		return false, nil
	}
	entry, err := p.c.entries.Get(ctx, record.AccessEntryKey(p.row.Account, p.row.Region, p.row.Cluster,
		p.row.PodExecutionRoleARN))
	if err != nil {
		return false, store.IgnoreNotFound(err)
	}
	e := entry.Value
	return e.ClusterID == p.row.ClusterID && e.Type == entryType && e.ID == p.state.EntryID, nil
}

// ownsEntry reports whether EKS made an access entry, for this profile or another one with the role: EKS takes away
// what it made.
func (p *profilePass) ownsEntry(ctx context.Context, entry record.AccessEntry) (bool, error) {
	if entry.ClientRequestToken == p.entryToken() {
		return true, nil
	}
	for _, key := range p.c.profilesOf(p.row.Key()) {
		other, err := p.c.profiles.Get(ctx, key)
		if store.IgnoreNotFound(err) != nil {
			return false, err
		}
		state, unknown := p.c.states.Get(ctx, key)
		if err == nil && unknown == nil && other.Value.ID != p.row.ID && state.Value.ProfileID == other.Value.ID &&
			other.Value.PodExecutionRoleARN == p.row.PodExecutionRoleARN &&
			slices.Contains(state.Value.Mapped, viaAccessEntry) && state.Value.EntryID == entry.ID {
			return true, nil
		}
	}
	return false, nil
}

// isRoleAuthorized reports whether the nodes of a profile can join the cluster now.
func (c *Controller) isRoleAuthorized(ctx context.Context, s *server, cluster record.Cluster,
	p record.FargateProfile) (bool, error) {
	if usesAccessEntries(cluster) {
		entry, err := c.entries.Get(ctx, record.AccessEntryKey(p.Account, p.Region, p.Cluster, p.PodExecutionRoleARN))
		if store.IgnoreNotFound(err) != nil {
			return false, err
		}
		if err == nil && entry.Value.ClusterID == cluster.ID {
			return entry.Value.Type == entryType, nil // an entry takes precedence over aws-auth
		}
	}
	if !usesConfigMap(cluster) {
		return false, nil
	}
	return s.auth.Maps(ctx, mappedRole(p))
}

// roleProblem returns why the nodes of a profile cannot join the cluster now, in EKS's words; empty when they can.
func (c *Controller) roleProblem(ctx context.Context, s *server, cluster record.Cluster,
	p record.FargateProfile) (string, error) {
	trusts, err := c.o.Trusts(ctx, p)
	if err != nil {
		return "", err
	}
	if !trusts {
		return roleNotTrusting, nil
	}
	authorized, err := c.isRoleAuthorized(ctx, s, cluster, p)
	if err != nil || authorized {
		return "", err
	}
	return roleUnauthorized, nil
}

// roleIssue returns the problem of an ACTIVE profile whose pods cannot run with its role any more; nil when there is
// none. It may be put right.
func (p *profilePass) roleIssue(ctx context.Context) (issue, err error) {
	if !p.state.Created {
		return nil, nil // it has just been checked, and let in
	}
	reason, err := p.c.roleProblem(ctx, p.server, p.cluster, p.row)
	if err != nil || reason == "" {
		return nil, err
	}
	return newProblem(ekstypes.FargateProfileIssueCodeAccessDenied, false, reason, p.row.PodExecutionRoleARN), nil
}

// revokeAccess removes the access of the role, when this was the last of the cluster's profiles with it.
func (p *profilePass) revokeAccess(ctx context.Context) error {
	if p.clusterGone {
		return nil
	}
	for _, key := range p.c.profilesOf(p.row.Key()) {
		other, err := p.c.profiles.Get(ctx, key)
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && other.Value.ID != p.row.ID && !other.Value.Deleting &&
			other.Value.PodExecutionRoleARN == p.row.PodExecutionRoleARN {
			return nil
		}
	}
	ours, err := p.isEntryOurs(ctx)
	if err != nil {
		return err
	}
	if ours {
		_, err := p.c.o.EKS(p.row.Account, p.row.Region).DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{
			ClusterName: &p.row.Cluster, PrincipalArn: &p.row.PodExecutionRoleARN})
		if code := apierror.Code(err); err != nil && code != "ResourceNotFoundException" &&
			code != "InvalidRequestException" {
			// the mode may have changed
			return fmt.Errorf("delete the access entry of %s: %w", p.row.PodExecutionRoleARN, err)
		}
	}
	if !slices.Contains(p.state.Mapped, viaConfigMap) {
		return nil
	}
	role := mappedRole(p.row)
	err = errUnreachable
	switch {
	case p.server != nil:
		err = p.server.auth.Edit(ctx, managerAgent, func(text string) (string, error) {
			return awsauth.FargatePods.Remove(text, role)
		})
	case p.c.serverLost(p.cluster.Key()):
		return nil
	}
	last := awsauth.GiveUp(err, p.c.now(), &p.state.RefusedAt, &p.state.FailedAt,
		&p.state.TriedAt)
	switch {
	case err == nil || awsauth.IsMalformed(err):
		return nil // it has no role any more, or none that can be removed
	case last:
		p.c.log.Warn("the role of a deleted Fargate profile stays in aws-auth, which the cluster does not let EKS change",
			"cluster", p.row.Cluster, "profile", p.row.Name, "error", err)
		return nil
	case !client.IsAnswer(err):
		return fmt.Errorf("remove role %s from aws-auth: %w", role, err)
	}
	return errRefused
}

// errRefused reports that something waits for the cluster's API server to do it, which answers. It is no issue of the
// profile: clients take one for the end of the deletion.
var errRefused = errors.New("the cluster's API server refuses")
