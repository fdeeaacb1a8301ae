package autoscaling

import "testing"

// Traffic sources without a type are those that the API makes of them: an update that drops one finds it attached.
func TestTrafficSourcesWithoutType(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/web/1"
	got := trafficOf(map[string]any{
		"LoadBalancerNames": []any{"classic"}, "TargetGroupARNs": []any{arn},
		"TrafficSources": []any{map[string]any{"Identifier": arn}, map[string]any{"Identifier": "classic"}},
	})
	if len(got) != 2 || *got[0].Type != "elb" || *got[1].Type != "elbv2" {
		t.Errorf("the traffic sources are %+v", got)
	}
}
