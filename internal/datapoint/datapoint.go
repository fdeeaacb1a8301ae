// Package datapoint keeps the data points of CloudWatch metrics, one a minute for three hours, in memory.
//
// internal/controller/resourceusage samples them, and internal/aws/cloudwatch reads them. They are beside the store
// like log events: etcd would have a write for each. A daemon that starts has none.
package datapoint

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// Retention is how long a data point is kept.
	Retention = 3 * time.Hour
	// Period is the time from one data point to the next.
	Period = time.Minute

	slots = int64(Retention / Period)
)

// Bounds of memory: a metric takes 1.5 KiB. Of those of all accounts, one has a half at most.
const (
	maxMetrics        = 16_384
	maxAccountMetrics = maxMetrics / 2
)

// ErrFull is the error of data points of metrics that were not kept, because there are too many metrics.
var ErrFull = errors.New("there are more metrics than are kept: the data points of some are dropped")

// Dimension is a name and a value that are part of the identity of a metric.
type Dimension struct{ Name, Value string }

// Metric identifies a metric.
type Metric struct {
	// Account and Region are whose it is and where. The region is empty for a metric of the host, which is that of all.
	Account, Region string
	Namespace, Name string
	Dimensions      []Dimension // sorted by name
	Unit            string      // of CloudWatch: "Bytes"
}

// key identifies a metric. No part of it has a NUL byte.
func (m Metric) key() string {
	var b strings.Builder
	for _, part := range []string{m.Account, m.Region, m.Namespace, m.Name} {
		b.WriteString(part)
		b.WriteByte(0)
	}
	for _, d := range m.Dimensions {
		b.WriteString(d.Name + "\x00" + d.Value + "\x00")
	}
	return b.String()
}

// Sample is the value of a metric at a time.
type Sample struct {
	Metric
	Value float64
}

// Point is a data point.
type Point struct {
	Time  time.Time // a whole minute
	Value float64
}

// Store keeps data points. It is safe for concurrent use.
type Store struct {
	mu      sync.RWMutex
	metrics map[string]*series
	counts  map[string]int // of metrics, by account
}

// series has the data points of a metric.
type series struct {
	metric Metric
	order  string         // Key of the metric
	last   int64          // the minute of the newest one
	values [slots]float64 // by minute; NaN where there is none
}

// New returns a store without data points.
func New() *Store { return &Store{metrics: map[string]*series{}, counts: map[string]int{}} }

// Add adds a data point to each of the metrics, for the minute in which they were sampled, and forgets metrics whose
// last data point has passed the retention. The error is ErrFull when some were not kept.
func (s *Store) Add(at time.Time, samples []Sample) error {
	minute := at.Unix() / 60
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, x := range s.metrics {
		if x.last <= minute-slots {
			delete(s.metrics, key)
			if s.counts[x.metric.Account]--; s.counts[x.metric.Account] == 0 {
				delete(s.counts, x.metric.Account)
			}
		}
	}
	var err error
	for _, sample := range samples {
		key := sample.key()
		x := s.metrics[key]
		if x == nil {
			if len(s.metrics) >= maxMetrics || s.counts[sample.Account] >= maxAccountMetrics {
				err = ErrFull
				continue
			}
			x = &series{metric: sample.Metric, order: sample.Metric.Key(), last: minute - slots}
			s.metrics[key] = x
			s.counts[sample.Account]++
		}
		x.set(minute, sample.Value)
	}
	return err
}

// set sets the value of a minute, unless it is older than what is kept.
func (x *series) set(minute int64, value float64) {
	for x.last < minute {
		x.last = max(x.last+1, minute-slots+1)
		x.values[x.last%slots] = math.NaN()
	}
	if minute > x.last-slots {
		x.values[minute%slots] = value
	}
}

// Points returns the data points of a metric from a time on, and those before another, in order, and its unit; none for
// a metric that there is not. A metric of the host belongs to every region.
func (s *Store) Points(m Metric, from, to time.Time) (points []Point, unit string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.metrics[m.key()]
	if x == nil {
		m.Region = ""
		if x = s.metrics[m.key()]; x == nil {
			return nil, ""
		}
	}
	for minute := x.last - slots + 1; minute <= x.last; minute++ {
		at := time.Unix(minute*60, 0).UTC()
		if value := x.values[minute%slots]; !math.IsNaN(value) && !at.Before(from) && at.Before(to) {
			points = append(points, Point{at, value})
		}
	}
	return points, x.metric.Unit
}

// Len returns how many metrics there are.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.metrics)
}

// List returns the metrics of an account in a region and those of all regions, of a namespace and a name unless these
// are empty, in order.
func (s *Store) List(account, region, namespace, name string) []Metric {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*series
	for _, x := range s.metrics {
		m := x.metric
		if m.Account == account && (m.Region == "" || m.Region == region) &&
			(namespace == "" || m.Namespace == namespace) && (name == "" || m.Name == name) {
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b *series) int { return cmp.Compare(a.order, b.order) })
	all := make([]Metric, len(found))
	for i, x := range found {
		all[i] = x.metric
	}
	return all
}

// Key returns what metrics of an account in a region are sorted by.
func (m Metric) Key() string {
	m.Account, m.Region = "", ""
	return m.key()
}
