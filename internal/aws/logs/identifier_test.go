package logs

import "testing"

func TestARNsOfLogGroups(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"arn:aws:logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster": true,

		"arn:aws-cn:logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster":     false,
		"arn:aws-us-gov:logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster": false,
		"arn::logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster":           false,
		"arn:AWS:logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster":        false,
		"aws:aws:logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster":        false,
		"arn:aws:eks:eu-west-1:111122223333:log-group:/aws/eks/a/cluster":         false,
		"arn:aws:logs:eu-west-1:111122223333:log-stream:/aws/eks/a/cluster":       false,
		"arn:aws:logs:eu-west-1:111122223333:log-group:/aws/eks/a/cluster:*":      false,
		"arn:aws:logs:eu-west-1:111122223333:log-group:":                          false,
	} {
		arn, ok := parseARN(text)
		if ok != want || ok && arn != (groupARN{"eu-west-1", "111122223333", "/aws/eks/a/cluster"}) {
			t.Errorf("%s: %+v, %v", text, arn, ok)
		}
	}
}
