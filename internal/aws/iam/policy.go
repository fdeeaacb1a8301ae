package iam

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// usage counts the users, groups and roles of the account that each managed policy is attached to, or is a boundary of.
type usage struct{ attached, boundaries map[string]int }

func (s *Service) countUsage(ctx context.Context) (usage, error) {
	u := usage{map[string]int{}, map[string]int{}}
	count := func(g record.Grants, boundary string) {
		for _, arn := range g.Attached {
			u.attached[arn]++
		}
		if boundary != "" {
			u.boundaries[boundary]++
		}
	}
	users, err := s.users.listAll(ctx)
	if err != nil {
		return u, err
	}
	for _, v := range users {
		count(v.Grants, v.Boundary)
	}
	groups, err := s.groups.listAll(ctx)
	if err != nil {
		return u, err
	}
	for _, v := range groups {
		count(v.Grants, "")
	}
	roles, err := s.roles.listAll(ctx)
	if err != nil {
		return u, err
	}
	for _, v := range roles {
		count(v.Grants, v.Boundary)
	}
	return u, nil
}

func (u usage) policyType(p record.Policy) types.Policy {
	arn := p.ARN()
	return types.Policy{
		Arn: aws.String(arn), PolicyName: aws.String(p.Name), PolicyId: aws.String(p.ID), Path: aws.String(p.Path),
		DefaultVersionId:              aws.String(p.Default),
		AttachmentCount:               aws.Int32(int32(u.attached[arn])),
		PermissionsBoundaryUsageCount: aws.Int32(int32(u.boundaries[arn])), IsAttachable: true,
		CreateDate: aws.Time(p.CreatedAt), UpdateDate: aws.Time(p.UpdatedAt), Description: optional(p.Description),
		Tags: tagList(p.Tags),
	}
}

func (u usage) managedType(p *managed.Policy) types.Policy {
	return types.Policy{
		Arn: aws.String(p.ARN), PolicyName: aws.String(p.Name), PolicyId: aws.String(p.ID), Path: aws.String(p.Path),
		DefaultVersionId:              aws.String(p.VersionID),
		AttachmentCount:               aws.Int32(int32(u.attached[p.ARN])),
		PermissionsBoundaryUsageCount: aws.Int32(int32(u.boundaries[p.ARN])), IsAttachable: true,
		CreateDate: aws.Time(p.CreatedAt), UpdateDate: aws.Time(p.UpdatedAt), Description: aws.String(p.Description),
	}
}

// checkManaged reads the document of a customer managed policy.
func checkManaged(document string) error {
	if _, err := parsePolicy(policy.Identity, document); err != nil {
		return err
	}
	if policy.Size(document) > maxManaged {
		return limitExceeded("Cannot exceed quota for PolicySize: %d", maxManaged)
	}
	return nil
}

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) policyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreatePolicy, func(
			ctx context.Context, action string, in *iam.CreatePolicyInput,
		) ([]wire.Target, error) {
			return targetTagged(ctx, action, "iam:TagPolicy", newARN(ctx, "policy", in.Path, in.PolicyName), in.Tags)
		}),
		wire.Handle(s.GetPolicy, func(
			ctx context.Context, action string, in *iam.GetPolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.ListPolicies, targetAny[iam.ListPoliciesInput]("policy/")),
		wire.Handle(s.DeletePolicy, func(
			ctx context.Context, action string, in *iam.DeletePolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.CreatePolicyVersion, func(
			ctx context.Context, action string, in *iam.CreatePolicyVersionInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.GetPolicyVersion, func(
			ctx context.Context, action string, in *iam.GetPolicyVersionInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.ListPolicyVersions, func(
			ctx context.Context, action string, in *iam.ListPolicyVersionsInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.DeletePolicyVersion, func(
			ctx context.Context, action string, in *iam.DeletePolicyVersionInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.SetDefaultPolicyVersion, func(
			ctx context.Context, action string, in *iam.SetDefaultPolicyVersionInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.TagPolicy, func(
			ctx context.Context, action string, in *iam.TagPolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn, func(c conditions) { c.requestTags(in.Tags) })
		}),
		wire.Handle(s.UntagPolicy, func(
			ctx context.Context, action string, in *iam.UntagPolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn, func(c conditions) { c.tagKeys(in.TagKeys) })
		}),
		wire.Handle(s.ListPolicyTags, func(
			ctx context.Context, action string, in *iam.ListPolicyTagsInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
		wire.Handle(s.ListEntitiesForPolicy, func(
			ctx context.Context, action string, in *iam.ListEntitiesForPolicyInput,
		) ([]wire.Target, error) {
			return s.onPolicy(ctx, action, in.PolicyArn)
		}),
	}
}

// CreatePolicy makes a customer managed policy, with the document as its version v1.
func (s *Service) CreatePolicy(ctx context.Context, in *iam.CreatePolicyInput) (*iam.CreatePolicyOutput, error) {
	if err := checkManaged(*in.PolicyDocument); err != nil {
		return nil, err
	}
	tags, err := mergeTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	now := s.now().UTC()
	p := record.Policy{
		Account: account(ctx), Name: *in.PolicyName, Path: pathOrDefault(in.Path),
		ID: identity.NewID(identity.PolicyID), CreatedAt: now, UpdatedAt: now,
		Description: aws.ToString(in.Description),
		Versions:    []record.PolicyVersion{{ID: "v1", Document: *in.PolicyDocument, CreatedAt: now}},
		Default:     "v1", NextVersion: 2, Tags: tags,
	}
	if s.policies.Count(store.Prefix(p.Account)) >= maxPolicies {
		return nil, limitExceeded("Cannot exceed quota for PoliciesPerAccount: %d", maxPolicies)
	}
	if _, err := s.policies.Create(ctx, record.PolicyKey(p.Account, p.Name), p); err != nil {
		return nil, mapExistsError(err, "A policy called %s already exists. Duplicate names are not allowed.", p.Name)
	}
	t := usage{}.policyType(p)
	return &iam.CreatePolicyOutput{Policy: &t}, nil
}

// GetPolicy describes a managed policy.
func (s *Service) GetPolicy(ctx context.Context, in *iam.GetPolicyInput) (*iam.GetPolicyOutput, error) {
	u, err := s.countUsage(ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := managed.Get(*in.PolicyArn); ok {
		t := u.managedType(p)
		return &iam.GetPolicyOutput{Policy: &t}, nil
	}
	row, err := s.findPolicy(ctx, *in.PolicyArn)
	if err != nil {
		return nil, err
	}
	t := u.policyType(row.Value)
	return &iam.GetPolicyOutput{Policy: &t}, nil
}

// findPolicy returns a customer managed policy.
func (s *Service) findPolicy(ctx context.Context, arn string) (store.Row[record.Policy], error) {
	row, err := s.customerPolicy(ctx, arn)
	if err == nil && row.Value.ID == "" {
		err = noSuchEntity("Policy %s was not found.", arn)
	}
	return row, err
}

// changePolicy edits a customer managed policy. AWS's own cannot be changed.
func (s *Service) changePolicy(ctx context.Context, arn string, edit func(*record.Policy) error) error {
	if _, ok := managed.Get(arn); ok {
		return awsManaged(ctx, arn)
	}
	row, err := s.findPolicy(ctx, arn)
	if err != nil {
		return err
	}
	_, err = s.policies.Modify(ctx, row.Key, edit)
	return err
}

func awsManaged(ctx context.Context, arn string) error {
	_, operation := wire.OperationFrom(ctx)
	return &wire.Denied{Action: "iam:" + operation, Resource: arn, Reason: "because the policy is managed by AWS"}
}

// ListPolicies lists AWS's policies and the account's, as Scope says.
func (s *Service) ListPolicies(ctx context.Context, in *iam.ListPoliciesInput) (*iam.ListPoliciesOutput, error) {
	u, err := s.countUsage(ctx)
	if err != nil {
		return nil, err
	}
	var all []types.Policy
	if in.Scope != types.PolicyScopeTypeLocal {
		for _, p := range managed.All() {
			all = append(all, u.managedType(p))
		}
	}
	if in.Scope != types.PolicyScopeTypeAws {
		rows, err := s.policies.List(ctx, store.Prefix(account(ctx)))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all = append(all, u.policyType(row.Value))
		}
	}
	all = slices.DeleteFunc(all, func(p types.Policy) bool {
		return !isInPath(*p.Path, in.PathPrefix) || in.OnlyAttached && *p.AttachmentCount == 0 ||
			in.PolicyUsageFilter == types.PolicyUsageTypePermissionsBoundary && *p.PermissionsBoundaryUsageCount == 0
	})
	key := func(p types.Policy) string { return *p.PolicyName + " " + *p.Arn }
	slices.SortFunc(all, func(a, b types.Policy) int { return strings.Compare(key(a), key(b)) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, key)
	if err != nil {
		return nil, err
	}
	for i := range some {
		some[i].Description, some[i].Tags = nil, nil // lists leave them out
	}
	return &iam.ListPoliciesOutput{Policies: some, Marker: marker, IsTruncated: truncated}, nil
}

// DeletePolicy deletes a policy that nobody has and that has no version but the default.
func (s *Service) DeletePolicy(ctx context.Context, in *iam.DeletePolicyInput) (*iam.DeletePolicyOutput, error) {
	if _, ok := managed.Get(*in.PolicyArn); ok {
		return nil, awsManaged(ctx, *in.PolicyArn)
	}
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.findPolicy(ctx, *in.PolicyArn)
		if err != nil {
			return nil, err
		}
		u, err := s.countUsage(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case u.attached[*in.PolicyArn]+u.boundaries[*in.PolicyArn] > 0:
			return nil, deleteConflict("Cannot delete a policy attached to entities.")
		case len(row.Value.Versions) > 1:
			return nil,
				deleteConflict(
					"This policy has more than one version. Before you delete a policy, you must delete the policy's " +
						"versions. The default version is deleted with the policy.")
		}
		return []store.Op{s.policies.DeleteOp(row)}, nil
	})
	return &iam.DeletePolicyOutput{}, err
}

func versionType(p record.Policy, v record.PolicyVersion) types.PolicyVersion {
	return types.PolicyVersion{CreateDate: aws.Time(v.CreatedAt), Document: escapeDocument(v.Document),
		IsDefaultVersion: v.ID == p.Default, VersionId: aws.String(v.ID)}
}

// CreatePolicyVersion adds a version to a policy, of which it can have five.
func (s *Service) CreatePolicyVersion(ctx context.Context, in *iam.CreatePolicyVersionInput) (
	*iam.CreatePolicyVersionOutput, error) {
	if err := checkManaged(*in.PolicyDocument); err != nil {
		return nil, err
	}
	var t types.PolicyVersion
	err := s.changePolicy(ctx, *in.PolicyArn, func(p *record.Policy) error {
		if len(p.Versions) >= maxVersions {
			return limitExceeded(
				"A managed policy can have up to %d versions. Before you create a new version, you must delete an "+
					"existing version.", maxVersions)
		}
		v := record.PolicyVersion{ID: fmt.Sprintf("v%d", p.NextVersion), Document: *in.PolicyDocument,
			CreatedAt: s.now().UTC()}
		p.Versions = append(p.Versions, v)
		p.NextVersion++
		p.UpdatedAt = v.CreatedAt
		if in.SetAsDefault {
			p.Default = v.ID
		}
		t = versionType(*p, v)
		t.Document = nil // not in this answer
		return nil
	})
	return &iam.CreatePolicyVersionOutput{PolicyVersion: &t}, err
}

// versions returns the versions of any managed policy, newest first.
func (s *Service) versions(ctx context.Context, arn string) ([]types.PolicyVersion, error) {
	if p, ok := managed.Get(arn); ok {
		return []types.PolicyVersion{{CreateDate: aws.Time(p.UpdatedAt), Document: escapeDocument(p.Document),
			IsDefaultVersion: true, VersionId: aws.String(p.VersionID)}}, nil
	}
	row, err := s.findPolicy(ctx, arn)
	if err != nil {
		return nil, err
	}
	all := mapSlice(row.Value.Versions, func(v record.PolicyVersion) types.PolicyVersion {
		return versionType(row.Value,
			v)
	})
	slices.Reverse(all)
	return all, nil
}

// GetPolicyVersion returns a version with its document.
func (s *Service) GetPolicyVersion(ctx context.Context, in *iam.GetPolicyVersionInput) (
	*iam.GetPolicyVersionOutput, error) {
	all, err := s.versions(ctx, *in.PolicyArn)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if *v.VersionId == *in.VersionId {
			return &iam.GetPolicyVersionOutput{PolicyVersion: &v}, nil
		}
	}
	return nil, noSuchVersion(*in.PolicyArn, *in.VersionId)
}

func noSuchVersion(arn, version string) error {
	return noSuchEntity("Policy %s version %s does not exist or is not attachable.", arn, version)
}

// ListPolicyVersions lists the versions of a policy without their documents.
func (s *Service) ListPolicyVersions(ctx context.Context, in *iam.ListPolicyVersionsInput) (
	*iam.ListPolicyVersionsOutput, error) {
	all, err := s.versions(ctx, *in.PolicyArn)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Document = nil
	}
	// Pages follow each other by a key that grows; versions go from the newest to the oldest.
	order := map[string]string{}
	for i, v := range all {
		order[*v.VersionId] = fmt.Sprintf("%08d", i)
	}
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker,
		func(v types.PolicyVersion) string { return order[*v.VersionId] })
	return &iam.ListPolicyVersionsOutput{Versions: some, Marker: marker, IsTruncated: truncated}, err
}

// DeletePolicyVersion deletes a version other than the default.
func (s *Service) DeletePolicyVersion(ctx context.Context, in *iam.DeletePolicyVersionInput) (
	*iam.DeletePolicyVersionOutput, error) {
	err := s.changePolicy(ctx, *in.PolicyArn, func(p *record.Policy) error {
		if _, ok := p.Version(*in.VersionId); !ok {
			return noSuchVersion(*in.PolicyArn, *in.VersionId)
		}
		if p.Default == *in.VersionId {
			return deleteConflict("Cannot delete the default version of a policy.")
		}
		p.Versions = slices.DeleteFunc(p.Versions, func(v record.PolicyVersion) bool { return v.ID == *in.VersionId })
		return nil
	})
	return &iam.DeletePolicyVersionOutput{}, err
}

// SetDefaultPolicyVersion puts a version in force, for everyone who has the policy.
func (s *Service) SetDefaultPolicyVersion(ctx context.Context, in *iam.SetDefaultPolicyVersionInput) (
	*iam.SetDefaultPolicyVersionOutput, error) {
	err := s.changePolicy(ctx, *in.PolicyArn, func(p *record.Policy) error {
		if _, ok := p.Version(*in.VersionId); !ok {
			return noSuchVersion(*in.PolicyArn, *in.VersionId)
		}
		p.Default, p.UpdatedAt = *in.VersionId, s.now().UTC()
		return nil
	})
	return &iam.SetDefaultPolicyVersionOutput{}, err
}

// TagPolicy adds tags to a policy.
func (s *Service) TagPolicy(ctx context.Context, in *iam.TagPolicyInput) (*iam.TagPolicyOutput, error) {
	err := s.changePolicy(ctx, *in.PolicyArn, func(p *record.Policy) (err error) {
		p.Tags, err = mergeTags(ctx, p.Tags, in.Tags)
		return err
	})
	return &iam.TagPolicyOutput{}, err
}

// UntagPolicy removes tags from a policy.
func (s *Service) UntagPolicy(ctx context.Context, in *iam.UntagPolicyInput) (*iam.UntagPolicyOutput, error) {
	err := s.changePolicy(ctx, *in.PolicyArn, func(p *record.Policy) (err error) {
		p.Tags, err = removeTags(ctx, p.Tags, in.TagKeys)
		return err
	})
	return &iam.UntagPolicyOutput{}, err
}

// ListPolicyTags lists the tags of a policy.
func (s *Service) ListPolicyTags(ctx context.Context, in *iam.ListPolicyTagsInput) (*iam.ListPolicyTagsOutput, error) {
	if _, ok := managed.Get(*in.PolicyArn); ok {
		return &iam.ListPolicyTagsOutput{}, nil
	}
	row, err := s.findPolicy(ctx, *in.PolicyArn)
	if err != nil {
		return nil, err
	}
	tags, marker, truncated, err := paginate(ctx, tagList(row.Value.Tags), in.MaxItems, in.Marker, tagKey)
	return &iam.ListPolicyTagsOutput{Tags: tags, Marker: marker, IsTruncated: truncated}, err
}

// ListEntitiesForPolicy lists who has a managed policy, attached or as a boundary.
func (s *Service) ListEntitiesForPolicy(ctx context.Context, in *iam.ListEntitiesForPolicyInput) (
	*iam.ListEntitiesForPolicyOutput, error) {
	if _, ok := managed.Get(*in.PolicyArn); !ok {
		if _, err := s.findPolicy(ctx, *in.PolicyArn); err != nil {
			return nil, err
		}
	}
	has := func(g record.Grants, boundary string) bool {
		return in.PolicyUsageFilter != types.PolicyUsageTypePermissionsBoundary && slices.Contains(g.Attached,
			*in.PolicyArn) ||
			in.PolicyUsageFilter != types.PolicyUsageTypePermissionsPolicy && boundary == *in.PolicyArn
	}
	wanted := func(t types.EntityType, path string) bool {
		return (in.EntityFilter == "" || in.EntityFilter == t) && isInPath(path, in.PathPrefix)
	}
	// One list for all three kinds, so that one marker pages through them: the first letter of the key is the kind.
	type entity struct{ key, name, id string }
	var all []entity
	users, err := s.users.listAll(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if wanted(types.EntityTypeUser, u.Path) && has(u.Grants, u.Boundary) {
			all = append(all, entity{"u" + u.Name, u.Name, u.ID})
		}
	}
	groups, err := s.groups.listAll(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if wanted(types.EntityTypeGroup, g.Path) && has(g.Grants, "") {
			all = append(all, entity{"g" + g.Name, g.Name, g.ID})
		}
	}
	roles, err := s.roles.listAll(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		if wanted(types.EntityTypeRole, r.Path) && has(r.Grants, r.Boundary) {
			all = append(all, entity{"r" + r.Name, r.Name, r.ID})
		}
	}
	slices.SortFunc(all, func(a, b entity) int { return strings.Compare(a.key, b.key) })
	some, marker, truncated, err := paginate(ctx, all, in.MaxItems, in.Marker, func(e entity) string { return e.key })
	if err != nil {
		return nil, err
	}
	out := &iam.ListEntitiesForPolicyOutput{Marker: marker, IsTruncated: truncated}
	for _, e := range some {
		switch e.key[0] {
		case 'u':
			out.PolicyUsers = append(out.PolicyUsers, types.PolicyUser{UserName: aws.String(e.name),
				UserId: aws.String(e.id)})
		case 'g':
			out.PolicyGroups = append(out.PolicyGroups, types.PolicyGroup{GroupName: aws.String(e.name),
				GroupId: aws.String(e.id)})
		case 'r':
			out.PolicyRoles = append(out.PolicyRoles, types.PolicyRole{RoleName: aws.String(e.name),
				RoleId: aws.String(e.id)})
		}
	}
	return out, nil
}
