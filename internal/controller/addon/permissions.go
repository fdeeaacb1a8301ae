package addon

import (
	"context"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// checkPermissions returns an issue for each role of an add-on that its pods cannot assume. The objects are applied all
// the same: running pods are not touched because a role is missing.
func (a *addon) checkPermissions(ctx context.Context, want record.AddonConfig) (issues []ekstypes.AddonIssue) {
	provider := strings.TrimPrefix(a.cluster.Issuer(), "https://")
	for _, arn := range a.e.rolesOf(ctx, a.row, want) {
		row, err := a.e.roles.Get(ctx, record.RoleKey(a.row.Account, roleName(arn)))
		role, text := row.Value, ""
		switch {
		case err != nil:
			text = "The IAM role " + arn + " does not exist. Create it again, or update the add-on to use another one."
		case arn == want.ServiceAccountRoleARN && !strings.Contains(role.Trust, provider):
			text = "The service account of the add-on cannot assume the IAM role " + arn +
				": its trust policy does not allow sts:AssumeRoleWithWebIdentity to the OIDC provider of the cluster, " + provider + "."
		case len(role.Attached)+len(role.Inline) == 0:
			text = "The IAM role " + arn + " has no permissions: attach a policy that allows what the add-on needs."
		default:
			continue
		}
		issues = append(issues, ekstypes.AddonIssue{Code: ekstypes.AddonIssueCodeAddonPermissionFailure, Message: &text,
			ResourceIds: []string{arn}})
	}
	return issues
}

// rolesOf returns the ARNs of the roles of an add-on's own account that its configuration names.
func (e *engine) rolesOf(ctx context.Context, row record.Addon, want record.AddonConfig) []string {
	var all []string
	own := "arn:aws:iam::" + row.Account + ":role/"
	if strings.HasPrefix(want.ServiceAccountRoleARN, own) {
		all = append(all, want.ServiceAccountRoleARN)
	}
	for _, id := range want.PodIdentityAssociations {
		association, err := e.identity.Get(ctx, record.PodIdentityAssociationKey(row.Account, row.Region, row.Cluster,
			id))
		if err == nil && strings.HasPrefix(association.Value.RoleARN, own) {
			all = append(all, association.Value.RoleARN)
		}
	}
	return all
}

// roleName returns the name at the end of a role's ARN.
func roleName(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }
