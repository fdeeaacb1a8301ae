package cluster

import (
	"net/netip"
	"testing"
)

func TestDefaultServiceCIDR(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		vpc  []string
		want string
	}{
		{"in 192.168/16, as eksctl makes them", []string{"192.168.0.0/16"}, "10.100.0.0/16"},
		{"the default VPC", []string{"172.31.0.0/16"}, "10.100.0.0/16"},
		{"in 10/8", []string{"10.0.0.0/16"}, "172.20.0.0/16"},
		{"where EKS puts services", []string{"10.100.0.0/16"}, "172.20.0.0/16"},
		{"with a secondary block in 10/8", []string{"192.168.0.0/16", "10.7.0.0/20"}, "172.20.0.0/16"},
		{"in both places, but 10.100 is free", []string{"172.20.0.0/16", "10.0.0.0/16"}, "10.100.0.0/16"},
		{"in both places", []string{"172.16.0.0/12", "10.0.0.0/8"}, ""},
		{"carrier-grade", []string{"100.64.0.0/16"}, "10.100.0.0/16"},
	} {
		var blocks []netip.Prefix
		for _, b := range c.vpc {
			blocks = append(blocks, netip.MustParsePrefix(b))
		}
		if got, ok := defaultServiceCIDR(blocks); got != c.want || ok != (c.want != "") {
			t.Errorf("a VPC %s: %s, want %s", c.name, got, c.want)
		}
	}
}
