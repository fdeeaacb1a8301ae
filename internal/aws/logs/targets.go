package logs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/store"
)

// Targets says on which resource, and under which condition keys, a request is authorised. What AWS calls the resource of most actions is the
// group's ARN followed by ":log-stream:" and the name of the stream, if there is one: policies on "...:log-group:NAME:*" and on "...:log-group:/aws/eks/*" are
// about it, one on "...:log-group:NAME" is not. The three actions on tags are the exception, whose resource is the bare ARN.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatchlogs.html
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
func (s *Service) Targets(ctx context.Context, operation string, input any) ([]wire.Target, error) {
	at := placeOf(ctx)
	t := wire.Target{Action: "logs:" + operation, Resource: "*", Conditions: map[string][]string{}}
	set := conditions(t.Conditions)
	var err error
	group := func(name, identifier *string) { err = s.onGroup(ctx, &t, at.nameFor(name, identifier), "") }
	stream := func(name, identifier, stream *string) {
		err = s.onGroup(ctx, &t, at.nameFor(name, identifier), aws.ToString(stream))
	}
	switch in := input.(type) {
	case *cloudwatchlogs.DescribeLogGroupsInput, *cloudwatchlogs.ListLogGroupsInput:
		t.Resource = at.groupARN("") + ":log-stream:"
	case *cloudwatchlogs.CreateLogGroupInput:
		t.Resource = at.groupARN(aws.ToString(in.LogGroupName)) + ":log-stream:"
		set.requestTags(in.Tags)
	case *cloudwatchlogs.DeleteLogGroupInput:
		group(in.LogGroupName, nil)
	case *cloudwatchlogs.PutLogGroupDeletionProtectionInput:
		group(nil, in.LogGroupIdentifier)
	case *cloudwatchlogs.PutRetentionPolicyInput:
		group(in.LogGroupName, nil)
	case *cloudwatchlogs.DeleteRetentionPolicyInput:
		group(in.LogGroupName, nil)
	case *cloudwatchlogs.AssociateKmsKeyInput:
		group(in.LogGroupName, in.ResourceIdentifier)
	case *cloudwatchlogs.DescribeLogStreamsInput:
		group(in.LogGroupName, in.LogGroupIdentifier)
	case *cloudwatchlogs.CreateLogStreamInput:
		stream(in.LogGroupName, nil, in.LogStreamName)
	case *cloudwatchlogs.DeleteLogStreamInput:
		stream(in.LogGroupName, nil, in.LogStreamName)
	case *cloudwatchlogs.PutLogEventsInput:
		stream(in.LogGroupName, nil, in.LogStreamName)
	case *cloudwatchlogs.GetLogEventsInput:
		stream(in.LogGroupName, in.LogGroupIdentifier, in.LogStreamName)
	case *cloudwatchlogs.FilterLogEventsInput:
		group(in.LogGroupName, in.LogGroupIdentifier)
	case *cloudwatchlogs.GetLogGroupFieldsInput:
		group(in.LogGroupName, in.LogGroupIdentifier)
	case *cloudwatchlogs.GetLogRecordInput:
		_, pointed, ok, e := s.pointedGroup(ctx, aws.ToString(in.LogRecordPointer))
		if err = e; ok {
			group(&pointed.Name, nil)
		}
	case *cloudwatchlogs.StartQueryInput:
		return s.queryTargets(ctx, t, in)
	case *cloudwatchlogs.StartLiveTailInput:
		return s.groupTargets(ctx, t, in.LogGroupIdentifiers)
	case *cloudwatchlogs.TagResourceInput:
		err = s.onTagged(ctx, &t, in.ResourceArn)
		set.requestTags(in.Tags)
	case *cloudwatchlogs.UntagResourceInput:
		err = s.onTagged(ctx, &t, in.ResourceArn)
		set.list("aws:TagKeys", in.TagKeys)
	case *cloudwatchlogs.ListTagsForResourceInput:
		err = s.onTagged(ctx, &t, in.ResourceArn)
	case *cloudwatchlogs.TagLogGroupInput:
		group(in.LogGroupName, nil)
		set.requestTags(in.Tags)
	case *cloudwatchlogs.UntagLogGroupInput:
		group(in.LogGroupName, nil)
		set.list("aws:TagKeys", in.Tags)
	case *cloudwatchlogs.ListTagsLogGroupInput:
		group(in.LogGroupName, nil)
	}
	if err != nil {
		return nil, err
	}
	return []wire.Target{t}, nil
}

// groupTargets are the log groups that a request identifies.
func (s *Service) groupTargets(ctx context.Context, t wire.Target, identifiers []string) ([]wire.Target, error) {
	var targets []wire.Target
	for _, id := range identifiers {
		one := wire.Target{Action: t.Action, Conditions: map[string][]string{}}
		if err := s.onGroup(ctx, &one, placeOf(ctx).nameFor(nil, &id), ""); err != nil {
			return nil, err
		}
		targets = append(targets, one)
	}
	if len(targets) == 0 {
		return []wire.Target{t}, nil
	}
	return targets, nil
}

// queryTargets are the log groups that a query reads: those of the request, and those that SOURCE chooses. A query that names none, or that can't be read, is
// asked about on "*".
func (s *Service) queryTargets(ctx context.Context, t wire.Target, in *cloudwatchlogs.StartQueryInput) ([]wire.Target, error) {
	identifiers := slices.Concat(in.LogGroupNames, in.LogGroupIdentifiers)
	if in.LogGroupName != nil {
		identifiers = append(identifiers, *in.LogGroupName)
	}
	if query, err := insights.Parse(aws.ToString(in.QueryString)); err == nil && query.Source() != nil {
		for _, id := range query.Source().Names {
			identifiers = append(identifiers, strings.TrimSuffix(id, ":*"))
		}
		if query.Source().All {
			groups, err := s.sourced(ctx, query.Source())
			if err != nil {
				return nil, err
			}
			for _, g := range groups {
				identifiers = append(identifiers, g.Name)
			}
		}
	}
	return s.groupTargets(ctx, t, identifiers)
}

// onGroup makes a log group, or a stream of it, the target. Nothing needs to be there: whether it is may only be learnt by those who may ask.
func (s *Service) onGroup(ctx context.Context, t *wire.Target, group, stream string) error {
	t.Resource = placeOf(ctx).groupARN(group) + ":log-stream:" + stream
	return s.resourceTags(ctx, t, group)
}

// onTagged makes what an ARN names the target.
func (s *Service) onTagged(ctx context.Context, t *wire.Target, arn *string) error {
	t.Resource = strings.TrimSuffix(aws.ToString(arn), ":*")
	parsed, ok := parseARN(t.Resource)
	if at := placeOf(ctx); !ok || parsed.account != at.account || parsed.region != at.region {
		return nil // the operation says so, to those who may ask
	}
	return s.resourceTags(ctx, t, parsed.group)
}

// resourceTags sets the condition keys of the group's tags.
func (s *Service) resourceTags(ctx context.Context, t *wire.Target, group string) error {
	row, err := s.groups.Get(ctx, placeOf(ctx).groupKey(group))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	for k, v := range row.Value.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
	}
	return err
}

// conditions are the condition keys of a request.
type conditions map[string][]string

func (c conditions) list(key string, values []string) {
	if len(values) > 0 {
		c[key] = values
	}
}

func (c conditions) requestTags(tags map[string]string) {
	var keys []string
	for k, v := range tags {
		keys = append(keys, k)
		c["aws:RequestTag/"+k] = []string{v}
	}
	slices.Sort(keys)
	c.list("aws:TagKeys", keys)
}
