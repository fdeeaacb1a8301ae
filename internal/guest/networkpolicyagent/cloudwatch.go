//go:build linux

package networkpolicyagent

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/imds"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
)

const (
	// clusterTag has the name of the cluster on instances of node groups, and clusterTagOfEKS that of EKS itself.
	clusterTag      = "eks:cluster-name"
	clusterTagOfEKS = "aws:eks:cluster-name"
	// groupOfNone is the log group on nodes whose instances have neither.
	groupOfNone = "/aws/k8s-cluster/cluster"

	// eventQueue is the number of events that wait for CloudWatch Logs; more are lost. A batch has up to eventBatch.
	eventQueue  = 2000
	eventBatch  = 500
	eventPeriod = time.Second
)

// publisher sends flows to CloudWatch Logs.
type publisher struct {
	log    *zap.SugaredLogger
	events chan cwtypes.InputLogEvent
}

func newPublisher(log *zap.SugaredLogger) *publisher {
	return &publisher{log, make(chan cwtypes.InputLogEvent, eventQueue)}
}

// publish queues a flow, in the words of upstream.
func (p *publisher) publish(f flow, verdict, tier string) {
	event := cwtypes.InputLogEvent{
		Timestamp: aws.Int64(time.Now().UnixMilli()),
		Message: aws.String(fmt.Sprintf(
			"Node: %s;SIP: %s;SPORT: %d;DIP: %s;DPORT: %d;PROTOCOL: %s;PolicyVerdict: %s;Tier: %s",
			os.Getenv("MY_NODE_NAME"), f.source, f.sourcePort, f.destination, f.destinationPort, f.protocol, verdict, tier)),
	}
	select {
	case p.events <- event:
	default:
		lost.Inc()
	}
}

// run sends what is queued until ctx ends. Nothing of it keeps the agent from enforcing.
func (p *publisher) run(ctx context.Context) {
	backoff := kubeclient.Backoff{First: time.Second, Most: time.Minute}
	for ctx.Err() == nil {
		began := time.Now()
		if err := p.send(ctx); err != nil && ctx.Err() == nil {
			p.log.Errorf("Failed to send flows to CloudWatch Logs: %v", err)
		}
		_ = kubeclient.Sleep(ctx, backoff.After(time.Since(began))) // the loop asks ctx
	}
}

func (p *publisher) send(ctx context.Context) error {
	settings, err := csidriver.LoadConfig(ctx, "aws-network-policy-agent")
	if err != nil {
		return err
	}
	group, err := logGroup(ctx, ec2.NewFromConfig(settings))
	if err != nil {
		return err
	}
	logs := cloudwatchlogs.NewFromConfig(settings)
	_, err = logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &group})
	if err != nil && !csidriver.HasCode(err, "ResourceAlreadyExistsException") {
		return err
	}
	stream := "aws-network-policy-agent-audit-" + uuid.NewString()
	if _, err := logs.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group,
		LogStreamName: &stream}); err != nil {
		return err
	}
	p.log.Infof("Sending flows to log group %s, log stream %s", group, stream)
	ticker := time.NewTicker(eventPeriod)
	defer ticker.Stop()
	for {
		batch, err := p.nextBatch(ctx, ticker.C)
		if err != nil {
			return err
		}
		if _, err := logs.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream,
			LogEvents: batch}); err != nil {
			lost.Add(float64(len(batch)))
			return err
		}
	}
}

// nextBatch waits for events, and for more of them until the next tick.
func (p *publisher) nextBatch(ctx context.Context, tick <-chan time.Time) (batch []cwtypes.InputLogEvent, err error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e := <-p.events:
			if batch = append(batch, e); len(batch) == eventBatch {
				return batch, nil
			}
		case <-tick:
			if len(batch) > 0 {
				return batch, nil
			}
		}
	}
}

// logGroup returns the log group of the cluster that the instance is of.
func logGroup(ctx context.Context, client *ec2.Client) (string, error) {
	instance, err := (&imds.Client{}).Meta(ctx, "instance-id")
	if err != nil {
		return "", err
	}
	out, err := client.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []ec2types.Filter{
		{Name: aws.String("resource-id"), Values: []string{instance}},
		{Name: aws.String("key"), Values: []string{clusterTag, clusterTagOfEKS}},
	}})
	if err != nil {
		return "", err
	}
	for _, tag := range out.Tags {
		return "/aws/eks/" + aws.ToString(tag.Value) + "/cluster", nil
	}
	return groupOfNone, nil
}
