package wire_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestWhatIsNoNumberIsRefused(t *testing.T) {
	t.Parallel()
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &policy{}})
	m.Register(wire.EC2, wire.Handle(func(context.Context, *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
		return &ec2.CreateFleetOutput{}, nil
	}, wire.OnAll))
	m.Register(wire.Logs, wire.Handle(func(context.Context, *cloudwatchlogs.PutMetricFilterInput) (
		*cloudwatchlogs.PutMetricFilterOutput, error) {
		return &cloudwatchlogs.PutMetricFilterOutput{}, nil
	}, wire.OnAll))
	for _, value := range []string{"NaN", "nan", "Infinity", "-Infinity", "+Inf", "1e999"} {
		form := "Action=CreateFleet&Version=2016-11-15&TargetCapacitySpecification.TotalTargetCapacity=1" +
			"&LaunchTemplateConfigs.1.Overrides.1.WeightedCapacity=" + strings.ReplaceAll(value, "+", "%2B")
		r := httptest.NewRequest("POST", "http://coracle.test/", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, _, body := send(t, m, "ec2", "secret", time.Now(), r, form)
		if status != http.StatusBadRequest || !strings.Contains(body, "<Code>InvalidParameterValue</Code>") {
			t.Errorf("%s in a form: %d %s", value, status, body)
		}
		for _, value := range []string{value, `"` + value + `"`} {
			text := `{"logGroupName":"a","filterName":"b","filterPattern":"","metricTransformations":[{"metricName":` +
				`"a","metricNamespace":"b","metricValue":"1","defaultValue":` + value + `}]}`
			r = httptest.NewRequest("POST", "http://coracle.test/", strings.NewReader(text))
			r.Header.Set("X-Amz-Target", "Logs_20140328.PutMetricFilter")
			r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			status, _, body = send(t, m, "logs", "secret", time.Now(), r, text)
			if status != http.StatusBadRequest || !strings.Contains(body, "SerializationException") {
				t.Errorf("%s in JSON: %d %s", value, status, body)
			}
		}
	}
}
