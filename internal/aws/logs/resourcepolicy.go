package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Resource policies let AWS services create log streams and put log events, and nobody else do anything: AWS does not
// apply them to users, roles and other accounts. admission.go evaluates them for deliveries.

const (
	maxPolicies   = 10 // of an account in a region, beside those that are attached to log groups
	maxPolicyName = 255
)

// resourcePolicyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) resourcePolicyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutResourcePolicy, func(
			ctx context.Context, action string, in *cloudwatchlogs.PutResourcePolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicies(ctx, action, in.ResourceArn)
		}),
		wire.Handle(s.DescribeResourcePolicies, func(
			ctx context.Context, action string, in *cloudwatchlogs.DescribeResourcePoliciesInput,
		) ([]wire.Target, error) {
			return s.onPolicies(ctx, action, in.ResourceArn)
		}),
		wire.Handle(s.DeleteResourcePolicy, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteResourcePolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicies(ctx, action, in.ResourceArn)
		}),
	}
}

// onPolicies returns the log group that a policy is attached to as the target; all log groups for policies of the
// account.
func (s *Service) onPolicies(ctx context.Context, action string, group *string) ([]wire.Target, error) {
	if group == nil {
		return onAnyGroup(ctx, action)
	}
	return s.onGroup(ctx, action, nil, group)
}

// policyGroup returns the name of the log group that the resourceArn of a request means.
func (sc scope) policyGroup(arn string) (string, error) {
	parsed, ok := parseARN(arn)
	if !ok || parsed.account != sc.account || parsed.region != sc.region {
		return "", invalidParameter("The resourceArn %s is not the ARN of a log group of this account and Region: write "+
			"%sNAME, without :* at its end", arn, sc.groupARN(""))
	}
	return parsed.group, nil
}

// PutResourcePolicy creates a resource policy of the account or of a log group, or replaces its document.
func (s *Service) PutResourcePolicy(ctx context.Context, in *cloudwatchlogs.PutResourcePolicyInput) (
	*cloudwatchlogs.PutResourcePolicyOutput, error) {
	at := scopeOf(ctx)
	want := record.LogResourcePolicy{Account: at.account, Region: at.region, Name: aws.ToString(in.PolicyName),
		Document: aws.ToString(in.PolicyDocument), UpdatedAt: s.timestamp()}
	if err := checkPolicy(in, want); err != nil {
		return nil, err
	}
	if in.ResourceArn != nil {
		group, err := at.policyGroup(*in.ResourceArn)
		if err != nil {
			return nil, err
		}
		want.Group, want.Revision = group, newRevision()
	}
	defer s.lockAccount(at)() // from counting to creation
	for {
		ops, err := s.putPolicyOps(ctx, want, in.ExpectedRevisionId)
		if err != nil {
			return nil, err
		}
		err = s.store.Txn(ctx, ops...)
		if isOutdated(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out := &cloudwatchlogs.PutResourcePolicyOutput{ResourcePolicy: describePolicy(want)}
		out.RevisionId = out.ResourcePolicy.RevisionId
		return out, nil
	}
}

// newRevision returns the revision of a policy that is changed.
func newRevision() string { return fmt.Sprintf("%016x", randomID()) }

// isOutdated reports whether a transaction failed because a row is not as it was read.
func isOutdated(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound)
}

// checkPolicy refuses a policy that cannot be.
func checkPolicy(in *cloudwatchlogs.PutResourcePolicyInput, want record.LogResourcePolicy) error {
	switch {
	case want.Name == "" && in.ResourceArn == nil:
		return invalidParameter("policyName is required: give the policy a name, or attach it to a log group with " +
			"resourceArn")
	case len(want.Name) > maxPolicyName:
		return invalidValue("policyName", want.Name,
			fmt.Sprintf("Member must have length less than or equal to %d", maxPolicyName))
	case in.PolicyDocument == nil:
		return invalidParameter("policyDocument is required: give a policy in JSON")
	case in.ExpectedRevisionId != nil && in.ResourceArn == nil:
		return invalidParameter("expectedRevisionId is for policies of log groups: leave it out, or give the log group " +
			"with resourceArn")
	}
	if _, err := policy.Parse(policy.Resource, want.Document); err != nil {
		return invalidParameter("The specified policyDocument is not a resource policy: %v", err)
	}
	return nil
}

// putPolicyOps returns the operations that write a policy over the one with the expected revision, or create it.
func (s *Service) putPolicyOps(ctx context.Context, want record.LogResourcePolicy, expected *string) (
	[]store.Op, error) {
	row, err := s.policies.Copy(ctx, want.Key())
	missing := errors.Is(err, store.ErrNotFound)
	switch {
	case err != nil && !missing:
		return nil, err
	case want.Group != "":
		group, err := s.getGroup(ctx, want.Group)
		if err != nil {
			return nil, err
		}
		if missing && expected != nil {
			return nil, notFound("The log group %s has no resource policy: leave out expectedRevisionId to create one.",
				want.Group)
		}
		if !missing {
			if err := checkRevision(row.Value, expected); err != nil {
				return nil, err
			}
		}
		return s.groupPolicyOps(group, row, want, missing), nil
	case missing:
		if n := s.policies.Count(record.LogResourcePolicyPrefix(want.Account, want.Region, want.Scope())); n >= maxPolicies {
			return nil, limitExceeded("Resource limit exceeded: the account has %d resource policies in this Region, which "+
				"is the limit. Delete one, or attach the policy to a log group with resourceArn", n)
		}
		return []store.Op{s.policies.CreateOp(want.Key(), want)}, nil
	}
	row.Value = want
	return []store.Op{s.policies.UpdateOp(row)}, nil
}

// groupPolicyOps returns the operations that attach a policy to a log group. Writing both keeps the group from being
// deleted by who has seen no policy.
func (s *Service) groupPolicyOps(group store.Row[record.LogGroup], row store.Row[record.LogResourcePolicy],
	want record.LogResourcePolicy, missing bool) []store.Op {
	if missing {
		return []store.Op{s.groups.UpdateOp(group), s.policies.CreateOp(want.Key(), want)}
	}
	row.Value = want
	return []store.Op{s.groups.UpdateOp(group), s.policies.UpdateOp(row)}
}

// checkRevision refuses to change or delete the policy of a log group at another revision than the caller has read.
func checkRevision(p record.LogResourcePolicy, expected *string) error {
	switch {
	case expected == nil:
		return invalidParameter("expectedRevisionId is required, since the log group %s has a resource policy: give the "+
			"revisionId that DescribeResourcePolicies returns", p.Group)
	case *expected != p.Revision:
		return &types.OperationAbortedException{Message: new(fmt.Sprintf("The resource policy of the log group %s has "+
			"changed since revision %s: read it again with DescribeResourcePolicies.", p.Group, *expected))}
	}
	return nil
}

func describePolicy(p record.LogResourcePolicy) *types.ResourcePolicy {
	out := &types.ResourcePolicy{PolicyDocument: &p.Document, PolicyScope: p.Scope(),
		LastUpdatedTime: unixMillis(p.UpdatedAt)}
	if p.Name != "" {
		out.PolicyName = &p.Name
	}
	if p.Group != "" {
		out.ResourceArn = new(scope{account: p.Account, region: p.Region}.groupARN(p.Group))
		out.RevisionId = &p.Revision
	}
	return out
}

// DescribeResourcePolicies lists the resource policies of the account, by name, or those of its log groups.
func (s *Service) DescribeResourcePolicies(ctx context.Context, in *cloudwatchlogs.DescribeResourcePoliciesInput) (
	*cloudwatchlogs.DescribeResourcePoliciesOutput, error) {
	at, wanted := scopeOf(ctx), cmp.Or(in.PolicyScope, types.PolicyScopeAccount)
	out := &cloudwatchlogs.DescribeResourcePoliciesOutput{ResourcePolicies: []types.ResourcePolicy{}}
	if in.ResourceArn != nil {
		if wanted != types.PolicyScopeResource {
			return nil, invalidParameter("resourceArn is for policies of log groups: set policyScope to RESOURCE")
		}
		group, err := at.policyGroup(*in.ResourceArn)
		if err != nil {
			return nil, err
		}
		row, err := s.policies.Get(ctx, record.LogResourcePolicyKey(at.account, at.region, wanted, group))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return out, nil
		case err != nil:
			return nil, err
		}
		out.ResourcePolicies = append(out.ResourcePolicies, *describePolicy(row.Value))
		return out, nil
	}
	name := func(p record.LogResourcePolicy) string { return cmp.Or(p.Group, p.Name) }
	all, err := listByName(ctx, s.policies, record.LogResourcePolicyPrefix(at.account, at.region, wanted), "", name)
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, all, in.Limit, in.NextToken, name)
	if err != nil {
		return nil, err
	}
	for _, p := range page {
		out.ResourcePolicies = append(out.ResourcePolicies, *describePolicy(p))
	}
	out.NextToken = next
	return out, nil
}

// DeleteResourcePolicy deletes a resource policy. What it alone let in is delivered no more.
func (s *Service) DeleteResourcePolicy(ctx context.Context, in *cloudwatchlogs.DeleteResourcePolicyInput) (
	*cloudwatchlogs.DeleteResourcePolicyOutput, error) {
	at, name := scopeOf(ctx), aws.ToString(in.PolicyName)
	key := record.LogResourcePolicyKey(at.account, at.region, types.PolicyScopeAccount, name)
	missing := notFound("Policy with name [%s] does not exist.", name)
	switch {
	case in.ResourceArn != nil:
		group, err := at.policyGroup(*in.ResourceArn)
		if err != nil {
			return nil, err
		}
		key = record.LogResourcePolicyKey(at.account, at.region, types.PolicyScopeResource, group)
		missing = notFound("The log group %s has no such resource policy.", group)
	case name == "":
		return nil, invalidParameter("policyName is required: give the name of a policy, or the log group that it is " +
			"attached to with resourceArn")
	case in.ExpectedRevisionId != nil:
		return nil, invalidParameter("expectedRevisionId is for policies of log groups: leave it out, or give the log " +
			"group with resourceArn")
	}
	for {
		row, err := s.policies.Get(ctx, key)
		if err == nil && in.ResourceArn != nil {
			if in.PolicyName != nil && name != row.Value.Name {
				return nil, missing
			}
			if err := checkRevision(row.Value, in.ExpectedRevisionId); err != nil {
				return nil, err
			}
		}
		if err == nil {
			err = s.policies.Delete(ctx, row)
		}
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case errors.Is(err, store.ErrNotFound):
			return nil, missing
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.DeleteResourcePolicyOutput{}, nil
	}
}
