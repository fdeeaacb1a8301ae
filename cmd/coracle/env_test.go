package main

import (
	"os"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
)

func TestWithoutProxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings datadir.Settings
		env      map[string]string
		want     string
		root     bool // only root has real machines
	}{
		{name: "no proxy", settings: datadir.Settings{Listen: "127.0.0.1:4566"}},
		{
			name: "no proxy, with exceptions", settings: datadir.Settings{Listen: "127.0.0.1:4566"},
			env: map[string]string{"no_proxy": "example.com"},
		},
		{
			name: "simulated machines", settings: datadir.Settings{Listen: "127.0.0.1:4566", Machines: "simulated"},
			env: map[string]string{"https_proxy": "http://proxy:3128"}, want: "127.0.0.1",
		},
		{
			name: "a daemon of the network", settings: datadir.Settings{Listen: "192.0.2.1:4566", Machines: "simulated"},
			env: map[string]string{"HTTP_PROXY": "http://proxy:3128", "no_proxy": "a.example, b.example",
				"NO_PROXY": "b.example,c.example"},
			want: "a.example,b.example,c.example,192.0.2.1,127.0.0.1",
		},
		{
			name:     "real machines",
			settings: datadir.Settings{Listen: ":4566", Machines: "namespace", PublicRange: "198.18.8.0/21"},
			env:      map[string]string{"ALL_PROXY": "socks5://proxy:1080"},
			want:     "127.0.0.1,.eks.amazonaws.com,oidc.eks.eu-west-1.amazonaws.com,198.18.8.0/21", root: true,
		},
		{
			name:     "evaluated twice",
			settings: datadir.Settings{Listen: ":4566", Machines: "namespace", PublicRange: "198.18.8.0/21"},
			env: map[string]string{"https_proxy": "http://proxy:3128",
				"no_proxy": "127.0.0.1,.eks.amazonaws.com,oidc.eks.eu-west-1.amazonaws.com,198.18.8.0/21",
				"NO_PROXY": "127.0.0.1,.eks.amazonaws.com,oidc.eks.eu-west-1.amazonaws.com,198.18.8.0/21"},
			want: "127.0.0.1,.eks.amazonaws.com,oidc.eks.eu-west-1.amazonaws.com,198.18.8.0/21", root: true,
		},
		{
			name: "a proxy that nobody asks", settings: datadir.Settings{Listen: "127.0.0.1:4566"},
			env: map[string]string{"https_proxy": "http://proxy:3128", "no_proxy": "*"},
		},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		if got := withoutProxy(c.settings, "eu-west-1", func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
