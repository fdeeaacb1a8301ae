package daemon

import (
	"context"
	"fmt"
	"log/slog"

	logsservice "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/controller/logquery"
	"github.com/coracle-eks/coracle/internal/controller/logretention"
	"github.com/coracle-eks/coracle/internal/diskspace"
	logevents "github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/store"
)

// logs has what the API of CloudWatch Logs reads and writes: the log events of this machine, and the controllers that
// maintain them.
type logs struct {
	log         *slog.Logger
	events      *logevents.Store
	queries     *logquery.Runner
	controllers []reconcile.Controller
}

// openLogs opens the store of log events.
func (d *daemon) openLogs() (*logs, error) {
	held, err := logevents.Open(d.dir.Logs("events"), logevents.Options{Log: d.log, MinFree: diskspace.Reserve})
	if err != nil {
		return nil, fmt.Errorf("open the log events in %s: %w", d.dir.Logs("events"), err)
	}
	queries := logquery.New(logquery.Options{Store: d.store, Events: held, Dir: d.dir.Logs("results"), Log: d.log})
	return &logs{
		log:     d.log,
		events:  held,
		queries: queries,
		controllers: append(logretention.New(logretention.Options{Store: d.store, Events: held,
			Log: d.log}).Controllers(), queries.Controller()),
	}, nil
}

// options returns the options of the API.
func (l *logs) options(s *store.Store) logsservice.Options {
	return logsservice.Options{Store: s, Events: l.events, Queries: l.queries}
}

// runControllers runs the controllers until ctx ends. What they do is done to this machine's disk, so that every daemon
// does it, whichever leads.
func (l *logs) runControllers(ctx context.Context) error {
	return reconcile.Run(ctx, l.log, l.controllers...)
}

// close closes the store of log events once nobody reads it any more.
func (l *logs) close() error { return l.events.Close() }
