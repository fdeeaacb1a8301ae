package etcd

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of what one cluster's user may ask of the etcd that it shares with all others. A
// kube-apiserver stays far below them.
const (
	// clusterTxnOps is etcd's own default; kube-apiserver's transactions have one operation.
	clusterTxnOps = 128
	// clusterLeases is the maximum number of unexpired leases of a cluster. kube-apiserver creates one for a thousand
	// events.
	clusterLeases = 20_000
	// clusterLeaseTTL is in seconds. Events live for an hour.
	clusterLeaseTTL = 24 * 60 * 60
)

// clusterKeys is the prefix of all clusters' keys: /clusters/ID/. The etcd user of a cluster is cluster-ID. It has the
// role of that name, and the one of its account, which permits nothing.
const (
	clusterKeys       = "/clusters/"
	clusterUserPrefix = "cluster-"
	accountRolePrefix = "account-"
)

// AccountRole returns the role of the users of an account's clusters. It permits nothing: it says whose part of the
// database they share.
func AccountRole(account string) string { return accountRolePrefix + account }

// MaxClusters is the number of clusters that have their floor of the database, and that may be created.
const MaxClusters = 192

// MayAddCluster reports whether an account that has some of all clusters may have another one: no account takes more
// than it leaves to those that come after it.
func MayAddCluster(ofAccount, all int) bool { return ofAccount+1 <= MaxClusters-(all+1) }

// shares keeps each cluster within its share of the database. All clusters together may use three
// quarters of the quota, and one a quarter: what remains is the daemon's. Each has a floor, which no other takes; what
// is left is divided among the accounts, and then among the clusters of each: whoever creates many clusters divides
// the part of their own account.
//
// What counts is every revision that is stored: the objects, and their history until it is
// compacted. A count of the database ([countClusters]) and what has been written since are an
// upper bound of it. The database is counted again when a cluster approaches its share, but only
// if a compaction has finished since the last count: nothing else frees space.
//
// Writes of a cluster beyond its share fail as they do when a database of its own is full. Reads
// and deletions never do.
type shares struct {
	quota int64
	ready chan struct{} // closed when server is set
	server

	mu       sync.Mutex
	used     map[string]int64 // by cluster: upper bound
	inFlight map[string]int64 // of used: not answered yet
	since    map[string]int64 // of used: perhaps not seen by the running count
	counting chan struct{}    // closed at the end of the running count; nil when none runs
	counted  int64            // the compaction that the last count has seen
	stopped  bool
	warned   map[string]time.Time
	leases   map[string]map[int64]time.Time // by cluster and number: when it expires

	lastLease int64 // the number of the last lease in leases; numbers are not etcd's IDs
}

// server is the part of an etcd server that shares need.
type server interface {
	// requestUser returns the user that sends a request, "" when that is not known.
	requestUser(ctx context.Context) string
	// clusters returns the clusters that may write.
	clusters() clusterSet
	// compacted returns the revision of the last compaction that is finished.
	compacted() int64
	// countWeights returns what the database stores of each cluster, in weights.
	countWeights() map[string]int64
	log() *zap.Logger
	now() time.Time
}

func newShares(quota int64) *shares {
	return &shares{
		quota: quota, ready: make(chan struct{}), counted: -1,
		used: map[string]int64{}, inFlight: map[string]int64{}, warned: map[string]time.Time{},
		leases: map[string]map[int64]time.Time{},
	}
}

// startServing begins to serve requests, and to count what the database holds. Until that is known,
// clusters may write their share anew.
func (s *shares) startServing(of server) {
	s.server = of
	close(s.ready)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recount()
}

// stopCounting waits for a count that runs: it must not read a database that is closed.
func (s *shares) stopCounting() {
	s.mu.Lock()
	s.stopped = true
	counting := s.counting
	s.mu.Unlock()
	if counting != nil {
		<-counting
	}
}

// clusterOf returns the cluster whose user sends a request; "" for root, and for one who is nobody.
func (s *shares) clusterOf(ctx context.Context) (string, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	user := s.requestUser(ctx)
	if user == rootUser {
		return "", nil
	}
	return strings.TrimPrefix(user, clusterUserPrefix), nil
}

func (s *shares) interceptUnary(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	cluster, err := s.clusterOf(ctx)
	if err != nil {
		return nil, err
	}
	if cluster == "" {
		return handler(ctx, request)
	}
	switch r := request.(type) {
	case *pb.CompactionRequest: // etcd allows it to every user
		return nil, rpctypes.ErrGRPCPermissionDenied
	case *pb.LeaseGrantRequest:
		return s.grantLease(ctx, cluster, r, handler)
	case *pb.TxnRequest:
		if countOps(r) > clusterTxnOps {
			return nil, rpctypes.ErrGRPCTooManyOps
		}
	}
	reserved := weighRequest(request)
	if err := s.reserve(ctx, cluster, reserved); err != nil {
		return nil, err
	}
	response, err := handler(ctx, request)
	written := reserved
	switch {
	case err == nil:
		written = weighResponse(request, response)
	case !mayBeApplied(err):
		written = 0
	}
	s.replaceReserved(cluster, reserved, written)
	return response, err
}

// interceptStream refuses to extend leases: kube-apiserver never does, and the bound on leases relies on it.
func (s *shares) interceptStream(
	service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	cluster, err := s.clusterOf(stream.Context())
	if err != nil {
		return err
	}
	if cluster != "" && strings.HasSuffix(info.FullMethod, "/LeaseKeepAlive") {
		return rpctypes.ErrGRPCPermissionDenied
	}
	return handler(service, stream)
}

// clusterSet is all clusters, by their accounts. It is not changed.
type clusterSet struct {
	account map[string]string // by cluster; that of a cluster whose account is not known is the cluster itself
	number  map[string]int64  // by account
}

// newClusterSet returns the set of clusters with their accounts, which are empty where they are not known.
func newClusterSet(accounts map[string]string) clusterSet {
	set := clusterSet{account: make(map[string]string, len(accounts)), number: map[string]int64{}}
	for cluster, account := range accounts {
		account = cmp.Or(account, clusterUserPrefix+cluster)
		set.account[cluster] = account
		set.number[account]++
	}
	return set
}

// clusterShare returns how much a cluster may use.
func (s *shares) clusterShare(cluster string) int64 {
	set := s.clusters()
	var (
		all      = s.quota / 4 * 3
		clusters = max(int64(len(set.account)), 1)
		floor    = all / max(clusters, MaxClusters)
		part     = (all - clusters*floor) / max(int64(len(set.number)), 1)
	)
	return min(s.quota/4, floor+part/max(set.number[set.account[cluster]], 1))
}

// reserve takes weight from the share of a cluster, or fails when that is used up.
func (s *shares) reserve(ctx context.Context, cluster string, weight int64) error {
	if weight == 0 {
		return nil
	}
	share := s.clusterShare(cluster)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[cluster]+weight > share/4*3 && s.counting == nil && !s.stopped && s.compacted() > s.counted {
		s.recount()
	}
	for s.used[cluster]+weight > share {
		counting := s.counting
		if counting == nil {
			s.warnExhausted(cluster, share)
			return rpctypes.ErrGRPCNoSpace
		}
		s.mu.Unlock()
		var err error
		select {
		case <-counting:
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	s.addWeight(cluster, weight)
	s.inFlight[cluster] += weight
	return nil
}

// replaceReserved replaces what was reserved by what has been written.
func (s *shares) replaceReserved(cluster string, reserved, written int64) {
	if reserved == 0 && written == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addWeight(cluster, written-reserved)
	if s.inFlight[cluster] -= reserved; s.inFlight[cluster] == 0 {
		delete(s.inFlight, cluster)
	}
}

// addWeight adds weight to the usage of a cluster. The caller holds mu.
func (s *shares) addWeight(cluster string, weight int64) {
	s.used[cluster] += weight
	if s.counting != nil {
		s.since[cluster] += weight
	}
}

// recount begins to count what the database holds. It is called with mu held.
func (s *shares) recount() {
	counting := make(chan struct{})
	compacted := s.compacted()
	s.counting = counting
	s.since = map[string]int64{}
	for cluster, weight := range s.inFlight {
		s.since[cluster] = weight
	}
	go func() {
		found := s.countWeights()
		s.mu.Lock()
		defer s.mu.Unlock()
		for cluster, weight := range s.since {
			found[cluster] += weight
		}
		s.used, s.since, s.counting, s.counted = found, nil, nil, compacted
		close(counting)
	}()
}

// warnExhausted logs that a cluster has used up its share, at most once a minute. It is called with mu held.
func (s *shares) warnExhausted(cluster string, share int64) {
	now := s.now()
	if last, ok := s.warned[cluster]; ok && now.Sub(last) < time.Minute {
		return
	}
	s.warned[cluster] = now
	s.log().Warn("a cluster has used up its share of etcd: its API server refuses changes with \"database space "+
		"exceeded\" until objects are deleted or, if it is history that takes the space, until that is compacted, "+
		"which takes up to 10 minutes; see which objects there are many of: kubectl get --raw /metrics | grep "+
		"apiserver_storage_objects",
		zap.String("cluster", cluster), zap.Int64("share-bytes", share), zap.Int64("used-bytes", s.used[cluster]))
}

// grantLease bounds the number of leases of a cluster that have not expired.
func (s *shares) grantLease(
	ctx context.Context, cluster string, r *pb.LeaseGrantRequest, handler grpc.UnaryHandler,
) (any, error) {
	if r.TTL > clusterLeaseTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	number, err := s.reserveLease(cluster, r.TTL)
	if err != nil {
		return nil, err
	}
	response, err := handler(ctx, r)
	granted, ok := response.(*pb.LeaseGrantResponse)
	switch {
	case err == nil && ok && granted != nil:
		s.extendLease(cluster, number, granted.TTL)
	case err != nil && !mayBeApplied(err):
		s.dropLease(cluster, number)
	}
	return response, err
}

// reserveLease counts a lease of ttl seconds that is about to be granted, or fails when the cluster has as many as it
// may have.
func (s *shares) reserveLease(cluster string, ttl int64) (number int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases[cluster]
	if leases == nil {
		leases = map[int64]time.Time{}
		s.leases[cluster] = leases
	}
	if len(leases) >= clusterLeases {
		for number, expires := range leases {
			if s.now().After(expires) {
				delete(leases, number)
			}
		}
		if len(leases) >= clusterLeases {
			return 0, rpctypes.ErrGRPCNoSpace
		}
	}
	s.lastLease++
	leases[s.lastLease] = s.now().Add(time.Duration(ttl) * time.Second)
	return s.lastLease, nil
}

// extendLease counts a lease for as long as it was granted: etcd has a shortest time.
func (s *shares) extendLease(cluster string, number, ttl int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[cluster][number] = s.now().Add(time.Duration(ttl) * time.Second)
}

// dropLease ends the count of a lease that was not granted.
func (s *shares) dropLease(cluster string, number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases[cluster], number)
}

// mayBeApplied reports whether a write that failed may still be carried out.
func mayBeApplied(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal:
		return true
	}
	return false
}

// revisionWeight returns the space that a revision of that size takes in the database at most: leaf pages
// of bbolt hold two at least and are filled in part, so that up to half a page is lost with each.
func revisionWeight(size int) int64 {
	const (
		header   = 64 // of a revision in a page, and of the key in memory
		halfPage = 2048
	)
	size += header
	return int64(size + min(size, halfPage))
}

// weighRequest returns the most that a request can write, 0 when it only reads or deletes.
func weighRequest(request any) int64 {
	switch r := request.(type) {
	case *pb.PutRequest:
		return revisionWeight(len(r.Key) + len(r.Value))
	case *pb.TxnRequest:
		return max(weighOps(r.Success), weighOps(r.Failure))
	}
	return 0
}

func weighOps(ops []*pb.RequestOp) (weight int64) {
	for _, op := range ops {
		switch {
		case op.GetRequestPut() != nil:
			weight += weighRequest(op.GetRequestPut())
		case op.GetRequestTxn() != nil:
			weight += weighRequest(op.GetRequestTxn())
		}
	}
	return weight
}

// weighResponse returns what a request has written by its response. Deletions write, too: a revision for each key.
func weighResponse(request, response any) (weight int64) {
	switch r := request.(type) {
	case *pb.PutRequest:
		return weighRequest(r)
	case *pb.DeleteRangeRequest:
		if deleted, ok := response.(*pb.DeleteRangeResponse); ok && deleted != nil {
			return deleted.Deleted * revisionWeight(len(r.Key))
		}
	case *pb.TxnRequest:
		done, ok := response.(*pb.TxnResponse)
		if !ok || done == nil {
			return weighRequest(r)
		}
		ops := r.Failure
		if done.Succeeded {
			ops = r.Success
		}
		if len(ops) != len(done.Responses) {
			return weighRequest(r)
		}
		for i, op := range ops {
			answer := done.Responses[i]
			switch {
			case op.GetRequestPut() != nil:
				weight += weighRequest(op.GetRequestPut())
			case op.GetRequestDeleteRange() != nil:
				weight += weighResponse(op.GetRequestDeleteRange(), answer.GetResponseDeleteRange())
			case op.GetRequestTxn() != nil:
				weight += weighResponse(op.GetRequestTxn(), answer.GetResponseTxn())
			}
		}
	}
	return weight
}

// countOps returns how many operations and comparisons a transaction has, with those inside of it.
func countOps(r *pb.TxnRequest) int {
	n := len(r.Compare) + len(r.Success) + len(r.Failure)
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if inner := op.GetRequestTxn(); inner != nil {
				n += countOps(inner)
			}
		}
	}
	return n
}

// embeddedServer is the server that this process runs.
type embeddedServer struct {
	etcd *etcdserver.EtcdServer

	mu           sync.Mutex
	set          clusterSet
	authRevision uint64 // of set
}

func (e *embeddedServer) requestUser(ctx context.Context) string {
	info, err := e.etcd.AuthInfoFromCtx(ctx)
	if err != nil || info == nil {
		return "" // etcd refuses the request itself
	}
	return info.Username
}

func (e *embeddedServer) clusters() clusterSet {
	auth := e.etcd.AuthStore()
	e.mu.Lock()
	defer e.mu.Unlock()
	revision := auth.Revision()
	if e.authRevision == revision {
		return e.set
	}
	list, err := auth.UserList(&pb.AuthUserListRequest{})
	if err != nil {
		return e.set
	}
	accounts := map[string]string{}
	for _, name := range list.Users {
		cluster, ok := strings.CutPrefix(name, clusterUserPrefix)
		if !ok {
			continue // root
		}
		user, err := auth.UserGet(&pb.AuthUserGetRequest{Name: name})
		if err != nil {
			continue // it has just been deleted
		}
		accounts[cluster] = accountOf(user.Roles)
	}
	e.set, e.authRevision = newClusterSet(accounts), revision
	return e.set
}

// accountOf returns the account whose role is among those of a cluster's user, empty for none.
func accountOf(roles []string) string {
	for _, role := range roles {
		if account, ok := strings.CutPrefix(role, accountRolePrefix); ok {
			return account
		}
	}
	return ""
}

func (e *embeddedServer) log() *zap.Logger { return e.etcd.Logger() }

func (e *embeddedServer) now() time.Time { return time.Now() }
