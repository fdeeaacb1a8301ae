package iam

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// AccessKey is a key with its secret.
type AccessKey struct{ Account, ID, Secret string }

// Bootstrap ensures that an account exists and that its root user has an active access key, and returns that key. A
// daemon creates its account with it at the first start, and further accounts later. id has twelve digits.
func Bootstrap(ctx context.Context, s *store.Store, id string) (AccessKey, error) {
	if !isAccountID(id) {
		return AccessKey{}, fmt.Errorf("the account %q is not twelve digits", id)
	}
	accounts, keys := record.Accounts(s), record.AccessKeys(s)
	for {
		row, err := accounts.Copy(ctx, record.AccountKey(id))
		missing := errors.Is(err, store.ErrNotFound)
		if err != nil && !missing {
			return AccessKey{}, err
		}
		for _, keyID := range row.Value.RootAccessKeyIDs {
			key, err := keys.Get(ctx, record.AccessKeyKey(keyID))
			if err != nil {
				return AccessKey{}, fmt.Errorf("root access key of account %s: %w", id, err)
			}
			if !key.Value.Inactive {
				return AccessKey{id, key.Value.ID, key.Value.Secret}, nil
			}
		}
		key := record.AccessKey{Account: id, UserID: id, CreatedAt: time.Now().UTC()}
		key.ID, key.Secret = identity.NewAccessKey(identity.LongTermKey, id)
		row.Value.RootAccessKeyIDs = append(row.Value.RootAccessKeyIDs, key.ID)
		write := accounts.UpdateOp(row)
		if missing {
			write = accounts.CreateOp(record.AccountKey(id), record.Account{ID: id, CreatedAt: key.CreatedAt,
				RootAccessKeyIDs: row.Value.RootAccessKeyIDs})
		}
		err = s.Txn(ctx, write, keys.CreateOp(record.AccessKeyKey(key.ID), key))
		if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrConflict) {
			continue // another daemon was faster
		}
		if err != nil {
			return AccessKey{}, fmt.Errorf("make account %s: %w", id, err)
		}
		return AccessKey{id, key.ID, key.Secret}, nil
	}
}

func isAccountID(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// Accounts lists the ids of all accounts.
func Accounts(ctx context.Context, s *store.Store) ([]string, error) {
	rows, err := record.Accounts(s).List(ctx, "")
	return mapSlice(rows, func(r store.Row[record.Account]) string { return r.Value.ID }), err
}

// accountHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) accountHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAccountAlias, wire.OnAll),
		wire.Handle(s.DeleteAccountAlias, wire.OnAll),
		wire.Handle(s.ListAccountAliases, wire.OnAll),
		wire.Handle(s.GetAccountSummary, wire.OnAll),
		wire.Handle(s.GetAccountAuthorizationDetails, wire.OnAll),
	}
}

// aliasPattern is AWS's, without the length, which is checked already, and the assertion that Go does not know.
var aliasPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CreateAccountAlias names the account; it replaces the name that it had.
func (s *Service) CreateAccountAlias(ctx context.Context, in *iam.CreateAccountAliasInput) (
	*iam.CreateAccountAliasOutput, error) {
	switch {
	case !aliasPattern.MatchString(*in.AccountAlias):
		return nil, validation("1 validation error detected: Value at 'accountAlias' failed to satisfy constraint: " +
			"Member must satisfy regular expression pattern: ^[a-z0-9]([a-z0-9]|-(?!-)){1,61}[a-z0-9]$")
	case isAccountID(*in.AccountAlias): // the store would charge it to that account
		return nil, invalidInput("The account alias %s is an AWS account ID. Choose one that isn't 12 digits.",
			*in.AccountAlias)
	}
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.accounts.Get(ctx, record.AccountKey(account(ctx)))
		if err != nil || row.Value.Alias == *in.AccountAlias {
			return nil, err
		}
		if _, err := s.aliases.Get(ctx, store.Key(*in.AccountAlias)); !errors.Is(err, store.ErrNotFound) {
			return nil, orExists(err, "The account alias %s already exists.", *in.AccountAlias)
		}
		ops := []store.Op{s.aliases.CreateOp(store.Key(*in.AccountAlias), record.AccountAlias{Account: row.Value.ID})}
		if row.Value.Alias != "" {
			ops = append(ops, s.aliases.RemoveOp(store.Key(row.Value.Alias)))
		}
		row.Value.Alias = *in.AccountAlias
		return append(ops, s.accounts.UpdateOp(row)), nil
	})
	return &iam.CreateAccountAliasOutput{}, err
}

// DeleteAccountAlias takes the account's name away.
func (s *Service) DeleteAccountAlias(ctx context.Context, in *iam.DeleteAccountAliasInput) (
	*iam.DeleteAccountAliasOutput, error) {
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.accounts.Get(ctx, record.AccountKey(account(ctx)))
		if err != nil {
			return nil, err
		}
		if row.Value.Alias != *in.AccountAlias {
			return nil, noSuchEntity("The account alias %s cannot be found.", *in.AccountAlias)
		}
		row.Value.Alias = ""
		return []store.Op{s.accounts.UpdateOp(row), s.aliases.RemoveOp(store.Key(*in.AccountAlias))}, nil
	})
	return &iam.DeleteAccountAliasOutput{}, err
}

// ListAccountAliases lists the account's name, if it has one.
func (s *Service) ListAccountAliases(ctx context.Context, _ *iam.ListAccountAliasesInput) (
	*iam.ListAccountAliasesOutput, error) {
	row, err := s.accounts.Get(ctx, record.AccountKey(account(ctx)))
	out := &iam.ListAccountAliasesOutput{AccountAliases: []string{}}
	if row.Value.Alias != "" {
		out.AccountAliases = append(out.AccountAliases, row.Value.Alias)
	}
	return out, err
}

// GetAccountSummary counts what the account has, beside its quotas.
func (s *Service) GetAccountSummary(ctx context.Context, _ *iam.GetAccountSummaryInput) (
	*iam.GetAccountSummaryOutput, error) {
	row, err := s.accounts.Get(ctx, record.AccountKey(account(ctx)))
	if err != nil {
		return nil, err
	}
	prefix := store.Prefix(account(ctx))
	users, err1 := s.users.countEntities(ctx)
	groups, err2 := s.groups.countEntities(ctx)
	roles, err3 := s.roles.countEntities(ctx)
	policies, err4 := s.policies.List(ctx, prefix)
	profiles, err5 := s.profiles.List(ctx, prefix)
	providers, err6 := s.providers.List(ctx, prefix)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	versions := 0
	for _, p := range policies {
		versions += len(p.Value.Versions)
	}
	summary := map[types.SummaryKeyType]int{
		types.SummaryKeyTypeUsers: users, types.SummaryKeyTypeUsersQuota: maxUsers,
		types.SummaryKeyTypeGroups: groups, types.SummaryKeyTypeGroupsQuota: maxGroups,
		types.SummaryKeyTypeRoles: roles, types.SummaryKeyTypeRolesQuota: maxRoles,
		types.SummaryKeyTypePolicies: len(policies), types.SummaryKeyTypePoliciesQuota: maxPolicies,
		types.SummaryKeyTypePolicyVersionsInUse: versions, types.SummaryKeyTypePolicyVersionsInUseQuota: 10000,
		types.SummaryKeyTypeInstanceProfiles: len(profiles), types.SummaryKeyTypeInstanceProfilesQuota: maxProfiles,
		types.SummaryKeyTypeProviders: len(providers), types.SummaryKeyTypeServerCertificates: 0,
		types.SummaryKeyTypeServerCertificatesQuota: 20,
		types.SummaryKeyTypeUserPolicySizeQuota:     maxUserInline,
		types.SummaryKeyTypeGroupPolicySizeQuota:    maxGroupInline,
		types.SummaryKeyTypeRolePolicySizeQuota:     maxRoleInline, types.SummaryKeyTypePolicySizeQuota: maxManaged,
		types.SummaryKeyTypeAssumeRolePolicySizeQuota:         maxTrust,
		types.SummaryKeyTypeVersionsPerPolicyQuota:            maxVersions,
		types.SummaryKeyTypeGroupsPerUserQuota:                maxGroupsPerUser,
		types.SummaryKeyTypeAccessKeysPerUserQuota:            maxAccessKeys,
		types.SummaryKeyTypeSigningCertificatesPerUserQuota:   2,
		types.SummaryKeyTypeAttachedPoliciesPerUserQuota:      maxAttached,
		types.SummaryKeyTypeAttachedPoliciesPerGroupQuota:     maxAttached,
		types.SummaryKeyTypeAttachedPoliciesPerRoleQuota:      maxAttached,
		types.SummaryKeyTypeAccountAccessKeysPresent:          min(len(row.Value.RootAccessKeyIDs), 1),
		types.SummaryKeyTypeAccountMFAEnabled:                 0,
		types.SummaryKeyTypeAccountPasswordPresent:            0,
		types.SummaryKeyTypeAccountSigningCertificatesPresent: 0,
		types.SummaryKeyTypeMFADevices:                        0, types.SummaryKeyTypeMFADevicesInUse: 0,
		types.SummaryKeyTypeGlobalEndpointTokenVersion: 2,
	}
	out := &iam.GetAccountSummaryOutput{SummaryMap: map[string]int32{}}
	for key, n := range summary {
		out.SummaryMap[string(key)] = int32(n)
	}
	return out, nil
}

// GetAccountAuthorizationDetails lists users, groups, roles and managed policies with all that hangs on them.
func (s *Service) GetAccountAuthorizationDetails(ctx context.Context, in *iam.GetAccountAuthorizationDetailsInput) (
	*iam.GetAccountAuthorizationDetailsOutput, error) {
	wanted := func(t types.EntityType) bool { return len(in.Filter) == 0 || slices.Contains(in.Filter, t) }
	// One list for all kinds, so that one marker pages through them.
	type detail struct {
		key string
		add func(*iam.GetAccountAuthorizationDetailsOutput) error
	}
	var all []detail
	users, err1 := s.users.listAll(ctx)
	groups, err2 := s.groups.listAll(ctx)
	roles, err3 := s.roles.listAll(ctx)
	policies, err4 := s.policies.List(ctx, store.Prefix(account(ctx)))
	u, err5 := s.countUsage(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	type out = iam.GetAccountAuthorizationDetailsOutput
	if wanted(types.EntityTypeUser) {
		for _, v := range users {
			all = append(all, detail{"1" + s.users.sortKey(v),
				func(o *out) error { o.UserDetailList = append(o.UserDetailList, userDetail(v)); return nil }})
		}
	}
	if wanted(types.EntityTypeGroup) {
		for _, v := range groups {
			all = append(all, detail{"2" + s.groups.sortKey(v),
				func(o *out) error { o.GroupDetailList = append(o.GroupDetailList, groupDetail(v)); return nil }})
		}
	}
	if wanted(types.EntityTypeRole) {
		for _, v := range roles {
			all = append(all, detail{"3" + s.roles.sortKey(v), func(o *out) error {
				d, err := s.roleDetail(ctx, v)
				o.RoleDetailList = append(o.RoleDetailList, d)
				return err
			}})
		}
	}
	if wanted(types.EntityTypeLocalManagedPolicy) {
		for _, row := range policies {
			all = append(all, detail{"4" + row.Key, func(o *out) error {
				o.Policies = append(o.Policies, policyDetail(u.policyType(row.Value),
					mapSlice(row.Value.Versions,
						func(v record.PolicyVersion) types.PolicyVersion { return versionType(row.Value, v) })))
				return nil
			}})
		}
	}
	if wanted(types.EntityTypeAWSManagedPolicy) {
		for _, p := range managed.All() {
			if u.attached[p.ARN]+u.boundaries[p.ARN] == 0 {
				continue // as on AWS: those in use
			}
			all = append(all, detail{"5" + p.ARN, func(o *out) error {
				versions, err := s.versions(ctx, p.ARN)
				o.Policies = append(o.Policies, policyDetail(u.managedType(p), versions))
				return err
			}})
		}
	}
	slices.SortFunc(all, func(a, b detail) int { return strings.Compare(a.key, b.key) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, func(d detail) string { return d.key })
	if err != nil {
		return nil, err
	}
	// All four lists are in every answer: clients that merge pages look for each.
	o := &iam.GetAccountAuthorizationDetailsOutput{Marker: marker, IsTruncated: truncated,
		UserDetailList: []types.UserDetail{}, GroupDetailList: []types.GroupDetail{},
		RoleDetailList: []types.RoleDetail{}, Policies: []types.ManagedPolicyDetail{}}
	for _, d := range some {
		if err := d.add(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func userDetail(u record.User) types.UserDetail {
	return types.UserDetail{
		Arn: aws.String(u.ARN()), AttachedManagedPolicies: attached(u.Grants), CreateDate: aws.Time(u.CreatedAt),
		GroupList: u.Groups, Path: aws.String(u.Path),
		PermissionsBoundary: boundaryOf(u.Boundary), Tags: tagList(u.Tags), UserId: aws.String(u.ID),
		UserName: aws.String(u.Name), UserPolicyList: inlinePolicies(u.Grants),
	}
}

func groupDetail(g record.Group) types.GroupDetail {
	return types.GroupDetail{
		Arn: aws.String(g.ARN()), AttachedManagedPolicies: attached(g.Grants), CreateDate: aws.Time(g.CreatedAt),
		GroupId:   aws.String(g.ID),
		GroupName: aws.String(g.Name), GroupPolicyList: inlinePolicies(g.Grants), Path: aws.String(g.Path),
	}
}

func (s *Service) roleDetail(ctx context.Context, r record.Role) (types.RoleDetail, error) {
	d := types.RoleDetail{
		Arn: aws.String(r.ARN()), AssumeRolePolicyDocument: escapeDocument(r.Trust),
		AttachedManagedPolicies: attached(r.Grants), CreateDate: aws.Time(r.CreatedAt),
		Path: aws.String(r.Path), PermissionsBoundary: boundaryOf(r.Boundary), RoleId: aws.String(r.ID),
		RoleName:       aws.String(r.Name),
		RolePolicyList: inlinePolicies(r.Grants), Tags: tagList(r.Tags),
	}
	used, err := s.roleLastUsed(ctx, r)
	if err != nil {
		return d, err
	}
	d.RoleLastUsed = used
	profiles, err := s.profilesOf(ctx, r.Name)
	if err != nil {
		return d, err
	}
	d.InstanceProfileList, err = s.listedProfiles(ctx, profiles)
	return d, err
}

func policyDetail(p types.Policy, versions []types.PolicyVersion) types.ManagedPolicyDetail {
	return types.ManagedPolicyDetail{
		Arn: p.Arn, AttachmentCount: p.AttachmentCount, CreateDate: p.CreateDate, DefaultVersionId: p.DefaultVersionId,
		Description:  p.Description,
		IsAttachable: p.IsAttachable, Path: p.Path, PermissionsBoundaryUsageCount: p.PermissionsBoundaryUsageCount,
		PolicyId:   p.PolicyId,
		PolicyName: p.PolicyName, PolicyVersionList: versions, UpdateDate: p.UpdateDate,
	}
}
