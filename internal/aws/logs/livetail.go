package logs

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/pattern"
	"github.com/coracle-eks/coracle/internal/record"
)

// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_StartLiveTail.html
const (
	maxTails     = 15            // sessions at once of an account in a region
	maxAllTails  = 45            // and in all regions: each holds what it knows of streams
	tailTime     = 3 * time.Hour // after which a session ends
	tailInterval = time.Second   // between updates
	maxTailed    = 500           // events in an update
	// maxTailedBytes bounds the messages of an update, unless it has only one: as JSON they may be six times as long,
	// and the frame of an event has 16 MiB at most.
	maxTailedBytes = 2 << 20
	// tailMemory is what collecting an update takes at most: events as they are read, and those that the update has. As
	// JSON they take memory beside it.
	tailMemory = 4<<20 + maxTailedBytes
	// maxTailedStreams limits the stream names that a session remembers.
	maxTailedStreams = 1000
)

// tails are the Live Tail sessions under way.
type tails struct {
	mu   sync.Mutex
	open map[scope]int
	all  map[string]int // by account
}

// beginSession counts a session, unless there are too many, until ctx is done.
func (t *tails) beginSession(ctx context.Context, at scope) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[at] >= maxTails {
		return limitExceeded(
			"There are already %d Live Tail sessions of account %s in %s, the most that may run at once: end one of them", maxTails, at.account, at.region)
	}
	if t.all[at.account] >= maxAllTails {
		return limitExceeded("There are already %d Live Tail sessions of account %s in all regions, the most that may "+
			"run at once: end one of them", maxAllTails, at.account)
	}
	if t.open == nil {
		t.open, t.all = map[scope]int{}, map[string]int{}
	}
	t.open[at]++
	t.all[at.account]++
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.open[at]--; t.open[at] == 0 {
			delete(t.open, at)
		}
		if t.all[at.account]--; t.all[at.account] == 0 {
			delete(t.all, at.account)
		}
	})
	return nil
}

// tail is a Live Tail session.
type tail struct {
	service *Service
	at      scope
	filter  *pattern.Pattern
	wanted  func(stream string) bool
	groups  []*tailed
	streams map[tailedStream]string // some names; those of streams that are gone are empty
}

// tailed is a log group of a session.
type tailed struct {
	record.LogGroup
	after uint64 // the Seq of the last event that was looked at
}

// tailedStream is a stream of a log group of a session.
type tailedStream struct {
	group  uint64
	stream events.StreamID
}

// liveTailHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) liveTailHandlers() []wire.Handler {
	return []wire.Handler{
		wire.HandleStream(s.StartLiveTail, func(
			ctx context.Context, action string, in *cloudwatchlogs.StartLiveTailInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, in.LogGroupIdentifiers)
		}),
	}
}

// StartLiveTail streams the events that arrive in log groups from now on, an update each second.
func (s *Service) StartLiveTail(ctx context.Context, in *cloudwatchlogs.StartLiveTailInput) (
	*cloudwatchlogs.StartLiveTailOutput, iter.Seq2[types.StartLiveTailResponseStream, error], error,
) {
	t, err := s.newTail(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	if err := s.tails.beginSession(ctx, t.at); err != nil {
		return nil, nil, err
	}
	start := &types.StartLiveTailResponseStreamMemberSessionStart{Value: types.LiveTailSessionStart{
		RequestId: aws.String(wire.RequestIDFrom(ctx)), SessionId: aws.String(rand.Text()),
		LogGroupIdentifiers: in.LogGroupIdentifiers,
		LogStreamNames:      nonNilList(in.LogStreamNames), LogStreamNamePrefixes: nonNilList(in.LogStreamNamePrefixes),
		LogEventFilterPattern: aws.String(t.filter.String()),
	}}
	return &cloudwatchlogs.StartLiveTailOutput{}, func(yield func(types.StartLiveTailResponseStream, error) bool) {
		if !yield(start, nil) {
			return
		}
		tick := time.NewTicker(tailInterval)
		defer tick.Stop()
		end := time.NewTimer(s.tailTime)
		defer end.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-end.C:
				yield(nil, &types.SessionTimeoutException{
					Message: aws.String("The session has timed out: start another one.")})
				return
			case <-tick.C:
			}
			update, err := t.nextUpdate(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(update, nil) {
				return
			}
		}
	}, nil
}

func nonNilList(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// newTail checks what a session asks for. It begins behind the events that there are.
func (s *Service) newTail(ctx context.Context, in *cloudwatchlogs.StartLiveTailInput) (*tail, error) {
	t := &tail{service: s, at: scopeOf(ctx), wanted: func(string) bool { return true }}
	var err error
	if t.filter, err = parsePattern(aws.ToString(in.LogEventFilterPattern)); err != nil {
		return nil, err
	}
	switch names, prefixes := in.LogStreamNames, in.LogStreamNamePrefixes; {
	case len(names) > 0 && len(prefixes) > 0:
		return nil,
			invalidParameter("logStreamNames and logStreamNamePrefixes are mutually exclusive: specify one of them")
	case len(names)+len(prefixes) > 0 && len(in.LogGroupIdentifiers) > 1:
		return nil,
			invalidParameter(
				"logStreamNames and logStreamNamePrefixes can be specified only with a single log group in "+
					"logGroupIdentifiers, and there are %d", len(in.LogGroupIdentifiers))
	case len(names) > 0:
		t.wanted = func(stream string) bool { return slices.Contains(names, stream) }
	case len(prefixes) > 0:
		t.wanted = func(stream string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(stream, prefix) })
		}
	}
	for _, id := range in.LogGroupIdentifiers {
		if _, ok := parseARN(id); !ok {
			return nil, invalidParameter(
				"The value %s of logGroupIdentifiers is not the ARN of a log group: write %s, without :* at its end",
				id, t.at.groupARN("NAME"))
		}
		row, err := s.groupBy(ctx, nil, &id)
		if err != nil {
			return nil, err
		}
		g := row.Value
		if g.Class != types.LogGroupClassStandard {
			return nil, &types.InvalidOperationException{
				Message: aws.String(fmt.Sprintf(
					"Live Tail is not supported for log groups of the class %s, which is that of %s", g.Class, g.Name))}
		}
		if len(in.LogStreamNames) > 0 { // each must be there
			if _, err := s.namesOf(ctx, g, "", in.LogStreamNames); err != nil {
				return nil, err
			}
		}
		if !slices.ContainsFunc(t.groups, func(other *tailed) bool { return other.ID == g.ID }) {
			t.groups = append(t.groups, &tailed{LogGroup: g, after: s.events.LastSeq(events.GroupID(g.ID))})
		}
	}
	return t, nil
}

// nextUpdate returns what has arrived since the last one. It takes memory of the account for that, which is given back
// when the client has read it.
func (t *tail) nextUpdate(ctx context.Context) (types.StartLiveTailResponseStream, error) {
	if slices.ContainsFunc(t.groups, func(g *tailed) bool {
		return t.service.events.LastSeq(events.GroupID(g.ID)) > g.after
	}) {
		if err := wire.HoldAnswer(ctx, tailMemory); err != nil {
			return nil, err
		}
	}
	sample := sample{events: []types.LiveTailSessionLogEvent{}} // an empty list rather than none
	for _, g := range t.groups {
		if err := t.collect(ctx, g, &sample); err != nil {
			return nil, fmt.Errorf("tail log group %s: %w", g.Name, err)
		}
	}
	slices.SortStableFunc(sample.events, func(a,
		b types.LiveTailSessionLogEvent) int {
		return int(*a.Timestamp - *b.Timestamp)
	})
	return &types.StartLiveTailResponseStreamMemberSessionUpdate{Value: types.LiveTailSessionUpdate{
		SessionMetadata: &types.LiveTailSessionMetadata{Sampled: sample.matched > len(sample.events)},
		SessionResults:  sample.events,
	}}, nil
}

// collect reads the new events of a group.
func (t *tail) collect(ctx context.Context, g *tailed, into *sample) error {
	const batch = 1000
	id := events.GroupID(g.ID)
	for t.service.events.LastSeq(id) > g.after {
		list, err := t.service.events.Since(ctx, id, g.after, batch)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, e := range list {
			g.after = e.Seq
			name, err := t.streamName(ctx, g, e.Stream)
			if err != nil {
				return err
			}
			if name != "" && t.wanted(name) && t.filter.Match(e.Message) {
				into.addEvent(types.LiveTailSessionLogEvent{
					LogGroupIdentifier: aws.String(t.at.account + ":" + g.Name), LogStreamName: &name,
					Message: &e.Message, Timestamp: &e.Timestamp, IngestionTime: &e.Ingested,
				})
			}
		}
	}
	return nil
}

// streamName returns the name of a stream of the group, empty when it is gone. A session remembers few of them.
func (t *tail) streamName(ctx context.Context, g *tailed, id events.StreamID) (string, error) {
	key := tailedStream{g.ID, id}
	if name, known := t.streams[key]; known {
		return name, nil
	}
	rows, err := t.service.streamsByID.List(ctx, record.LogStreamID(g.ID, uint64(id)))
	if err != nil {
		return "", err
	}
	if t.streams == nil || len(t.streams) >= maxTailedStreams {
		t.streams = map[tailedStream]string{}
	}
	t.streams[key] = ""
	for _, row := range rows { // one, if any
		t.streams[key] = row.Value.Name
	}
	return t.streams[key], nil
}

// sample keeps as many events as an update may have, chosen evenly from all that were added.
type sample struct {
	events  []types.LiveTailSessionLogEvent
	bytes   int
	matched int
}

func (s *sample) addEvent(e types.LiveTailSessionLogEvent) {
	s.matched++
	size := len(*e.Message)
	if len(s.events) < maxTailed {
		if s.bytes+size <= maxTailedBytes || len(s.events) == 0 {
			s.events, s.bytes = append(s.events, e), s.bytes+size
		}
		return
	}
	if i := mathrand.IntN(s.matched); i < maxTailed && s.bytes+size-len(*s.events[i].Message) <= maxTailedBytes {
		s.bytes += size - len(*s.events[i].Message)
		s.events[i] = e
	}
}
