package authenticator

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// maxAccountReviews limits the reviews of the clusters of one account that are answered at a time, and
	// maxClusterReviews those of one cluster: the others of its account have room beside it. API servers ask before they
	// limit who asks them, and whoever has credentials, such as root of a node, signs as many tokens as they like.
	maxAccountReviews = 16
	maxClusterReviews = 8
	// reviewWait limits the time that a review waits for others. API servers wait half a minute at most.
	reviewWait = 20 * time.Second
	// mostRead limits what one request reads of the store, in bytes: no account is charged for it.
	mostRead = 4 << 20
)

// errNoTurn reports that a review has waited too long for others of its cluster or account.
var errNoTurn = errors.New("too many reviews of this cluster or its account are being answered; try again")

// turns bounds the reviews that are answered at a time.
type turns struct {
	mu sync.Mutex
	by map[string]*holder // by account, and by clusterTurns
}

// holder is an account or a cluster with reviews.
type holder struct {
	running *semaphore.Weighted
	reviews int // that run or wait
}

// clusterTurns returns the key of a cluster, which is that of no account.
func clusterTurns(c record.Cluster) string { return "cluster/" + c.ID }

// begin waits for a turn of a cluster, and then for one of its account: what waits for its cluster takes nothing from
// the others.
func (t *turns) begin(ctx context.Context, c record.Cluster) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewWait)
	defer cancel()
	ofCluster, err := t.acquire(ctx, clusterTurns(c), maxClusterReviews)
	if err != nil {
		return nil, err
	}
	ofAccount, err := t.acquire(ctx, c.Account, maxAccountReviews)
	if err != nil {
		ofCluster()
		return nil, err
	}
	return func() {
		ofAccount()
		ofCluster()
	}, nil
}

// acquire waits for one of the turns of a key.
func (t *turns) acquire(ctx context.Context, key string, most int64) (release func(), err error) {
	t.mu.Lock()
	h := t.by[key]
	if h == nil {
		h = &holder{running: semaphore.NewWeighted(most)}
		t.by[key] = h
	}
	h.reviews++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if h.reviews--; h.reviews == 0 {
			delete(t.by, key)
		}
	}
	if h.running.Acquire(ctx, 1) != nil {
		leave()
		return nil, errNoTurn
	}
	return func() {
		h.running.Release(1)
		leave()
	}, nil
}
