package logs

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/pattern"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxScan is the number of bytes of messages that one FilterLogEvents reads, times the cost of its pattern, before it
// returns what it has, and a token to go on. On AWS, too, a page may be empty and yet not the last.
const maxScan = 256 << 20

// descendingSince is the earliest startTime with which events can be read from the latest on.
var descendingSince = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// filterHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) filterHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.FilterLogEvents, func(
			ctx context.Context, action string, in *cloudwatchlogs.FilterLogEventsInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, in.LogGroupIdentifier)
		}),
	}
}

// FilterLogEvents reads the events of a group, or of some of its streams, that a filter pattern matches.
func (s *Service) FilterLogEvents(ctx context.Context, in *cloudwatchlogs.FilterLogEventsInput) (
	*cloudwatchlogs.FilterLogEventsOutput, error) {
	if len(in.LogStreamNames) > 0 && in.LogStreamNamePrefix != nil {
		return nil,
			invalidParameter("logStreamNames and logStreamNamePrefix are mutually exclusive: specify one of them")
	}
	from, to, err := between(in.StartTime, in.EndTime, 1)
	if err != nil {
		return nil, err
	}
	filter, err := parsePattern(aws.ToString(in.FilterPattern))
	if err != nil {
		return nil, err
	}
	at := cursor{backward: !aws.ToBool(defaultTrue(in.StartFromHead))}
	if at.backward && from < descendingSince.UnixMilli() {
		return nil, invalidParameter("startFromHead can be false only with a startTime on or after %s",
			descendingSince.Format(time.RFC3339))
	}
	if in.NextToken != nil {
		if at, err = openFilterToken(*in.NextToken, in); err != nil {
			return nil, err
		}
	}
	group, err := s.groupBy(ctx, in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	if err := readable(group.Value, "FilterLogEvents"); err != nil {
		return nil, err
	}
	names, err := s.namesOf(ctx, group.Value, aws.ToString(in.LogStreamNamePrefix), in.LogStreamNames)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.FilterLogEventsOutput{Events: []types.FilteredLogEvent{},
		SearchedLogStreams: []types.SearchedLogStream{}}
	if len(names) == 0 {
		return out, nil
	}
	p, scanned := newPage(in.Limit), 0
	var last events.Position
	for e, err := range s.events.Events(ctx, events.GroupID(group.Value.ID), events.Range{
		From: from, To: to, Streams: func(id events.StreamID) bool { return names[id] != "" }, Words: filter.Words(),
		After: at.position, Backward: at.backward, Hold: hold(ctx),
	}) {
		if err != nil {
			return nil, heldBack(err, "read", group.Value.Name)
		}
		before := scanned
		scanned += len(e.Message) * filter.Cost()
		if before > 0 && scanned > maxScan || filter.Match(e.Message) && !p.addEvent(e) {
			out.NextToken = new(filterToken(cursor{position: &last, backward: at.backward}, in))
			break
		}
		last = events.Position{Timestamp: e.Timestamp, Seq: e.Seq}
	}
	for i := range p.list {
		e := &p.list[i]
		out.Events = append(out.Events, types.FilteredLogEvent{
			EventId:       new(eventID(events.Position{Timestamp: e.Timestamp, Seq: e.Seq})),
			LogStreamName: new(names[e.Stream]),
			IngestionTime: &e.Ingested, Timestamp: &e.Timestamp, Message: &e.Message,
		})
	}
	return out, nil
}

func defaultTrue(b *bool) *bool {
	if b == nil {
		return new(true)
	}
	return b
}

func parsePattern(text string) (*pattern.Pattern, error) {
	p, err := pattern.Parse(text)
	if err != nil {
		return nil, invalidParameter("%s", err)
	}
	return p, nil
}

// namesOf returns the names of a group's streams by their IDs: of those that are listed, each of which must be there,
// or else of all whose names begin with prefix.
func (s *Service) namesOf(ctx context.Context, g record.LogGroup, prefix string,
	listed []string) (map[events.StreamID]string, error) {
	names := map[events.StreamID]string{}
	if len(listed) > 0 {
		for _, name := range listed {
			row, err := s.streams.Get(ctx, record.LogStreamKey(g.ID, name))
			if errors.Is(err, store.ErrNotFound) {
				return nil, streamNotFound()
			} else if err != nil {
				return nil, err
			}
			names[events.StreamID(row.Value.ID)] = name
		}
		return names, nil
	}
	streams, err := s.streamsOf(ctx, g, prefix)
	if err != nil {
		return nil, err
	}
	for _, stream := range streams {
		names[events.StreamID(stream.ID)] = stream.Name
	}
	return names, nil
}

// filterToken returns the token of a page that goes on at c. It is good for requests with the same parameters only.
func filterToken(c cursor, in *cloudwatchlogs.FilterLogEventsInput) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.String() + "/" + filterFingerprint(in)))
}

func openFilterToken(token string, in *cloudwatchlogs.FilterLogEventsInput) (cursor, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	position, fingerprint, ok := cutLast(string(text), "/")
	if err != nil || !ok || fingerprint != filterFingerprint(in) {
		return cursor{}, invalidParameter("The specified nextToken is invalid.")
	}
	return parseCursor(position)
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// filterFingerprint identifies what is asked for, whichever page of it.
func filterFingerprint(in *cloudwatchlogs.FilterLogEventsInput) string {
	all := *in
	all.NextToken, all.Limit, all.StartFromHead, all.Interleaved = nil, nil, nil, nil
	return wire.Fingerprint(&all)
}
