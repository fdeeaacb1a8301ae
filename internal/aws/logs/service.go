// Package logs serves the Amazon CloudWatch Logs API.
//
// Log groups and streams are rows ([record.LogGroup], [record.LogStream]); their events are in the store of log events
// (package events), under the IDs of the rows. PutLogEvents checks a batch and appends it; GetLogEvents and
// FilterLogEvents read events in order, a page at a time. A Logs Insights query is a row as well ([record.LogQuery]):
// StartQuery writes it, and whoever is behind [Queries] runs it.
//
// A group that is deleted is a row that is gone. Its streams' rows and its events are removed by the controller
// internal/controller/logretention, which also removes an event that was appended to a group while it was being
// deleted: a group created again under the same name has another ID and sees nothing of it.
//
// Logs of load balancers are delivered to log groups: a [record.LogDelivery] connects a source, which is a log of a
// load balancer, with a destination, and the controller internal/controller/logdelivery delivers. A resource policy
// ([record.LogResourcePolicy]) must let it.
//
// Each page token says where the page ended, not which page it was, so that events which arrive meanwhile neither
// repeat an event nor hide one.
//
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/Welcome.html
package logs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/moby/locker"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Service.
type Options struct {
	Store   *store.Store
	Events  *events.Store
	Queries Queries          // who runs queries; nil where nobody asks for results
	Now     func() time.Time // time.Now unless set
}

// Service serves the CloudWatch Logs API. It is safe for concurrent use.
type Service struct {
	store       *store.Store
	groups      store.Table[record.LogGroup]
	streams     store.Table[record.LogStream]
	streamsByID store.Index[record.LogStream]
	queries     store.Table[record.LogQuery]
	queryRuns   store.Table[record.LogQueryRun]
	definitions store.Table[record.LogQueryDefinition]

	sources            store.Table[record.LogDeliverySource]
	sourcesByResource  store.Index[record.LogDeliverySource]
	destinations       store.Table[record.LogDeliveryDestination]
	deliveries         store.Table[record.LogDelivery]
	deliveriesBySource store.Index[record.LogDelivery]
	balancers          store.Table[record.LoadBalancer]
	policies           store.Table[record.LogResourcePolicy]

	events *events.Store
	runner Queries
	now    func() time.Time

	accounts *locker.Locker // each is held from counting to the creation of what is counted

	tails    tails
	tailTime time.Duration // how long a Live Tail session may last
}

// New returns the service over the tables of o.Store and the events of o.Events.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		store:       o.Store,
		groups:      record.LogGroups(o.Store),
		streams:     record.LogStreams(o.Store),
		streamsByID: record.LogStreamsByID(o.Store),
		queries:     record.LogQueries(o.Store),
		queryRuns:   record.LogQueryRuns(o.Store),
		definitions: record.LogQueryDefinitions(o.Store),

		sources:            record.LogDeliverySources(o.Store),
		sourcesByResource:  record.LogDeliverySourcesByResource(o.Store),
		destinations:       record.LogDeliveryDestinations(o.Store),
		deliveries:         record.LogDeliveries(o.Store),
		deliveriesBySource: record.LogDeliveriesBySource(o.Store),
		balancers:          record.LoadBalancers(o.Store),
		policies:           record.LogResourcePolicies(o.Store),

		events:   o.Events,
		runner:   o.Queries,
		accounts: locker.New(),
		now:      o.Now,
		tailTime: tailTime,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatchlogs.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.definitionHandlers(),
		s.deliveryHandlers(),
		s.deliveryDestinationHandlers(),
		s.deliverySourceHandlers(),
		s.filterHandlers(),
		s.getHandlers(),
		s.groupHandlers(),
		s.kmsHandlers(),
		s.liveTailHandlers(),
		s.putHandlers(),
		s.queryHandlers(),
		s.recordHandlers(),
		s.resourcePolicyHandlers(),
		s.retentionHandlers(),
		s.streamHandlers(),
		s.tagHandlers(),
	} {
		mux.Register(wire.Logs, handlers...)
	}
}

// scope is the account and region of a request.
type scope struct{ account, region string }

// lockAccount locks what is counted of an account in a region, until unlock.
func (s *Service) lockAccount(at scope) (unlock func()) {
	key := store.Key(at.account, at.region)
	s.accounts.Lock(key)
	return func() { s.accounts.Unlock(key) } //nolint:errcheck // only of a key that is not locked
}

func scopeOf(ctx context.Context) scope {
	return scope{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

func (sc scope) groupKey(name string) string { return record.LogGroupKey(sc.account, sc.region, name) }

func (sc scope) groupARN(name string) string {
	return record.LogGroup{Account: sc.account, Region: sc.region, Name: name}.ARN()
}

// getGroup returns the caller's log group of that name, or a ResourceNotFoundException.
func (s *Service) getGroup(ctx context.Context, name string) (store.Row[record.LogGroup], error) {
	row, err := s.groups.Get(ctx, scopeOf(ctx).groupKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return row, groupNotFound()
	}
	return row, err
}

// getStream returns a stream of the group, or a ResourceNotFoundException.
func (s *Service) getStream(ctx context.Context, g record.LogGroup, name string) (store.Row[record.LogStream], error) {
	row, err := s.streams.Get(ctx, record.LogStreamKey(g.ID, name))
	if errors.Is(err, store.ErrNotFound) {
		return row, streamNotFound()
	}
	return row, err
}

// modifyGroup changes the row of the caller's log group of that name.
func (s *Service) modifyGroup(ctx context.Context, name string, change func(*record.LogGroup) error) error {
	_, err := s.groups.Modify(ctx, scopeOf(ctx).groupKey(name), change)
	if errors.Is(err, store.ErrNotFound) {
		return groupNotFound()
	}
	return err
}

// timestamp returns now as the API shows it: in UTC, to the millisecond.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// randomID returns a number that nothing else has: 63 random bits, never 0.
func randomID() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails
		if id := binary.BigEndian.Uint64(b[:]) >> 1; id != 0 {
			return id
		}
	}
}

func unixMillis(t time.Time) *int64 { return new(t.UnixMilli()) }
