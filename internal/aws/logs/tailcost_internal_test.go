package logs

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestTailsLookUpStreamsOneByOne has more streams in a group than a session of Live Tail remembers: an event of a
// stream that it does not know costs no look at all others.
func TestTailsLookUpStreamsOneByOne(t *testing.T) {
	t.Parallel()
	s := New(Options{Store: storetest.New(t)})
	var ops []store.Op
	for id := range uint64(maxTailedStreams + 50) {
		stream := record.LogStream{Account: "111122223333", GroupID: 7, Name: fmt.Sprintf("s%d", id), ID: id + 1}
		if ops = append(ops, s.streams.PutOp(record.LogStreamKey(7, stream.Name), stream)); len(ops) == 50 {
			if err := s.store.Txn(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	var read int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { read += bytes; return nil })
	session, groups := &tail{service: s}, []*tailed{{LogGroup: record.LogGroup{ID: 7}}, {LogGroup: record.LogGroup{ID: 8}}}
	for id := range uint64(maxTailedStreams + 60) {
		want := fmt.Sprintf("s%d", id)
		if id >= maxTailedStreams+50 {
			want = "" // it is gone
		}
		for range 2 {
			read = 0
			if gone, err := session.streamName(ctx, groups[1], events.StreamID(id+1)); gone != "" || err != nil {
				t.Fatalf("stream %d of a group that has none is %q: %v", id, gone, err)
			}
			name, err := session.streamName(ctx, groups[0], events.StreamID(id+1))
			if err != nil || name != want {
				t.Fatalf("stream %d is %q, want %q: %v", id, name, want, err)
			}
			if read > 1000 {
				t.Fatalf("%d bytes are read for the name of a stream", read)
			}
		}
		if len(session.streams) > maxTailedStreams {
			t.Fatalf("a session remembers %d streams", len(session.streams))
		}
	}
}

// TestTailsListNoStreams begins sessions in a group of many streams.
func TestTailsListNoStreams(t *testing.T) {
	t.Parallel()
	s := New(Options{Store: storetest.New(t)})
	var err error
	if s.events, err = events.Open(t.TempDir(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.events.Close() }) //nolint:errcheck // nothing was written
	ctx := wire.WithRegion(wire.WithCaller(t.Context(), wire.Caller{Account: "111122223333"}), "eu-west-1")
	at := scopeOf(ctx)
	group := record.LogGroup{Account: at.account, Region: at.region, Name: "app", ID: 7,
		Class: types.LogGroupClassStandard}
	ops := []store.Op{s.groups.PutOp(at.groupKey(group.Name), group)}
	for id := range uint64(60) {
		stream := record.LogStream{Account: at.account, GroupID: 7, Name: fmt.Sprintf("s%d", id), ID: id + 1}
		ops = append(ops, s.streams.PutOp(record.LogStreamKey(7, stream.Name), stream))
	}
	if err := s.store.Txn(ctx, ops...); err != nil {
		t.Fatal(err)
	}
	for _, in := range []cloudwatchlogs.StartLiveTailInput{
		{LogGroupIdentifiers: []string{group.ARN(), group.ARN()}},
		{LogGroupIdentifiers: []string{group.ARN()}, LogStreamNamePrefixes: []string{"s"}},
		{LogGroupIdentifiers: []string{group.ARN()}, LogStreamNames: []string{"s1", "s2"}},
	} {
		var read int64
		metered := store.Metered(ctx, func(bytes int64) error { read += bytes; return nil })
		if _, err := s.newTail(metered, &in); err != nil || read > 2000 {
			t.Errorf("%+v reads %d bytes: %v", in, read, err)
		}
	}
}
