package cloudtrail

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
)

const (
	// lookupRate is how many requests a second an account may make in a region, as on AWS, and lookupBurst how many at
	// once.
	// https://docs.aws.amazon.com/awscloudtrail/latest/APIReference/API_LookupEvents.html
	lookupRate, lookupBurst = 2, 40
	// maxLookup is the number of events that a request looks at, and maxLookupBytes their size. A page with fewer events
	// than it may have, or none, has a token where there may be more.
	maxLookup, maxLookupBytes = 20_000, 32 << 20
	// maxAttribute is the length of the value of an attribute, in characters.
	maxAttribute = 2000
)

// LookupEvents returns events of the caller's account in the region, the newest first.
func (s *Service) LookupEvents(ctx context.Context, in *cloudtrail.LookupEventsInput) (
	*cloudtrail.LookupEventsOutput, error) {
	match, err := matcherOf(in.LookupAttributes)
	if err != nil {
		return nil, err
	}
	most := int(aws.ToInt32(in.MaxResults))
	if in.MaxResults == nil {
		most = wire.CloudTrail.PageSize
	}
	if most < 1 || most > wire.CloudTrail.PageSize {
		return nil, &types.InvalidMaxResultsException{Message: aws.String(fmt.Sprintf(
			"A max results value of %d is invalid. Specify max results between 1 and 50.", most))}
	}
	if in.EventCategory != "" {
		return nil, &types.InvalidEventCategoryException{Message: aws.String("The event category " +
			cut(string(in.EventCategory)) + " is not available: no Insights events are recorded. Leave EventCategory out " +
			"to look up management events.")}
	}
	now := s.history.now()
	from, to := now.Add(-retention).UnixMilli(), int64(math.MaxInt64)
	if in.StartTime != nil {
		from = max(from, in.StartTime.Truncate(time.Second).UnixMilli())
	}
	if in.EndTime != nil {
		to = in.EndTime.Truncate(time.Second).Add(time.Second).UnixMilli()
	}
	if in.StartTime != nil && in.EndTime != nil && in.EndTime.Before(*in.StartTime) {
		return nil, &types.InvalidTimeRangeException{Message: aws.String("The start time must be before the end time.")}
	}
	var after *position
	if token := aws.ToString(in.NextToken); token != "" {
		if after, err = positionIn(ctx, token); err != nil {
			return nil, err
		}
	}
	account, region := wire.CallerFrom(ctx).Account, wire.RegionFrom(ctx)
	if !s.lookups.allow(account+" "+region, now, 1) {
		return nil, &wire.Error{Code: "ThrottlingException", Message: "Rate exceeded"}
	}
	s.history.Flush()

	out := &cloudtrail.LookupEventsOutput{Events: []types.Event{}}
	looked, bytes := 0, 0
	var last position
	for e, err := range s.history.newestFirst(ctx, account, region, match.classes(), from, to, after) {
		if err != nil {
			return nil, fmt.Errorf("look up events of account %s: %w", account, err)
		}
		if len(out.Events) == most || looked == maxLookup || bytes > maxLookupBytes {
			text, err := json.Marshal(last)
			if err != nil {
				return nil, err
			}
			out.NextToken, err = wire.NextToken(ctx, string(text))
			return out, err
		}
		looked, bytes = looked+1, bytes+len(e.Message)
		last = e.position
		head, _, _ := strings.Cut(e.Message, "\n")
		if !strings.Contains(head, match.text) {
			continue
		}
		h, record, err := parseEvent(e.Message)
		if err != nil {
			return nil, err
		}
		if h.Region == region && match.matches(&h) {
			out.Events = append(out.Events, h.shown(record, time.UnixMilli(e.Timestamp)))
		}
	}
	return out, nil
}

// position is the position of an event of an account in the order in which they are read.
type position struct {
	Time  int64  `json:"t"` // in milliseconds since 1970 UTC
	Class class  `json:"c"`
	Seq   uint64 `json:"s"`
}

func positionIn(ctx context.Context, token string) (*position, error) {
	text, err := wire.TokenPosition(ctx, token)
	if err != nil {
		return nil, err
	}
	p := &position{}
	if json.Unmarshal([]byte(text), p) != nil || p.Class >= classes {
		return nil, &types.InvalidNextTokenException{Message: aws.String("The token is invalid.")}
	}
	return p, nil
}

// of returns the position in the group of a class behind which events follow this one.
func (p *position) of(c class) *events.Position {
	switch {
	case p == nil:
		return nil
	case c < p.Class:
		return &events.Position{Timestamp: p.Time} // all of that time were read
	case c > p.Class:
		return &events.Position{Timestamp: p.Time, Seq: math.MaxUint64}
	}
	return &events.Position{Timestamp: p.Time, Seq: p.Seq}
}

// placed is an event with its position.
type placed struct {
	events.Event
	position
}

// newestFirst reads events of an account, the newest first, and of one time those of the first class.
func (h *History) newestFirst(ctx context.Context, account, region string, of []class, from, to int64,
	after *position) iter.Seq2[placed, error] {
	stream := streamOf(region)
	return func(yield func(placed, error) bool) {
		type source struct {
			class class
			next  func() (events.Event, error, bool)
			head  events.Event
		}
		var sources []*source
		advance := func(s *source) (more bool, err error) {
			var there bool
			s.head, err, there = s.next()
			return there && err == nil, err
		}
		for _, c := range of {
			next, stop := iter.Pull2(h.events.Events(ctx, groupOf(account, c), events.Range{
				From: from, To: to, Streams: func(s events.StreamID) bool { return s == stream }, After: after.of(c),
				Backward: true, Hold: func(bytes int64) error { return wire.HoldAnswer(ctx, bytes) },
			}))
			defer stop()
			s := &source{class: c, next: next}
			more, err := advance(s)
			if err != nil {
				yield(placed{}, err)
				return
			}
			if more {
				sources = append(sources, s)
			}
		}
		for len(sources) > 0 {
			newest := 0
			for i, s := range sources {
				if s.head.Timestamp > sources[newest].head.Timestamp {
					newest = i
				}
			}
			s := sources[newest]
			if !yield(placed{s.head, position{s.head.Timestamp, s.class, s.head.Seq}}, nil) {
				return
			}
			more, err := advance(s)
			if err != nil {
				yield(placed{}, err)
				return
			}
			if !more {
				sources = append(sources[:newest], sources[newest+1:]...)
			}
		}
	}
}

// matcher finds events that have a value of an attribute. The zero value finds all.
type matcher struct {
	key   types.LookupAttributeKey
	value string
	text  string // that the header of each has
}

// matcherOf checks the attributes of a request, of which there is one at most.
func matcherOf(attributes []types.LookupAttribute) (m matcher, err error) {
	invalid := func(format string, args ...any) error {
		return &types.InvalidLookupAttributesException{Message: aws.String(fmt.Sprintf(format, args...))}
	}
	if len(attributes) > 1 {
		return m, invalid("You can specify one lookup attribute, and the request has %d.", len(attributes))
	}
	if len(attributes) == 0 {
		return m, nil
	}
	m.key, m.value = attributes[0].AttributeKey, aws.ToString(attributes[0].AttributeValue)
	switch m.key {
	case types.LookupAttributeKeyEventId, types.LookupAttributeKeyEventName, types.LookupAttributeKeyEventSource,
		types.LookupAttributeKeyUsername, types.LookupAttributeKeyResourceName, types.LookupAttributeKeyResourceType,
		types.LookupAttributeKeyAccessKeyId:
		m.text = quoted(m.value)
	case types.LookupAttributeKeyReadOnly:
		if m.value != "true" && m.value != "false" {
			return m, invalid("The value of the lookup attribute ReadOnly is true or false, and not %q.", cut(m.value))
		}
	default:
		return m, invalid("%q is no lookup attribute: specify one of EventId, EventName, ReadOnly, Username, "+
			"ResourceType, ResourceName, EventSource and AccessKeyId.", cut(string(m.key)))
	}
	if m.value == "" || len([]rune(m.value)) > maxAttribute {
		return m, invalid("The value of the lookup attribute %s has between 1 and %d characters.", m.key, maxAttribute)
	}
	return m, nil
}

// classes returns the classes in which there may be events of the matcher's.
func (m *matcher) classes() []class {
	switch {
	case m.key == types.LookupAttributeKeyReadOnly && m.value == "true":
		return []class{refusal, read}
	case m.key == types.LookupAttributeKeyReadOnly:
		return []class{change, refusal}
	}
	return []class{change, refusal, read}
}

func (m *matcher) matches(h *header) bool {
	switch m.key {
	case types.LookupAttributeKeyEventId:
		return h.ID == m.value
	case types.LookupAttributeKeyEventName:
		return h.Name == m.value
	case types.LookupAttributeKeyEventSource:
		return h.Source == m.value
	case types.LookupAttributeKeyUsername:
		return h.User == m.value
	case types.LookupAttributeKeyAccessKeyId:
		return h.Key == m.value
	case types.LookupAttributeKeyReadOnly:
		return strconv.FormatBool(h.ReadOnly) == m.value
	case types.LookupAttributeKeyResourceName, types.LookupAttributeKeyResourceType:
		i := 0
		if m.key == types.LookupAttributeKeyResourceName {
			i = 1
		}
		for _, n := range h.Resources {
			if n[i] == m.value {
				return true
			}
		}
		return false
	}
	return true
}
