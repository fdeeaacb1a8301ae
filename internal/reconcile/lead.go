package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Election is an election between daemons that share a store.
type Election struct {
	Client *clientv3.Client
	// Key is the prefix of the election in etcd: "/coracle/leader".
	Key string
	// Identity names this daemon to a reader of the election: host and process ID.
	Identity string
	// TTL is the time after the death of a leader until another takes over; 10 s when 0, 1 s at least.
	TTL time.Duration
}

// Lead runs work whenever this daemon is the leader, and returns when ctx ends. The context of
// work ends when leadership is lost; only after work has returned is leadership sought again.
func Lead(ctx context.Context, e Election, log *slog.Logger, work func(ctx context.Context) error) error {
	if e.TTL == 0 {
		e.TTL = 10 * time.Second
	}
	for ctx.Err() == nil {
		err := e.runTerm(ctx, log, work)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.Error("leadership ended; standing again", "election", e.Key, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (e Election) runTerm(ctx context.Context, log *slog.Logger, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := concurrency.NewSession(e.Client, concurrency.WithTTL(max(1, int(e.TTL/time.Second))),
		concurrency.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("open an etcd session: %w", err)
	}
	defer session.Close()
	election := concurrency.NewElection(session, e.Key)
	if err := election.Campaign(ctx, e.Identity); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	log.Info("leading", "election", e.Key, "identity", e.Identity)
	// Hand over at once instead of letting the lease run out. ctx may have ended by then.
	defer func() {
		resign, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := election.Resign(resign); err != nil {
			log.Warn("could not resign; the lease will run out", "election", e.Key, "error", err)
		}
	}()
	go func() {
		select {
		case <-session.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := work(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
