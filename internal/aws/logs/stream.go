package logs

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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

// streamHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) streamHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLogStream, func(
			ctx context.Context, action string, in *cloudwatchlogs.CreateLogStreamInput,
		) ([]wire.Target, error) {
			return s.onStream(ctx, action, in.LogGroupName, nil, in.LogStreamName)
		}),
		wire.Handle(s.DeleteLogStream, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteLogStreamInput,
		) ([]wire.Target, error) {
			return s.onStream(ctx, action, in.LogGroupName, nil, in.LogStreamName)
		}),
		wire.Handle(s.DescribeLogStreams, func(
			ctx context.Context, action string, in *cloudwatchlogs.DescribeLogStreamsInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, in.LogGroupIdentifier)
		}),
	}
}

// CreateLogStream creates a log stream in a log group.
func (s *Service) CreateLogStream(ctx context.Context, in *cloudwatchlogs.CreateLogStreamInput) (
	*cloudwatchlogs.CreateLogStreamOutput, error) {
	name := aws.ToString(in.LogStreamName)
	for {
		group, err := s.getGroup(ctx, aws.ToString(in.LogGroupName))
		if err != nil {
			return nil, err
		}
		key := record.LogStreamKey(group.Value.ID, name)
		if _, err := s.streams.Get(ctx, key); err == nil {
			return nil, alreadyExists("The specified log stream already exists")
		}
		stream := record.LogStream{
			Account: group.Value.Account, GroupID: group.Value.ID, Name: name, ID: randomID(), CreatedAt: s.timestamp(),
		}
		// The group is held, so that no stream is made in one that is deleted meanwhile.
		err = s.store.Txn(ctx, s.groups.CheckOp(group), s.streams.CreateOp(key, stream))
		switch {
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExists):
			continue
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.CreateLogStreamOutput{}, nil
	}
}

// DeleteLogStream deletes a log stream with its events.
func (s *Service) DeleteLogStream(ctx context.Context, in *cloudwatchlogs.DeleteLogStreamInput) (
	*cloudwatchlogs.DeleteLogStreamOutput, error) {
	group, err := s.getGroup(ctx, aws.ToString(in.LogGroupName))
	if err != nil {
		return nil, err
	}
	if err := unprotected(group.Value); err != nil {
		return nil, err
	}
	row, err := s.getStream(ctx, group.Value, aws.ToString(in.LogStreamName))
	if err != nil {
		return nil, err
	}
	if err := s.streams.Delete(ctx, row); errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return nil, streamNotFound() // it, or the one that is there now, came after this request
	} else if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.DeleteLogStreamOutput{}, nil
}

// streamsOf returns the streams of a group whose names begin with prefix, by name.
func (s *Service) streamsOf(ctx context.Context, g record.LogGroup, prefix string) ([]record.LogStream, error) {
	return listByName(ctx, s.streams, record.LogStreamKey(g.ID, ""), prefix,
		func(l record.LogStream) string { return l.Name })
}

// DescribeLogStreams describes the streams of a log group, by name or by the time of their last event.
func (s *Service) DescribeLogStreams(ctx context.Context, in *cloudwatchlogs.DescribeLogStreamsInput) (
	*cloudwatchlogs.DescribeLogStreamsOutput, error) {
	if in.OrderBy == types.OrderByLastEventTime && in.LogStreamNamePrefix != nil {
		return nil, invalidParameter("Cannot order by LastEventTime with a logStreamNamePrefix.")
	}
	group, err := s.groupBy(ctx, in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	streams, err := s.streamsOf(ctx, group.Value, aws.ToString(in.LogStreamNamePrefix))
	if err != nil {
		return nil, err
	}
	key := func(stream record.LogStream) string { return stream.Name }
	if in.OrderBy == types.OrderByLastEventTime {
		last := map[string]int64{}
		for _, stream := range streams {
			stat, _ := s.events.StreamStat(events.GroupID(group.Value.ID), events.StreamID(stream.ID))
			last[stream.Name] = max(stat.Last, 0)
		}
		key = func(stream record.LogStream) string { return fmt.Sprintf("%019d %s", last[stream.Name], stream.Name) }
		slices.SortFunc(streams, func(a, b record.LogStream) int {
			return cmp.Or(cmp.Compare(last[a.Name], last[b.Name]), strings.Compare(a.Name, b.Name))
		})
	}
	if aws.ToBool(in.Descending) {
		slices.Reverse(streams)
		ascending := key
		key = func(stream record.LogStream) string { return inverse(ascending(stream)) }
	}
	// The key is a stream's position in the order, so that a page goes on there even when the stream is gone or has a new
	// event.
	page, next, err := wire.Page(ctx, streams, in.Limit, in.NextToken, key)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeLogStreamsOutput{LogStreams: []types.LogStream{}, NextToken: next}
	for _, stream := range page {
		out.LogStreams = append(out.LogStreams, s.describeStream(group.Value, stream))
	}
	return out, nil
}

// inverse returns a text for each text, in the opposite order.
func inverse(text string) string {
	b := []byte(text)
	for i := range b {
		b[i] = ^b[i]
	}
	return hex.EncodeToString(b) + "~" // behind every digit: what is longer comes first
}

func (s *Service) describeStream(g record.LogGroup, stream record.LogStream) types.LogStream {
	out := types.LogStream{
		Arn:           new(g.ARN() + ":log-stream:" + stream.Name),
		LogStreamName: new(stream.Name),
		CreationTime:  unixMillis(stream.CreatedAt),
		StoredBytes:   new(int64(0)), // of a stream, AWS has said 0 since 2019
	}
	if stat, ok := s.events.StreamStat(events.GroupID(g.ID), events.StreamID(stream.ID)); ok {
		out.FirstEventTimestamp, out.LastEventTimestamp, out.LastIngestionTime = new(stat.First), new(stat.Last),
			new(stat.LastIngested)
		out.UploadSequenceToken = sequenceToken(stat.LastIngested, uint64(stat.Events))
	}
	return out
}
