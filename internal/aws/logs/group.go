package logs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// groupHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) groupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLogGroup, func(
			ctx context.Context, action string, in *cloudwatchlogs.CreateLogGroupInput,
		) ([]wire.Target, error) {
			t := newTarget(action, scopeOf(ctx).groupARN(aws.ToString(in.LogGroupName))+":log-stream:")
			conditions(t.Conditions).requestTags(in.Tags)
			return []wire.Target{t}, nil
		}),
		wire.Handle(s.DeleteLogGroup, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteLogGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, nil)
		}),
		wire.Handle(s.PutLogGroupDeletionProtection, func(
			ctx context.Context, action string, in *cloudwatchlogs.PutLogGroupDeletionProtectionInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, nil, in.LogGroupIdentifier)
		}),
		wire.Handle(s.DescribeLogGroups, func(
			ctx context.Context, action string, _ *cloudwatchlogs.DescribeLogGroupsInput,
		) ([]wire.Target, error) {
			return onAnyGroup(ctx, action)
		}),
		wire.Handle(s.ListLogGroups, func(
			ctx context.Context, action string, _ *cloudwatchlogs.ListLogGroupsInput,
		) ([]wire.Target, error) {
			return onAnyGroup(ctx, action)
		}),
	}
}

// CreateLogGroup creates a log group.
func (s *Service) CreateLogGroup(ctx context.Context, in *cloudwatchlogs.CreateLogGroupInput) (
	*cloudwatchlogs.CreateLogGroupOutput, error) {
	at, name := scopeOf(ctx), aws.ToString(in.LogGroupName)
	if strings.HasPrefix(strings.ToLower(name), "aws/") {
		return nil, invalidParameter("Log groups starting with AWS/ are reserved for AWS.")
	}
	if in.KmsKeyId != nil {
		return nil, rejectKMSKey(*in.KmsKeyId)
	}
	if err := checkTags(ctx, in.Tags); err != nil {
		return nil, err
	}
	if len(in.Tags) > 0 {
		if err := mayTagNew(ctx, at.groupARN(name), in.Tags); err != nil {
			return nil, err
		}
	}
	group := record.LogGroup{
		Account: at.account, Region: at.region, Name: name,
		ID:        randomID(),
		CreatedAt: s.timestamp(),
		Class:     cmp.Or(in.LogGroupClass, types.LogGroupClassStandard),
		Protected: aws.ToBool(in.DeletionProtectionEnabled),
		Tags:      in.Tags,
	}
	if group.Class == types.LogGroupClassDelivery {
		group.RetentionDays = deliveryRetention
	}
	_, err := s.groups.Create(ctx, at.groupKey(name), group)
	if errors.Is(err, store.ErrExists) {
		return nil, alreadyExists("The specified log group already exists")
	}
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.CreateLogGroupOutput{}, nil
}

// DeleteLogGroup deletes a log group with its streams, events and resource policy.
func (s *Service) DeleteLogGroup(ctx context.Context, in *cloudwatchlogs.DeleteLogGroupInput) (
	*cloudwatchlogs.DeleteLogGroupOutput, error) {
	for {
		row, err := s.getGroup(ctx, aws.ToString(in.LogGroupName))
		if err != nil {
			return nil, err
		}
		if err := unprotected(row.Value); err != nil {
			return nil, err
		}
		attached := record.LogResourcePolicyKey(row.Value.Account, row.Value.Region, types.PolicyScopeResource,
			row.Value.Name)
		switch err := s.store.Txn(ctx, s.groups.DeleteOp(row), s.policies.RemoveOp(attached)); {
		case errors.Is(err, store.ErrConflict):
			continue // it may be protected now
		case errors.Is(err, store.ErrNotFound):
			return nil, groupNotFound()
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.DeleteLogGroupOutput{}, nil
	}
}

// unprotected refuses what deletes from a group with deletion protection.
func unprotected(g record.LogGroup) error {
	if !g.Protected {
		return nil
	}
	return validation(
		"Cannot delete from log group %s because deletion protection is enabled for it. Disable it with "+
			"PutLogGroupDeletionProtection first.", g.Name)
}

// PutLogGroupDeletionProtection switches the deletion protection of a log group.
func (s *Service) PutLogGroupDeletionProtection(ctx context.Context,
	in *cloudwatchlogs.PutLogGroupDeletionProtectionInput) (*cloudwatchlogs.PutLogGroupDeletionProtectionOutput, error) {
	name, err := scopeOf(ctx).nameOfIdentifier("logGroupIdentifier", aws.ToString(in.LogGroupIdentifier))
	if err != nil {
		return nil, err
	}
	err = s.modifyGroup(ctx, name, func(g *record.LogGroup) error {
		g.Protected = aws.ToBool(in.DeletionProtectionEnabled)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.PutLogGroupDeletionProtectionOutput{}, nil
}

// groupsOf returns the log groups of an account and region whose names begin with prefix, by name.
func (s *Service) groupsOf(ctx context.Context, at scope, prefix string) ([]record.LogGroup, error) {
	return listByName(ctx, s.groups, store.Prefix(at.account, at.region), prefix, nameOfGroup)
}

// listByName returns the rows of a table below a key whose names begin with prefix, by name: keys are escaped, so that
// their order is not quite that of the names.
func listByName[T any](ctx context.Context, table store.Table[T], below, prefix string, name func(T) string) (
	[]T, error) {
	rows, err := table.List(ctx, below)
	if err != nil {
		return nil, err
	}
	found := make([]T, 0, len(rows))
	for _, row := range rows {
		if strings.HasPrefix(name(row.Value), prefix) {
			found = append(found, row.Value)
		}
	}
	slices.SortFunc(found, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return found, nil
}

func nameOfGroup(g record.LogGroup) string { return g.Name }

// elsewhere reports whether a list of accounts leaves out the caller's own: no other account is linked to it.
func elsewhere(at scope, linked *bool, accounts []string) bool {
	return aws.ToBool(linked) && len(accounts) > 0 && !slices.Contains(accounts, at.account)
}

// DescribeLogGroups describes log groups, by name.
func (s *Service) DescribeLogGroups(ctx context.Context, in *cloudwatchlogs.DescribeLogGroupsInput) (
	*cloudwatchlogs.DescribeLogGroupsOutput, error) {
	at := scopeOf(ctx)
	pattern := aws.ToString(in.LogGroupNamePattern)
	switch {
	case in.LogGroupNamePrefix != nil && in.LogGroupNamePattern != nil:
		return nil,
			invalidParameter("LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.")
	case len(in.AccountIdentifiers) > 0 && !aws.ToBool(in.IncludeLinkedAccounts):
		return nil, invalidParameter("accountIdentifiers can only be specified when includeLinkedAccounts is true")
	case len(in.LogGroupIdentifiers) > 0 && (in.LogGroupNamePrefix != nil || in.LogGroupNamePattern != nil ||
		in.LogGroupClass != "" || len(in.AccountIdentifiers) > 0):
		return nil,
			invalidParameter("logGroupIdentifiers can't be combined with other filters than includeLinkedAccounts")
	case len(in.LogGroupIdentifiers) > maxIdentifiers:
		return nil, invalidParameter("logGroupIdentifiers can have %d members, but has %d", maxIdentifiers,
			len(in.LogGroupIdentifiers))
	}
	for _, a := range in.AccountIdentifiers {
		if !accountID(a) {
			return nil, invalidValue("accountIdentifiers", a,
				`Member must satisfy regular expression pattern: ^\d{12}$`)
		}
	}
	var wanted map[string]bool
	if len(in.LogGroupIdentifiers) > 0 {
		wanted = map[string]bool{}
		for _, id := range in.LogGroupIdentifiers {
			name, err := at.nameOfIdentifier("logGroupIdentifiers", id)
			if err != nil {
				return nil, err
			}
			wanted[name] = true
		}
	}
	groups, err := s.groupsOf(ctx, at, aws.ToString(in.LogGroupNamePrefix))
	if err != nil {
		return nil, err
	}
	groups = slices.DeleteFunc(groups, func(g record.LogGroup) bool {
		return elsewhere(at, in.IncludeLinkedAccounts, in.AccountIdentifiers) ||
			!strings.Contains(g.Name, pattern) ||
			in.LogGroupClass != "" && g.Class != in.LogGroupClass ||
			wanted != nil && !wanted[g.Name]
	})
	page, next, err := wire.Page(ctx, groups, in.Limit, in.NextToken, nameOfGroup)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeLogGroupsOutput{LogGroups: []types.LogGroup{}, NextToken: next}
	for _, g := range page {
		if pattern != "" { // AWS shows no more of them
			out.LogGroups = append(out.LogGroups, types.LogGroup{Arn: new(g.ARN() + ":*"), LogGroupArn: new(g.ARN()),
				LogGroupName: new(g.Name), CreationTime: unixMillis(g.CreatedAt)})
			continue
		}
		out.LogGroups = append(out.LogGroups, s.describe(g))
	}
	return out, nil
}

// maxIdentifiers is the maximum number of log groups that a request may name.
const maxIdentifiers = 50

func accountID(text string) bool {
	return len(text) == 12 && strings.Trim(text, "0123456789") == ""
}

func (s *Service) describe(g record.LogGroup) types.LogGroup {
	out := types.LogGroup{
		Arn:                       new(g.ARN() + ":*"),
		LogGroupArn:               new(g.ARN()),
		LogGroupName:              new(g.Name),
		LogGroupClass:             g.Class,
		CreationTime:              unixMillis(g.CreatedAt),
		MetricFilterCount:         new(int32(0)),
		StoredBytes:               new(s.events.GroupStat(events.GroupID(g.ID)).StoredBytes),
		DeletionProtectionEnabled: new(g.Protected),
	}
	if g.RetentionDays > 0 {
		out.RetentionInDays = new(g.RetentionDays)
	}
	return out
}

// ListLogGroups lists log groups, by name.
func (s *Service) ListLogGroups(ctx context.Context, in *cloudwatchlogs.ListLogGroupsInput) (
	*cloudwatchlogs.ListLogGroupsOutput, error) {
	at := scopeOf(ctx)
	if err := checkPageSize("limit", in.Limit, 1, 1000); err != nil {
		return nil, err
	}
	if len(in.DataSources) > 0 || len(in.FieldIndexNames) > 0 {
		return nil,
			validation("dataSources and fieldIndexNames are not implemented by Coracle: no log group here has any")
	}
	match, err := namePattern(aws.ToString(in.LogGroupNamePattern))
	if err != nil {
		return nil, err
	}
	groups, err := s.groupsOf(ctx, at, "")
	if err != nil {
		return nil, err
	}
	tagged := &tagMatcher{filters: in.LogGroupTags}
	groups = slices.DeleteFunc(groups, func(g record.LogGroup) bool {
		return elsewhere(at, in.IncludeLinkedAccounts, in.AccountIdentifiers) || !match(g.Name) ||
			in.LogGroupClass != "" && g.Class != in.LogGroupClass || !tagged.matches(g.Tags)
	})
	if err := cmp.Or(tagged.err, ctx.Err()); err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, groups, in.Limit, in.NextToken, nameOfGroup)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.ListLogGroupsOutput{LogGroups: []types.LogGroupSummary{}, NextToken: next}
	for _, g := range page {
		out.LogGroups = append(out.LogGroups, types.LogGroupSummary{LogGroupArn: new(g.ARN()),
			LogGroupName: new(g.Name), LogGroupClass: g.Class})
	}
	return out, nil
}

// namePattern returns the pattern of ListLogGroups: substrings, or prefixes after a "^", divided by "|".
func namePattern(text string) (func(name string) bool, error) {
	if text == "" {
		return func(string) bool { return true }, nil
	}
	alternatives := strings.Split(text, "|")
	if len(alternatives) > 5 {
		return nil, invalidParameter("logGroupNamePattern can have five patterns divided by |, but has %d",
			len(alternatives))
	}
	for _, a := range alternatives {
		word := strings.TrimPrefix(a, "^")
		if !groupName.MatchString(word) || len(word) < 3 || len(word) > 24 {
			return nil, invalidParameter(
				"The pattern %q in logGroupNamePattern is invalid: each has 3 to 24 characters that names of log "+
					"groups may have, and may begin with ^", a)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(alternatives, func(a string) bool {
			if prefix, ok := strings.CutPrefix(a, "^"); ok {
				return strings.HasPrefix(name, prefix)
			}
			return strings.Contains(name, a)
		})
	}, nil
}
