package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	maxTags         = 50
	longestTagKey   = 128 // characters
	longestTagValue = 256
)

var tagText = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// checkTags refuses tags that break a rule for tags.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/Working-with-log-groups-and-streams.html#log-group-tagging
func checkTags(ctx context.Context, tags map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if err := checkTagKey(ctx, k); err != nil {
			return err
		}
		v := tags[k]
		if n := utf8.RuneCountInString(v); n > longestTagValue {
			return invalidParameter("The value of tag %s can't be longer than %d characters, but has %d", k,
				longestTagValue, n)
		}
		if !tagText.MatchString(v) {
			return invalidValue("tags."+k+".member", v,
				`Member must satisfy regular expression pattern: ^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$`)
		}
	}
	return nil
}

func checkTagKey(ctx context.Context, k string) error {
	switch n := utf8.RuneCountInString(k); {
	case n == 0:
		return invalidParameter("A tag key can't be empty")
	case n > longestTagKey:
		return invalidParameter("Tag key %s can't be longer than %d characters, but has %d", k, longestTagKey, n)
	case !wire.MaySetTag(ctx, k):
		return reservedTag(k)
	case !tagText.MatchString(k):
		return invalidValue("tags", k,
			`Map keys must satisfy constraint: [Member must satisfy regular expression pattern: ^([\p{L}\p{Z}\p{N}_.:/=+\-@]+)$]`)
	}
	return nil
}

func reservedTag(k string) error {
	return invalidParameter("Tag key %s is invalid: the prefix aws: is reserved for AWS use", k)
}

// mayTagNew asks whether the caller may create a log group with tags, for which either of two actions is enough.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
func mayTagNew(ctx context.Context, arn string, tags map[string]string) error {
	c := conditions{}
	c.requestTags(tags)
	var denied *wire.Denied
	for _, action := range []string{"logs:TagResource", "logs:TagLogGroup"} {
		if err := wire.Authorize(ctx, wire.Target{Action: action, Resource: arn, Conditions: c}); !errors.As(err,
			&denied) {
			return err
		}
	}
	return &wire.Error{
		Code: "AccessDeniedException", Status: http.StatusBadRequest,
		Message: fmt.Sprintf(
			"User with accountId: %s is not authorized to perform CreateLogGroup with Tags. An additional permission "+
				"\"logs:TagResource\" is required.", wire.CallerFrom(ctx).Account),
	}
}

// taggable is a resource that has tags.
type taggable struct {
	arn    string
	get    func(context.Context) (map[string]string, error)
	modify func(ctx context.Context, change func(tags *map[string]string) error) error
}

// newTaggable returns the resource under a key of a table, whose tags are those that tags points at.
func newTaggable[T any](table store.Table[T], key, arn string, tags func(*T) *map[string]string, gone error) taggable {
	notFound := func(err error) error {
		if errors.Is(err, store.ErrNotFound) {
			return gone
		}
		return err
	}
	return taggable{
		arn: arn,
		get: func(ctx context.Context) (map[string]string, error) {
			row, err := table.Get(ctx, key)
			return *tags(&row.Value), notFound(err)
		},
		modify: func(ctx context.Context, change func(*map[string]string) error) error {
			_, err := table.Modify(ctx, key, func(v *T) error { return change(tags(v)) })
			return notFound(err)
		},
	}
}

// taggableGroup returns the caller's log group of that name.
func (s *Service) taggableGroup(ctx context.Context, name *string) taggable {
	at := scopeOf(ctx)
	return newTaggable(s.groups, at.groupKey(aws.ToString(name)), at.groupARN(aws.ToString(name)),
		func(g *record.LogGroup) *map[string]string { return &g.Tags }, groupNotFound())
}

// taggableDelivery returns the caller's delivery source, delivery destination or delivery that an ARN names.
func (s *Service) taggableDelivery(ctx context.Context, arn string) (taggable, bool) {
	at := scopeOf(ctx)
	parts := strings.Split(arn, ":")
	if len(parts) != 7 || !slices.Equal(parts[:5], []string{"arn", "aws", "logs", at.region, at.account}) {
		return taggable{}, false
	}
	name := parts[6]
	key := record.LogDeliveryKey(at.account, at.region, name)
	switch parts[5] {
	case "delivery-source":
		return newTaggable(s.sources, key, arn, func(d *record.LogDeliverySource) *map[string]string { return &d.Tags },
			sourceNotFound(name)), true
	case "delivery-destination":
		return newTaggable(s.destinations, key, arn,
			func(d *record.LogDeliveryDestination) *map[string]string { return &d.Tags }, destinationNotFound(name)), true
	case "delivery":
		return newTaggable(s.deliveries, key, arn, func(d *record.LogDelivery) *map[string]string { return &d.Tags },
			deliveryNotFound(name)), true
	}
	return taggable{}, false
}

// taggableResource returns the resource that the ARN of a tagging request names: a log group, with or without ":*" at
// its end, or what is about deliveries.
func (s *Service) taggableResource(ctx context.Context, arn string) (taggable, error) {
	if r, ok := s.taggableDelivery(ctx, arn); ok {
		return r, nil
	}
	parsed, ok := parseARN(strings.TrimSuffix(arn, ":*"))
	if !ok {
		return taggable{}, invalidParameter("The specified resourceArn %s is not the ARN of a log group", arn)
	}
	if at := scopeOf(ctx); parsed.account != at.account || parsed.region != at.region {
		return taggable{}, notFound("The specified resource does not exist.")
	}
	return s.taggableGroup(ctx, &parsed.group), nil
}

func addTags(ctx context.Context, r taggable, tags map[string]string) error {
	if err := checkTags(ctx, tags); err != nil {
		return err
	}
	return r.modify(ctx, func(have *map[string]string) error {
		after := maps.Clone(*have)
		if after == nil {
			after = map[string]string{}
		}
		maps.Copy(after, tags)
		if n := wire.CountTags(after); n > maxTags {
			return &types.TooManyTagsException{
				Message: new(fmt.Sprintf("The number of tags exceeds the limit of %d: the resource would have %d",
					maxTags, n)),
				ResourceName: &r.arn,
			}
		}
		*have = after
		return nil
	})
}

func removeTags(ctx context.Context, r taggable, keys []string) error {
	for _, k := range keys {
		if !wire.MaySetTag(ctx, k) {
			return reservedTag(k)
		}
	}
	return r.modify(ctx, func(have *map[string]string) error {
		after := maps.Clone(*have)
		for _, k := range keys {
			delete(after, k)
		}
		*have = after
		return nil
	})
}

func getTags(ctx context.Context, r taggable) (map[string]string, error) {
	tags, err := r.get(ctx)
	if err != nil || tags == nil {
		return map[string]string{}, err
	}
	return tags, nil
}

// tagHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tagHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.TagResource, func(
			ctx context.Context, action string, in *cloudwatchlogs.TagResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn, func(c conditions) { c.requestTags(in.Tags) })
		}),
		wire.Handle(s.UntagResource, func(
			ctx context.Context, action string, in *cloudwatchlogs.UntagResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn,
				func(c conditions) { c.setValues("aws:TagKeys", in.TagKeys) })
		}),
		wire.Handle(s.ListTagsForResource, func(
			ctx context.Context, action string, in *cloudwatchlogs.ListTagsForResourceInput,
		) ([]wire.Target, error) {
			return s.onTagged(ctx, action, in.ResourceArn)
		}),
		wire.Handle(s.TagLogGroup, func(
			ctx context.Context, action string, in *cloudwatchlogs.TagLogGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, nil, func(c conditions) { c.requestTags(in.Tags) })
		}),
		wire.Handle(s.UntagLogGroup, func(
			ctx context.Context, action string, in *cloudwatchlogs.UntagLogGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, nil,
				func(c conditions) { c.setValues("aws:TagKeys", in.Tags) })
		}),
		wire.Handle(s.ListTagsLogGroup, func(
			ctx context.Context, action string, in *cloudwatchlogs.ListTagsLogGroupInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, nil)
		}),
	}
}

// TagResource adds tags to a resource, or changes their values.
func (s *Service) TagResource(ctx context.Context, in *cloudwatchlogs.TagResourceInput) (
	*cloudwatchlogs.TagResourceOutput, error) {
	r, err := s.taggableResource(ctx, aws.ToString(in.ResourceArn))
	if err == nil {
		err = addTags(ctx, r, in.Tags)
	}
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.TagResourceOutput{}, nil
}

// UntagResource removes tags from a resource.
func (s *Service) UntagResource(ctx context.Context, in *cloudwatchlogs.UntagResourceInput) (
	*cloudwatchlogs.UntagResourceOutput, error) {
	r, err := s.taggableResource(ctx, aws.ToString(in.ResourceArn))
	if err == nil {
		err = removeTags(ctx, r, in.TagKeys)
	}
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.UntagResourceOutput{}, nil
}

// ListTagsForResource lists the tags of a resource.
func (s *Service) ListTagsForResource(ctx context.Context, in *cloudwatchlogs.ListTagsForResourceInput) (
	*cloudwatchlogs.ListTagsForResourceOutput, error) {
	r, err := s.taggableResource(ctx, aws.ToString(in.ResourceArn))
	if err != nil {
		return nil, err
	}
	tags, err := getTags(ctx, r)
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.ListTagsForResourceOutput{Tags: tags}, nil
}

// TagLogGroup implements the older form of TagResource, for a group by its name.
func (s *Service) TagLogGroup(ctx context.Context, in *cloudwatchlogs.TagLogGroupInput) (
	*cloudwatchlogs.TagLogGroupOutput, error) {
	if err := addTags(ctx, s.taggableGroup(ctx, in.LogGroupName), in.Tags); err != nil {
		return nil, err
	}
	return &cloudwatchlogs.TagLogGroupOutput{}, nil
}

// UntagLogGroup implements the older form of UntagResource.
func (s *Service) UntagLogGroup(ctx context.Context, in *cloudwatchlogs.UntagLogGroupInput) (
	*cloudwatchlogs.UntagLogGroupOutput, error) {
	if err := removeTags(ctx, s.taggableGroup(ctx, in.LogGroupName), in.Tags); err != nil {
		return nil, err
	}
	return &cloudwatchlogs.UntagLogGroupOutput{}, nil
}

// ListTagsLogGroup implements the older form of ListTagsForResource.
func (s *Service) ListTagsLogGroup(ctx context.Context, in *cloudwatchlogs.ListTagsLogGroupInput) (
	*cloudwatchlogs.ListTagsLogGroupOutput, error) {
	tags, err := getTags(ctx, s.taggableGroup(ctx, in.LogGroupName))
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.ListTagsLogGroupOutput{Tags: tags}, nil
}

// maxTagSteps limits the characters of tags and filters that a request compares: a second of a processor.
const maxTagSteps = 50_000_000

// tagMatcher matches tags with the filters of a ListLogGroups, as long as that takes no more than it may.
type tagMatcher struct {
	filters []types.TagFilter
	steps   int
	err     error
}

// matches reports whether tags satisfy each filter; false once m.err is set.
func (m *tagMatcher) matches(tags map[string]string) bool {
	return m.err == nil && !slices.ContainsFunc(m.filters, func(f types.TagFilter) bool {
		return !m.matchesFilter(tags, f)
	})
}

// matchesFilter reports whether tags satisfy a filter: the key is there, and its value is one of those given. A value
// may be negated with "!" and may have "*" for anything, which also makes it indifferent to case.
func (m *tagMatcher) matchesFilter(tags map[string]string, f types.TagFilter) bool {
	m.count(1 + len(aws.ToString(f.Key)))
	value, ok := tags[aws.ToString(f.Key)]
	if !ok || len(f.Values) == 0 || m.err != nil {
		return ok && m.err == nil
	}
	matched := slices.ContainsFunc(f.Values, func(want string) bool {
		if m.count(len(want) + len(value)); m.err != nil {
			return true // of all that is left, nothing is compared
		}
		want, negated := strings.CutPrefix(want, "!")
		if !strings.Contains(want, "*") {
			return (value == want) != negated
		}
		return wildcard(strings.ToLower(want), strings.ToLower(value)) != negated
	})
	return matched && m.err == nil
}

func (m *tagMatcher) count(characters int) {
	if m.steps += characters; m.steps > maxTagSteps && m.err == nil {
		m.err = invalidParameter("The filters in logGroupTags take too long to evaluate: give fewer or shorter values")
	}
}

// wildcard matches text against a pattern in which "*" stands for anything.
func wildcard(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return strings.HasSuffix(text, parts[last])
}
