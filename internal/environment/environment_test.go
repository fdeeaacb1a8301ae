package environment

import (
	"slices"
	"testing"
)

func TestWhoGetsWhat(t *testing.T) {
	for _, c := range []struct {
		name         string
		goes, serves bool
	}{
		{"PATH", true, true},
		{"HOME", true, true},
		{"GOPROXY", true, true},
		{"GO111MODULE", true, true},
		{"GOMEMLIMIT", true, true},
		{"https_proxy", true, true},
		{"SSL_CERT_FILE", true, true},
		{"NETRC", true, true},
		{"CORACLE_LISTEN", false, true},
		{"CORACLE_CRASH_AT", false, true},
		{"AWS_ACCESS_KEY_ID", false, false},
		{"AWS_SECRET_ACCESS_KEY", false, false},
		{"AWS_SESSION_TOKEN", false, false},
		{"AWS_CONTAINER_AUTHORIZATION_TOKEN", false, false},
		{"GOOGLE_APPLICATION_CREDENTIALS", false, false},
		{"GITHUB_TOKEN", false, false},
		{"KUBECONFIG", false, false},
		{"DATABASE_URL", false, false},
		{"LD_PRELOAD", false, false},
	} {
		t.Setenv(c.name, "value of "+c.name)
		for what, f := range map[string]struct {
			got  []string
			want bool
		}{"the Go command": {ForGo(), c.goes}, "the daemon": {ForDaemon(), c.serves}} {
			if got := slices.Contains(f.got, c.name+"=value of "+c.name); got != f.want {
				t.Errorf("%s gets %s: %v, want %v", what, c.name, got, f.want)
			}
		}
	}
}
