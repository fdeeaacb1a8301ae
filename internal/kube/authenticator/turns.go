package authenticator

import (
	"context"
	"errors"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/turn"
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
type turns struct{ clusters, accounts *turn.Places }

func newTurns() *turns {
	return &turns{clusters: turn.Each(maxClusterReviews), accounts: turn.Each(maxAccountReviews)}
}

// begin waits for a turn of a cluster, and then for one of its account: what waits for its cluster takes nothing from
// the others.
func (t *turns) begin(ctx context.Context, c record.Cluster) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewWait)
	defer cancel()
	_, ofCluster, err := t.clusters.Acquire(ctx, c.ID)
	if err != nil {
		return nil, errNoTurn
	}
	_, ofAccount, err := t.accounts.Acquire(ctx, c.Account)
	if err != nil {
		ofCluster()
		return nil, errNoTurn
	}
	return func() {
		ofAccount()
		ofCluster()
	}, nil
}
