package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

func put(size int) *pb.PutRequest { return &pb.PutRequest{Key: make([]byte, size)} }

func putOp(size int) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put(size)}}
}

func deleteOp() *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{}}}
}

func txnOp(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	nested := &pb.TxnRequest{
		Success: []*pb.RequestOp{putOp(10), txnOp(&pb.TxnRequest{Failure: []*pb.RequestOp{putOp(20), putOp(30)}})},
		Failure: []*pb.RequestOp{putOp(5)},
	}
	inner := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{
		Responses: []*pb.ResponseOp{{}, {}},
	}}}
	deleted := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{
		ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: 3},
	}}
	for name, c := range map[string]struct {
		request, response any
		reserved, written int64
	}{
		"a put":  {put(1000), &pb.PutResponse{}, revisionWeight(1000), revisionWeight(1000)},
		"a read": {&pb.RangeRequest{Key: []byte("k")}, &pb.RangeResponse{}, 0, 0},
		"a deletion reserves nothing and writes a revision for each key": {
			&pb.DeleteRangeRequest{}, &pb.DeleteRangeResponse{Deleted: 2}, 0, 2 * revisionWeight(0),
		},
		"a transaction that deletes reserves nothing": {
			&pb.TxnRequest{Success: []*pb.RequestOp{deleteOp()}},
			&pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{deleted}}, 0, 3 * revisionWeight(0),
		},
		"a nested transaction reserves its largest branches and writes those that were taken": {
			nested, &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{}, inner}},
			revisionWeight(10) + revisionWeight(20) + revisionWeight(30), revisionWeight(10) + revisionWeight(20) +
				revisionWeight(30),
		},
		"the other branch": {
			nested, &pb.TxnResponse{Responses: []*pb.ResponseOp{{}}}, revisionWeight(10) + revisionWeight(20) +
				revisionWeight(30), revisionWeight(5),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := weighRequest(c.request); got != c.reserved {
				t.Errorf("reserves %d, want %d", got, c.reserved)
			}
			if got := weighResponse(c.request, c.response); got != c.written {
				t.Errorf("has written %d, want %d", got, c.written)
			}
		})
	}
	if got := countOps(nested); got != 5 {
		t.Errorf("the nested transaction has %d operations, want 5", got)
	}
}

func TestClusterOfRecord(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"/clusters/a/pods/x": "a", "/clusters/a": "", "/clusters/": "", "/coracle/t/x": "", "": "",
	} {
		kv := mvccpb.KeyValue{Key: []byte(key), Value: []byte("value"), ModRevision: 7}
		record, err := kv.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got := clusterOfRecord(record); got != want {
			t.Errorf("the cluster of %q is %q, want %q", key, got, want)
		}
	}
	for _, broken := range []string{"", "\n", "\n\xff", "x"} {
		if got := clusterOfRecord([]byte(broken)); got != "" {
			t.Errorf("the cluster of the record %q is %q", broken, got)
		}
	}
}

// fakeServer is an etcd whose database, compactions and clock the test sets.
type fakeServer struct {
	mu     sync.Mutex
	set    clusterSet
	rev    int64
	stored map[string]int64
	clock  time.Time
	counts int
}

type userKey struct{}

func (f *fakeServer) requestUser(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}
func (f *fakeServer) clusters() clusterSet { return f.set }
func (f *fakeServer) log() *zap.Logger     { return zap.NewNop() }
func (f *fakeServer) now() time.Time       { return f.clock }

// accounts returns clusters a, b, c and so on, each of an account of its own.
func accounts(n int) clusterSet {
	all := map[string]string{}
	for i := range n {
		all[string(rune('a'+i))] = ""
	}
	return newClusterSet(all)
}

func (f *fakeServer) compacted() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rev
}

func (f *fakeServer) countWeights() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts++
	return maps.Clone(f.stored)
}

func (f *fakeServer) compact(stored map[string]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev++
	f.stored = stored
}

// startShares returns shares of a quota that have counted the database once.
func startShares(quota int64, f *fakeServer) *shares {
	s := newShares(quota)
	if f.stored == nil {
		f.stored = map[string]int64{}
	}
	s.startServing(f)
	s.mu.Lock()
	counting := s.counting
	s.mu.Unlock()
	if counting != nil {
		<-counting
	}
	return s
}

func as(user string) context.Context { return context.WithValue(context.Background(), userKey{}, user) }

// send sends a request that etcd answers with the response or error.
func send(s *shares, user string, request, response any, err error) error {
	_, err = s.interceptUnary(as(user), request, nil, func(context.Context, any) (any, error) { return response, err })
	return err
}

func TestShares(t *testing.T) {
	t.Parallel()
	const quota = 400_000
	write := put(40_000)
	f := &fakeServer{set: accounts(2)}
	s := startShares(quota, f)
	flood := func(user string) (written int) {
		for range 100 {
			err := send(s, user, write, &pb.PutResponse{}, nil)
			if errors.Is(err, rpctypes.ErrGRPCNoSpace) {
				return written
			}
			if err != nil {
				t.Fatal(err)
			}
			written++
		}
		return written
	}
	if n := flood("cluster-a"); n != 2 {
		t.Errorf("a cluster wrote %d times 40 kB into its quarter of 400 kB, want 2", n)
	}
	if n := flood("cluster-b"); n != 2 {
		t.Errorf("another cluster wrote %d times, want 2", n)
	}
	if n := flood("root"); n != 100 {
		t.Errorf("root wrote %d times of 100", n)
	}
	if err := send(s, "cluster-a", &pb.DeleteRangeRequest{}, &pb.DeleteRangeResponse{Deleted: 1}, nil); err != nil {
		t.Errorf("a full cluster may not delete: %v", err)
	}
	if err := send(s, "cluster-a", &pb.RangeRequest{}, &pb.RangeResponse{}, nil); err != nil {
		t.Errorf("a full cluster may not read: %v", err)
	}
	if n := f.counts; n != 1 {
		t.Errorf("the database was counted %d times before anything was compacted, want once", n)
	}
	f.compact(map[string]int64{"a": 50_000, "b": 100_000})
	if n := flood("cluster-a"); n != 1 {
		t.Errorf("after a compaction to 50 kB a cluster wrote %d times, want 1", n)
	}
	if n := flood("cluster-b"); n != 0 {
		t.Errorf("a cluster that had nothing to compact wrote %d times", n)
	}
	if n := f.counts; n != 2 {
		t.Errorf("the database was counted %d times after one compaction, want 2", n)
	}
	f.set = accounts(6)
	f.compact(map[string]int64{"a": 50_000})
	if n := flood("cluster-c"); n != 1 {
		t.Errorf("one of six clusters wrote %d times into a sixth of three quarters, want 1", n)
	}
	if n := flood("cluster-a"); n != 0 {
		t.Errorf("a cluster at its even part wrote %d times", n)
	}
}

// TestClustersOfOneAccountDivideItsPart shows that nobody has less of the database for how many clusters others create,
// that those of one account share its part, and that no cluster has less than its floor.
func TestClustersOfOneAccountDivideItsPart(t *testing.T) {
	t.Parallel()
	const quota = 8 << 30
	for name, c := range map[string]struct {
		clusters map[string]int // by account
		of       string         // whose cluster
		least    int64
		most     int64
	}{
		"the only cluster":                      {map[string]int{"x": 1}, "x", 2 << 30, 2 << 30},
		"beside an account with as many as may": {map[string]int{"x": 1, "evil": 96}, "x", 1 << 30, 2 << 30},
		"of the account with as many as may":    {map[string]int{"x": 1, "evil": 96}, "evil", 32 << 20, 64 << 20},
		"of nine accounts": {map[string]int{"x": 1, "a": 20, "b": 20, "c": 20, "d": 20, "e": 20,
			"f": 20, "g": 20, "h": 20}, "x", 128 << 20, 256 << 20},
		"as many as may":           {map[string]int{"x": 96, "y": 96}, "x", 32 << 20, 32 << 20},
		"more than may, of before": {map[string]int{"x": 1, "y": 2000}, "x", 3 << 20, 2 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := map[string]string{}
			for account, n := range c.clusters {
				for i := range n {
					all[fmt.Sprint(account, i)] = account
				}
			}
			s := startShares(quota, &fakeServer{set: newClusterSet(all)})
			if got := s.clusterShare(c.of + "0"); got < c.least || got > c.most {
				t.Errorf("a cluster has %d MiB, want %d to %d", got>>20, c.least>>20, c.most>>20)
			}
			var sum int64
			for cluster := range all {
				sum += s.clusterShare(cluster)
			}
			if sum > quota/4*3 {
				t.Errorf("all clusters together have %d MiB, more than three quarters", sum>>20)
			}
		})
	}
}

// TestNoAccountTakesAllClusters shows how many clusters accounts can have that create as many as they may.
func TestNoAccountTakesAllClusters(t *testing.T) {
	t.Parallel()
	all := 0
	for account, want := range []int{96, 48, 24, 12, 6, 3} {
		n := 0
		for MayAddCluster(n, all) {
			n++
			all++
		}
		if n != want {
			t.Errorf("account %d may have %d clusters, want %d", account, n, want)
		}
	}
}

func TestFailedWritesDoNotCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int64
	}{
		"denied":                      {rpctypes.ErrGRPCPermissionDenied, 0},
		"etcd is full":                {rpctypes.ErrGRPCNoSpace, 0},
		"timed out, may be done":      {rpctypes.ErrGRPCTimeout, revisionWeight(1000)},
		"abandoned, may be done":      {context.Canceled, revisionWeight(1000)},
		"the leader changed, as well": {rpctypes.ErrGRPCLeaderChanged, revisionWeight(1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startShares(1_000_000, &fakeServer{set: accounts(1)})
			if err := send(s, "cluster-a", put(1000), nil, c.err); !errors.Is(err, c.err) {
				t.Errorf("the error is %v, want %v", err, c.err)
			}
			if got := usedBytes(s, "a"); got != c.want {
				t.Errorf("%d bytes count, want %d", got, c.want)
			}
		})
	}
}

func usedBytes(s *shares, cluster string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[cluster]
}

func TestWritesDuringACountAreKept(t *testing.T) {
	t.Parallel()
	f := &fakeServer{set: accounts(1)}
	s := startShares(1_000_000, f)
	_, err := s.interceptUnary(as("cluster-a"), put(1000), nil, func(context.Context, any) (any, error) {
		s.mu.Lock()
		f.compact(map[string]int64{"a": 7})
		s.recount()
		counting := s.counting
		s.mu.Unlock()
		<-counting
		return &pb.PutResponse{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := usedBytes(s, "a"), 7+revisionWeight(1000); got != want {
		t.Errorf("%d bytes count, want %d: a write under way when the count began is not in it", got, want)
	}
	if len(s.inFlight) != 0 {
		t.Errorf("in flight are %v", s.inFlight)
	}
}

func TestBoundsOfRequests(t *testing.T) {
	t.Parallel()
	many := &pb.TxnRequest{}
	for range clusterTxnOps + 1 {
		many.Success = append(many.Success, deleteOp())
	}
	for name, c := range map[string]struct {
		request any
		want    error
	}{
		"compaction":              {&pb.CompactionRequest{}, rpctypes.ErrGRPCPermissionDenied},
		"a lease for ever":        {&pb.LeaseGrantRequest{TTL: clusterLeaseTTL + 1}, rpctypes.ErrGRPCLeaseTTLTooLarge},
		"an enormous transaction": {many, rpctypes.ErrGRPCTooManyOps},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startShares(1_000_000, &fakeServer{set: accounts(1)})
			if err := send(s, "cluster-a", c.request, nil, nil); !errors.Is(err, c.want) {
				t.Errorf("a cluster's answer is %v, want %v", err, c.want)
			}
			if err := send(s, "root", c.request, nil, nil); err != nil {
				t.Errorf("root's answer is %v", err)
			}
		})
	}
}

func TestLeasesOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	f := &fakeServer{set: accounts(1), clock: time.Unix(1_000_000, 0)}
	s := startShares(1_000_000, f)
	next := int64(0)
	grant := func(user string) error {
		next++
		return send(s, user, &pb.LeaseGrantRequest{TTL: 60}, &pb.LeaseGrantResponse{ID: next, TTL: 60}, nil)
	}
	for range clusterLeases {
		if err := grant("cluster-a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := grant("cluster-a"); !errors.Is(err, rpctypes.ErrGRPCNoSpace) {
		t.Errorf("one lease too many: %v", err)
	}
	if err := grant("cluster-b"); err != nil {
		t.Errorf("another cluster's lease: %v", err)
	}
	f.clock = f.clock.Add(61 * time.Second)
	if err := grant("cluster-a"); err != nil {
		t.Errorf("a lease when all others have expired: %v", err)
	}
}

// stream is a stream of a user.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

// Leases that are being granted count, or as many could be granted at once as there are connections.
func TestLeasesThatAreBeingGrantedCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error // of the first grant
		want error // of the next
	}{
		"granted":                {nil, rpctypes.ErrGRPCNoSpace},
		"refused":                {rpctypes.ErrGRPCNoSpace, nil},
		"timed out, may be done": {rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCNoSpace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startShares(1_000_000, &fakeServer{set: accounts(1)})
			request := &pb.LeaseGrantRequest{TTL: 60}
			grant := func() error { return send(s, "cluster-a", request, &pb.LeaseGrantResponse{TTL: 60}, nil) }
			for range clusterLeases - 1 {
				if err := grant(); err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.interceptUnary(as("cluster-a"), request, nil, func(context.Context, any) (any, error) {
				if err := grant(); !errors.Is(err, rpctypes.ErrGRPCNoSpace) {
					t.Errorf("while the last lease is being granted: %v, want %v", err, rpctypes.ErrGRPCNoSpace)
				}
				return &pb.LeaseGrantResponse{TTL: 60}, c.err
			})
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if err := grant(); !errors.Is(err, c.want) {
				t.Errorf("after the last lease: %v, want %v", err, c.want)
			}
		})
	}
}

// A panic reaches whoever recovers it: the lock is not released twice.
func TestAPanicOfEtcdIsNotHiddenByTheLeases(t *testing.T) {
	t.Parallel()
	s := startShares(1_000_000, &fakeServer{set: accounts(1)})
	func() {
		defer func() {
			if got := recover(); got != "broken" {
				t.Errorf("recovered %v, want the panic of the handler", got)
			}
		}()
		_, err := s.interceptUnary(as("cluster-a"), &pb.LeaseGrantRequest{TTL: 60}, nil,
			func(context.Context, any) (any, error) {
				panic("broken")
			})
		t.Errorf("the handler did not panic: %v", err)
	}()
	if err := send(s, "cluster-a", &pb.LeaseGrantRequest{TTL: 60}, &pb.LeaseGrantResponse{TTL: 60}, nil); err != nil {
		t.Error(err)
	}
}

func TestClustersDoNotExtendLeases(t *testing.T) {
	t.Parallel()
	s := startShares(1_000_000, &fakeServer{set: accounts(1)})
	for name, c := range map[string]struct {
		user, method string
		want         error
	}{
		"a cluster extends": {"cluster-a", "/etcdserverpb.Lease/LeaseKeepAlive", rpctypes.ErrGRPCPermissionDenied},
		"a cluster watches": {"cluster-a", "/etcdserverpb.Watch/Watch", nil},
		"root extends":      {"root", "/etcdserverpb.Lease/LeaseKeepAlive", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := s.interceptStream(nil, stream{ctx: as(c.user)}, &grpc.StreamServerInfo{FullMethod: c.method},
				func(any, grpc.ServerStream) error { return nil })
			if !errors.Is(err, c.want) {
				t.Errorf("the answer is %v, want %v", err, c.want)
			}
		})
	}
}
