package logs

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/logs/events"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// The limits of a batch.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const (
	eventOverhead = 26      // bytes that count for each event beside its message
	maxEvent      = 1 << 20 // bytes of an event with its overhead
	maxBatch      = 1 << 20 // bytes of all events with theirs
	maxSpan       = 24 * time.Hour
	maxAge        = 14 * 24 * time.Hour
	maxAhead      = 2 * time.Hour
)

// putHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) putHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutLogEvents, func(
			ctx context.Context, action string, in *cloudwatchlogs.PutLogEventsInput,
		) ([]wire.Target, error) {
			return s.onStream(ctx, action, in.LogGroupName, nil, in.LogStreamName)
		}),
	}
}

// PutLogEvents adds events to a log stream. When it answers they are on the disk.
func (s *Service) PutLogEvents(ctx context.Context, in *cloudwatchlogs.PutLogEventsInput) (
	*cloudwatchlogs.PutLogEventsOutput, error) {
	if err := checkBatch(in.LogEvents); err != nil {
		return nil, err
	}
	group, err := s.getGroup(ctx, aws.ToString(in.LogGroupName))
	if err != nil {
		return nil, err
	}
	stream, err := s.getStream(ctx, group.Value, aws.ToString(in.LogStreamName))
	if err != nil {
		return nil, err
	}
	now := s.now()
	expired := s.events.Expired(events.GroupID(group.Value.ID)) // by a retention that may have been shorter
	if days := group.Value.RetentionDays; days > 0 {
		expired = max(expired, expiryTime(now, days).UnixMilli())
	}
	rejected, first, end := selectAccepted(in.LogEvents, now, expired)
	accepted := in.LogEvents[first:end]
	if n := len(accepted); n > 0 {
		if span := *accepted[n-1].Timestamp - *accepted[0].Timestamp; span > maxSpan.Milliseconds() {
			return nil, invalidParameter(
				"The batch of log events in a single PutLogEvents request cannot span more than 24 hours.")
		}
	}
	out := &cloudwatchlogs.PutLogEventsOutput{RejectedLogEventsInfo: rejected}
	if in.Entity != nil {
		// There is nothing here that would show which resource a log belongs to.
		out.RejectedEntityInfo = &types.RejectedEntityInfo{
			ErrorType: types.EntityRejectionErrorTypeUnsupportedLogGroupType}
	}
	ingested := now.UnixMilli()
	if len(accepted) == 0 {
		out.NextSequenceToken = sequenceToken(ingested, 0)
		return out, nil
	}
	batch := make([]events.Event, len(accepted))
	for i, e := range accepted {
		batch[i] = events.Event{Stream: events.StreamID(stream.Value.ID), Timestamp: *e.Timestamp, Ingested: ingested,
			Message: *e.Message}
	}
	seq, err := s.events.Append(ctx, events.Batch{Group: events.GroupID(group.Value.ID), Events: batch})
	if err != nil {
		return nil, heldBack(err, "append to", group.Value.Name)
	}
	out.NextSequenceToken = sequenceToken(ingested, seq+uint64(len(batch)))
	return out, nil
}

// checkBatch refuses a batch that is too large or out of order.
func checkBatch(batch []types.InputLogEvent) error {
	total, last := 0, int64(0)
	for _, e := range batch {
		size := len(*e.Message) + eventOverhead
		if size > maxEvent {
			return invalidParameter("Log event too large: %d bytes exceeds limit of %d", size, maxEvent)
		}
		if *e.Timestamp < last {
			return invalidParameter("Log events in a single PutLogEvents request must be in chronological order.")
		}
		total, last = total+size, *e.Timestamp
	}
	if total > maxBatch {
		return invalidParameter("Upload too large: %d bytes exceeds limit of %d", total, maxBatch)
	}
	return nil
}

// selectAccepted finds the events batch[first:end] of a batch in chronological order that are neither too old nor too
// new, and says which are not. expired is the time in milliseconds before which the group keeps nothing.
func selectAccepted(batch []types.InputLogEvent, now time.Time, expired int64) (
	rejected *types.RejectedLogEventsInfo, first, end int) {
	// before is the number of events that are older than a time.
	before := func(limit int64) int {
		n := 0
		for n < len(batch) && *batch[n].Timestamp < limit {
			n++
		}
		return n
	}
	info := types.RejectedLogEventsInfo{}
	if n := before(now.Add(-maxAge).UnixMilli()); n > 0 {
		first, info.TooOldLogEventEndIndex = n, new(int32(n))
	}
	if n := before(expired); n > 0 {
		first, info.ExpiredLogEventEndIndex = max(first, n), new(int32(n))
	}
	end = len(batch)
	for end > first && *batch[end-1].Timestamp > now.Add(maxAhead).UnixMilli() {
		end--
		info.TooNewLogEventStartIndex = new(int32(end))
	}
	if first == 0 && end == len(batch) {
		return nil, first, end
	}
	return &info, first, end
}

// expiryTime returns the time before which events have expired.
func expiryTime(now time.Time, retentionDays int32) time.Time {
	return now.Add(-time.Duration(retentionDays) * 24 * time.Hour)
}
