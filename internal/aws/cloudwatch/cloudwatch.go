// Package cloudwatch serves the metrics of Amazon CloudWatch: ListMetrics, GetMetricStatistics and GetMetricData, about
// the metrics that the daemon samples (internal/controller/resourceusage). It reads data points (internal/datapoint)
// and writes nothing: PutMetricData and alarms are not served.
//
// An account sees its own metrics in the region of the request. Those of the host are of one account, in all regions.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/Welcome.html
package cloudwatch

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/datapoint"
)

// Service serves the CloudWatch API. It is safe for concurrent use.
type Service struct{ points *datapoint.Store }

// New returns the service over the data points of a store.
func New(points *datapoint.Store) *Service { return &Service{points} }

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatch.html
func (s *Service) Register(mux *wire.Mux) {
	mux.Register(wire.CloudWatch,
		wire.Handle(s.ListMetrics, wire.OnAll),
		wire.Handle(s.GetMetricStatistics, wire.OnAll),
		wire.Handle(s.GetMetricData, wire.OnAll),
	)
}

// metricMemory is what a metric in a list takes in bytes, and pointMemory what a data point does in an answer.
const metricMemory, pointMemory = 512, 96

// ListMetrics lists the metrics that have data points of the last three hours.
func (s *Service) ListMetrics(ctx context.Context, in *cloudwatch.ListMetricsInput) (
	*cloudwatch.ListMetricsOutput, error) {
	account := wire.CallerFrom(ctx).Account
	if in.OwningAccount != nil && *in.OwningAccount != account {
		return nil, invalidValue("The value %s for parameter OwningAccount is invalid. There are no linked accounts: it "+
			"must be %s.", *in.OwningAccount, account)
	}
	if err := wire.HoldAnswer(ctx, int64(s.points.Len())*metricMemory); err != nil {
		return nil, err
	}
	found := s.points.List(account, wire.RegionFrom(ctx), aws.ToString(in.Namespace), aws.ToString(in.MetricName))
	found = slices.DeleteFunc(found, func(m datapoint.Metric) bool {
		return slices.ContainsFunc(in.Dimensions, func(f types.DimensionFilter) bool { return !hasDimension(m, f) })
	})
	page, next, err := wire.Page(ctx, found, nil, in.NextToken, datapoint.Metric.Key)
	if err != nil {
		return nil, err
	}
	out := &cloudwatch.ListMetricsOutput{Metrics: []types.Metric{}, NextToken: next}
	for _, m := range page {
		listed := types.Metric{Namespace: &m.Namespace, MetricName: &m.Name, Dimensions: []types.Dimension{}}
		for _, d := range m.Dimensions {
			listed.Dimensions = append(listed.Dimensions, types.Dimension{Name: &d.Name, Value: &d.Value})
		}
		out.Metrics = append(out.Metrics, listed)
		if aws.ToBool(in.IncludeLinkedAccounts) {
			out.OwningAccounts = append(out.OwningAccounts, account)
		}
	}
	return out, nil
}

func hasDimension(m datapoint.Metric, f types.DimensionFilter) bool {
	return slices.ContainsFunc(m.Dimensions, func(d datapoint.Dimension) bool {
		return d.Name == aws.ToString(f.Name) && (f.Value == nil || d.Value == *f.Value)
	})
}

// metricOf returns the metric that a request is about, with exactly the dimensions that it names.
func metricOf(ctx context.Context, namespace, name *string, dimensions []types.Dimension) datapoint.Metric {
	m := datapoint.Metric{Account: wire.CallerFrom(ctx).Account, Region: wire.RegionFrom(ctx),
		Namespace: aws.ToString(namespace), Name: aws.ToString(name)}
	for _, d := range dimensions {
		m.Dimensions = append(m.Dimensions, datapoint.Dimension{Name: aws.ToString(d.Name), Value: aws.ToString(d.Value)})
	}
	slices.SortFunc(m.Dimensions, func(a, b datapoint.Dimension) int { return cmp.Compare(a.Name, b.Name) })
	return m
}

// Errors of GetMetricStatistics and ListMetrics, and that of GetMetricData.

func invalidValue(format string, args ...any) error {
	return wire.Errorf("InvalidParameterValue", format, args...)
}

func invalidCombination(format string, args ...any) error {
	return wire.Errorf("InvalidParameterCombination", format, args...)
}

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}
