package cloudwatch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/google/go-cmp/cmp"

	coracle "github.com/coracle-eks/coracle/internal/aws/cloudwatch"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// noon is when the data points of tests begin.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fixture is CloudWatch behind the real wire and the real IAM.
type fixture struct {
	*iamtest.AWS
	t      testing.TB
	points *datapoint.Store
}

// newFixture returns a CloudWatch with ten minutes of an instance's CPUUtilization, 1 to 10, and of the host's memory.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t), t: t, points: datapoint.New()}
	coracle.New(w.points).Register(w.Mux)
	for minute := range 10 {
		err := w.points.Add(noon.Add(time.Duration(minute)*time.Minute), []datapoint.Sample{
			{Metric: instanceMetric(iamtest.Account, "CPUUtilization", "Percent"), Value: float64(minute + 1)},
			{Metric: datapoint.Metric{Account: iamtest.Account, Namespace: "Coracle", Name: "MemoryTotal", Unit: "Bytes"},
				Value: 1 << 34},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func instanceMetric(account, name, unit string) datapoint.Metric {
	return datapoint.Metric{Account: account, Region: iamtest.Region, Namespace: "AWS/EC2", Name: name, Unit: unit,
		Dimensions: []datapoint.Dimension{{Name: "InstanceId", Value: "i-1"}}}
}

func (w *fixture) client(who aws.Credentials) *cloudwatch.Client {
	return cloudwatch.New(cloudwatch.Options{
		Region: iamtest.Region, BaseEndpoint: aws.String(w.URL), RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: who},
	})
}

func query(change func(*types.MetricDataQuery)) types.MetricDataQuery {
	q := types.MetricDataQuery{Id: aws.String("cpu"), MetricStat: &types.MetricStat{Period: aws.Int32(60),
		Stat: aws.String("Average"), Metric: &types.Metric{Namespace: aws.String("AWS/EC2"),
			MetricName: aws.String("CPUUtilization"),
			Dimensions: []types.Dimension{{Name: aws.String("InstanceId"), Value: aws.String("i-1")}}}}}
	if change != nil {
		change(&q)
	}
	return q
}

func ask(queries ...types.MetricDataQuery) *cloudwatch.GetMetricDataInput {
	return &cloudwatch.GetMetricDataInput{StartTime: aws.Time(noon), EndTime: aws.Time(noon.Add(time.Hour)),
		MetricDataQueries: queries, ScanBy: types.ScanByTimestampAscending}
}

func TestStatisticsOfPeriods(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := w.client(w.Root)
	for _, test := range []struct {
		stat   string
		period int32
		start  time.Duration
		want   []float64
	}{
		{"Average", 300, 0, []float64{3, 8}},
		{"Sum", 300, 0, []float64{15, 40}},
		{"Minimum", 300, 0, []float64{1, 6}},
		{"Maximum", 300, 0, []float64{5, 10}},
		{"SampleCount", 300, 0, []float64{5, 5}},
		{"p50", 300, 0, []float64{3, 8}},
		{"p90", 600, 0, []float64{9.1}},
		{"Sum", 300, 8*time.Minute + 30*time.Second, []float64{19}}, // from the whole minute on
		{"Sum", 60, 9 * time.Minute, []float64{10}},
		{"Sum", 3600, 0, []float64{55}},
		{"Sum", 60, 20 * time.Minute, []float64{}},
	} {
		in := ask(query(func(q *types.MetricDataQuery) {
			q.MetricStat.Stat, q.MetricStat.Period = &test.stat, &test.period
		}))
		in.StartTime = aws.Time(noon.Add(test.start))
		out, err := c.GetMetricData(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		r := out.MetricDataResults[0]
		if d := cmp.Diff(test.want, r.Values); d != "" || r.StatusCode != types.StatusCodeComplete ||
			*r.Label != "CPUUtilization" {
			t.Errorf("%s of %d s from %v: %s %s (-want +got):\n%s", test.stat, test.period, test.start, *r.Label, r.StatusCode,
				d)
		}
	}
	// Descending unless asked for otherwise, and nothing in another unit.
	in := ask(query(func(q *types.MetricDataQuery) { q.MetricStat.Period = aws.Int32(300) }),
		query(func(q *types.MetricDataQuery) { q.Id, q.MetricStat.Unit = aws.String("bytes"), types.StandardUnitBytes }))
	in.ScanBy = ""
	out, err := c.GetMetricData(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.MetricDataResults[0]; !cmp.Equal(got.Values, []float64{8, 3}) ||
		!got.Timestamps[1].Equal(noon) || len(out.MetricDataResults[1].Values) != 0 {
		t.Errorf("got %+v", out.MetricDataResults)
	}
}

func TestGetMetricStatistics(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := w.client(w.Root)
	in := &cloudwatch.GetMetricStatisticsInput{Namespace: aws.String("AWS/EC2"), MetricName: aws.String("CPUUtilization"),
		Dimensions: []types.Dimension{{Name: aws.String("InstanceId"), Value: aws.String("i-1")}}, Period: aws.Int32(300),
		StartTime: aws.Time(noon), EndTime: aws.Time(noon.Add(5 * time.Minute)), Statistics: types.Statistic("").Values()}
	out, err := c.GetMetricStatistics(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := []types.Datapoint{{Timestamp: aws.Time(noon), Unit: types.StandardUnitPercent, Average: aws.Float64(3),
		Sum: aws.Float64(15), Minimum: aws.Float64(1), Maximum: aws.Float64(5), SampleCount: aws.Float64(5)}}
	if d := cmp.Diff(want, out.Datapoints, cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".noSmithyDocumentSerde"
	}, cmp.Ignore())); d != "" {
		t.Errorf("data points (-want +got):\n%s", d)
	}
	in.Statistics, in.ExtendedStatistics = nil, []string{"p100"}
	if out, err = c.GetMetricStatistics(t.Context(), in); err != nil || out.Datapoints[0].ExtendedStatistics["p100"] != 5 {
		t.Errorf("p100: %+v, %v", out, err)
	}
}

func TestPagesOfDataPoints(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	second := query(func(q *types.MetricDataQuery) { q.Id, q.MetricStat.Stat = aws.String("again"), aws.String("Sum") })
	in := ask(query(nil), second)
	in.MaxDatapoints = aws.Int32(7)
	values, pages := map[string][]float64{}, 0
	p := cloudwatch.NewGetMetricDataPaginator(w.client(w.Root), in)
	var states []types.StatusCode
	for p.HasMorePages() {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, r := range out.MetricDataResults {
			values[*r.Id] = append(values[*r.Id], r.Values...)
			states = append(states, r.StatusCode)
		}
	}
	all := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if d := cmp.Diff(map[string][]float64{"cpu": all, "again": all}, values); d != "" || pages != 3 {
		t.Errorf("%d pages (-want +got):\n%s", pages, d)
	}
	const done, part = types.StatusCodeComplete, types.StatusCodePartialData
	if d := cmp.Diff([]types.StatusCode{part, part, done, part, done, done}, states); d != "" {
		t.Errorf("status codes (-want +got):\n%s", d)
	}
}

func TestListMetrics(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	many := make([]datapoint.Sample, 501)
	for i := range many {
		many[i].Metric = instanceMetric(iamtest.Account, fmt.Sprintf("Many%03d", i), "Count")
	}
	if err := w.points.Add(noon, many); err != nil {
		t.Fatal(err)
	}
	c := w.client(w.Root)
	list := func(in *cloudwatch.ListMetricsInput) (names []string, pages int) {
		t.Helper()
		for p := cloudwatch.NewListMetricsPaginator(c, in); p.HasMorePages(); pages++ {
			out, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range out.Metrics {
				names = append(names, *m.MetricName)
			}
		}
		return names, pages
	}
	if names, pages := list(&cloudwatch.ListMetricsInput{}); len(names) != 503 || pages != 2 {
		t.Errorf("%d metrics in %d pages, want 503 in 2", len(names), pages)
	}
	for _, test := range []struct {
		in   cloudwatch.ListMetricsInput
		want []string
	}{
		{cloudwatch.ListMetricsInput{Namespace: aws.String("Coracle")}, []string{"MemoryTotal"}},
		{cloudwatch.ListMetricsInput{MetricName: aws.String("CPUUtilization"),
			RecentlyActive: types.RecentlyActivePt3h}, []string{"CPUUtilization"}},
		{cloudwatch.ListMetricsInput{MetricName: aws.String("CPUUtilization"),
			Dimensions: []types.DimensionFilter{{Name: aws.String("InstanceId")}}}, []string{"CPUUtilization"}},
		{cloudwatch.ListMetricsInput{MetricName: aws.String("CPUUtilization"), Dimensions: []types.DimensionFilter{
			{Name: aws.String("InstanceId"), Value: aws.String("i-2")}}}, nil},
	} {
		if names, _ := list(&test.in); !cmp.Equal(names, test.want) {
			t.Errorf("%+v: got %v, want %v", test.in, names, test.want)
		}
	}
}

func TestAnotherAccountSeesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := w.client(w.NewAccount(t, iamtest.Other))
	out, err := c.ListMetrics(t.Context(), &cloudwatch.ListMetricsInput{})
	if err != nil || len(out.Metrics) != 0 {
		t.Errorf("another account lists %+v, %v", out, err)
	}
	data, err := c.GetMetricData(t.Context(), ask(query(nil)))
	if err != nil || len(data.MetricDataResults[0].Values) != 0 {
		t.Errorf("another account reads %+v, %v", data, err)
	}
	_, err = c.GetMetricData(t.Context(), ask(query(func(q *types.MetricDataQuery) {
		q.AccountId = aws.String(iamtest.Account)
	})))
	refused(t, err, "ValidationError", "There are no linked accounts")
}

func refused(t *testing.T, err error, code, message string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), " "+code+": ") || !strings.Contains(err.Error(), message) {
		t.Errorf("got %v, want %s: …%s…", err, code, message)
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := w.client(w.NewUser(t, "lister", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Action":"cloudwatch:ListMetrics","Resource":"*"}]}`))
	if _, err := c.ListMetrics(t.Context(), &cloudwatch.ListMetricsInput{}); err != nil {
		t.Error(err)
	}
	_, err := c.GetMetricData(t.Context(), ask(query(nil)))
	refused(t, err, "AccessDeniedException", "is not authorized to perform: cloudwatch:GetMetricData")
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := w.client(w.Root)
	data := func(change func(*cloudwatch.GetMetricDataInput)) func(context.Context) error {
		return func(ctx context.Context) error {
			in := ask(query(nil))
			change(in)
			_, err := c.GetMetricData(ctx, in)
			return err
		}
	}
	one := func(change func(*types.MetricDataQuery)) func(context.Context) error {
		return data(func(in *cloudwatch.GetMetricDataInput) { change(&in.MetricDataQueries[0]) })
	}
	statistics := func(change func(*cloudwatch.GetMetricStatisticsInput)) func(context.Context) error {
		return func(ctx context.Context) error {
			in := &cloudwatch.GetMetricStatisticsInput{Namespace: aws.String("AWS/EC2"), MetricName: aws.String("M"),
				Period: aws.Int32(60), StartTime: aws.Time(noon), EndTime: aws.Time(noon.Add(time.Hour)),
				Statistics: []types.Statistic{types.StatisticSum}}
			change(in)
			_, err := c.GetMetricStatistics(ctx, in)
			return err
		}
	}
	for name, test := range map[string]struct {
		ask           func(context.Context) error
		code, message string
	}{
		"expression": {one(func(q *types.MetricDataQuery) {
			q.MetricStat, q.Expression = nil, aws.String("SUM(METRICS())")
		}), "ValidationError", "Error in expression 'cpu': coracle computes no metric math"},
		"expression and metric": {one(func(q *types.MetricDataQuery) { q.Expression = aws.String("x") }), "ValidationError",
			"mutually exclusive"},
		"neither": {one(func(q *types.MetricDataQuery) { q.MetricStat = nil }), "ValidationError", "must have a MetricStat"},
		"ID":      {one(func(q *types.MetricDataQuery) { q.Id = aws.String("CPU") }), "ValidationError", "expected pattern"},
		"period": {one(func(q *types.MetricDataQuery) { q.MetricStat.Period = aws.Int32(90) }), "ValidationError",
			"multiple of 60"},
		"short period": {one(func(q *types.MetricDataQuery) { q.MetricStat.Period = aws.Int32(10) }), "ValidationError",
			"multiple of 60"},
		"statistic": {one(func(q *types.MetricDataQuery) { q.MetricStat.Stat = aws.String("IQM") }), "ValidationError",
			"The value IQM for parameter Stat"},
		"percentile": {one(func(q *types.MetricDataQuery) { q.MetricStat.Stat = aws.String("p1e1") }), "ValidationError",
			"The value p1e1"},
		"nothing returned": {one(func(q *types.MetricDataQuery) { q.ReturnData = aws.Bool(false) }), "ValidationError",
			"must return data"},
		"label": {one(func(q *types.MetricDataQuery) { q.Label = aws.String("${MAX}") }), "ValidationError", "dynamic"},
		"period beside a metric": {one(func(q *types.MetricDataQuery) { q.Period = aws.Int32(60) }), "ValidationError",
			"beside MetricStat"},
		"times": {data(func(in *cloudwatch.GetMetricDataInput) { in.EndTime = in.StartTime }), "ValidationError",
			"StartTime must be less"},
		"twice": {data(func(in *cloudwatch.GetMetricDataInput) {
			in.MetricDataQueries = append(in.MetricDataQueries, query(nil))
		}), "ValidationError", "not unique"},
		"many": {data(func(in *cloudwatch.GetMetricDataInput) {
			in.MetricDataQueries = make([]types.MetricDataQuery, 501)
			for i := range in.MetricDataQueries {
				in.MetricDataQueries[i] = query(func(q *types.MetricDataQuery) { q.Id = aws.String(fmt.Sprint("q", i)) })
			}
		}), "ValidationError", "greater than 500"},
		"none": {data(func(in *cloudwatch.GetMetricDataInput) { in.MetricDataQueries = []types.MetricDataQuery{} }),
			"ValidationError", "less than 1"},
		"page size": {data(func(in *cloudwatch.GetMetricDataInput) { in.MaxDatapoints = aws.Int32(100_801) }),
			"ValidationError", "MaxDatapoints"},
		"token": {data(func(in *cloudwatch.GetMetricDataInput) { in.NextToken = aws.String("x") }), "InvalidNextToken", ""},
		"period of statistics": {statistics(func(in *cloudwatch.GetMetricStatisticsInput) { in.Period = aws.Int32(61) }),
			"InvalidParameterValue", "Period must be a multiple of 60"},
		"no statistics": {statistics(func(in *cloudwatch.GetMetricStatisticsInput) { in.Statistics = nil }),
			"MissingParameter", "Statistics or ExtendedStatistics"},
		"both statistics": {statistics(func(in *cloudwatch.GetMetricStatisticsInput) {
			in.ExtendedStatistics = []string{"p1"}
		}), "InvalidParameterCombination", "together"},
		"extended statistic": {statistics(func(in *cloudwatch.GetMetricStatisticsInput) {
			in.Statistics, in.ExtendedStatistics = nil, []string{"Sum"}
		}), "InvalidParameterValue", "percentile"},
		"many data points": {statistics(func(in *cloudwatch.GetMetricStatisticsInput) {
			in.EndTime = aws.Time(noon.Add(1441 * time.Minute))
		}), "InvalidParameterCombination", "up to 1441 datapoints"},
		"times of statistics": {statistics(func(in *cloudwatch.GetMetricStatisticsInput) {
			in.StartTime = aws.Time(noon.Add(2 * time.Hour))
		}), "InvalidParameterCombination", "StartTime must be less"},
		"linked account": {func(ctx context.Context) error {
			_, err := c.ListMetrics(ctx, &cloudwatch.ListMetricsInput{OwningAccount: aws.String(iamtest.Other)})
			return err
		}, "InvalidParameterValue", "no linked accounts"},
		"put": {func(ctx context.Context) error {
			_, err := c.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: aws.String("Mine")})
			return err
		}, "NotImplemented", "PutMetricData is not implemented by coracle"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.ask(t.Context()), test.code, test.message) })
	}
}

// TestProtocols asks as the SDK for JavaScript does, and as clients did before 2025. The SDK for Go, in the other
// tests, speaks CBOR.
func TestProtocols(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	send := func(contentType, target, body string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		if target != "" {
			r.Header.Set("X-Amz-Target", target)
			r.Header.Set("X-Amzn-Query-Mode", "true")
		}
		sum := sha256.Sum256([]byte(body))
		if err := v4.NewSigner().SignHTTP(t.Context(), w.Root, r, hex.EncodeToString(sum[:]), "monitoring", iamtest.Region,
			time.Now()); err != nil {
			t.Fatal(err)
		}
		answer, err := awsclient.HTTP().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header, string(text)
	}
	const times = `"StartTime":1796040000,"EndTime":1796043600`
	status, header, body := send("application/x-amz-json-1.0", "GraniteServiceVersion20100801.GetMetricData", `{`+times+
		`,"ScanBy":"TimestampAscending","MetricDataQueries":[{"Id":"cpu","MetricStat":{"Period":300,"Stat":"Sum","Metric":{
		"Namespace":"AWS/EC2","MetricName":"CPUUtilization","Dimensions":[{"Name":"InstanceId","Value":"i-1"}]}}}]}`)
	var compact bytes.Buffer
	_ = json.Compact(&compact, []byte(body))
	if want := `{"Messages":[],"MetricDataResults":[{"Id":"cpu","Label":"CPUUtilization","StatusCode":"Complete",` +
		`"Timestamps":[1796040000,1796040300],"Values":[15,40]}]}`; status != http.StatusOK || compact.String() != want ||
		header.Get("Content-Type") != "application/x-amz-json-1.0" {
		t.Errorf("JSON: %d %s\n%s\nwant\n%s", status, header.Get("Content-Type"), body, want)
	}
	status, header, body = send("application/x-amz-json-1.0", "GraniteServiceVersion20100801.GetMetricStatistics", `{`+
		times+`,"Namespace":"AWS/EC2","MetricName":"CPUUtilization","Period":7,"Statistics":["Sum"]}`)
	if status != http.StatusBadRequest || header.Get("X-Amzn-Query-Error") != "InvalidParameterValue;Sender" {
		t.Errorf("JSON: %d %v\n%s", status, header, body)
	}
	status, header, body = send("application/x-www-form-urlencoded", "", "Action=GetMetricStatistics&Version=2010-08-01"+
		"&Namespace=AWS%2FEC2&MetricName=CPUUtilization&Dimensions.member.1.Name=InstanceId&Dimensions.member.1.Value=i-1"+
		"&Period=600&StartTime=2026-11-30T12:00:00Z&EndTime=2026-11-30T13:00:00Z&Statistics.member.1=Maximum")
	if status != http.StatusOK || !strings.Contains(body, "<GetMetricStatisticsResponse "+
		`xmlns="http://monitoring.amazonaws.com/doc/2010-08-01/"><GetMetricStatisticsResult><Datapoints><member>`) ||
		!strings.Contains(body, "<Maximum>10</Maximum>") {
		t.Errorf("query: %d %s\n%s", status, header.Get("Content-Type"), body)
	}
}

// The unmodified aws CLI reads metrics.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	cli := awsclient.NewCLI(t, w.URL, iamtest.Region, "cloudwatch")
	cli.SignAs(w.Root.AccessKeyID, w.Root.SecretAccessKey)
	const metric = `{"Namespace":"AWS/EC2","MetricName":"CPUUtilization",` +
		`"Dimensions":[{"Name":"InstanceId","Value":"i-1"}]}`
	run := func(operation string, args ...string) string {
		t.Helper()
		return cli.Run(nil, append([]string{operation, "--start-time", "2026-11-30T12:00:00Z", "--end-time",
			"2026-11-30T13:00:00Z"}, args...)...)
	}
	got := run("get-metric-data", "--metric-data-queries", `[{"Id":"cpu","MetricStat":{"Metric":`+metric+
		`,"Period":300,"Stat":"Average"}}]`, "--query", "MetricDataResults[].Values[]", "--output", "text")
	if got = strings.ReplaceAll(got, ".0", ""); got != "8\t3" { // as the version prints numbers
		t.Errorf("get-metric-data prints %q", got)
	}
	got = run("get-metric-statistics", "--namespace", "AWS/EC2", "--metric-name", "CPUUtilization", "--dimensions",
		"Name=InstanceId,Value=i-1", "--period", "600", "--statistics", "Maximum", "--query",
		"Datapoints[].[Maximum,Unit]", "--output", "text")
	if got = strings.ReplaceAll(got, ".0", ""); got != "10\tPercent" {
		t.Errorf("get-metric-statistics prints %q", got)
	}
	if got = cli.Run(nil, "list-metrics", "--namespace", "AWS/EC2", "--query",
		"Metrics[].Dimensions[].Value", "--output", "text"); got != "i-1" {
		t.Errorf("list-metrics prints %q", got)
	}
	cli.Refused("ValidationError", "coracle computes no metric math", "get-metric-data", "--start-time",
		"2026-11-30T12:00:00Z", "--end-time", "2026-11-30T13:00:00Z", "--metric-data-queries",
		`[{"Id":"e1","Expression":"1+1"}]`)
}
