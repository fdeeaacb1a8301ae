package cloudwatch

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/datapoint"
)

// Limits of GetMetricData.
const (
	maxQueries    = 500
	maxDatapoints = 100_800
)

var queryID = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]{0,254}$`)

// value is a data point of an answer.
type value struct {
	query int
	at    time.Time
	value float64
}

// GetMetricData returns statistics of several metrics.
func (s *Service) GetMetricData(ctx context.Context, in *cloudwatch.GetMetricDataInput) (
	*cloudwatch.GetMetricDataOutput, error) {
	if err := checkQueries(ctx, in); err != nil {
		return nil, err
	}
	points := int64(len(in.MetricDataQueries)) * int64(datapoint.Retention/datapoint.Period)
	if err := wire.HoldAnswer(ctx, points*pointMemory); err != nil {
		return nil, err
	}
	var values []value
	for i, q := range in.MetricDataQueries {
		if q.ReturnData != nil && !*q.ReturnData {
			continue
		}
		m := q.MetricStat.Metric
		buckets, _ := s.buckets(metricOf(ctx, m.Namespace, m.MetricName, m.Dimensions), q.MetricStat.Unit, *in.StartTime,
			*in.EndTime, int64(*q.MetricStat.Period))
		if in.ScanBy != types.ScanByTimestampAscending {
			slices.Reverse(buckets)
		}
		compute, _ := parseStatistic(*q.MetricStat.Stat) // checked
		for _, b := range buckets {
			values = append(values, value{i, b.start, compute(b.values)})
		}
	}
	most := aws.Int32(maxDatapoints)
	if in.MaxDatapoints != nil {
		most = in.MaxDatapoints
	}
	page, next, err := wire.Page(ctx, values, most, in.NextToken, func(v value) string {
		return pointKey(v.query, v.at)
	})
	if err != nil {
		return nil, err
	}
	out := &cloudwatch.GetMetricDataOutput{NextToken: next, Messages: []types.MessageData{},
		MetricDataResults: []types.MetricDataResult{}}
	rest := page // in the order of the queries
	for i, q := range in.MetricDataQueries {
		if q.ReturnData != nil && !*q.ReturnData {
			continue
		}
		r := types.MetricDataResult{Id: q.Id, Label: aws.String(label(q)), StatusCode: types.StatusCodeComplete,
			Timestamps: []time.Time{}, Values: []float64{}}
		for ; len(rest) > 0 && rest[0].query == i; rest = rest[1:] {
			r.Timestamps, r.Values = append(r.Timestamps, rest[0].at), append(r.Values, rest[0].value)
		}
		if next != nil && len(page) > 0 && i >= page[len(page)-1].query {
			r.StatusCode = types.StatusCodePartialData // the next page goes on with it, or has it
		}
		out.MetricDataResults = append(out.MetricDataResults, r)
	}
	return out, nil
}

// checkQueries refuses what is no request of AWS's, or is not served.
func checkQueries(ctx context.Context, in *cloudwatch.GetMetricDataInput) error {
	if !in.StartTime.Before(*in.EndTime) {
		return validation("The parameter StartTime must be less than the parameter EndTime.")
	}
	if n := len(in.MetricDataQueries); n == 0 || n > maxQueries {
		return validation("The collection MetricDataQueries must not have a size less than 1, or greater than %d.",
			maxQueries)
	}
	if n := in.MaxDatapoints; n != nil && (*n < 1 || *n > maxDatapoints) {
		return validation("The parameter MaxDatapoints must be from 1 to %d.", maxDatapoints)
	}
	account, seen, returns := wire.CallerFrom(ctx).Account, map[string]bool{}, false
	for _, q := range in.MetricDataQueries {
		id := aws.ToString(q.Id)
		if !queryID.MatchString(id) {
			return validation("The value %s for parameter MetricDataQueries.member.Id is not matching the expected pattern "+
				"^[a-z][a-zA-Z0-9_]*$.", id)
		}
		if seen[id] {
			return validation("The values for parameter id in MetricDataQueries are not unique.")
		}
		seen[id] = true
		returns = returns || q.ReturnData == nil || *q.ReturnData
		switch {
		case q.Expression != nil && q.MetricStat != nil:
			return validation("The parameters MetricDataQueries.member.Expression and MetricDataQueries.member.MetricStat "+
				"are mutually exclusive and you have specified both of them in the query %s.", id)
		case q.Expression != nil:
			return validation("Error in expression '%s': coracle computes no metric math, search expressions and Metrics "+
				"Insights queries. Ask for the metrics by MetricStat.", id)
		case q.MetricStat == nil:
			return validation("The query %s must have a MetricStat.", id)
		case q.Period != nil:
			return validation("The parameter Period of the query %s must not be specified beside MetricStat, which has a "+
				"Period.", id)
		case q.AccountId != nil && *q.AccountId != account:
			return validation("The value %s for parameter AccountId of the query %s is invalid. There are no linked "+
				"accounts: it must be %s.", *q.AccountId, id, account)
		case strings.Contains(aws.ToString(q.Label), "${"):
			return validation("The label of the query %s has a dynamic part, which coracle does not compute. Write a label "+
				"without ${...}.", id)
		}
		if !isPeriod(int64(*q.MetricStat.Period)) {
			return validation("The parameter Period of the query %s must be a multiple of 60, from 60 to %d.", id, maxPeriod)
		}
		if _, ok := parseStatistic(*q.MetricStat.Stat); !ok {
			return validation("The value %s for parameter Stat of the query %s is not supported. Specify Average, Sum, "+
				"Minimum, Maximum, SampleCount, or a percentile such as p99.", *q.MetricStat.Stat, id)
		}
	}
	if !returns {
		return validation("At least one of the elements must return data: set ReturnData of a query.")
	}
	return nil
}
