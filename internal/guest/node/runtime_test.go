package node

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestContainersMayNotOpenMoreFilesThanTheMachine(t *testing.T) {
	t.Parallel()
	for most, want := range map[uint64]string{
		20000:   `"rlimits":[{"hard":20000,"soft":20000,"type":"RLIMIT_NOFILE"}]`,
		100000:  `"rlimits":[{"hard":100000,"soft":65536,"type":"RLIMIT_NOFILE"}]`,
		1 << 20: `"rlimits":[{"hard":1048576,"soft":65536,"type":"RLIMIT_NOFILE"}]`,
	} {
		spec, err := RuntimeSpec()
		if err != nil {
			t.Fatal(err)
		}
		limitFiles(spec, most)
		if got, err := json.Marshal(spec); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("with %d the specification is %s, %v", most, got, err)
		}
	}
}
