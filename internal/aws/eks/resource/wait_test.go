package resource

import "testing"

func TestWaitersAreKnownByTheirUserAgent(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]bool{
		"aws-cli/1.45.11 md/Botocore#1.43.11 ua/2.1 md/pyimpl#CPython m/N,Z,b,g,B,D cfg/retry-mode#legacy " +
			"botocore/1.43.11": true,
		"aws-cli/1.45.11 md/Botocore#1.43.11 ua/2.1 md/pyimpl#CPython m/Z,D,g,b,N cfg/retry-mode#legacy " +
			"botocore/1.43.11": false,
		"aws-sdk-go-v2/1.47.6 ua/2.1 os/linux lang/go#1.26 api/eks#1.105.3 m/B": true,
		"aws-sdk-go-v2/1.47.6 ua/2.1 m/B,E md/x":                                true,
		"aws-sdk-go-v2/1.47.6 ua/2.1 m/AB,E":                                    false,
		"some-B/1 lang/B":                                                       false,
		"":                                                                      false,
	} {
		if got := waiterAgent.MatchString(agent); got != want {
			t.Errorf("%q: %v", agent, got)
		}
	}
}
