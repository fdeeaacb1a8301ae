package logs

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// The fields that every event has.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData-discoverable-fields.html
var generated = []string{"@ingestionTime", "@log", "@logStream", "@message", "@timestamp"}

// pointedGroup returns the caller's group that a record pointer is about; false for one that isn't there, or another's.
func (s *Service) pointedGroup(ctx context.Context, text string) (record.LogPointer, record.LogGroup, bool, error) {
	p, ok := record.ParseLogPointer(text)
	if !ok {
		return p, record.LogGroup{}, false, nil
	}
	groups, err := s.groupsOf(ctx, scopeOf(ctx), "")
	i := slices.IndexFunc(groups, func(g record.LogGroup) bool { return g.ID == p.GroupID })
	if err != nil || i < 0 {
		return p, record.LogGroup{}, false, err
	}
	return p, groups[i], true, nil
}

// recordHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) recordHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetLogRecord, s.recordTargets),
		wire.Handle(s.GetLogGroupFields, func(
			ctx context.Context, action string, in *cloudwatchlogs.GetLogGroupFieldsInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, in.LogGroupIdentifier)
		}),
		wire.Handle(s.TestMetricFilter, wire.OnAll),
	}
}

// recordTargets returns the log group of the event that a request reads; without one, the action on "*".
func (s *Service) recordTargets(
	ctx context.Context, action string, in *cloudwatchlogs.GetLogRecordInput,
) ([]wire.Target, error) {
	_, group, ok, err := s.pointedGroup(ctx, aws.ToString(in.LogRecordPointer))
	if err != nil || !ok {
		return nil, err
	}
	return s.onGroup(ctx, action, &group.Name, nil)
}

// GetLogRecord returns all fields of the event that a @ptr points at.
func (s *Service) GetLogRecord(ctx context.Context, in *cloudwatchlogs.GetLogRecordInput) (
	*cloudwatchlogs.GetLogRecordOutput, error) {
	text := aws.ToString(in.LogRecordPointer)
	p, group, ok, err := s.pointedGroup(ctx, text)
	if err != nil {
		return nil, err
	}
	if _, wellFormed := record.ParseLogPointer(text); !wellFormed {
		return nil, invalidParameter("The specified logRecordPointer is invalid: it is not the value of a @ptr field")
	}
	gone := notFound("The specified log record does not exist.")
	if !ok {
		return nil, gone
	}
	e, ok, err := s.events.Event(events.GroupID(group.ID), events.Position{Timestamp: p.Timestamp, Seq: p.Seq})
	if err != nil {
		return nil, heldBack(err, "read", group.Name)
	}
	names, nameErr := s.namesOf(ctx, group, "", nil)
	if nameErr != nil {
		return nil, nameErr
	}
	if !ok || names[e.Stream] == "" {
		return nil, gone
	}
	if err := wire.HoldAnswer(ctx, recordBytes*int64(len(e.Message))); err != nil {
		return nil, err
	}
	fields := map[string]string{}
	discover(e.Message, func(path string, v value.Value) { fields[path] = strings.Clone(v.String()) })
	fields["@ingestionTime"] = strconv.FormatInt(e.Ingested, 10)
	fields["@log"] = group.Account + ":" + group.Name
	fields["@logStream"] = names[e.Stream]
	fields["@message"] = e.Message
	fields["@ptr"] = text
	fields["@timestamp"] = strconv.FormatInt(e.Timestamp, 10)
	return &cloudwatchlogs.GetLogRecordOutput{LogRecord: fields}, nil
}

// recordBytes is the maximum number of bytes that a byte of an event takes in the response of GetLogRecord: in the
// message, to look for fields, and in a field.
const recordBytes = 4

// discover calls each for the first fields of a JSON message, as many as AWS discovers.
func discover(message string, each func(path string, v value.Value)) {
	var d value.Document
	if !d.Parse([]byte(message)) {
		return
	}
	n := 0
	d.Each(func(path string, v value.Value) bool {
		each(path, v)
		n++
		return n < value.MaxDiscovered
	})
}

// How GetLogGroupFields looks for fields.
const (
	recently  = 15 * time.Minute // up to now, when the request names no time
	around    = 8 * time.Minute  // before and after the time that it names
	maxSample = 10000            // events
	maxFields = 1000
)

// GetLogGroupFields returns the fields of a group's events, and the share of events that have each.
func (s *Service) GetLogGroupFields(ctx context.Context, in *cloudwatchlogs.GetLogGroupFieldsInput) (
	*cloudwatchlogs.GetLogGroupFieldsOutput, error) {
	group, err := s.groupBy(ctx, in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	now := s.now()
	from, to := now.Add(-recently).UnixMilli(), now.UnixMilli()
	if in.Time != nil {
		center := toMilliseconds(*in.Time)
		from, to = max(0, center-around.Milliseconds()), center+around.Milliseconds()
	}
	names, err := s.namesOf(ctx, group.Value, "", nil)
	if err != nil {
		return nil, err
	}
	if err := wire.HoldAnswer(ctx, 10*maxFields*value.MaxPath); err != nil {
		return nil, err
	}
	total, bytes, counts := 0, 0, map[string]int{}
	for e, err := range s.events.Events(ctx, events.GroupID(group.Value.ID), events.Range{
		From: from, To: to + 1, Streams: func(id events.StreamID) bool { return names[id] != "" }, Backward: true,
		Hold: hold(ctx),
	}) {
		if err != nil {
			return nil, heldBack(err, "read", group.Value.Name)
		}
		if total++; total > maxSample {
			total--
			break
		}
		for _, name := range generated {
			counts[name]++
		}
		discover(e.Message, func(path string, _ value.Value) {
			if counts[path] > 0 || len(counts) < 10*maxFields {
				counts[path]++
			}
		})
		if bytes += len(e.Message); bytes > maxScan {
			break
		}
	}
	fields := make([]types.LogGroupField, 0, len(counts))
	for name, n := range counts {
		fields = append(fields, types.LogGroupField{Name: new(name),
			Percent: int32(math.Round(float64(n) * 100 / float64(total)))})
	}
	slices.SortFunc(fields, func(a, b types.LogGroupField) int {
		if n := counts[*b.Name] - counts[*a.Name]; n != 0 {
			return n
		}
		return strings.Compare(*a.Name, *b.Name)
	})
	return &cloudwatchlogs.GetLogGroupFieldsOutput{LogGroupFields: fields[:min(len(fields), maxFields)]}, nil
}

const (
	maxTested     = 1 << 20  // bytes of messages that one TestMetricFilter looks at, as many as one PutLogEvents takes
	maxTestedCost = 16 << 20 // the same, times the cost of its pattern
	testedBytes   = 64       // that a byte of a message takes in an answer at most: every second one may be a field
)

// TestMetricFilter returns the messages that a filter pattern matches.
func (s *Service) TestMetricFilter(ctx context.Context, in *cloudwatchlogs.TestMetricFilterInput) (
	*cloudwatchlogs.TestMetricFilterOutput, error) {
	filter, err := parsePattern(aws.ToString(in.FilterPattern))
	if err != nil {
		return nil, err
	}
	size := 0
	for _, message := range in.LogEventMessages {
		size += len(message)
	}
	if most := min(maxTested, maxTestedCost/filter.Cost()); size > most {
		return nil, invalidParameter("The logEventMessages have %d bytes, and may have %d with this filterPattern: test "+
			"fewer or shorter ones at a time", size, most)
	}
	if err := wire.HoldAnswer(ctx, int64(size)*testedBytes); err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.TestMetricFilterOutput{Matches: []types.MetricFilterMatchRecord{}}
	for i, message := range in.LogEventMessages {
		if filter.Match(message) {
			out.Matches = append(out.Matches, types.MetricFilterMatchRecord{EventNumber: int64(i + 1),
				EventMessage: new(message), ExtractedValues: filter.Extract(message)})
		}
	}
	return out, nil
}
