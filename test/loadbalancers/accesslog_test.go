//go:build linux

package loadbalancers

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

// accessLogs is the log group that the access logs of the load balancer of an Ingress are delivered to.
const accessLogs = "/aws/vendedlogs/web"

// deliverLogs delivers the access logs and the connection logs of the load balancer, as an administrator does.
func (i *ingress) deliverLogs() {
	i.t.Helper()
	ctx, t := i.t.Context(), i.t
	i.logs = cloudwatchlogs.NewFromConfig(i.Daemon.Config())
	must[*cloudwatchlogs.CreateLogGroupOutput](t)(i.logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{
		LogGroupName: aws.String(accessLogs)}))
	groups := must[*cloudwatchlogs.DescribeLogGroupsOutput](t)(i.logs.DescribeLogGroups(ctx,
		&cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String(accessLogs)}))
	to := must[*cloudwatchlogs.PutDeliveryDestinationOutput](t)(i.logs.PutDeliveryDestination(ctx,
		&cloudwatchlogs.PutDeliveryDestinationInput{Name: aws.String("web"),
			DeliveryDestinationConfiguration: &logstypes.DeliveryDestinationConfiguration{
				DestinationResourceArn: groups.LogGroups[0].Arn}}))
	for _, kind := range []string{"ALB_ACCESS_LOGS", "ALB_CONNECTION_LOGS"} {
		must[*cloudwatchlogs.PutDeliverySourceOutput](t)(i.logs.PutDeliverySource(ctx,
			&cloudwatchlogs.PutDeliverySourceInput{Name: &kind, LogType: &kind, ResourceArn: i.balancer.LoadBalancerArn}))
		must[*cloudwatchlogs.CreateDeliveryOutput](t)(i.logs.CreateDelivery(ctx, &cloudwatchlogs.CreateDeliveryInput{
			DeliverySourceName: &kind, DeliveryDestinationArn: to.DeliveryDestination.Arn}))
	}
	// The process learns of it soon: a request is logged.
	i.until("access logs are delivered", func() error {
		if _, _, _, err := request(ctx, *i.balancer.DNSName, "", "/closed?first"); err != nil {
			return err
		}
		return i.finds(`{ $.request_line = "*/closed?first*" && $.elb_status_code = "503" }`, 1)
	})
}

// finds looks for so many events with a filter pattern, at least.
func (i *ingress) finds(pattern string, least int) error {
	found := 0
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(i.logs, &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: aws.String(accessLogs), FilterPattern: &pattern})
	for pages.HasMorePages() {
		page, err := pages.NextPage(i.t.Context())
		if err != nil {
			return err
		}
		found += len(page.Events)
	}
	if found < least {
		return fmt.Errorf("%d events match %s", found, pattern)
	}
	return nil
}

// checkLogs demands that requests are found by FilterLogEvents and by a Logs Insights query: those to a target, and
// the connections that they came by.
func (i *ingress) checkLogs() {
	i.t.Helper()
	ctx, t := i.t.Context(), i.t
	i.until("a request to a target is logged", func() error {
		return i.finds(fmt.Sprintf(`{ $.domain_name = "-" && $.target_group_arn = %q && $.target_status_code = "200" && `+
			`$.actions_executed = "forward" }`, i.groups["green"]), 1)
	})
	i.until("connections are logged", func() error {
		return i.finds(`{ $.listener_port = "80" && $.conn_trace_id = "TID_*" }`, 1)
	})
	streams := must[*cloudwatchlogs.DescribeLogStreamsOutput](t)(i.logs.DescribeLogStreams(ctx,
		&cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: aws.String(accessLogs)})).LogStreams
	_, path, _ := strings.Cut(*i.balancer.LoadBalancerArn, ":loadbalancer/")
	if len(streams) != 2 || *streams[0].LogStreamName != "ALB_ACCESS_LOGS_"+path {
		t.Errorf("the streams are %+v", streams)
	}
	started := must[*cloudwatchlogs.StartQueryOutput](t)(i.logs.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{
		LogGroupName: aws.String(accessLogs), StartTime: aws.Int64(time.Now().Add(-time.Hour).Unix()),
		EndTime: aws.Int64(time.Now().Add(time.Minute).Unix()), // what was logged within this second is before that
		QueryString: aws.String(
			"filter elb_status_code = 200 | stats count(*) as n by `target:port`, ip_address | sort n desc")}))
	i.until("the query is complete", func() error {
		out, err := i.logs.GetQueryResults(ctx, &cloudwatchlogs.GetQueryResultsInput{QueryId: started.QueryId})
		if err != nil {
			return err
		}
		if out.Status != logstypes.QueryStatusComplete {
			return fmt.Errorf("it is %s", out.Status)
		}
		if len(out.Results) == 0 || !strings.HasSuffix(*out.Results[0][0].Value, ":8080") {
			t.Errorf("the query finds %+v", out.Results)
		}
		return nil
	})
}
