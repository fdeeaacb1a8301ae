package cloudwatch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/datapoint"
)

// maxStatistics is how many data points GetMetricStatistics returns.
const maxStatistics = 1440

// maxPeriod is the longest period in seconds.
const maxPeriod = 86400

// GetMetricStatistics returns statistics of one metric, in no particular order: AWS's are not sorted either.
func (s *Service) GetMetricStatistics(ctx context.Context, in *cloudwatch.GetMetricStatisticsInput) (
	*cloudwatch.GetMetricStatisticsOutput, error) {
	period := int64(*in.Period)
	if !isPeriod(period) {
		return nil, invalidValue("The parameter Period must be a multiple of 60, from 60 to %d.", maxPeriod)
	}
	if !in.StartTime.Before(*in.EndTime) {
		return nil, invalidCombination("The parameter StartTime must be less than the parameter EndTime.")
	}
	if len(in.Statistics)+len(in.ExtendedStatistics) == 0 {
		return nil, wire.Errorf("MissingParameter", "Must specify either Statistics or ExtendedStatistics.")
	}
	if len(in.Statistics) > 0 && len(in.ExtendedStatistics) > 0 {
		return nil, invalidCombination("Statistics and ExtendedStatistics cannot be specified together.")
	}
	for _, name := range in.Statistics {
		if _, ok := parseStatistic(string(name)); !ok {
			return nil, invalidValue("The value %s for parameter Statistics is not supported. Specify SampleCount, Average, "+
				"Sum, Minimum or Maximum.", string(name))
		}
	}
	for _, name := range in.ExtendedStatistics {
		if _, ok := parseStatistic(name); !ok || !strings.HasPrefix(name, "p") {
			return nil, invalidValue("The value %s for parameter ExtendedStatistics is not supported. Specify a percentile "+
				"such as p99 or p99.9.", name)
		}
	}
	if n := int64(in.EndTime.Sub(*in.StartTime)/time.Second) / period; n > maxStatistics {
		return nil, invalidCombination("You have requested up to %d datapoints, which exceeds the limit of 1,440. You may "+
			"reduce the datapoints requested by increasing Period, or decreasing the time range.", n)
	}
	buckets, unit := s.buckets(metricOf(ctx, in.Namespace, in.MetricName, in.Dimensions), in.Unit, *in.StartTime,
		*in.EndTime, period)
	out := &cloudwatch.GetMetricStatisticsOutput{Label: in.MetricName, Datapoints: []types.Datapoint{}}
	for _, b := range buckets {
		d := types.Datapoint{Timestamp: &b.start, Unit: unit}
		for _, name := range in.Statistics {
			statistic, _ := parseStatistic(string(name)) // an enumeration
			value := new(statistic(b.values))
			switch name {
			case types.StatisticAverage:
				d.Average = value
			case types.StatisticSum:
				d.Sum = value
			case types.StatisticMinimum:
				d.Minimum = value
			case types.StatisticMaximum:
				d.Maximum = value
			case types.StatisticSampleCount:
				d.SampleCount = value
			}
		}
		for _, name := range in.ExtendedStatistics {
			statistic, _ := parseStatistic(name)
			if d.ExtendedStatistics == nil {
				d.ExtendedStatistics = map[string]float64{}
			}
			d.ExtendedStatistics[name] = statistic(b.values)
		}
		out.Datapoints = append(out.Datapoints, d)
	}
	return out, nil
}

// isPeriod reports whether a number of seconds is a period of metrics that have a data point each minute.
func isPeriod(seconds int64) bool { return seconds >= 60 && seconds <= maxPeriod && seconds%60 == 0 }

// bucket has the values of a period.
type bucket struct {
	start  time.Time
	values []float64
}

// buckets returns the data points of a metric by periods, which begin at the minute of the start time; periods without
// data points are left out. With a unit that is not the metric's there are none.
func (s *Service) buckets(m datapoint.Metric, want types.StandardUnit, start, end time.Time, period int64) (
	all []bucket, unit types.StandardUnit) {
	start = start.Truncate(time.Minute)
	points, text := s.points.Points(m, start, end)
	unit = types.StandardUnit(text)
	if want != "" && want != unit {
		return nil, want
	}
	for _, p := range points {
		begins := start.Add(p.Time.Sub(start).Truncate(time.Duration(period) * time.Second))
		if len(all) == 0 || !all[len(all)-1].start.Equal(begins) {
			all = append(all, bucket{start: begins})
		}
		last := &all[len(all)-1]
		last.values = append(last.values, p.Value)
	}
	return all, unit
}

// statistic computes a number of one value or more.
type statistic func([]float64) float64

// parseStatistic returns the statistic of a name; false for one that is not served.
func parseStatistic(name string) (statistic, bool) {
	switch name {
	case "Average":
		return func(values []float64) float64 { return sum(values) / float64(len(values)) }, true
	case "Sum":
		return sum, true
	case "Minimum":
		return slices.Min[[]float64], true
	case "Maximum":
		return slices.Max[[]float64], true
	case "SampleCount":
		return func(values []float64) float64 { return float64(len(values)) }, true
	}
	text, ok := strings.CutPrefix(name, "p")
	percent, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(percent >= 0 && percent <= 100) || strings.ContainsAny(text, "eExX+-_") {
		return nil, false
	}
	return func(values []float64) float64 { return percentile(values, percent) }, true
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// percentile returns the value below which that part of the values is, interpolated between two of them.
func percentile(values []float64, percent float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := percent / 100 * float64(len(sorted)-1)
	below := math.Floor(at)
	value := sorted[int(below)]
	if part := at - below; part > 0 {
		value += part * (sorted[int(below)+1] - value)
	}
	return value
}

// label returns what a query of GetMetricData is called in the answer.
func label(q types.MetricDataQuery) string {
	if l := aws.ToString(q.Label); l != "" {
		return l
	}
	return aws.ToString(q.MetricStat.Metric.MetricName)
}

// pointKey returns what the position of a page is known by: the query and the time of a data point.
func pointKey(query int, at time.Time) string { return fmt.Sprintf("%03d %020d", query, at.Unix()) }
