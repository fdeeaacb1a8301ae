package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

// auditEvent returns an event like those of an audit log: JSON of about 1.5 KB, so that its quotes are escaped on the
// way.
func auditEvent(i int) string {
	return fmt.Sprintf(
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"%032d","stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node?fieldManager=eks","verb":"patch","user":{"username":"eks:addon-manager","uid":"aws-iam-authenticator:111122223333:AROAEXAMPLE%d","groups":["system:authenticated"]},"sourceIPs":["10.0.%d.%d"],"objectRef":{"resource":"daemonsets","namespace":"kube-system","name":"aws-node","apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestObject":{"data":"%s"},"requestReceivedTimestamp":"2026-11-01T12:00:00.%06dZ"}`,
		i, i%97, i/250%250, i%250, strings.Repeat("lorem ipsum \u00e9 <", 55), i%1000000)
}

// BenchmarkPutLogEvents sends full batches over loopback, with the SDK's client in the same process.
func BenchmarkPutLogEvents(b *testing.B) {
	w := newFixture(b)
	w.group("g", "s")
	var batch []types.InputLogEvent
	for size, i := 0, 0; ; i++ {
		m := auditEvent(i)
		if size += len(m) + 26; size > 1<<20 {
			b.SetBytes(int64(size))
			break
		}
		batch = append(batch, types.InputLogEvent{Message: &m, Timestamp: aws.Int64(today.UnixMilli() + int64(i))})
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.client.PutLogEvents(b.Context(),
				&cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String("g"), LogStreamName: aws.String("s"),
					LogEvents: batch}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "events/s")
}
