package record

import (
	"strings"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// LogDeliverySource is a resource whose logs CloudWatch Logs delivers: a load balancer, for one of its logs.
//
// Writer: internal/aws/logs.
type LogDeliverySource struct {
	Account     string
	Region      string
	Name        string
	LogType     string // "ALB_ACCESS_LOGS"
	ResourceARN string
	Tags        map[string]string `json:",omitempty"`
}

// LogDeliveryDestination is a log group that logs are delivered to. The group need not be there.
//
// Writer: internal/aws/logs.
type LogDeliveryDestination struct {
	Account      string
	Region       string
	Name         string
	ResourceARN  string // of the log group, as the request had it
	Group        string // its name
	OutputFormat logstypes.OutputFormat
	Tags         map[string]string `json:",omitempty"`
}

// LogDelivery delivers the logs of a source to a destination of the same account and region. Both stay as long as it.
//
// Writer: internal/aws/logs. How far it has come is a mark in the store of log events
// (internal/controller/logdelivery).
type LogDelivery struct {
	Account        string
	Region         string
	ID             string // 16 hexadecimal digits
	Source         string // its name
	Destination    string // its name
	RecordFields   []string
	FieldDelimiter string            `json:",omitempty"`
	CreatedAt      time.Time         // entries from before are not delivered
	Tags           map[string]string `json:",omitempty"`
}

// LogDeliveryKey returns the key of a source or a destination by its name, or of a delivery by its ID.
func LogDeliveryKey(account, region, name string) string { return store.Key(account, region, name) }

// Key returns the key of the source.
func (s LogDeliverySource) Key() string { return LogDeliveryKey(s.Account, s.Region, s.Name) }

// Key returns the key of the destination.
func (d LogDeliveryDestination) Key() string { return LogDeliveryKey(d.Account, d.Region, d.Name) }

// Key returns the key of the delivery.
func (d LogDelivery) Key() string { return LogDeliveryKey(d.Account, d.Region, d.ID) }

// ARN returns the Amazon Resource Name of the source.
func (s LogDeliverySource) ARN() string {
	return "arn:aws:logs:" + s.Region + ":" + s.Account + ":delivery-source:" + s.Name
}

// ARN returns the Amazon Resource Name of the destination.
func (d LogDeliveryDestination) ARN() string {
	return "arn:aws:logs:" + d.Region + ":" + d.Account + ":delivery-destination:" + d.Name
}

// ARN returns the Amazon Resource Name of the delivery.
func (d LogDelivery) ARN() string {
	return "arn:aws:logs:" + d.Region + ":" + d.Account + ":delivery:" + d.ID
}

// LogDeliverySources returns the table of delivery sources, by LogDeliveryKey.
func LogDeliverySources(s *store.Store) store.Table[LogDeliverySource] {
	return store.NewTable[LogDeliverySource](s, "log-delivery-sources")
}

// LogDeliverySourcesByResource finds delivery sources by the ARN of their resource.
func LogDeliverySourcesByResource(s *store.Store) store.Index[LogDeliverySource] {
	return store.NewIndex(LogDeliverySources(s), "resource", func(d LogDeliverySource) string { return d.ResourceARN })
}

// LogDeliveryDestinations returns the table of delivery destinations, by LogDeliveryKey.
func LogDeliveryDestinations(s *store.Store) store.Table[LogDeliveryDestination] {
	return store.NewTable[LogDeliveryDestination](s, "log-delivery-destinations")
}

// StreamName returns the name of the log stream that the source is delivered to: its log type, and the load balancer as
// its logs name it.
func (s LogDeliverySource) StreamName() string {
	_, name, _ := strings.Cut(s.ResourceARN, ":loadbalancer/")
	return s.LogType + "_" + name
}

// LogDeliveries returns the table of deliveries, by LogDeliveryKey of their ID.
func LogDeliveries(s *store.Store) store.Table[LogDelivery] {
	return store.NewTable[LogDelivery](s, "log-deliveries")
}

// LogDeliveriesBySource finds deliveries by the key of their source.
func LogDeliveriesBySource(s *store.Store) store.Index[LogDelivery] {
	return store.NewIndex(LogDeliveries(s), "source", func(d LogDelivery) string {
		return LogDeliveryKey(d.Account, d.Region, d.Source)
	})
}
