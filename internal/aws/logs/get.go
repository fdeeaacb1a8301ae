package logs

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// The largest page of events.
const (
	maxPageEvents = 10000
	maxPageBytes  = 1 << 20 // of messages, each with eventOverhead
)

// page collects events until one doesn't fit.
type page struct {
	limit int
	bytes int
	list  []events.Event
}

func newPage(limit *int32) *page {
	p := &page{limit: maxPageEvents}
	if limit != nil {
		p.limit = int(*limit)
	}
	return p
}

// addEvent takes an event, unless the page is full. An empty page takes any.
func (p *page) addEvent(e events.Event) bool {
	size := len(e.Message) + eventOverhead
	if len(p.list) > 0 && (len(p.list) == p.limit || p.bytes+size > maxPageBytes) {
		return false
	}
	p.bytes += size
	p.list = append(p.list, e)
	return true
}

// readable refuses to read events of groups whose class does not allow it.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CloudWatch_Logs_Log_Classes.html
func readable(g record.LogGroup, operation string) error {
	if g.Class == types.LogGroupClassStandard {
		return nil
	}
	return invalidParameter("%s is not supported for log groups of the class %s, which is that of %s", operation,
		g.Class, g.Name)
}

// between returns the range of two optional times in milliseconds, the end exclusive. beyond is 1 where the request's
// end is inclusive.
func between(start, end *int64, beyond int64) (from, to int64, err error) {
	from, to = aws.ToInt64(start), math.MaxInt64
	if end != nil && *end < from {
		return 0, 0, invalidParameter("The endTime %d is earlier than the startTime %d", *end, from)
	}
	if end != nil && *end < math.MaxInt64 {
		to = *end + beyond
	}
	return from, to, nil
}

// getHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) getHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetLogEvents, func(
			ctx context.Context, action string, in *cloudwatchlogs.GetLogEventsInput,
		) ([]wire.Target, error) {
			return s.onStream(ctx, action, in.LogGroupName, in.LogGroupIdentifier, in.LogStreamName)
		}),
	}
}

// GetLogEvents reads the events of one stream, a page at a time, in either direction.
func (s *Service) GetLogEvents(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput) (
	*cloudwatchlogs.GetLogEventsOutput, error) {
	from, to, err := between(in.StartTime, in.EndTime, 0)
	if err != nil {
		return nil, err
	}
	at := cursor{backward: !aws.ToBool(in.StartFromHead)}
	if in.NextToken != nil {
		if at, err = parseCursor(*in.NextToken); err != nil {
			return nil, err
		}
	}
	group, err := s.groupBy(ctx, in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	if err := readable(group.Value, "GetLogEvents"); err != nil {
		return nil, err
	}
	stream, err := s.getStream(ctx, group.Value, aws.ToString(in.LogStreamName))
	if err != nil {
		return nil, err
	}
	id := events.StreamID(stream.Value.ID)
	p := newPage(in.Limit)
	for e, err := range s.events.Events(ctx, events.GroupID(group.Value.ID), events.Range{
		From: from, To: to, Streams: func(s events.StreamID) bool { return s == id }, After: at.position,
		Backward: at.backward, Hold: hold(ctx),
	}) {
		if err != nil {
			return nil, heldBack(err, "read", group.Value.Name)
		}
		if !p.addEvent(e) {
			break
		}
	}
	if at.backward {
		slices.Reverse(p.list)
	}
	out := &cloudwatchlogs.GetLogEventsOutput{Events: make([]types.OutputLogEvent, len(p.list))}
	for i := range p.list {
		e := &p.list[i]
		out.Events[i] = types.OutputLogEvent{IngestionTime: &e.Ingested, Timestamp: &e.Timestamp, Message: &e.Message}
	}
	back, forth := at.adjacentCursors(p.list, from)
	out.NextBackwardToken, out.NextForwardToken = new(back.String()), new(forth.String())
	return out, nil
}

// hold returns what takes memory of the caller's account for events that are read.
func hold(ctx context.Context) func(bytes int64) error {
	return func(bytes int64) error { return wire.HoldAnswer(ctx, bytes) }
}

// cursor is a position between two events of a stream, and the direction in which to read from there. Its text is what
// AWS's tokens look like: f/<56 digits>/s to read what follows the event with this ID, b/<56 digits>/s for what is
// before it.
type cursor struct {
	position *events.Position // nil: the beginning, or the end when backward
	backward bool
}

func (c cursor) String() string {
	direction := "f/"
	if c.backward {
		direction = "b/"
	}
	return direction + eventID(*c.position) + "/s"
}

func parseCursor(token string) (cursor, error) {
	direction, rest, _ := strings.Cut(token, "/")
	id, end, _ := strings.Cut(rest, "/")
	position, ok := parseEventID(id)
	if !ok || end != "s" || direction != "f" && direction != "b" {
		return cursor{}, invalidParameter("The specified nextToken is invalid.")
	}
	return cursor{position: &position, backward: direction == "b"}, nil
}

// adjacentCursors returns the cursors before and behind a page, in ascending order, that was read from c. A page
// without events leaves c where it is, so that its own token comes back, and the other one turns round on the spot: it
// finds again what c has passed.
func (c cursor) adjacentCursors(page []events.Event, from int64) (back, forth cursor) {
	back, forth = cursor{backward: true}, cursor{}
	if n := len(page); n > 0 {
		back.position = &events.Position{Timestamp: page[0].Timestamp, Seq: page[0].Seq}
		forth.position = &events.Position{Timestamp: page[n-1].Timestamp, Seq: page[n-1].Seq}
		return back, forth
	}
	if c.position == nil {
		c.position = &events.Position{Timestamp: from} // no event has Seq 0: this is before all at from
	}
	back.position, forth.position = c.position, c.position
	switch p := *c.position; {
	case c.backward && p.Seq > 0:
		forth.position = &events.Position{Timestamp: p.Timestamp, Seq: p.Seq - 1}
	case !c.backward && p.Seq > 0:
		back.position = &events.Position{Timestamp: p.Timestamp, Seq: p.Seq + 1}
	}
	return back, forth
}
