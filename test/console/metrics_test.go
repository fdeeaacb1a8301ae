package console

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// TestMetrics reads what a control plane costs this machine: by the SDK, by the AWS CLI, and in the console.
func TestMetrics(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	d.CreateCluster("web", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("web", ekstypes.ClusterStatusActive)

	client := cloudwatch.NewFromConfig(d.Config())
	dimension := func(name, value string) cwtypes.Dimension { return cwtypes.Dimension{Name: &name, Value: &value} }
	server := &cwtypes.Metric{Namespace: aws.String("Coracle"), MetricName: aws.String("MemoryUsed"),
		Dimensions: []cwtypes.Dimension{dimension("ClusterName", "web"), dimension("Component", "kube-apiserver")}}
	var memory float64
	eventually.True(t, "the memory of an API server is measured", func() bool {
		now := time.Now()
		out, err := client.GetMetricData(t.Context(), &cloudwatch.GetMetricDataInput{
			StartTime: aws.Time(now.Add(-time.Hour)), EndTime: &now,
			MetricDataQueries: []cwtypes.MetricDataQuery{{Id: aws.String("memory"), MetricStat: &cwtypes.MetricStat{
				Metric: server, Period: aws.Int32(60), Stat: aws.String("Maximum")}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		values := out.MetricDataResults[0].Values
		if len(values) > 0 {
			memory = values[0]
		}
		return len(values) > 0
	})
	if memory < 50<<20 || memory > 4<<30 {
		t.Errorf("an API server takes %.0f bytes of memory", memory)
	}
	if got := d.AWS(nil, "cloudwatch", "list-metrics", "--namespace", "Coracle", "--dimensions",
		"Name=ClusterName,Value=web", "Name=Component,Value=kube-scheduler", "--metric-name", "MemoryUsed", "--query",
		"length(Metrics)"); strings.TrimSpace(got) != "1" {
		t.Errorf("list-metrics counts %s metrics of the scheduler's memory, want 1", got)
	}

	tab := browser.Open(t, chromium, d.Endpoint, 1280, 1100)
	tab.Go(link(t, d))
	tab.See("Nothing: no health issues")
	tab.See("What it costs this machine")
	tab.See("Control plane of a cluster")
	tab.See("in the data directory")
	eachLook(tab, "home")
	tab.Go("/console/clusters/web/observability")
	tab.See("Control plane on this machine")
	tab.See("aws-cloud-controller-manager")
	eachLook(tab, "control-plane-usage")
}
